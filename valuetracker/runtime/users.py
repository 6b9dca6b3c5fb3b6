"""
Users: each user has extensions and a registry of their own.

`default-user` owns the data directory itself; it is also the user of everyone who uses the
server without the SillyTavern bridge. The data of another user is opened with that user's
first request and closed when many others have been served since. No user reaches the data,
cached answers, feed or idempotency keys of another: all of those belong to an extension, and
an extension is only found through its user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from valuetracker.clock import Clock
from valuetracker.engine import Engine
from valuetracker.errors import DatabaseDamaged, StartupError
from valuetracker.names import DEFAULT_USER
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.heartbeat import Heartbeat
from valuetracker.runtime.jobs import Job
from valuetracker.runtime.locks import NamedLocks
from valuetracker.store.compaction import Keep
from valuetracker.store.tx.jobs import Notice

# How many users beside the default one may have their registry open.
OPEN_USERS = 128


class Users:
    """The extensions of every user."""

    def __init__(
        self,
        engine: Engine,
        cache: AnswerCache[Any],
        capacity: Capacity,
        retention: Sequence[Keep] = (),
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._heartbeat = Heartbeat(self._clock)
        self._engine = engine
        self._cache = cache
        self.capacity = capacity
        self._retention = retention
        self.default = self._extensions(engine)
        # The least recently used come first.
        self._others: dict[str, Extensions] = {}
        self._locks = NamedLocks()
        self._stopping: set[asyncio.Task[None]] = set()

    def _extensions(self, engine: Engine) -> Extensions:
        return Extensions(
            engine, self._cache, self.capacity, self._retention, self._clock, self._heartbeat
        )

    async def start(self) -> None:
        await self.default.start()
        self._heartbeat.start(self.default.registry)
        self.default.start_compacting()

    async def stop(self) -> None:
        for handle in list(self._others):
            await self._stop(handle)
        while self._stopping:
            await asyncio.wait(self._stopping)
        await self._heartbeat.stop()
        await self.default.stop()

    def end_feeds(self) -> None:
        """End all feeds, because the server is about to stop."""
        for extensions in (self.default, *self._others.values()):
            extensions.end_feeds()

    def waiting(self) -> AbstractContextManager[None]:
        """Mark the current task as one that only waits: it is cancelled if its client goes."""
        return self.capacity.waiting()

    async def acquire(self, handle: str) -> Extensions:
        """Return another user's extensions, opened if need be; the caller must `release` them."""
        assert handle != DEFAULT_USER, "use `default`, which is always open"
        async with self._locks[handle]:
            extensions = self._others.pop(handle, None)
            if extensions is None:
                extensions = self._extensions(self._engine.for_user(handle))
                try:
                    await extensions.start()
                except StartupError as error:
                    # A fault that would prevent the start of a server affects one user only.
                    raise DatabaseDamaged(str(error)) from error
                extensions.start_compacting()
            self._others[handle] = extensions
            extensions.calls += 1
        self._evict_idle()
        return extensions

    def tell_of_job(self, job: Job) -> None:
        """Tell the readers of the feeds that a job is for how far it is."""
        notice = Notice("job", 0, "", job.event())
        for handle, extensions in self.opened():
            if handle == job.user:
                for extension in extensions.opened:
                    if job.extension_id in ("", extension.id):
                        extension.feed.add_notice(notice)

    def opened(self) -> list[tuple[str, Extensions]]:
        """Return the users whose registry is open, with their extensions."""
        return [(DEFAULT_USER, self.default), *self._others.items()]

    async def handles(self) -> list[str]:
        """Return the other users who have data."""
        return await self._engine.users()

    @asynccontextmanager
    async def of(self, handle: str) -> AsyncIterator[Extensions]:
        """Return the extensions of any user for a while."""
        if handle == DEFAULT_USER:
            yield self.default
            return
        extensions = await self.acquire(handle)
        try:
            yield extensions
        finally:
            self.release(extensions)

    def release(self, extensions: Extensions) -> None:
        extensions.calls -= 1

    def _evict_idle(self) -> None:
        excess = len(self._others) - OPEN_USERS
        if excess > 0:
            idle = [handle for handle, each in self._others.items() if each.is_idle]
            for handle in idle[:excess]:
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
