"""
The extensions of one user: registered, deregistered, opened when needed, closed when idle.

The first request to an extension opens its database. The database is closed when too many
others have been used since. Opening, closing and deregistering one extension exclude each
other by the lock of that extension. A failure of one extension does not affect the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from valuetracker.clock import Clock
from valuetracker.eager import in_task
from valuetracker.engine import Database, Engine, FirstRows
from valuetracker.errors import (
    DatabaseDamaged,
    ExtensionExists,
    ExtensionNotRegistered,
    StartupError,
    ValueTrackerError,
)
from valuetracker.records import ExtensionSummary, now
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.event_memory import EventMemory
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.heartbeat import Heartbeat
from valuetracker.runtime.locks import NamedLocks
from valuetracker.runtime.provisioning import SAVED_EVERY, Provisioning
from valuetracker.runtime.rebuilding import rebuild
from valuetracker.runtime.registry import Record, Registry
from valuetracker.store.compaction import Keep, compact
from valuetracker.store.operations import sweep_all
from valuetracker.store.rows.head import Head, load_head
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.tx.jobs import Commit

logger = logging.getLogger(__name__)

COMPACTION_SECONDS = 3_600


class Extensions:
    """All extensions of one user."""

    def __init__(
        self,
        engine: Engine,
        cache: AnswerCache[Any],
        capacity: Capacity,
        retention: Sequence[Keep] = (),
        clock: Clock | None = None,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        self.engine = engine
        self._clock = clock or Clock()
        self._heartbeat = heartbeat or Heartbeat(self._clock)
        # How many requests of this user are in progress.
        self.calls = 0
        # True as soon as all feeds are to end: then no reader opens a database again.
        self.ending = False
        self._cache = cache
        self._capacity = capacity
        self._open: dict[str, Extension] = {}
        # Those that could not be opened when somebody last tried to.
        self.damaged: set[str] = set()
        self._locks = NamedLocks()
        self._registering = asyncio.Lock()
        self._retention = retention
        self._compacting: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        assert self._registry is not None, "not started"
        return self._registry

    async def start(self) -> None:
        at = now()
        first_rows = FirstRows(load_head, partial(rebuild, at=at))
        registry = Registry(await self.engine.start(at, first_rows))
        try:
            await registry.load()
        except ValueTrackerError as error:
            await registry.close()
            await self.engine.stop()
            raise StartupError(f"The registry cannot be used: {error.message}") from error
        self._registry = registry

    def start_compacting(self) -> None:
        """Compact now and every hour, once the clock is known."""
        self._compacting = asyncio.get_running_loop().create_task(self._compact_hourly())

    async def stop(self) -> None:
        self.ending = True
        if self._compacting is not None:
            self._compacting.cancel()
            await asyncio.wait([self._compacting])
        for extension in list(self._open.values()):
            await self._close(extension)
        while self._background:
            await asyncio.wait(self._background)
        await self.registry.close()
        await self.engine.stop()

    @property
    def is_idle(self) -> bool:
        return not (self.calls or self._open or self._background)

    def end_feeds(self) -> None:
        """End all feeds, because the server is about to stop."""
        self.ending = True
        for extension in self._open.values():
            extension.feed.end("closed")

    @property
    def events(self) -> EventMemory:
        return self._capacity.events

    def waiting(self) -> AbstractContextManager[None]:
        """Mark the current task as one that only waits: it is cancelled if its client goes."""
        return self._capacity.waiting()

    # Using an extension

    def acquire_open(self, extension_id: str) -> Extension | None:
        """Return the extension if its database is open; the caller must `release` it."""
        extension = self._open.get(extension_id)
        if extension is not None:
            self._capacity.mark_used(extension)
            extension.acquire()
        return extension

    async def acquire(self, extension_id: str) -> Extension:
        """Return the extension, opened if need be; the caller must `release` it."""
        extension = self.acquire_open(extension_id)
        if extension is not None:
            return extension
        if self.registry.find_registered(extension_id) is None:
            raise ExtensionNotRegistered(extension_id)
        await in_task()
        async with self._locks[extension_id]:
            # Another request may have opened or deregistered it while this one waited.
            extension = self.acquire_open(extension_id)
            if extension is not None:
                return extension
            record = self.registry.find_registered(extension_id)
            if record is None:
                raise ExtensionNotRegistered(extension_id)
            extension = await self._open_record(record)
            self._open[extension_id] = extension
            if extension.database.verifying:
                self._start(self._close_if_damaged(extension))
            self._capacity.add_open(extension, partial(self._close_if_unused, extension))
            self.acquire_open(extension_id)
        self._capacity.evict_idle()
        return extension

    def release(self, extension: Extension) -> None:
        extension.release()
        if extension.database.suspect and self._open.get(extension.id) is extension:
            logger.error("database suspected of damage", extra={"extension": extension.id})
            self._start(self._close(extension))
        elif not extension.users and self._capacity.excess > 0:
            self._capacity.evict_idle()

    async def _open_record(self, record: Record) -> Extension:
        try:
            opened = await Provisioning(self.engine, self.registry).open(record)
        except DatabaseDamaged:
            self.damaged.add(record.id)
            await self._save(replace(record, stamp=None))
            raise
        database, head, settled = opened
        if (
            record.opening is not None
            or record.incarnation != settled.incarnation
            or record.identity != settled.identity
        ):
            await self._save(settled)
        extension = Extension(
            record.id,
            database,
            head,
            self._committed,
            self._capacity,
            self._clock,
            self._mark_opening if self.engine.has_stamps else None,
        )
        database.on_commit = extension.apply_commit
        database.counts = self._capacity.commits
        self.damaged.discard(record.id)
        return extension

    async def _mark_opening(self, extension: Extension) -> None:
        """
        Mark a database as open for writing: in the file first, then in the registry.

        After a crash the two are compared: a file of another opening, or without its log, is older
        than what was answered.
        """
        opening = secrets.token_hex(8)
        await extension.database.mark_opening(opening)
        record = self.registry.find(extension.id)
        assert record is not None, "it is open"
        settled = record.settled(extension.revision, extension.incarnation)
        await self.registry.save(replace(settled, opening=opening))

    def _committed(self, extension: Extension, commit: Commit) -> None:
        self._cache.apply(extension, commit)
        record = self.registry.find(extension.id)
        if record is not None and (
            commit.revision >= record.revision + SAVED_EVERY
            or commit.incarnation > record.incarnation
        ):
            self._start(self._save_numbers(extension))

    async def _save_numbers(self, extension: Extension) -> None:
        # The saved numbers only prevent that any is given out twice; the file has the exact ones.
        with contextlib.suppress(ValueTrackerError):
            await self.registry.save_numbers(
                extension.id, extension.revision, extension.incarnation
            )

    async def _save(self, record: Record) -> None:
        """Save what the registry knows of a database, if that is new and the registry works."""
        if record != self.registry.find(record.id):
            with contextlib.suppress(ValueTrackerError):
                await self.registry.save(record)

    # Closing

    def _close_if_unused(self, extension: Extension) -> None:
        self._start(self._close(extension, only_if_unused=True))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _close(self, extension: Extension, only_if_unused: bool = False) -> None:
        async with self._locks[extension.id]:
            if self._open.get(extension.id) is extension and not (
                only_if_unused and not extension.is_idle
            ):
                await self._close_locked(extension)

    async def _close_locked(self, extension: Extension, reason: str = "closed") -> None:
        """Close the database; the caller holds the lock, so nobody opens it meanwhile."""
        del self._open[extension.id]
        self._capacity.remove_open(extension)
        await extension.end(reason)
        head = await self._read_head(extension.database)
        record = self.registry.find(extension.id)
        if record is not None:
            # While its log is still there: a log that is missing without this was lost.
            record = record.settled(extension.revision, extension.incarnation)
            await self._save(record)
        await extension.database.close()
        self._cache.remove_all(extension)
        if record is not None and record.location is not None:
            stamp = None
            if head is not None:
                (stamp,) = await self.engine.stamps([record.location])
            await self._save(record.closed(head, stamp))

    async def _read_head(self, database: Database) -> Head | None:
        """Return the head for the registry, if that can use it, and the database is sound."""
        if not self.engine.has_stamps or database.suspect:
            return None
        try:
            return await database.read(load_head)
        except ValueTrackerError:
            return None

    async def _close_if_damaged(self, extension: Extension) -> None:
        try:
            await extension.database.verified()
        except ValueTrackerError:
            self._cache.remove_all(extension)
            await self._close(extension)

    # Compaction

    async def _compact_hourly(self) -> None:
        if self._retention:
            await self.compact_all()
        while True:
            await asyncio.sleep(COMPACTION_SECONDS)
            await self.compact_all()

    async def compact_all(self) -> None:
        """
        Compact all logs as the settings say, and delete expired operations.

        Nothing is folded by its age while the clock is doubted.
        """
        for record in self.registry.list_registered():
            try:
                extension = await self.acquire(record.id)
            except ValueTrackerError:
                continue
            try:
                for keep in self._retention:
                    if keep.days is None or self._heartbeat.trusts_clock:
                        await extension.write(compact, keep)
                await extension.write(sweep_all)
            except ValueTrackerError as error:
                logger.error(error.message, extra={"extension": record.id, "code": error.code})
            finally:
                self.release(extension)

    # Registration

    async def register(self, extension_id: str, path: str | None) -> None:
        async with self._registering, self._locks[extension_id]:
            known = self.registry.find(extension_id)
            folded = extension_id.lower()
            if any(other.folded == folded for other in self.registry.others(extension_id)):
                raise ExtensionExists()
            provisioning = Provisioning(self.engine, self.registry)
            location = provisioning.location(extension_id, path, known)
            if known is None or not known.registered:
                record = await provisioning.prepare(extension_id, location, known, now())
                await self.registry.save(record)

    @asynccontextmanager
    async def kept_closed(self, extension_id: str, reason: str) -> AsyncIterator[Record | None]:
        """Keep the database of an extension closed for a while; give what the registry knows."""
        async with self._registering, self._locks[extension_id]:
            extension = self._open.get(extension_id)
            if extension is not None:
                # Writes in progress are finished and answered before the database is closed.
                await self._close_locked(extension, reason)
            known = self.registry.find(extension_id)
            if known is not None and extension is not None:
                # The registry may not have been able to save it.
                known = known.settled(extension.revision, extension.incarnation)
            yield known

    async def deregister(self, extension_id: str, purge: bool) -> None:
        async with self.kept_closed(extension_id, "gone") as known:
            provisioning = Provisioning(self.engine, self.registry)
            self.damaged.discard(extension_id)
            if known is None:
                if purge:
                    await provisioning.purge_unknown(extension_id)
                return
            if purge and known.location is not None:
                known = await provisioning.purge(known, known.location)
            if known != self.registry.find(extension_id) or known.registered:
                await self.registry.save(replace(known, registered=False))

    # Descriptions

    @property
    def open_count(self) -> int:
        return len(self._open)

    @property
    def opened(self) -> list[Extension]:
        return list(self._open.values())

    async def list_extensions(self) -> list[ExtensionSummary]:
        return await self._summaries(self.registry.list_registered())

    async def get_extension(self, extension_id: str) -> ExtensionSummary:
        record = self.registry.find_registered(extension_id)
        if record is None:
            raise ExtensionNotRegistered(extension_id)
        return (await self._summaries([record]))[0]

    async def _summaries(self, records: list[Record]) -> list[ExtensionSummary]:
        # The registry knows the numbers of a closed database, if nobody has changed it.
        closed = [each for each in records if each.stamp is not None and each.id not in self._open]
        stamps = await self.engine.stamps([each.location or "" for each in closed])
        known: dict[str, ExtensionSummary] = {
            record.id: _numbers(record, record, stamp.bytes)
            for record, stamp in zip(closed, stamps, strict=True)
            if stamp is not None and stamp.text == record.stamp
        }
        return [known.get(each.id) or await self._summary(each) for each in records]

    async def _summary(self, record: Record) -> ExtensionSummary:
        """Return the numbers of an open database; it is opened if need be."""
        try:
            extension = await self.acquire(record.id)
        except ValueTrackerError as error:
            # An extension that cannot be opened must not hide the others.
            return _description(record, error.code)
        try:
            head = (await extension.read(_head)).result
            status = "verifying" if extension.database.verifying else "ok"
            return _numbers(record, head, await extension.database.size(), status)
        except ValueTrackerError as error:
            return _description(record, error.code)
        finally:
            self.release(extension)


async def _head(tx: Snapshot) -> Head:
    return tx.head


def _description(record: Record, status: str) -> ExtensionSummary:
    return {
        "id": record.id,
        "status": status,
        "revision": record.revision,
        "path": record.location or "",
        "registeredAt": record.registered_at,
    }


def _numbers(
    record: Record, counted: Head | Record, bytes: int, status: str = "ok"
) -> ExtensionSummary:
    return {
        **_description(record, status),
        "characters": counted.characters,
        "instances": counted.instances,
        "keys": counted.keys,
        "bytes": bytes,
        "revision": counted.revision,
    }
