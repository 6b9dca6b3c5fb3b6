"""
The feed: every revision as one event, in order, without a gap, never split.

Readers pull: each has a cursor, and what comes after it is taken from the latest commits
in memory or else from the log. So a reader costs no queue, and one that was away for a
while goes on where it was. Commits only wake them, and the more readers there are the
less often: feeding must not take the loop away from those who write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Protocol

from valuetracker.errors import ValueTrackerError
from valuetracker.records import FeedPage
from valuetracker.runtime.capacity import Openings
from valuetracker.store.feed_events import (
    Filter,
    Revision,
    by_revision,
    event_bytes,
    event_record,
    joined_events,
    list_revisions,
    wanted_events,
)
from valuetracker.store.tx.ledger import Commit

HEARTBEAT_SECONDS = 15.0
# How many revisions are taken at once from the log, and how many bytes of the latest stay
# in memory.
FROM_LOG = 50
IN_MEMORY_BYTES = 4 * 1024 * 1024
# A reader that was up to date and has since fallen this far behind is not reading.
LARGEST_LAG = 10_000
# What waking a reader costs at the least, and how long one waits for a wake-up at the most.
SECONDS_PER_READER = 0.0002
LONGEST_DELAY_SECONDS = 1.0
# Readers as a whole may take a fifteenth of the loop: after a wake-up, fourteen times as long as
# it took is left to others.
REST = 14

# For how many cursors what comes next is kept joined.
JOINED = 64

OVERFLOW = b"event: overflow\ndata: {}\n\n"
GONE = b"event: gone\ndata: {}\n\n"


class Source(Protocol):
    """The extension a feed is of."""

    revision: int

    async def read_result(self, verb: Any, *arguments: Any) -> Any: ...


class Feed:
    """What the readers of one extension share."""

    def __init__(self, source: Source, openings: Openings) -> None:
        self._source = source
        self._openings = openings
        self._recent: deque[tuple[Revision, bytes]] = deque()
        self._recent_bytes = 0
        # What readers that are equally far get, made once for all of them.
        self._joined: dict[int, tuple[bytes, int]] = {}
        self._readers = 0
        self._wakeup: asyncio.Event = asyncio.Event()
        self._waking: asyncio.TimerHandle | None = None
        self._beating: asyncio.TimerHandle | None = None
        # How long the last wake-up took, from the first reader to the last.
        self._woken_at = 0.0
        self._still_busy = 0
        self._cost = 0.0
        # Why no more will come: "gone" (deregistered) or "closed" (the server stops).
        self.ended: str | None = None

    @property
    def is_read(self) -> bool:
        return self._readers > 0

    # What the extension tells

    def committed(self, commit: Commit) -> None:
        if not self._readers:
            return
        revisions = by_revision(commit.entries)
        if self._recent and (
            not revisions or revisions[0].revision != self._recent[-1][0].revision + 1
        ):
            # A gap: what lies in it is in the log only.
            self._recent.clear()
            self._recent_bytes = 0
        for revision in revisions:
            event = event_bytes(event_record(revision, Filter()))
            self._recent.append((revision, event))
            self._recent_bytes += len(event)
        while self._recent and self._recent_bytes > IN_MEMORY_BYTES:
            self._recent_bytes -= len(self._recent.popleft()[1])
        self._joined.clear()
        if self._waking is None:
            self._waking = asyncio.get_running_loop().call_later(self._delay(), self._wake)

    def _delay(self) -> float:
        least = self._readers * SECONDS_PER_READER
        return min(LONGEST_DELAY_SECONDS, max(least, REST * self._cost))

    def end(self, reason: str) -> None:
        self.ended = reason
        self._wake()

    def _wake(self) -> None:
        if self._waking is not None:
            self._waking.cancel()
            self._waking = None
        self._woken_at = asyncio.get_running_loop().time()
        self._still_busy = self._readers
        wakeup, self._wakeup = self._wakeup, asyncio.Event()
        wakeup.set()

    def _served(self) -> None:
        """A reader has all there was; with the last one the wake-up is over."""
        if self._still_busy:
            self._still_busy -= 1
            if not self._still_busy:
                self._cost = asyncio.get_running_loop().time() - self._woken_at

    def _beat(self) -> None:
        """Wake everybody now and then, to tell the other side that we are still here."""
        self._beating = asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat)
        self._wake()

    # What readers do

    def came(self) -> None:
        """One more reader, if there is room; it must say when it has left."""
        self._openings.reader_came(self._readers)
        self._readers += 1
        if self._beating is None:
            loop = asyncio.get_running_loop()
            self._beating = loop.call_later(HEARTBEAT_SECONDS, self._beat)

    def left(self) -> None:
        self._openings.reader_left()
        self._readers -= 1
        if not self._readers and self._beating is not None:
            self._beating.cancel()
            self._beating = None
            self._recent.clear()
            self._joined.clear()
            self._recent_bytes = 0

    def stream(self, since: int, wanted: Filter) -> FeedStream:
        return FeedStream(self, self.events(since, wanted))

    async def events(self, since: int, wanted: Filter) -> AsyncGenerator[bytes, None]:
        """Server-Sent Events from `since` on, for as long as somebody listens."""
        loop = asyncio.get_running_loop()
        # Tells a proxy that the answer has begun.
        yield b": value tracker\n\n"
        spoken_at = loop.time()
        following = False
        while True:
            wakeup = self._wakeup
            if following and self._source.revision - since > LARGEST_LAG:
                yield OVERFLOW
                return
            try:
                chunk, since = await self._next_bytes(since, wanted)
            except ValueTrackerError:
                # Folded away under a reader that was slow; it hears so when it returns.
                yield OVERFLOW
                return
            if not chunk and loop.time() - spoken_at >= HEARTBEAT_SECONDS * 0.9:
                chunk = b": still here\n\n"
            if chunk:
                yield chunk
                spoken_at = loop.time()
            if since < self._source.revision:
                continue
            following = True
            if self.ended == "gone":
                yield GONE
            if self.ended is not None:
                return
            self._served()
            await wakeup.wait()

    async def page(self, since: int, wanted: Filter, limit: int, wait: float) -> FeedPage:
        """The next events as one answer; none yet means waiting for some."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        # One that does not wait is a request like any other.
        if wait:
            self.came()
        try:
            while True:
                wakeup = self._wakeup
                entries, since = await self._next_revisions(since, limit)
                items = wanted_events(entries, wanted)
                if items or self.ended is not None:
                    return {"items": items, "next": since}
                if since < self._source.revision:
                    continue
                if loop.time() >= end:
                    return {"items": [], "next": since}
                with self._openings.waiting():
                    await _wait(wakeup, end - loop.time())
        finally:
            if wait:
                self.left()

    async def _next_bytes(self, since: int, wanted: Filter) -> tuple[bytes, int]:
        if not wanted.everything:
            entries, since = await self._next_revisions(since, FROM_LOG)
            return joined_events(entries, wanted), since
        joined = self._joined.get(since)
        if joined is not None:
            return joined
        recent = self._after(since)
        if recent is not None:
            joined = b"".join(event for _, event in recent), self._last(recent, since)
        else:
            entries, last = await self._next_revisions(since, FROM_LOG)
            joined = joined_events(entries, wanted), last
        if len(joined[0]) <= IN_MEMORY_BYTES:
            if len(self._joined) >= JOINED:
                self._joined.clear()
            self._joined[since] = joined
        return joined

    async def _next_revisions(self, since: int, limit: int) -> tuple[list[Revision], int]:
        recent = self._after(since)
        if recent is not None:
            entries = [entry for entry, _ in recent][:limit]
        elif self.ended is not None:
            # The database is being closed; whoever is behind goes on after reconnecting.
            return [], max(since, self._source.revision)
        else:
            entries = await self._source.read_result(list_revisions, since, limit)
            # The file may be ahead of what has been applied here.
            entries = [entry for entry in entries if entry.revision <= self._source.revision]
        if not entries:
            # Numbers that were skipped have no entries; nothing is left up to the head.
            return [], max(since, self._source.revision)
        return entries, entries[-1].revision

    def _after(self, since: int) -> list[tuple[Revision, bytes]] | None:
        """What came after `since`, if memory reaches back that far."""
        if since == self._source.revision:
            return []
        if not self._recent or self._recent[0][0].revision > since + 1:
            return None
        if self._recent[-1][0].revision < self._source.revision:
            return None
        # The newest are at the right end, and few are new.
        found: list[tuple[Revision, bytes]] = []
        for each in reversed(self._recent):
            if each[0].revision <= since:
                break
            found.append(each)
        return found[::-1]

    @staticmethod
    def _last(recent: list[tuple[Revision, bytes]], since: int) -> int:
        return recent[-1][0].revision if recent else since


class FeedStream:
    """
    What one reader is given, piece by piece.

    It counts as a reader from the moment it is made, before anybody has asked for the first
    piece; whoever is given one must `aclose` it.
    """

    def __init__(self, feed: Feed, pieces: AsyncGenerator[bytes, None]) -> None:
        self._feed: Feed | None = None
        self._pieces = pieces
        feed.came()
        self._feed = feed

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces

    async def aclose(self) -> None:
        try:
            await self._pieces.aclose()
        finally:
            self._leave()

    def _leave(self) -> None:
        feed, self._feed = self._feed, None
        if feed is not None:
            feed.left()

    def __del__(self) -> None:
        # A connection that was lost before its answer began closes nothing.
        self._leave()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
