"""
Group commit: whatever waits to be written goes into one transaction.

Both engines share this half; how a group is run and committed is theirs. The promises are
those of the package's docstring.

A commit costs as much as ten writes, so it matters who is taken along. When a group has been
answered, those who were answered write again, but not all at once: a group that began with
the first of them would leave the others to the next one, for ever. So a group begins when
the loop has come round a few times without anybody new (`_gather`), which takes no longer
than asking the kernel whether something has arrived.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

logger = logging.getLogger(__name__)

GROUP_JOBS = 256
# How often the loop must come round without a newcomer before a group begins. After the first
# turn the answers of the last group are out, after the second what they led to has been
# received, after the third it waits here.
QUIET_TURNS = 3
# However many keep coming, nobody waits for longer than this many turns.
MOST_TURNS = 24

Group = list[tuple[Any, asyncio.Future[Any]]]


@dataclass
class Outcome:
    """What became of one group: an answer or an error for each job, and what to announce."""

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

    def __init__(self) -> None:
        # Told of every group, in order, on the event loop, before any of it is answered;
        # None says that a group ended without anybody knowing whether it was committed.
        self.on_commit: Callable[[Any], None] = lambda committed: None
        self._waiting: deque[tuple[Any, asyncio.Future[Any]]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    @property
    def writing(self) -> bool:
        """Whether a group is under way."""
        return self._pump is not None

    async def write(self, job: Any) -> Any:
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append((job, answer))
        if self._pump is None:
            self._pump = self._loop.create_task(self._write_groups())
        return await answer

    async def _write_groups(self) -> None:
        try:
            while self._waiting:
                await self._gather()
                await self._write_waiting()
        finally:
            self._pump = None
            # Whoever waited for this group to tell has heard all it will.
            self.on_commit(None)

    async def _gather(self) -> None:
        """Wait for those who are on their way, and for nobody else."""
        quiet = 0
        for _ in range(MOST_TURNS):
            waiting = len(self._waiting)
            if waiting >= GROUP_JOBS:
                return
            await asyncio.sleep(0)
            quiet = 0 if len(self._waiting) > waiting else quiet + 1
            if quiet == QUIET_TURNS:
                return

    @abstractmethod
    async def _write_waiting(self) -> None:
        """Take what waits, write it as one group, and announce it."""

    def _announce(self, group: Group, outcome: Outcome) -> None:
        try:
            for committed in outcome.committed:
                self.on_commit(committed)
        except Exception:
            # It is committed: whoever waits for the answer is not to pay for those who follow.
            logger.exception("a commit could not be told")
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
            # Whoever asked has gone before it was begun: leave it undone.
            if not answer.cancelled():
                group.append((job, answer))
        return group

    async def finish_writing(self) -> None:
        while self._pump is not None:
            await asyncio.wait([self._pump])
