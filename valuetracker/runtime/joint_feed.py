"""
The joint feed: the feeds of several extensions, for one reader on one connection.

A browser opens at most six connections to one server, so a page cannot have a feed for each
extension it watches. A joint reader has a cursor per extension and is a reader of each feed: all
of them wake it, and it pulls from one after the other. Nothing that happens to one extension ends
the others: a deregistered one is dropped, one whose log was compacted too far goes on with its
newest revision, and one whose database is closed is read again when it can be opened.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from valuetracker.errors import (
    Compacted,
    CursorMismatch,
    ExtensionNotRegistered,
    IncarnationEnded,
    RevisionUnknown,
    ValueTrackerError,
)
from valuetracker.records import FeedEvent, JointPage
from valuetracker.runtime import event_memory
from valuetracker.runtime import feed as one_feed
from valuetracker.runtime.event_memory import Held
from valuetracker.runtime.event_source import Events
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.feed import (
    BEGINNING,
    HEARTBEAT,
    OVERFLOW,
    Feed,
    FeedStream,
    wait_for,
)
from valuetracker.store.feed_events import (
    Filter,
    Found,
    check_cursor,
    check_since,
    event_of_many,
    find_chat_number,
    wanted_events,
)
from valuetracker.store.rows.head import KnownRevision, marked

Cursors = dict[str, KnownRevision]
T = TypeVar("T")


@dataclass(slots=True)
class Followed:
    """One extension of a joint feed, and the revision up to which it was read."""

    id: str
    cursor: int
    # The incarnation of that revision.
    incarnation: int
    wanted: Filter
    # None while the database cannot be opened; then it is not tried again before `retry_at`.
    feed: Feed | None = None
    retry_at: float = 0.0
    # True once the reader has been up to date.
    following: bool = False
    # How many events without a revision there were when it was last read.
    noticed: int = 0

    @property
    def is_behind(self) -> bool:
        return self.feed is not None and self.cursor < self.feed.revision


class JointFeed:
    """The feeds of several extensions, for one reader."""

    def __init__(self, extensions: Extensions, wanted: Filter, is_reader: bool) -> None:
        self._extensions = extensions
        self._wanted = wanted
        # False for a request that does not wait: it is not counted.
        self._is_reader = is_reader
        self._wakeup = asyncio.Event()
        self._followed: list[Followed] = []
        # What the reader has not been told yet: extensions that were deregistered, and those
        # whose log was compacted too far, with the oldest revision that is left.
        self._gone: list[str] = []
        self._compacted: dict[str, int] = {}

    async def begin(self, ids: Sequence[str], cursors: Cursors | None) -> None:
        """Follow these extensions from their cursors on, or from now on; or refuse all of them."""
        try:
            for id in ids:
                try:
                    await self._begin(id, cursors)
                except ValueTrackerError as refusal:
                    refusal.of_extension(id)
                    raise
            if not self._followed:
                none_left = ExtensionNotRegistered(ids[0])
                none_left.of_extension(ids[0])
                raise none_left
        except BaseException:
            self.close()
            raise

    async def _begin(self, id: str, cursors: Cursors | None) -> None:
        try:
            extension = await self._extensions.acquire(id)
        except ExtensionNotRegistered:
            # A reader that reconnects may not know yet that an extension was deregistered.
            if cursors is None or self._extensions.registry.find(id) is None:
                raise
            self._gone.append(id)
            return
        try:
            head = KnownRevision(extension.revision, extension.incarnation)
            cursor = head if cursors is None else cursors.get(id)
            if cursor is None:
                raise CursorMismatch(f"The cursor does not name {id}.")
            chat_id, chat = self._wanted.chat_id, None
            if chat_id is not None:
                chat = await extension.read_result(find_chat_number, chat_id)
            each = Followed(id, *cursor, replace(self._wanted, chat=chat))
            try:
                check_since(head, cursor)
                await extension.read_result(check_cursor, cursor.revision)
            except (Compacted, IncarnationEnded) as error:
                self._skip(each, extension.feed, error)
            self._attach(each, extension)
            self._followed.append(each)
        finally:
            self._extensions.release(extension)

    def close(self) -> None:
        for each in self._followed:
            self._detach(each)

    # The answers

    def stream(self) -> FeedStream:
        return FeedStream(self._events(), self.close)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        """Yield Server-Sent Events until no extension is left or the reader closes."""
        loop = asyncio.get_running_loop()
        yield BEGINNING + self._reports()
        sent_at = loop.time()
        while True:
            self._wakeup.clear()
            for each in list(self._followed):
                if each.following and each.feed and each.feed.is_far_behind(each.cursor):
                    yield OVERFLOW
                    return
                held = await self._next_held(each)
                if held:
                    try:
                        for piece in held.pieces():
                            yield piece
                            del piece
                    finally:
                        held.release()
                    if held.is_lost:
                        return
                    sent_at = loop.time()
            if not self._followed or self._extensions.ending:
                return
            if self._is_behind:
                continue
            for each in self._followed:
                while each.feed is not None and each.noticed < each.feed.notice_count:
                    notices, each.noticed = each.feed.notices_after(
                        each.noticed, each.wanted, each.id
                    )
                    if notices:
                        yield notices
                        sent_at = loop.time()
            if loop.time() - sent_at >= one_feed.HEARTBEAT_SECONDS * 0.9:
                yield HEARTBEAT
                sent_at = loop.time()
            for each in self._followed:
                if each.feed is not None:
                    each.feed.served(self._wakeup)
            # No feed wakes a reader of databases that cannot be opened.
            await wait_for(self._wakeup, one_feed.HEARTBEAT_SECONDS)

    async def _next_held(self, each: Followed) -> Held:
        """Return the next events of an extension for this reader, and what else it must be told."""
        found = await self._read(
            each, lambda feed: feed.events.next_events(each.cursor, each.wanted)
        )
        events, last, share = found or Events([], each.cursor)
        try:
            joined = bytearray()
            for revision, event in events:
                # Each reader has its own bytes, because an `id` is the cursor of one reader.
                each.cursor = revision
                joined += event_of_many(event, each.id, self._cursor.encode())
            self._advance(each, last)
            joined += self._reports()
            return Held(bytes(joined), share)
        except BaseException:
            if share is not None:
                share.release()
            raise

    async def page(self, limit: int, wait: float) -> JointPage:
        """Return the next events as one page; wait up to `wait` seconds if there are none yet."""
        loop = asyncio.get_running_loop()
        end = loop.time() + wait
        while True:
            self._wakeup.clear()
            items = await self._next_items(limit)
            if items or self._gone or self._compacted or self._extensions.ending:
                break
            if self._is_behind:
                continue
            left = end - loop.time()
            if left <= 0:
                break
            with self._extensions.waiting():
                await wait_for(self._wakeup, min(left, one_feed.HEARTBEAT_SECONDS))
        return {
            "items": items,
            "next": self._cursor,
            "gone": self._gone,
            "compacted": list(self._compacted),
        }

    async def _next_items(self, limit: int) -> list[FeedEvent]:
        """Return the next events of a page."""
        size = event_memory.PAGE_BYTES
        while True:
            share = await self._extensions.events.budget.take(size)
            try:
                items, needed = await self._collect(limit, size)
            finally:
                # From here on nothing waits until the answer is made.
                share.release()
            if items or not needed:
                return items
            size = needed

    async def _collect(self, limit: int, most: int) -> tuple[list[FeedEvent], int]:
        """
        Return the next events: first a fair share of each extension, then what is left.

        They take `most` bytes. If there are none, because the next one takes more: how many.
        """
        items: list[FeedEvent] = []
        needed = 0
        fair = max(1, limit // max(1, len(self._followed)))
        for share in (fair, limit):
            for each in list(self._followed):
                count = min(share, limit - len(items))
                if not count or most <= 0:
                    return items, 0
                found, last = await self._read(
                    each, partial(_next_revisions, each.cursor, count, most)
                ) or (Found(), each.cursor)
                self._advance(each, last)
                needed = max(needed, found.needed)
                most -= sum(2 * revision.size for revision in found.revisions)
                items += [
                    {"extensionId": each.id, **event}
                    for event in wanted_events(found.revisions, each.wanted)
                ]
        return items, needed

    @property
    def _is_behind(self) -> bool:
        return any(each.is_behind for each in self._followed)

    @property
    def _cursor(self) -> str:
        """The cursor of the reader: each extension that is followed, and how far it was read."""
        return ",".join(
            f"{each.id}:{marked(each.cursor, each.incarnation)}" for each in self._followed
        )

    def _reports(self) -> bytes:
        """Return the events about extensions that are gone, or whose log was compacted too far."""
        gone, self._gone = self._gone, []
        compacted, self._compacted = self._compacted, {}
        return b"".join(
            [
                b'event: compacted\ndata: {"extensionId":"%b","oldest":%d}\n\n' % (id.encode(), old)
                for id, old in compacted.items()
            ]
            + [b'event: gone\ndata: {"extensionId":"%b"}\n\n' % id.encode() for id in gone]
        )

    # One extension

    async def _read(self, each: Followed, read: Callable[[Feed], Awaitable[T]]) -> T | None:
        """Read what comes next of an extension; return None if it cannot be read."""
        feed = await self._find_feed(each)
        if feed is not None:
            try:
                return await read(feed)
            except (Compacted, RevisionUnknown) as error:
                self._skip(each, feed, error)
            except ValueTrackerError:
                self._detach(each)
                self._retry_later(each)
        return None

    async def _find_feed(self, each: Followed) -> Feed | None:
        """Return the feed of an extension; open its database again if it was closed."""
        if each.feed is not None and each.feed.ended not in ("closed", "restored"):
            return each.feed
        self._detach(each)
        if self._extensions.ending or asyncio.get_running_loop().time() < each.retry_at:
            return None
        try:
            extension = await self._extensions.acquire(each.id)
            try:
                if extension.incarnation != each.incarnation:
                    self._skip(each, extension.feed, IncarnationEnded())
                self._attach(each, extension)
            finally:
                self._extensions.release(extension)
        except ExtensionNotRegistered:
            self._drop(each)
        except ValueTrackerError:
            self._retry_later(each)
        return each.feed

    def _attach(self, each: Followed, extension: Extension) -> None:
        if self._is_reader:
            extension.feed.add_reader(self._wakeup)
        each.feed, each.noticed = extension.feed, extension.feed.notice_count

    def _detach(self, each: Followed) -> None:
        feed, each.feed = each.feed, None
        if feed is not None and self._is_reader:
            feed.remove_reader(self._wakeup)

    def _retry_later(self, each: Followed) -> None:
        each.retry_at = asyncio.get_running_loop().time() + one_feed.HEARTBEAT_SECONDS

    def _skip(self, each: Followed, feed: Feed, gap: ValueTrackerError) -> None:
        """Go on with the newest revision, because those before it cannot be read any more."""
        self._compacted[each.id] = gap.details.get("oldest", feed.revision)
        each.cursor, each.incarnation = feed.revision, feed.incarnation

    def _advance(self, each: Followed, cursor: int) -> None:
        each.cursor = max(each.cursor, cursor)
        if each.feed is not None and not each.is_behind:
            each.following = True
            if each.feed.ended == "gone":
                self._drop(each)

    def _drop(self, each: Followed) -> None:
        self._detach(each)
        self._followed.remove(each)
        self._gone.append(each.id)


async def _next_revisions(since: int, count: int, most: int, feed: Feed) -> tuple[Found, int]:
    return await feed.events.next_revisions(since, count, most, most)
