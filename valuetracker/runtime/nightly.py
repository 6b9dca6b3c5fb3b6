"""
The nightly backup: made at a time of day, or soon after the next start if it was missed.

A computer that is off at night gets its backup when it is used: once the last one is older than a
day. After each backup those that need not be kept are deleted, and the hook is run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shlex
from dataclasses import dataclass
from datetime import datetime

from valuetracker.clock import Clock
from valuetracker.errors import StartupError, ValueTrackerError
from valuetracker.records import Backup, milliseconds_of
from valuetracker.runtime.backups import MANUAL, NIGHTLY, Backups
from valuetracker.runtime.jobs import Job
from valuetracker.runtime.users import Users

logger = logging.getLogger(__name__)

DAY_MS = 24 * 60 * 60 * 1000
# When a backup is older than this, something is wrong.
OVERDUE_MS = 2 * DAY_MS
# How often it is looked if a backup is due; how soon one that failed is tried again.
LOOKS_EVERY_SECONDS = 20
TRIED_AGAIN_MS = 60 * 60 * 1000
HOOK_SECONDS = 60 * 60
NOT_RUN = 127
TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])\Z")


@dataclass(frozen=True)
class Plan:
    """When backups are made, how many are kept, and what is run after each."""

    # The minute of the day; None if no backup is made by itself.
    minute: int | None
    keep: int
    weeks: int
    hook: str

    @classmethod
    def of(cls, at: str, keep: int, weeks: int, hook: str) -> Plan:
        if at.lower() == "off":
            return cls(None, keep, weeks, hook)
        found = TIME.match(at)
        if found is None:
            raise StartupError("--backup-at must be a time such as 03:00, or off.")
        return cls(int(found[1]) * 60 + int(found[2]), keep, weeks, hook)


class Nightly:
    """Makes backups: those that are due, and those that somebody asks for."""

    def __init__(self, users: Users, backups: Backups, plan: Plan, clock: Clock) -> None:
        self._users = users
        self._backups = backups
        self._plan = plan
        self._clock = clock
        self._started_at = self._looked_at = clock.time_of_day()
        self._tried_at: int | None = None
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._backups.start()
        if self._plan.minute is not None:
            self._looking = asyncio.get_running_loop().create_task(self._look_often())

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(LOOKS_EVERY_SECONDS)
            try:
                await self.look()
            except ValueTrackerError as error:
                logger.error("the backup failed", extra={"reason": error.message})
            except Exception:
                logger.exception("the backup failed")

    def is_overdue(self) -> bool:
        """Return True if there should be a newer backup than there is."""
        if self._plan.minute is None or not self._users.default.registry.list_registered():
            return False
        last = self._backups.health()["lastAt"]
        since = self._started_at if last is None else milliseconds_of(last)
        return self._clock.time_of_day() - since > OVERDUE_MS

    async def look(self) -> Backup | None:
        """Make a backup if one is due, and return it."""
        now = self._clock.time_of_day()
        before, self._looked_at = self._looked_at, now
        if self._backups.is_making or not self._is_due(before, now):
            return None
        if not self._users.default.registry.list_registered() and not await self._users.handles():
            return None
        self._tried_at = now
        return await self.make(NIGHTLY)

    def _is_due(self, before: int, now: int) -> bool:
        minute = self._plan.minute
        if minute is None:
            return False
        if self._tried_at is not None and 0 <= now - self._tried_at < TRIED_AGAIN_MS:
            return False
        # Local time: people say when their night is.
        moment = datetime.fromtimestamp(now / 1000).replace(
            hour=minute // 60, minute=minute % 60, second=0, microsecond=0
        )
        if before < moment.timestamp() * 1000 <= now:
            return True
        last = self._backups.health()["lastAt"]
        # A clock that was set back does not put the next backup off for ever.
        return last is None or abs(now - milliseconds_of(last)) > DAY_MS

    async def make(self, kind: str = MANUAL, job: Job | None = None) -> Backup:
        """Make a backup, delete those that need not be kept, and run the hook."""
        backup = await self._backups.create(kind, job)
        if kind == NIGHTLY:
            await asyncio.to_thread(self._backups.prune, self._plan.keep, self._plan.weeks)
        if self._plan.hook:
            backup["hook"] = await self._run_hook(backup["name"])
        return backup

    async def _run_hook(self, name: str) -> int:
        """Run the hook and return its exit code; the backup is good either way."""
        path = str(self._backups.folder.absolute() / name)
        words = [word.replace("{path}", path) for word in shlex.split(self._plan.hook)]
        code = NOT_RUN
        try:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
            )
            try:
                code = await asyncio.wait_for(process.wait(), HOOK_SECONDS)
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
        except (OSError, ValueError, TimeoutError) as error:
            logger.error("the hook was not run", extra={"cause": type(error).__name__})
        if code:
            logger.error("the hook failed", extra={"code": code})
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self._backups.write_hook_code, name, code)
        return code
