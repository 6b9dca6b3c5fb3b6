"""A clock that a test sets, and that lets it pass the time of a server."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from valuetracker.clock import Clock
from valuetracker.records import milliseconds_of

HOUR_MS = 60 * 60 * 1000
DAY_MS = 24 * HOUR_MS


class SettableClock(Clock):
    """The real clock, until the test changes it."""

    def __init__(self) -> None:
        self._ahead = 0
        self._passed = 0
        super().__init__(
            lambda: time.time_ns() // 1_000_000 + self._ahead,
            lambda: time.monotonic_ns() // 1_000_000 + self._passed,
        )

    def set_forward(self, milliseconds: int) -> None:
        """Set the time of day, forward or back, as a person or a program does."""
        self._ahead += milliseconds

    @contextmanager
    def at(self, time_of_day: str) -> Iterator[None]:
        """Set the time of day, for a while."""
        by = milliseconds_of(time_of_day) - self.time_of_day()
        self.set_forward(by)
        try:
            yield
        finally:
            self.set_forward(-by)

    def run_for(self, milliseconds: int) -> None:
        """Let the server run for some time."""
        self.pass_time(milliseconds)
        self.set_forward(milliseconds)

    def pass_time(self, milliseconds: int) -> None:
        """Let the server run for some time; its time of day stays that of the test."""
        self._passed += milliseconds
