"""
How much of the machine went to processes that are none of the benchmark's.

The load average cannot tell, because it counts the benchmark itself.
"""

from __future__ import annotations

import resource
import time

import psutil


class Others:
    """A stretch of time, to be asked once the children in it have ended."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._foreign = _foreign_seconds()
        # What was done for the benchmark by processes that are not its children.
        self.done_for_us = 0.0

    def cores_used(self) -> float:
        """Cores that others kept busy, on average."""
        used = _foreign_seconds() - self._foreign - self.done_for_us
        return max(0.0, used / (time.monotonic() - self._started))


def _foreign_seconds() -> float:
    # Interrupts are left out: they are charged to nobody, and most serve the benchmark.
    machine = psutil.cpu_times()
    own = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        own += usage.ru_utime + usage.ru_stime
    return float(machine.user + machine.nice + machine.system) - own
