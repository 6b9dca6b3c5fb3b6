"""
How much may be open at a time, whoever it belongs to: databases, readers of feeds, and who
waits for something to happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from valuetracker.errors import TooManyReaders

if TYPE_CHECKING:
    from valuetracker.runtime.extension import Extension


class Openings:
    """The open databases of all users, the longest unused of which are closed."""

    def __init__(self, databases: int, feed_readers: int = 50, all_feed_readers: int = 2_000):
        self._databases = max(1, databases)
        self._feed_readers = feed_readers
        self._all_feed_readers = all_feed_readers
        self._readers = 0
        self._clock = 0
        # What closes each of them, if it is still unused then.
        self._open: dict[Extension, Callable[[Extension], None]] = {}
        # Tasks that only wait, and those whose answer nobody will hear.
        self._waiting: set[asyncio.Task[Any]] = set()
        self._unheard: WeakSet[asyncio.Task[Any]] = WeakSet()

    def opened(self, extension: Extension, close: Callable[[Extension], None]) -> None:
        self._open[extension] = close

    def closed(self, extension: Extension) -> None:
        self._open.pop(extension, None)

    def used(self, extension: Extension) -> None:
        self._clock += 1
        extension.used_at = self._clock

    @property
    def too_many(self) -> int:
        return len(self._open) - self._databases

    def make_room(self) -> None:
        """Close what was not used for the longest time; not what is in use or followed."""
        too_many = self.too_many
        if too_many > 0:
            idle = [each for each in self._open if not each.users and not each.feed.is_read]
            idle.sort(key=lambda each: each.used_at)
            for extension in idle[:too_many]:
                self._open[extension](extension)

    # Readers of feeds

    def reader_came(self, readers_there: int) -> None:
        if readers_there >= self._feed_readers or self._readers >= self._all_feed_readers:
            raise TooManyReaders()
        self._readers += 1

    def reader_left(self) -> None:
        self._readers -= 1

    # Who waits

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """While this task only waits: it ends as soon as nobody listens to it."""
        task = asyncio.current_task()
        assert task is not None
        if task in self._unheard:
            raise asyncio.CancelledError
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    def nobody_listens_to(self, task: asyncio.Task[Any]) -> None:
        """End it if it waits, now or later; what it does otherwise it does to the end."""
        self._unheard.add(task)
        if task in self._waiting:
            task.cancel()
