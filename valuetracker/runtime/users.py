"""
Users: each has extensions of their own, in a place of their own, with their own registry.

`default-user`, and whoever uses the server on its own, has the data directory itself. The
others' places are opened with their first request and closed when many others have been
used since; what one does never reaches another's data, memory, feed or idempotency keys,
because all of those hang on the extension that was found through the user.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from valuetracker.errors import DatabaseDamaged, StartupError
from valuetracker.names import DEFAULT_USER
from valuetracker.runtime.answer_cache import Memory
from valuetracker.runtime.capacity import Openings
from valuetracker.runtime.extensions import Engine, Extensions
from valuetracker.store.compaction import Keep

# How many users beside the default one may have their registry open.
OPEN_USERS = 128


class Users:
    """The extensions of every user."""

    def __init__(
        self,
        engine: Engine,
        memory: Memory[Any],
        openings: Openings,
        retention: Sequence[Keep] = (),
    ) -> None:
        self._engine = engine
        self._memory = memory
        self._openings = openings
        self._retention = retention
        self.default = self._extensions(engine)
        # The least recently used come first.
        self._others: dict[str, Extensions] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stopping: set[asyncio.Task[None]] = set()

    def _extensions(self, engine: Engine) -> Extensions:
        return Extensions(engine, self._memory, self._openings, self._retention)

    async def start(self) -> None:
        await self.default.start()

    async def stop(self) -> None:
        for handle in list(self._others):
            await self._stop(handle)
        while self._stopping:
            await asyncio.wait(self._stopping)
        await self.default.stop()

    def end_feeds(self) -> None:
        """Let the readers of feeds go: the server is about to stop."""
        for extensions in (self.default, *self._others.values()):
            extensions.end_feeds()

    def waiting(self) -> AbstractContextManager[None]:
        """While a task only waits: it ends as soon as nobody listens to it."""
        return self._openings.waiting()

    async def enter(self, handle: str) -> Extensions:
        """Another user's extensions, opened if need be; whoever enters must `leave`."""
        assert handle != DEFAULT_USER, "those are there without entering"
        async with self._locks[handle]:
            extensions = self._others.pop(handle, None)
            if extensions is None:
                extensions = self._extensions(self._engine.for_user(handle))
                try:
                    await extensions.start()
                except StartupError as error:
                    # What keeps a server from starting keeps one user from being served.
                    raise DatabaseDamaged(str(error)) from error
            self._others[handle] = extensions
            extensions.calls += 1
        self._make_room()
        return extensions

    def leave(self, extensions: Extensions) -> None:
        extensions.calls -= 1

    def _make_room(self) -> None:
        too_many = len(self._others) - OPEN_USERS
        if too_many > 0:
            idle = [handle for handle, each in self._others.items() if each.is_idle]
            for handle in idle[:too_many]:
                task = asyncio.get_running_loop().create_task(self._stop(handle, if_idle=True))
                self._stopping.add(task)
                task.add_done_callback(self._stopping.discard)

    async def _stop(self, handle: str, if_idle: bool = False) -> None:
        async with self._locks[handle]:
            extensions = self._others.get(handle)
            if extensions is None or (if_idle and not extensions.is_idle):
                return
            del self._others[handle]
            await extensions.stop()
