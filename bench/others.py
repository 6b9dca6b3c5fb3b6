"""
Measure how much of the machine other processes used.

The load average does not say it, because it counts the benchmark itself.
"""

from __future__ import annotations

import resource
import time

import psutil


class Others:
    """A span of time; ask it after the children started in it have ended."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._foreign = _foreign_seconds()
        # Seconds that other processes spent for the benchmark without being its children.
        self.done_for_us = 0.0

    def cores_used(self) -> float:
        """Return how many cores other processes kept busy, on average."""
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
