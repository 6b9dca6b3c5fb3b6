"""
The simplest runner: each job writes for itself.

The registry uses it, because its jobs share nothing and leave nothing to the end of the group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valuetracker.engine import Job, Transaction


class PlainRunner:
    """Runs each job on the transaction itself."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        # The runner cannot know if a job has changed something, so no refusal is a job's alone.
        self.clean = False
        self.most_rows: int | None = None

    async def prepare(self, jobs: Sequence[Any]) -> None:
        return None

    async def perform(self, job: Job[Any]) -> Any:
        return await job(self._transaction)

    async def finish(self) -> None:
        return None
