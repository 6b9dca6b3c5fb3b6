"""
The heartbeat of a server: its uptime and the time of day, kept in the registry.

The time of day can be set, by mistake or by a machine that lost it; folding history by it could
not be undone. So the registry keeps a time that advances with the uptime. It follows the clock,
except one that is more than a day ahead: that is doubted until the server has run for a day with
it. Nobody can tell such a clock from a server that was away for some days.
"""

from __future__ import annotations

import asyncio
import logging

from valuetracker.clock import Clock
from valuetracker.runtime.registry import HeartbeatRow, Registry

logger = logging.getLogger(__name__)

DAY_MS = 24 * 60 * 60 * 1000
# A server that is killed loses no more of its uptime than this.
BEAT_SECONDS = 60


class Heartbeat:
    """Counts the uptime over all runs of a server, and says if its clock is to be trusted."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._registry: Registry | None = None
        self._beating: asyncio.Task[None] | None = None
        # The uptime and the time of day when the clock was last looked at.
        self._uptime = clock.uptime
        self._time_of_day = clock.time_of_day()
        # The time of day that is trusted.
        self._trusted = self._time_of_day
        # The uptime at which the clock was first doubted.
        self._doubted_since: int | None = None

    def start(self, registry: Registry) -> None:
        """Count on from what the last run of the server has left in the registry."""
        self._registry = registry
        row = registry.heartbeat
        if row is not None:
            self._clock.count_on_from(row.uptime)
            self._trusted = row.time_of_day
        self._uptime, self._time_of_day = self._clock.uptime, self._clock.time_of_day()
        self._look()
        self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def stop(self) -> None:
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.wait([self._beating])
            await self._save()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            await self._save()

    async def _save(self) -> None:
        assert self._registry is not None
        self._look()
        try:
            await self._registry.save_heartbeat(HeartbeatRow(1, self._uptime, self._trusted))
        except Exception as error:
            # The disk may be full. The next beat tries again.
            logger.warning("the heartbeat was not saved", extra={"cause": type(error).__name__})

    @property
    def trusts_clock(self) -> bool:
        """False while the clock is more than a day ahead of what it should say."""
        self._look()
        return self._doubted_since is None

    def _look(self) -> None:
        uptime, time_of_day = self._clock.uptime, self._clock.time_of_day()
        passed = uptime - self._uptime
        is_set_again = time_of_day - self._time_of_day > passed + DAY_MS
        self._uptime, self._time_of_day = uptime, time_of_day
        self._trusted += passed
        if time_of_day - self._trusted > DAY_MS:
            if self._doubted_since is None or is_set_again:
                self._doubted_since = uptime
            if uptime - self._doubted_since < DAY_MS:
                return
        self._trusted, self._doubted_since = time_of_day, None
