"""
Limits of the whole server, over all users: open databases, readers of feeds, waiting requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from weakref import WeakSet

from valuetracker.counts import CommitCounts
from valuetracker.errors import TooManyReaders
from valuetracker.runtime.event_memory import EventMemory


class Closable(Protocol):
    """An open extension, as far as the choice of the next one to close needs to know it."""

    used_at: int

    @property
    def is_idle(self) -> bool: ...


class Capacity:
    """Counts what is open on this server, and closes the databases that are used least."""

    def __init__(self, databases: int, feed_readers: int = 50, all_feed_readers: int = 2_000):
        self._databases = max(1, databases)
        self._feed_readers = feed_readers
        self._all_feed_readers = all_feed_readers
        self.events = EventMemory()
        self.commits = CommitCounts()
        self._clock = 0
        # For each open extension, the function that closes it if it is still idle then.
        self._open: dict[Closable, Callable[[], None]] = {}
        # Tasks that do nothing but wait, and tasks whose client has gone.
        self._waiting: set[asyncio.Task[Any]] = set()
        self._abandoned: WeakSet[asyncio.Task[Any]] = WeakSet()

    # Open databases

    def add_open(self, extension: Closable, close_if_idle: Callable[[], None]) -> None:
        self._open[extension] = close_if_idle

    def remove_open(self, extension: Closable) -> None:
        self._open.pop(extension, None)

    def mark_used(self, extension: Closable) -> None:
        self._clock += 1
        extension.used_at = self._clock

    @property
    def open_databases(self) -> int:
        return len(self._open)

    @property
    def excess(self) -> int:
        """How many more databases are open than should be; below zero if there are fewer."""
        return len(self._open) - self._databases

    def evict_idle(self) -> None:
        """Close the idle databases unused for the longest time, if too many are open."""
        excess = self.excess
        if excess > 0:
            idle = [each for each in self._open if each.is_idle]
            idle.sort(key=lambda each: each.used_at)
            for extension in idle[:excess]:
                self._open[extension]()

    # Readers of feeds

    @property
    def readers(self) -> int:
        """How many readers of feeds there are."""
        return self.events.readers

    def add_reader(self, readers_of_feed: int) -> None:
        """Count one more reader of a feed that has `readers_of_feed`, or refuse it."""
        if readers_of_feed >= self._feed_readers or self.events.readers >= self._all_feed_readers:
            raise TooManyReaders()
        self.events.readers += 1

    def remove_reader(self) -> None:
        self.events.readers -= 1

    # Waiting requests

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the current task as one that only waits: it is cancelled if its client goes."""
        task = asyncio.current_task()
        assert task is not None
        if task in self._abandoned:
            raise asyncio.CancelledError
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    def abandon(self, task: asyncio.Task[Any]) -> None:
        """
        Note that the client of a task has gone.

        The task is cancelled if it only waits, now or later. Anything else it finishes: a
        write is wanted even if nobody hears its answer.
        """
        self._abandoned.add(task)
        if task in self._waiting:
            task.cancel()

    def is_abandoned(self, task: asyncio.Task[Any]) -> bool:
        return task in self._abandoned
