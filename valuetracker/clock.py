"""
The clock of a server: the time of day, which can be set, and two times which cannot.

The run time counts the milliseconds of one run of the server, from a number that no other run has:
a time that lies outside was given by an earlier run. Leases count by it. The uptime counts all runs
together; ages count by it. There is one clock for a server, and it is given to whatever needs the
time.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

# A run begins at one of four million numbers, so far apart that none lasts until the next.
BEGINNINGS_BITS = 22
RUN_BITS = 40


def _time_of_day() -> int:
    return time.time_ns() // 1_000_000


def _monotonic() -> int:
    return time.monotonic_ns() // 1_000_000


class Clock:
    """All times are in milliseconds; the time of day counts from 1970."""

    def __init__(
        self,
        time_of_day: Callable[[], int] = _time_of_day,
        monotonic: Callable[[], int] = _monotonic,
    ) -> None:
        self.time_of_day = time_of_day
        self._monotonic = monotonic
        self._started = monotonic()
        # The run time and the time of day at which this run began.
        self.began = secrets.randbits(BEGINNINGS_BITS) << RUN_BITS
        self.began_at = time_of_day()
        self._earlier_runs = 0

    @property
    def run_time(self) -> int:
        return self.began + self._monotonic() - self._started

    @property
    def uptime(self) -> int:
        return self._earlier_runs + self._monotonic() - self._started

    def count_on_from(self, uptime: int) -> None:
        """Add the uptime that earlier runs have reached."""
        self._earlier_runs = uptime
