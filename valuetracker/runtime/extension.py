"""
One open extension: its database, and the order of time as the event loop sees it.

A commit becomes visible to readers of the file before the event loop hears of it, and an
answer in memory is older than either. So that nobody ever sees time run backwards:

- commits are applied to memory in the order of their revisions, on the event loop;
- a read carries the revision of its snapshot and is released only when that revision has
  been applied, because afterwards memory can no longer answer with anything older;
- an answer is kept only if nothing was committed since its read began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from valuetracker.engine import Database, Transaction
from valuetracker.errors import ValueTrackerError
from valuetracker.runtime.capacity import Openings
from valuetracker.runtime.feed import Feed
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import EVERYTHING, Tag
from valuetracker.store.tx.changes import NO_CONTEXT, Context
from valuetracker.store.tx.ledger import Commit, Withdrawn, WriteJob, Written, repeat_answer

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(slots=True)
class Reading(Generic[T]):
    """What a reading verb returned, and what is needed to keep it."""

    result: T
    revision: int
    etag: int | str | None
    tags: frozenset[Tag]
    keepable: bool


class Extension:
    """A registered extension whose database is open."""

    def __init__(
        self,
        id: str,
        database: Database,
        revision: int,
        committed: Callable[[Extension, Commit], None],
        openings: Openings,
    ) -> None:
        self.id = id
        self.database = database
        self.revision = revision
        self.users = 0
        self.used_at = 0
        self._commits = 0
        self._committed = committed
        self._waiting: list[asyncio.Future[None]] = []
        self._unused = asyncio.Event()
        self.feed = Feed(self, openings)

    def apply_commit(self, commit: Commit | None) -> None:
        """Told by the engine, on the event loop, in order, before any answer goes out."""
        if commit is not None:
            if commit.revision - commit.revisions != self.revision:
                # Some before it were committed without our hearing of it.
                commit.tags = None
            self.revision = commit.revision
            self._commits += 1
            self._committed(self, commit)
            self.feed.committed(commit)
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def read(
        self,
        verb: Callable[Concatenate[Snapshot, P], Coroutine[Any, Any, T]],
        *arguments: P.args,
        **named: P.kwargs,
    ) -> Reading[T]:
        async def job(transaction: Transaction) -> tuple[T | ValueTrackerError, Snapshot]:
            snapshot = await Snapshot.take(transaction)
            try:
                return await verb(snapshot, *arguments, **named), snapshot
            except ValueTrackerError as refusal:
                # "Not found" is knowledge of a revision like any other answer.
                return refusal, snapshot

        commits = self._commits
        result, snapshot = await self.database.read(job)
        revision = snapshot.head.revision
        while revision > self.revision:
            if not self.database.writing:
                # A commit whose answer was lost on its way, or somebody else's: nothing
                # in memory is known to be true any more.
                self.apply_commit(Commit(revision, tags=None))
                break
            await self._next_commit()
        if isinstance(result, ValueTrackerError):
            raise result
        keepable = snapshot.keepable and commits == self._commits and revision == self.revision
        tags = frozenset(snapshot.tags or {EVERYTHING})
        return Reading(result, revision, snapshot.etag, tags, keepable)

    async def read_result(self, verb: Any, *arguments: Any) -> Any:
        """What a verb gives, for one who has not entered."""
        self.enter()
        try:
            return (await self.read(verb, *arguments)).result
        finally:
            self.leave()

    async def write(
        self,
        verb: Callable[..., Coroutine[Any, Any, Any]],
        *arguments: Any,
        context: Context = NO_CONTEXT,
        status: int = 200,
    ) -> Written:
        job = WriteJob(verb, arguments, context, status)
        try:
            written: Written = await self.database.write(job)
        except Withdrawn as withdrawn:
            # It is undone, because it did nothing but look. Its answer stands, unless that was
            # a state: the one it looked at is not the one that is left.
            answers = getattr(verb, "answers", None)
            job = WriteJob(repeat_answer, (withdrawn.answer,), context, status)
            if answers is not None:
                job = WriteJob(answers, arguments, context, status)
            written = await self.database.write(job)
        return written

    async def _next_commit(self) -> None:
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting

    # Being used

    def enter(self) -> None:
        self.users += 1

    def leave(self) -> None:
        self.users -= 1
        if not self.users:
            self._unused.set()

    async def close(self, reason: str) -> None:
        """Close once nobody uses it; nobody may enter any more, and feeds are ended."""
        self.feed.end(reason)
        while self.users:
            self._unused.clear()
            await self._unused.wait()
        await self.database.close()
