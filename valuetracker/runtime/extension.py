"""
One open extension: its database, and the order in which the event loop sees its revisions.

Readers of the file see a commit before the event loop is notified of it, and a cached answer
may be older than both. Three rules make sure that no client sees an older state after a newer
one:

- commits are applied to the cache in the order of their revisions, on the event loop;
- a read carries the revision of its snapshot and is answered only after that revision has
  been applied: from then on the cache holds nothing older;
- an answer is cached only if nothing was committed since its read began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypedDict, TypeVar

from valuetracker.clock import Clock
from valuetracker.eager import in_task
from valuetracker.engine import MOST_ROWS, Database, NotVerifiedYet, TooLong, Transaction
from valuetracker.errors import ValueTrackerError
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.feed import Feed
from valuetracker.store.remembered import fill_answer, is_incomplete
from valuetracker.store.rows.head import Head, load_head, marked
from valuetracker.store.rows.row_cache import RowCache
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import ALL_INSTANCES, EVERYTHING, Tag
from valuetracker.store.tx.context import NO_CONTEXT, Context
from valuetracker.store.tx.jobs import Commit, NothingChanged, WriteJob, Written, job_after_rollback

T = TypeVar("T")

# Of an answer that does not say what it depends on.
UNKNOWN_TAGS = frozenset({EVERYTHING})
# About how many bytes of rows the event loop keeps while nothing is committed.
READ_BYTES = 256 * 1024


class Full(TypedDict):
    """Which quota is exceeded: that of the `extension` or of its `user`; what is taken of it."""

    quota: str
    bytes: int
    limit: int


@dataclass(slots=True)
class Read(Generic[T]):
    """The answer of a reading verb, and what is needed to cache it; the pair of `Written`."""

    extension: Extension
    result: T
    revision: int
    etag: int | str | None
    incarnation: int
    tags: frozenset[Tag]
    keepable: bool
    # See `Snapshot`.
    shows: str | None
    is_list: bool


class Extension:
    """A registered extension whose database is open."""

    def __init__(
        self,
        id: str,
        database: Database,
        head: Head,
        committed: Callable[[Extension, Commit], None],
        capacity: Capacity,
        clock: Clock | None = None,
        mark_opening: MarkOpening | None = None,
    ) -> None:
        self.id = id
        self._clock = clock or Clock()
        self.database = database
        self.revision = head.revision
        self.incarnation = head.incarnation
        # The ETag of lists.
        self.etag = etag_of(head.tag)
        # How many requests use the database now.
        self.users = 0
        # When it was last used, on the clock of `Capacity`.
        self.used_at = 0
        # Set while it, or all that its user has, takes more than it may.
        self.full: Full | None = None
        # Marks the database as open for writing; None once it is marked, or needs no mark.
        self._mark_opening = mark_opening
        self._marking = asyncio.Lock()
        self._commits = 0
        self._committed = committed
        self._waiting: list[asyncio.Future[None]] = []
        self._unused = asyncio.Event()
        self.feed = Feed(self, capacity)
        # What the event loop has read itself in its present transaction, and numbers of
        # instances, which stay the same.
        self._rows = RowCache()
        self._rows_from: Transaction | None = None
        self._numbers: dict[str, int] = {}

    def apply_commit(self, commit: Commit | None) -> None:
        """
        Apply one commit to the cache and the feed.

        The engine calls this on the event loop, in the order of revisions, before any request
        of the commit is answered.
        """
        if commit is not None:
            if commit.revision - commit.revisions != self.revision:
                # Commits before this one were not reported to us: any answer may be stale.
                commit.tags = None
            self.revision, self.incarnation = commit.revision, commit.incarnation
            self.etag = etag_of(commit.tag)
            self._commits += 1
            if commit.tags is None or ALL_INSTANCES in commit.tags:
                self._numbers.clear()
            self._committed(self, commit)
            self.feed.add_commit(commit)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def read(
        self,
        verb: Callable[..., Coroutine[Any, Any, T]],
        *arguments: Any,
    ) -> Read[T]:
        """Run a reading verb on a snapshot; the caller has acquired the extension."""
        commits = self._commits
        found: tuple[T | ValueTrackerError, Snapshot] | None = None
        if hasattr(verb, "is_quick"):
            try:
                found = self.database.read_at_once(partial(self._read_quickly, verb, arguments))
            except (TooLong, NotVerifiedYet, ValueTrackerError):
                # A refusal takes the usual way.
                found = None
        if found is None:
            job = partial(_read, verb, arguments, self._clock)
            await in_task()
            try:
                found = await self.database.read(job)
            except NotVerifiedYet:
                await self.database.verified()
                commits = self._commits
                found = await self.database.read(job)
        result, snapshot = found
        revision = snapshot.head.revision
        while revision > self.revision:
            if not self.database.writing:
                # The report of a commit was lost, or another process wrote: any cached
                # answer may be stale.
                head = snapshot.head
                self.apply_commit(
                    Commit(revision, None, tag=head.tag, incarnation=head.incarnation)
                )
                break
            await self._next_commit()
        if isinstance(result, ValueTrackerError):
            raise result
        keepable = snapshot.keepable and commits == self._commits and revision == self.revision
        tags = frozenset(snapshot.tags) if snapshot.tags else UNKNOWN_TAGS
        return Read(
            self,
            result,
            revision,
            snapshot.marked_etag,
            snapshot.head.incarnation,
            tags,
            keepable,
            snapshot.shows,
            snapshot.is_list,
        )

    async def _read_quickly(
        self,
        verb: Callable[..., Coroutine[Any, Any, T]],
        arguments: tuple[Any, ...],
        transaction: Transaction,
    ) -> tuple[T, Snapshot]:
        """Run a reading verb on the event loop, with the rows that others have read there."""
        rows = self._rows
        if rows.head is None or self._rows_from is not transaction or rows.weight > READ_BYTES:
            self._rows = rows = RowCache()
            rows.head = await load_head(transaction)
            self._rows_from = transaction
        snapshot = Snapshot(transaction, rows.head, self._clock, rows, self._numbers)
        snapshot.most_rows = MOST_ROWS
        return await verb(snapshot, *arguments), snapshot

    async def read_result(self, verb: Any, *arguments: Any) -> Any:
        """Return the result of a reading verb, for a caller that has not acquired the extension."""
        self.acquire()
        try:
            return (await self.read(verb, *arguments)).result
        finally:
            self.release()

    async def write(
        self,
        verb: Callable[..., Coroutine[Any, Any, Any]],
        *arguments: Any,
        context: Context = NO_CONTEXT,
        status: int = 200,
    ) -> Written:
        if self._mark_opening is not None:
            await self._mark()
        job = WriteJob(verb, arguments, context, status)
        try:
            written = await self._write(job)
        except NothingChanged as rolled_back:
            written = await self._write(job_after_rollback(job, rolled_back))
        if written.replayed and is_incomplete(written.body):
            read = await self.read(fill_answer, written.body.decode(), written.revision)
            written.body = read.result
        return written

    async def _mark(self) -> None:
        await in_task()
        async with self._marking:
            if self._mark_opening is not None:
                await self._mark_opening(self)
                self._mark_opening = None

    async def _write(self, job: WriteJob) -> Written:
        try:
            written: Written = await self.database.write(job)
        except NotVerifiedYet:
            await self.database.verified()
            written = await self.database.write(job)
        return written

    async def _next_commit(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    def etag_of(self, revision: int) -> bytes:
        return etag_of(marked(revision, self.incarnation))

    # Counting uses

    @property
    def is_idle(self) -> bool:
        """True if no request uses the database and nobody reads the feed."""
        return not self.users and not self.feed.has_readers

    def acquire(self) -> None:
        self.users += 1

    def release(self) -> None:
        self.users -= 1
        if not self.users:
            self._unused.set()

    async def end(self, reason: str) -> None:
        """
        End the feed, and wait until no request uses the database: then it can be closed.

        The caller makes sure that nobody can acquire the extension any more.
        """
        self.feed.end(reason)
        while self.users:
            self._unused.clear()
            await self._unused.wait()


async def _read(
    verb: Callable[..., Coroutine[Any, Any, T]],
    arguments: tuple[Any, ...],
    clock: Clock,
    transaction: Transaction,
) -> tuple[T | ValueTrackerError, Snapshot]:
    snapshot = await Snapshot.take(transaction, clock)
    try:
        return await verb(snapshot, *arguments), snapshot
    except ValueTrackerError as refusal:
        # "Not found" was true at a revision, as any other answer was.
        return refusal, snapshot


MarkOpening = Callable[[Extension], Awaitable[None]]


def etag_of(tag: int | str) -> bytes:
    return f'"{tag}"'.encode()
