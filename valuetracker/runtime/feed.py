"""
The feed: every revision as one event, in order, without a gap, never split.

Readers pull: each has a cursor, a revision, and takes the events after it from the latest
commits in memory, or else from the log. So a reader needs no queue, and a reader that
reconnects continues at its cursor. A commit only wakes the readers. The more readers there
are, the less often they are woken, because requests that write need the event loop too.

Operations, checkpoints and jobs take no revision. Their events have no `id`, so they move no
cursor, and a reader that is away or slow misses them.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial

from valuetracker.errors import ValueTrackerError
from valuetracker.records import FeedPage
from valuetracker.runtime import event_memory
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.event_memory import Held
from valuetracker.runtime.event_source import EventSource, Source
from valuetracker.store.feed_events import Filter, by_revision, notice_bytes
from valuetracker.store.rows.head import marked
from valuetracker.store.tx.jobs import Commit, Notice

HEARTBEAT_SECONDS = 15.0
# A reader that was up to date and is now this many revisions behind has stopped reading.
LARGEST_LAG = 10_000
# The least time it takes to wake a reader, and the longest time an event is held back.
SECONDS_PER_READER = 0.0002
LONGEST_DELAY_SECONDS = 1.0
# All readers together may take a fifteenth of the event loop: after they were woken, they are
# not woken again for fourteen times as long as that took.
REST_FACTOR = 14

# How many bytes of joined events are kept.
JOINED_BYTES = 4 * 1024 * 1024

# How many events without a revision are kept for readers that have not read them yet.
MOST_NOTICES = 1000

OVERFLOW = b"event: overflow\ndata: {}\n\n"
GONE = b"event: gone\ndata: {}\n\n"
# Tells a proxy that the answer has begun.
BEGINNING = b": value tracker\n\n"
HEARTBEAT = b": still here\n\n"


class JoinedEvents:
    """The next events after a cursor, joined once for all readers that come to it."""

    def __init__(self) -> None:
        # By the cursor: the bytes of the events, and the last revision among them.
        self._kept: dict[int, tuple[bytes, int]] = {}
        self._bytes = 0
        # The newest revision among all of them, and the cursors of those that reach up to it.
        self._newest = 0
        self._reaching: list[int] = []

    def get(self, cursor: int) -> tuple[bytes, int] | None:
        return self._kept.get(cursor)

    def keep(self, cursor: int, joined: tuple[bytes, int]) -> tuple[bytes, int]:
        """Keep joined events, or return those that somebody else has kept meanwhile."""
        if cursor in self._kept:
            return self._kept[cursor]
        self._kept[cursor] = joined
        self._bytes += len(joined[0])
        if joined[1] > self._newest:
            self._newest = joined[1]
            self._reaching = []
        if joined[1] == self._newest:
            self._reaching.append(cursor)
        while self._bytes > JOINED_BYTES and len(self._kept) > 1:
            self._drop(next(iter(self._kept)))
        return joined

    def drop_newest(self) -> None:
        """Drop the events that reached up to the newest revision: there are more now."""
        for cursor in self._reaching:
            self._drop(cursor)
        self._reaching = []

    def _drop(self, cursor: int) -> None:
        events, _ = self._kept.pop(cursor, (b"", 0))
        self._bytes -= len(events)

    def clear(self) -> None:
        self._kept.clear()
        self._bytes = self._newest = 0
        self._reaching = []


class Feed:
    """The feed of one extension, shared by all its readers."""

    def __init__(self, source: Source, capacity: Capacity) -> None:
        self._source = source
        self._capacity = capacity
        self.events = EventSource(source, capacity.events)
        # The latest events that have no revision, and how many there have been.
        self._notices: deque[Notice] = deque(maxlen=MOST_NOTICES)
        self.notice_count = 0
        self._joined = JoinedEvents()
        # Each reader is known by the event that wakes it.
        self._readers: set[asyncio.Event] = set()
        self._waking: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None
        # How long it took, the last time, until every reader that was woken had been served.
        self._woken_at = 0.0
        self._busy: set[asyncio.Event] = set()
        self._cost = 0.0
        # Why the feed has ended: "gone" (deregistered), "restored" (another state took the place
        # of the database) or "closed" (the database is closed).
        self.ended: str | None = None

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    @property
    def revision(self) -> int:
        """The newest revision of the extension."""
        return self._source.revision

    @property
    def incarnation(self) -> int:
        return self._source.incarnation

    # Called by the extension

    def add_commit(self, commit: Commit) -> None:
        """Take up the events of a commit, and wake the readers soon."""
        if not self._readers:
            return
        self._notices.extend(commit.notices)
        self.notice_count += len(commit.notices)
        self.events.add(by_revision(commit.entries))
        self._joined.drop_newest()
        self._wake_soon()

    def add_notice(self, notice: Notice) -> None:
        """Take up an event without a revision that no commit has made."""
        if self._readers:
            self._notices.append(notice)
            self.notice_count += 1
            self._wake_soon()

    def _wake_soon(self) -> None:
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(self._delay(), self._wake)

    def _delay(self) -> float:
        least = len(self._readers) * SECONDS_PER_READER
        return min(LONGEST_DELAY_SECONDS, max(least, REST_FACTOR * self._cost))

    def end(self, reason: str) -> None:
        self.ended = reason
        self.events.has_ended = True
        self._wake()

    def _wake(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        self._woken_at = asyncio.get_running_loop().time()
        self._busy = set(self._readers)
        for wakeup in self._readers:
            wakeup.set()

    def _beat(self) -> None:
        """Wake all readers regularly, so that a comment line shows that the server is there."""
        self._beating = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)
        self.events.forget_oldest()
        self._wake()

    # Called by readers

    def add_reader(self, wakeup: asyncio.Event) -> None:
        """
        Count one more reader, or refuse it; the caller must `remove_reader` afterwards.

        The feed sets `wakeup` when there may be something new. One reader may have several feeds
        set the same event.
        """
        self._capacity.add_reader(len(self._readers))
        self._readers.add(wakeup)
        if self._beating is None:
            self._capacity.events.feeds += 1
            loop = asyncio.get_running_loop()
            self._beating = loop.call_later(HEARTBEAT_SECONDS, self._beat)

    def remove_reader(self, wakeup: asyncio.Event) -> None:
        self._capacity.remove_reader()
        self._readers.remove(wakeup)
        self._busy.discard(wakeup)
        if not self._readers and self._beating is not None:
            self._beating.cancel()
            self._beating = None
            self._capacity.events.feeds -= 1
            self.events.clear()
            self._joined.clear()
            self._notices.clear()

    def served(self, wakeup: asyncio.Event) -> None:
        """Note that one reader is up to date; after the last one, the cost of waking is known."""
        if wakeup in self._busy:
            self._busy.remove(wakeup)
            if not self._busy:
                self._cost = asyncio.get_running_loop().time() - self._woken_at

    def is_far_behind(self, since: int) -> bool:
        """Return true if a reader that was up to date has stopped reading."""
        return self._source.revision - since > LARGEST_LAG

    def stream(self, since: int, wanted: Filter) -> FeedStream:
        wakeup = asyncio.Event()
        self.add_reader(wakeup)
        return FeedStream(self._events(since, wanted, wakeup), partial(self.remove_reader, wakeup))

    async def _events(
        self, since: int, wanted: Filter, wakeup: asyncio.Event
    ) -> AsyncGenerator[bytes, None]:
        """Yield Server-Sent Events from `since` on, until the feed ends or the reader closes."""
        loop = asyncio.get_running_loop()
        noticed = self.notice_count
        yield BEGINNING
        sent_at = loop.time()
        following = False
        while True:
            wakeup.clear()
            if following and self.is_far_behind(since):
                yield OVERFLOW
                return
            try:
                held, since = await self._next_held(since, wanted)
            except ValueTrackerError:
                # The log was compacted past a slow reader; reconnecting gives it the exact error.
                yield OVERFLOW
                return
            if held:
                try:
                    for piece in held.pieces():
                        yield piece
                        # A piece that the client has taken is not kept while nothing happens.
                        del piece
                finally:
                    held.release()
                if held.is_lost:
                    return
                sent_at = loop.time()
            if since < self._source.revision:
                continue
            # After all changes, so that what an operation has done is known before its end.
            while noticed < self.notice_count:
                notices, noticed = self.notices_after(noticed, wanted)
                if notices:
                    yield notices
                    sent_at = loop.time()
            if loop.time() - sent_at >= HEARTBEAT_SECONDS * 0.9:
                yield HEARTBEAT
                sent_at = loop.time()
            following = True
            if self.ended == "gone":
                yield GONE
            elif self.ended == "restored":
                # Reconnecting gives it the exact error.
                yield OVERFLOW
            if self.ended is not None:
                return
            self.served(wakeup)
            await wakeup.wait()

    def notices_after(
        self, count: int, wanted: Filter, extension_id: str | None = None
    ) -> tuple[bytes, int]:
        """
        Return the next events without a revision after the first so many, and up to which.

        They fill about a piece. Those that are not kept any more are lost.
        """
        count = max(count, self.notice_count - len(self._notices))
        events = b""
        while count < self.notice_count and len(events) < event_memory.PIECE_BYTES:
            notice = self._notices[count - self.notice_count]
            events += notice_bytes([notice], wanted, extension_id)
            count += 1
        return events, count

    async def page(self, since: int, wanted: Filter, limit: int, wait: float) -> FeedPage:
        """Return the next events as one page; wait up to `wait` seconds if there are none yet."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        incarnation = self.incarnation
        wakeup = asyncio.Event()
        # A request that does not wait is no reader.
        if wait:
            self.add_reader(wakeup)
        try:
            while True:
                wakeup.clear()
                items, since = await self.events.next_items(since, wanted, limit)
                if items or self.ended is not None:
                    return {"items": items, "next": marked(since, incarnation)}
                if since < self._source.revision:
                    continue
                if loop.time() >= end:
                    return {"items": [], "next": marked(since, incarnation)}
                with self._capacity.waiting():
                    await wait_for(wakeup, end - loop.time())
        finally:
            if wait:
                self.remove_reader(wakeup)

    async def _next_held(self, since: int, wanted: Filter) -> tuple[Held, int]:
        """Return the next events for a reader, joined, and how far they reach."""
        joined = self._joined.get(since) if wanted.everything else None
        if joined is not None:
            return Held(joined[0], None), joined[1]
        events, last, share = await self.events.next_events(since, wanted)
        joined = b"".join(event for _, event in events), last
        if wanted.everything and share is None:
            joined = self._joined.keep(since, joined)
        return Held(joined[0], share), joined[1]


class FeedStream:
    """
    The events for one reader, piece by piece.

    The reader counts as one before the first piece is asked for. The caller must `aclose` the
    stream; then `end`, which removes the reader, is called once.
    """

    def __init__(self, pieces: AsyncGenerator[bytes, None], end: Callable[[], None]) -> None:
        self._pieces = pieces
        self._end: Callable[[], None] | None = end

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        try:
            await self._pieces.aclose()
        finally:
            self._remove_reader()

    def _remove_reader(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            end()

    def __del__(self) -> None:
        # If the connection is lost before the answer begins, nobody calls `aclose`.
        self._remove_reader()


async def wait_for(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
