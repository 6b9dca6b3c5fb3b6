"""
The simplest work of a group: jobs that write for themselves.

The registry is written so; its jobs share nothing and leave nothing to the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valuetracker.engine import Job, Transaction


class PlainWork:
    """Runs each job on the transaction itself."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self.clean = False

    async def prepare(self, jobs: Sequence[Any]) -> None:
        return None

    async def perform(self, job: Job[Any]) -> Any:
        return await job(self._transaction)

    async def finish(self) -> None:
        return None
