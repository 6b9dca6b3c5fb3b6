"""
Group commit: all jobs that wait to be written go into one transaction.

Both engines share this half; each adds `_commit`, which runs a group in one transaction, and
says what its errors mean. The package's docstring lists the promises.

A commit costs as much as ten writes, so the size of a group matters. When the jobs of a group
have been answered, their callers write again, but not all at the same moment. A group that began
with the first of them would always leave the others to the next group. So a group begins when
the event loop has run a few turns without a new job (`_gather`). This takes no longer than
asking the kernel if something has arrived.

One client alone gains nothing by a group. Where the engine can (`_commit_at_once`), its job is
committed before `write` returns, without a task and without a turn of the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from valuetracker.counts import CommitCounts
from valuetracker.engine import JobRunner, NewRunnerFactory, NotVerifiedYet
from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.failpoints import Failpoint

logger = logging.getLogger(__name__)

GROUP_JOBS = 256
# The number of turns without a new job before a group begins. After the first turn the answers
# of the last group have been sent, after the second the requests they led to have been received,
# after the third their jobs wait here.
QUIET_TURNS = 3
# No job waits for longer than this many turns, however many others arrive.
MOST_TURNS = 24

Group = list[tuple[Any, asyncio.Future[Any]]]


@dataclass
class Outcome:
    """The outcome of one group: a result or an error for each job, and what was committed."""

    results: list[tuple[bool, Any]] = field(default_factory=list)
    committed: list[Any] = field(default_factory=list)

    @classmethod
    def failed(cls, error: Exception, jobs: int) -> Outcome:
        return cls([(False, error)] * jobs)

    def add(self, other: Outcome) -> None:
        self.results += other.results
        self.committed += other.committed


class GroupWriter(ABC):
    """Takes jobs one by one and writes them in groups, one group at a time."""

    def __init__(self, new_runner_factory: NewRunnerFactory) -> None:
        self.suspect = False
        self.on_commit: Callable[[Any], None] = lambda committed: None
        self.counts = CommitCounts()
        self._new_runner_factory = new_runner_factory
        self._make_runner = new_runner_factory()
        # Another one where a test that fails a commit does not mean those of this database.
        self.failpoint = Failpoint.from_environment()
        self._waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._pump: asyncio.Task[None] | None = None
        # How many jobs the last group had.
        self._last_size = 0
        # True if a job was committed at once in this turn of the event loop.
        self._turn_is_used = False
        self._loop = asyncio.get_running_loop()

    # Each engine's half

    @abstractmethod
    async def _commit(self, jobs: list[Any]) -> Outcome:
        """Run these jobs with `_run_jobs` in one transaction and commit it."""

    @abstractmethod
    def _is_final(self, error: Exception) -> bool:
        """Return true if it makes no sense to run the jobs of a failed group again."""

    @abstractmethod
    def _translate(self, error: Exception) -> Exception:
        """Return the error that a caller gets for an error of the database driver."""

    def _commit_at_once(self, job: Any) -> Outcome | None:
        """Run one job and commit it without waiting; return None if it has to wait."""
        return None

    async def _after_group(self) -> None:
        """Do what the engine has to do between two groups, after the answers."""
        return

    def _is_work_left(self) -> bool:
        """Return true if `_after_group` has something to do."""
        return False

    # The queue

    @property
    def writing(self) -> bool:
        return self._pump is not None

    @property
    def verifying(self) -> bool:
        return False

    async def verified(self) -> None:
        return None

    async def write(self, job: Any) -> Any:
        if self._last_size == 1 and self._pump is None and not self._turn_is_used:
            outcome = self._write_at_once(job)
            if outcome is not None:
                done, result = outcome.results[0]
                if not done:
                    raise result
                return result
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((job, answer))
        if self._pump is None:
            self._pump = self._loop.create_task(self._write_groups())
        return await answer

    def _write_at_once(self, job: Any) -> Outcome | None:
        """
        Write a job as a group of its own, if that needs no wait.

        A second job in the same turn of the event loop comes from another client: it waits for
        a group.
        """
        started = time.perf_counter()
        outcome = self._commit_at_once(job)
        if outcome is None:
            return None
        if outcome.committed:
            self.counts.add(time.perf_counter() - started, 1)
        self._turn_is_used = True
        self._loop.call_soon(self._end_turn)
        self._reach_after_commit(outcome)
        self._announce_commits(outcome)
        if self._is_work_left():
            self._pump = self._loop.create_task(self._write_groups())
        return outcome

    def _end_turn(self) -> None:
        self._turn_is_used = False

    async def finish_writing(self) -> None:
        while self._pump is not None:
            await asyncio.wait([self._pump])

    async def _write_groups(self) -> None:
        try:
            await self._after_group()
            while self._waiting:
                await self._gather()
                await self._write_waiting()
                await self._after_group()
        finally:
            self._pump = None
            # Nothing more will be announced to those who wait for this group.
            self.on_commit(None)

    async def _gather(self) -> None:
        """Wait until no new job has arrived for a few turns of the event loop."""
        if self._last_size == 1 == len(self._waiting):
            # One client alone: nobody else is about to write.
            return
        quiet = 0
        for _ in range(MOST_TURNS):
            waiting = len(self._waiting)
            if waiting >= GROUP_JOBS:
                return
            await asyncio.sleep(0)
            quiet = 0 if len(self._waiting) > waiting else quiet + 1
            if quiet == QUIET_TURNS:
                return

    async def _write_waiting(self) -> None:
        """Take the jobs that wait, write them as one group, and announce the outcome."""
        group = self._take_group()
        self._last_size = len(group)
        if not group:
            return
        started = time.perf_counter()
        outcome = await self._write_group([job for job, _ in group])
        if outcome.committed:
            self.counts.add(time.perf_counter() - started, len(group))
        self._reach_after_commit(outcome)
        self._announce_commits(outcome)
        for (_, answer), (done, result) in zip(group, outcome.results, strict=True):
            if not answer.done():
                if done:
                    answer.set_result(result)
                else:
                    answer.set_exception(result)

    def _take_group(self) -> Group:
        group: Group = []
        while self._waiting and len(group) < GROUP_JOBS:
            job, answer = self._waiting.popleft()
            # The caller disconnected before the job was begun: leave it undone.
            if not answer.cancelled():
                group.append((job, answer))
        return group

    def _announce_commits(self, outcome: Outcome) -> None:
        try:
            for committed in outcome.committed:
                self.on_commit(committed)
        except Exception:
            # The group is committed: its callers must get their answers nevertheless.
            logger.exception("a commit could not be announced")

    def _reach_after_commit(self, outcome: Outcome) -> None:
        try:
            self.failpoint.reach("after_commit")
        except RuntimeError as error:
            # The group is committed and is announced; only the answers are lost.
            outcome.results = [(False, error)] * len(outcome.results)

    # One group

    async def _write_group(self, jobs: list[Any]) -> Outcome:
        try:
            return await self._commit(jobs)
        except Exception as error:
            self._forget_rows()
            if len(jobs) == 1 or self._is_final(error):
                return self._failed(error, len(jobs))
        # One of the jobs failed unexpectedly, or the disk did. Alone, each gets its own answer.
        outcome = Outcome()
        for job in jobs:
            outcome.add(await self._write_group([job]))
        return outcome

    def _forget_rows(self) -> None:
        """Have all rows read again: those that were kept include changes that were rolled back."""
        self._make_runner = self._new_runner_factory()

    def _failed(self, error: Exception, jobs: int) -> Outcome:
        meaning = self._judge(error)
        if meaning is not error:
            # For the log.
            meaning.__cause__ = error
        return Outcome.failed(meaning, jobs)

    async def _run_jobs(self, runner: JobRunner, jobs: list[Any]) -> Outcome:
        """Run the jobs inside the open transaction, up to the moment before the commit."""
        results: list[tuple[bool, Any]] = []
        for job in jobs:
            try:
                results.append((True, await runner.perform(job)))
            except (ValueTrackerError, NotVerifiedYet) as refusal:
                if not runner.clean:
                    raise
                results.append((False, refusal))
        committed = await runner.finish()
        self.failpoint.reach("before_commit")
        return Outcome(results, [committed])

    def _judge(self, error: Exception) -> Exception:
        """Translate an error, and mark the database as suspect if it may be damaged."""
        meaning = self._translate(error)
        # A verb that found one wrong row raises the error itself; the rest may still be sound.
        if isinstance(meaning, DatabaseDamaged) and meaning is not error:
            self.suspect = True
        return meaning
