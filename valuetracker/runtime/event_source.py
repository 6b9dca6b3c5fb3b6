"""
The events of one extension after a cursor: of the latest commits in memory, or else of the log.

Each reader asks for what comes next. It gets about a piece, or one event that is larger, with the
share that this has of the memory for events.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from typing import Any, NamedTuple, Protocol

from valuetracker.budget import Share
from valuetracker.records import FeedEvent
from valuetracker.runtime import event_memory
from valuetracker.runtime.event_memory import EventMemory
from valuetracker.store.feed_events import (
    Filter,
    Found,
    Revision,
    event_bytes,
    event_record,
    list_revisions,
    wanted_events,
)

# How many revisions are read from the log at once.
LOG_PAGE = 50
# A reader of the log stops when the revisions take this many bytes: about a piece as events.
ENOUGH_BYTES = 4 * event_memory.PIECE_BYTES


class Source(Protocol):
    """The extension whose changes a feed reports."""

    revision: int
    incarnation: int

    async def read_result(self, verb: Any, *arguments: Any) -> Any: ...


class Events(NamedTuple):
    """The next events for a reader, each with its revision, and how far they reach."""

    events: list[tuple[int, bytes]]
    last: int
    # Their share of the budget, if they are larger than a piece.
    share: Share | None = None


class EventSource:
    """The events of one extension, for all readers of its feed."""

    def __init__(self, source: Source, memory: EventMemory) -> None:
        self._source = source
        self._memory = memory
        # Readers of one feed read the log one after the other: if its disk is slow, they hold
        # little of the memory that the readers of all feeds share.
        self._reading = asyncio.Lock()
        self._recent: list[tuple[Revision, bytes]] = []
        self._recent_bytes = 0
        # The database is being closed, and not read any more.
        self.has_ended = False

    # The latest events

    def add(self, revisions: list[Revision]) -> None:
        """Take up the revisions of a commit."""
        recent = self._recent
        if recent and (not revisions or revisions[0].revision != recent[-1][0].revision + 1):
            # A gap: its revisions are in the log only.
            self.clear()
        for revision in revisions:
            event = self._bytes(event_record(revision, Filter()))
            recent.append((revision, event))
            self._recent_bytes += len(event) + revision.size
        self.forget_oldest()

    def _bytes(self, event: FeedEvent) -> bytes:
        return event_bytes(event, self._source.incarnation)

    def forget_oldest(self) -> None:
        """Keep no more of the latest events than this feed may."""
        most = self._memory.recent_bytes
        count = 0
        while self._recent_bytes > most and count < len(self._recent):
            revision, event = self._recent[count]
            self._recent_bytes -= len(event) + revision.size
            count += 1
        del self._recent[:count]

    def clear(self) -> None:
        self._recent.clear()
        self._recent_bytes = 0

    # Reading the next events

    async def next_items(
        self, since: int, wanted: Filter, limit: int
    ) -> tuple[list[FeedEvent], int]:
        """Return the next events of a page, and how far they reach."""
        if self._after(since) is not None:
            found, last = await self.next_revisions(since, limit, 0, 0)
        else:
            async with self._reading:
                found, last, share = await self._read_log(since, limit, event_memory.PAGE_BYTES)
            # From here on nothing waits until the answer is made.
            share.release()
        return wanted_events(found.revisions, wanted), last

    async def next_events(self, since: int, wanted: Filter) -> Events:
        """Return as many of the next events as fit into a piece, or one that is larger."""
        share: Share | None = None
        try:
            while (start := self._after(since)) is not None:
                recent = self._piece_of_recent(start)
                size = sum(len(event) for _, event in recent)
                if size <= (self._memory.piece_bytes if share is None else share.size):
                    return self._events_of(recent, since, wanted, share)
                del recent
                if share is not None:
                    share.release()
                share = await self._memory.budget.take(size)
        except BaseException:
            if share is not None:
                share.release()
            raise
        if share is not None:
            share.release()
        return await self._read_events(since, wanted)

    def _piece_of_recent(self, start: int) -> list[tuple[Revision, bytes]]:
        """Return the latest events from this one on, as many as fit into a piece, or one."""
        recent, most = self._recent, self._memory.piece_bytes
        size, end = 0, start
        while end < len(recent):
            size += len(recent[end][1])
            if end > start and size > most:
                break
            end += 1
        return recent[start:end]

    def _events_of(
        self,
        recent: list[tuple[Revision, bytes]],
        since: int,
        wanted: Filter,
        share: Share | None,
    ) -> Events:
        last = recent[-1][0].revision if recent else max(since, self._source.revision)
        if wanted.everything:
            return _keep_needed([(each.revision, event) for each, event in recent], last, share)
        found = wanted_events([revision for revision, _ in recent], wanted)
        return _keep_needed([(each["revision"], self._bytes(each)) for each in found], last, share)

    async def _read_events(self, since: int, wanted: Filter) -> Events:
        """Return the next events of the log."""
        async with self._reading:
            found, last, share = await self._read_log(since, LOG_PAGE, ENOUGH_BYTES)
        try:
            events: list[tuple[int, bytes]] = []
            size = 0
            for revision in found.revisions:
                for each in wanted_events([revision], wanted):
                    event = self._bytes(each)
                    size += len(event)
                    if events and size > event_memory.PIECE_BYTES:
                        return _keep_needed(events, events[-1][0], share)
                    events.append((revision.revision, event))
            return _keep_needed(events, last, share)
        except BaseException:
            share.release()
            raise

    async def _read_log(self, since: int, limit: int, enough: int) -> tuple[Found, int, Share]:
        """Read the next revisions, and return what they have of the budget until it is released."""
        size = max(event_memory.READ_BYTES, enough)
        while True:
            share = await self._memory.budget.take(size)
            try:
                found, last = await self.next_revisions(since, limit, enough, size)
            except BaseException:
                share.release()
                raise
            if not found.needed:
                return found, last, share
            share.release()
            size = found.needed

    async def next_revisions(
        self, since: int, limit: int, enough: int, most: int
    ) -> tuple[Found, int]:
        """
        Return the next revisions, and how far they reach.

        There are at most `limit`, and fewer once they take `enough` bytes. The caller has a share
        of `most` bytes; those that are in memory anyway need none.
        """
        start = self._after(since)
        if start is not None:
            found = Found([revision for revision, _ in self._recent[start : start + limit]])
        elif self.has_ended:
            # The database is being closed; a reader that is behind continues after reconnecting.
            found = Found()
        else:
            found = await self._source.read_result(list_revisions, since, limit, enough, most)
            if found.needed:
                return found, since
            # The file may have revisions that were not applied here yet.
            found.revisions = [
                each for each in found.revisions if each.revision <= self._source.revision
            ]
        if not found.revisions:
            # Skipped revisions have no entries; there is nothing more up to the newest revision.
            return found, max(since, self._source.revision)
        return found, found.revisions[-1].revision

    def _after(self, since: int) -> int | None:
        """Return where the events after `since` begin, or None if memory has not all of them."""
        recent = self._recent
        if since == self._source.revision:
            return len(recent)
        if not recent or recent[0][0].revision > since + 1:
            return None
        if recent[-1][0].revision < self._source.revision:
            return None
        return bisect_right(recent, since, key=lambda each: each[0].revision)


def _keep_needed(events: list[tuple[int, bytes]], last: int, share: Share | None) -> Events:
    """Return events that have a share, and give back what they do not need of it."""
    if share is None:
        return Events(events, last)
    size = sum(len(event) for _, event in events)
    if size > event_memory.PIECE_BYTES:
        share.shrink(size)
        return Events(events, last, share)
    share.release()
    return Events(events, last)
