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
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import RevisionUnknown, ValueTrackerError
from valuetracker.model import FeedChange, FeedEvent, FeedPage
from valuetracker.store.history import anchor_record
from valuetracker.store.ledger import Commit
from valuetracker.store.log import check_not_compacted
from valuetracker.store.rows import ChangeRow, RevisionRow
from valuetracker.store.snapshot import Snapshot

HEARTBEAT_SECONDS = 15.0
# Values above this are left out of events; the reader can read them.
LARGEST_AFTER = 64 * 1024
# How many revisions are taken at once from the log, and how many bytes of the latest stay
# in memory.
FROM_LOG = 50
IN_MEMORY_BYTES = 4 * 1024 * 1024
# A reader that was up to date and has since fallen this far behind is not reading.
LARGEST_LAG = 10_000
# What waking a reader costs at the least, and how long one waits for a wake-up at the most.
SECONDS_PER_READER = 0.0002
LONGEST_DELAY_SECONDS = 1.0
# Readers as a whole may take a seventh of the loop: after a wake-up, six times as long as
# it took is left to others.
REST = 6

# For how many cursors what comes next is kept joined.
JOINED = 64

OVERFLOW = b"event: overflow\ndata: {}\n\n"
GONE = b"event: gone\ndata: {}\n\n"

Entry = tuple[RevisionRow, list[ChangeRow]]


class Source(Protocol):
    """The extension a feed is of."""

    revision: int

    async def read_result(self, verb: Any, *arguments: Any) -> Any: ...


@dataclass(slots=True, frozen=True)
class Filter:
    """Which changes a reader wants; revisions without any such are passed over."""

    instance_id: str | None = None
    key: str | None = None

    @property
    def everything(self) -> bool:
        return self.instance_id is None and self.key is None

    def wants(self, change: ChangeRow) -> bool:
        if self.instance_id is not None and (
            change.owner != self.instance_id or change.space not in ("data", "instance")
        ):
            return False
        return self.key is None or (change.key == self.key and change.space == "data")


SELECT_REVISIONS_AFTER = Statement(
    """
    SELECT revision, at, actor, first, changes, checksum FROM {schema}.revisions
    WHERE revision > :since ORDER BY revision LIMIT :count
    """
)

SELECT_CHANGES_BETWEEN = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key
    FROM {schema}.changes JOIN {schema}.cells ON cells.cell = changes.cell
    WHERE change BETWEEN :first_change AND :last_change ORDER BY change
    """
)


async def list_entries(tx: Snapshot, since: int, count: int) -> list[Entry]:
    """The revisions after `since`, with their changes, at most so many."""
    check_since(tx.head.revision, since)
    check_not_compacted(tx.head, since)
    revisions = [
        RevisionRow(*row).verify()
        for row in await tx.fetch_all(SELECT_REVISIONS_AFTER, since=since, count=count)
    ]
    if not revisions:
        return []
    last = revisions[-1]
    rows = await tx.fetch_all(
        SELECT_CHANGES_BETWEEN,
        first_change=revisions[0].first,
        last_change=last.first + last.changes - 1,
    )
    changes = [ChangeRow(*row).verify() for row in rows]
    entries: list[Entry] = []
    position = 0
    for revision in revisions:
        entries.append((revision, changes[position : position + revision.changes]))
        position += revision.changes
    return entries


def check_since(head: int, since: int) -> None:
    if since > head:
        raise RevisionUnknown(f"The latest revision is {head}.", current=head)


class Feed:
    """What the readers of one extension share."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._recent: deque[tuple[Entry, bytes]] = deque()
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
        if self._recent and (
            not commit.revisions
            or commit.revisions[0].revision != self._recent[-1][0][0].revision + 1
        ):
            # A gap: what lies in it is in the log only.
            self._recent.clear()
            self._recent_bytes = 0
        position = 0
        for revision in commit.revisions:
            stored = commit.changes[position : position + revision.changes]
            changes = [ChangeRow(*change) for change in stored]
            position += revision.changes
            event = event_bytes(event_record((revision, changes), Filter()))
            self._recent.append(((revision, changes), event))
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

    @contextlib.contextmanager
    def reader(self) -> Iterator[None]:
        self._readers += 1
        if self._beating is None:
            loop = asyncio.get_running_loop()
            self._beating = loop.call_later(HEARTBEAT_SECONDS, self._beat)
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._beating.cancel()
                self._beating = None
                self._recent.clear()
                self._joined.clear()
                self._recent_bytes = 0

    async def stream(self, since: int, wanted: Filter) -> AsyncIterator[bytes]:
        """Server-Sent Events from `since` on, for as long as somebody listens."""
        loop = asyncio.get_running_loop()
        with self.reader():
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
        with self.reader():
            while True:
                wakeup = self._wakeup
                entries, since = await self._next_entries(since, limit)
                items = [
                    event
                    for event in (event_record(entry, wanted) for entry in entries)
                    if event["changes"] or wanted.everything
                ]
                if items or self.ended is not None:
                    return {"items": items, "next": since}
                if since < self._source.revision:
                    continue
                if loop.time() >= end or not await _wait(wakeup, end - loop.time()):
                    return {"items": [], "next": since}

    async def _next_bytes(self, since: int, wanted: Filter) -> tuple[bytes, int]:
        if not wanted.everything:
            entries, since = await self._next_entries(since, FROM_LOG)
            return _joined_events(entries, wanted), since
        joined = self._joined.get(since)
        if joined is not None:
            return joined
        recent = self._after(since)
        if recent is not None:
            joined = b"".join(event for _, event in recent), self._last(recent, since)
        else:
            entries, last = await self._next_entries(since, FROM_LOG)
            joined = _joined_events(entries, wanted), last
        if len(joined[0]) <= IN_MEMORY_BYTES:
            if len(self._joined) >= JOINED:
                self._joined.clear()
            self._joined[since] = joined
        return joined

    async def _next_entries(self, since: int, limit: int) -> tuple[list[Entry], int]:
        recent = self._after(since)
        if recent is not None:
            entries = [entry for entry, _ in recent][:limit]
        elif self.ended is not None:
            # The database is being closed; whoever is behind goes on after reconnecting.
            return [], max(since, self._source.revision)
        else:
            entries = await self._source.read_result(list_entries, since, limit)
            # The file may be ahead of what has been applied here.
            entries = [entry for entry in entries if entry[0].revision <= self._source.revision]
        if not entries:
            # Numbers that were skipped have no entries; nothing is left up to the head.
            return [], max(since, self._source.revision)
        return entries, entries[-1][0].revision

    def _after(self, since: int) -> list[tuple[Entry, bytes]] | None:
        """What came after `since`, if memory reaches back that far."""
        if since == self._source.revision:
            return []
        if not self._recent or self._recent[0][0][0].revision > since + 1:
            return None
        if self._recent[-1][0][0].revision < self._source.revision:
            return None
        # The newest are at the right end, and few are new.
        found: list[tuple[Entry, bytes]] = []
        for each in reversed(self._recent):
            if each[0][0].revision <= since:
                break
            found.append(each)
        return found[::-1]

    @staticmethod
    def _last(recent: list[tuple[Entry, bytes]], since: int) -> int:
        return recent[-1][0][0].revision if recent else since


def _joined_events(entries: list[Entry], wanted: Filter) -> bytes:
    events = (event_record(entry, wanted) for entry in entries)
    return b"".join(event_bytes(event) for event in events if event["changes"] or wanted.everything)


async def _wait(event: asyncio.Event, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True


def event_record(entry: Entry, wanted: Filter) -> FeedEvent:
    revision, rows = entry
    changes = [_change_record(row) for row in rows if wanted.wants(row)]
    chats = {row.chat_id for row in rows}
    anchors = {(row.message_id, row.swipe) for row in rows}
    return {
        "revision": revision.revision,
        "at": revision.at,
        "actor": revision.actor,
        # What the changes have in common; each also says its own.
        "chatId": rows[0].chat_id if rows and len(chats) == 1 else None,
        "anchor": anchor_record(rows[0]) if rows and len(anchors) == 1 else None,
        "changes": changes,
    }


def _change_record(row: ChangeRow) -> FeedChange:
    record: FeedChange = {
        "instanceId": None if row.space == "character" else row.owner,
        "key": row.key or None,
        "op": row.op,
        "live": bool(row.live),
        "chatId": row.chat_id,
        "anchor": anchor_record(row),
    }
    if row.space == "character":
        record["characterId"] = row.owner
    elif row.space == "instance":
        record["characterId"] = row.parent
    if not row.effect:
        record["value"] = orjson.Fragment(row.operand or "null")
    elif row.after is not None and _fits(row.after):
        record["after"] = orjson.Fragment(row.after)
    return record


def _fits(text: str) -> bool:
    # No character takes more than four bytes, so most need not be encoded to know.
    return 4 * len(text) <= LARGEST_AFTER or len(text.encode()) <= LARGEST_AFTER


def event_bytes(event: FeedEvent) -> bytes:
    # orjson writes one line, and line breaks inside strings are escaped.
    return b"id: %d\nevent: change\ndata: %b\n\n" % (event["revision"], orjson.dumps(event))
