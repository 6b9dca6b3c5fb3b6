"""
Extensions: registered, deregistered, opened when needed and closed when long unused.

A database opens with its first request and closes when too many others have been used
since. Opening, closing and deregistering one extension happen one after the other, under
its own lock; what goes wrong with one never reaches another.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol

from valuetracker.engine import Database, Job, Transaction
from valuetracker.errors import (
    DatabaseDamaged,
    ExtensionExists,
    ExtensionNotRegistered,
    PathDiffers,
    PathInUse,
    StartupError,
    ValueTrackerError,
)
from valuetracker.records import ExtensionSummary, now
from valuetracker.runtime.answer_cache import Memory
from valuetracker.runtime.capacity import Openings
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.registry import Record, Registry
from valuetracker.store import adoption
from valuetracker.store.compaction import Keep, compact
from valuetracker.store.operations import sweep_all
from valuetracker.store.rows.row_types import Head
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.tx.ledger import Commit, Ledger, WriteJob, load_head, make_head

logger = logging.getLogger(__name__)

# The registry hears of an extension's revision when it closes and this often in between,
# so what it knows lags behind by little more than this.
NOTED_EVERY = 1_000
TIDY_SECONDS = 3_600


class Engine(Protocol):
    """What is asked of an engine here."""

    name: str
    version: str

    def hold(self) -> None: ...
    def for_user(self, handle: str) -> Engine: ...
    async def start(self, at: str) -> Database: ...
    async def stop(self) -> None: ...
    def locate(self, name: str, wanted: str | None) -> str: ...
    async def exists(self, location: str) -> bool: ...
    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str: ...
    async def identity(self, location: str) -> tuple[str, str]: ...
    async def open(self, location: str, identity: str) -> Database: ...
    async def is_unmarked(self, location: str, recognise: Job[bool]) -> bool: ...
    async def adopt(self, location: str, name: str, at: str, convert: Job[Any]) -> str: ...
    async def discard(self, location: str, label: str) -> bool: ...


class Extensions:
    """All extensions of one user."""

    def __init__(
        self,
        engine: Engine,
        memory: Memory[Any],
        openings: Openings,
        retention: Sequence[Keep] = (),
    ) -> None:
        self.engine = engine
        self.memory = memory
        # How many requests are under way here.
        self.calls = 0
        self._openings = openings
        self._open: dict[str, Extension] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._registering = asyncio.Lock()
        self._retention = retention
        self._tidying: asyncio.Task[None] | None = None
        self._background: set[asyncio.Task[None]] = set()
        self._registry: Registry | None = None

    @property
    def registry(self) -> Registry:
        assert self._registry is not None, "not started"
        return self._registry

    async def start(self) -> None:
        registry = Registry(await self.engine.start(now()))
        try:
            await registry.load()
        except ValueTrackerError as error:
            await registry.close()
            await self.engine.stop()
            raise StartupError(f"The registry cannot be used: {error.message}") from error
        self._registry = registry
        self._tidying = asyncio.get_running_loop().create_task(self._tidy_hourly())

    async def stop(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait([self._tidying])
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
        """Let the readers of feeds go: the server is about to stop."""
        for extension in self._open.values():
            extension.feed.end("closed")

    # Using one

    def enter_open(self, extension_id: str) -> Extension | None:
        """The extension, entered, if its database is open; whoever enters must `leave`."""
        extension = self._open.get(extension_id)
        if extension is not None:
            self._openings.used(extension)
            extension.enter()
        return extension

    async def enter(self, extension_id: str) -> Extension:
        """The extension, entered, opened if need be; whoever enters must `leave`."""
        extension = self.enter_open(extension_id)
        if extension is not None:
            return extension
        if self.registry.find_registered(extension_id) is None:
            raise ExtensionNotRegistered(extension_id)
        async with self._locks[extension_id]:
            # Somebody may have opened or deregistered it while we waited.
            extension = self.enter_open(extension_id)
            if extension is not None:
                return extension
            record = self.registry.find_registered(extension_id)
            if record is None:
                raise ExtensionNotRegistered(extension_id)
            extension = await self._open_record(record)
            self._open[extension_id] = extension
            self._openings.opened(extension, self._close_if_unused)
            self.enter_open(extension_id)
        self._openings.make_room()
        return extension

    def leave(self, extension: Extension) -> None:
        extension.leave()
        if extension.database.suspect and self._open.get(extension.id) is extension:
            logger.error("database suspected of damage", extra={"extension": extension.id})
            self._start(self._close(extension))
        elif not extension.users and self._openings.too_many > 0:
            self._openings.make_room()

    async def _open_record(self, record: Record) -> Extension:
        assert record.location is not None
        assert record.identity is not None
        database = await self.engine.open(record.location, record.identity)
        try:
            head = await database.read(load_head)
            if head.revision < record.revision:
                raise DatabaseDamaged(
                    "The database is older than what was last known of it.",
                    hint="To go on from this older state, deregister the extension and "
                    "register it again.",
                )
        except BaseException:
            await database.close()
            raise
        extension = Extension(record.id, database, head.revision, self._committed, self._openings)
        database.on_commit = extension.apply_commit
        return extension

    def _committed(self, extension: Extension, commit: Commit) -> None:
        if commit.tags is None:
            self.memory.forget_all(extension)
        else:
            self.memory.forget(extension, commit.tags)
        record = self.registry.find(extension.id)
        if record is not None and commit.revision >= record.revision + NOTED_EVERY:
            self._start(self._note(extension))

    async def _note(self, extension: Extension) -> None:
        # The number only guards against reuse; the file itself has the true one.
        with contextlib.suppress(ValueTrackerError):
            await self.registry.note_revision(extension.id, extension.revision)

    def _close_if_unused(self, extension: Extension) -> None:
        self._start(self._close(extension, only_if_unused=True))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _close(self, extension: Extension, only_if_unused: bool = False) -> None:
        async with self._locks[extension.id]:
            if self._open.get(extension.id) is extension and not (
                only_if_unused and extension.users
            ):
                await self._take_out(extension)

    async def _take_out(self, extension: Extension, reason: str = "closed") -> None:
        """Close it, under its lock: nobody can enter or open it again meanwhile."""
        del self._open[extension.id]
        self._openings.closed(extension)
        await extension.close(reason)
        self.memory.forget_all(extension)
        await self._note(extension)

    # Tidying

    async def _tidy_hourly(self) -> None:
        if self._retention:
            await self.fold_all()
        while True:
            await asyncio.sleep(TIDY_SECONDS)
            await self.fold_all()

    async def fold_all(self) -> None:
        """Fold all logs to what the settings say is kept, and clean up what was left."""
        for record in self.registry.registered():
            try:
                extension = await self.enter(record.id)
            except ValueTrackerError:
                continue
            try:
                for keep in self._retention:
                    await extension.write(compact, keep)
                await extension.write(sweep_all)
            except ValueTrackerError as error:
                logger.error(error.message, extra={"extension": record.id, "code": error.code})
            finally:
                self.leave(extension)

    # Registering

    async def register(self, extension_id: str, path: str | None) -> None:
        async with self._registering, self._locks[extension_id]:
            known = self.registry.find(extension_id)
            folded = extension_id.lower()
            if any(other.folded == folded for other in self.registry.others(extension_id)):
                raise ExtensionExists()
            location = self._location(extension_id, path, known)
            if known is not None and known.registered:
                return
            at = now()
            floor = known.revision if known is not None else 0
            if known is not None and known.location == location:
                identity = await self._resume(location, known)
            else:
                identity = await self._take(extension_id, location, floor, at)
            revision = await self._go_on_above(location, identity, floor)
            await self.registry.save(Record(extension_id, location, identity, revision, True, at))

    def _location(self, extension_id: str, path: str | None, known: Record | None) -> str:
        if path is None and known is not None and known.location is not None:
            return known.location
        location = self.engine.locate(extension_id, path)
        if known is not None and known.registered and known.location != location:
            raise PathDiffers()
        # Two spellings may be one file; better to refuse one name too many.
        taken = location.casefold()
        for other in self.registry.others(extension_id):
            if other.location is not None and other.location.casefold() == taken:
                raise PathInUse("That file belongs to another extension.")
        return location

    async def _resume(self, location: str, known: Record) -> str:
        """Registered once more: it must be the same database."""
        identity, _ = await self.engine.identity(location)
        if identity != known.identity:
            raise DatabaseDamaged("The file is not the one that was registered.")
        return identity

    async def _take(self, extension_id: str, location: str, floor: int, at: str) -> str:
        """Registered for the first time, or at a new place: make it or take what is there."""

        async def setup(transaction: Transaction) -> None:
            await make_head(transaction, floor)

        if not await self.engine.exists(location):
            return await self.engine.create(location, extension_id, at, setup)
        if await self.engine.is_unmarked(location, adoption.recognise):
            convert = adoption.conversion(floor)
            return await self.engine.adopt(location, extension_id, at, convert)
        identity, name = await self.engine.identity(location)
        if name != extension_id or any(
            other.identity == identity for other in self.registry.others(extension_id)
        ):
            raise PathInUse("That file is the database of another extension.")
        return identity

    async def _go_on_above(self, location: str, identity: str, floor: int) -> int:
        """Let an older copy go on above the highest number given out; where it is then."""
        database = await self.engine.open(location, identity)
        try:
            head = await database.read(load_head)
            if head.revision < floor:
                await database.write(WriteJob(skip_to, (floor,)))
            return max(head.revision, floor)
        finally:
            await database.close()

    async def deregister(self, extension_id: str, purge: bool) -> None:
        async with self._registering, self._locks[extension_id]:
            known = self.registry.find(extension_id)
            if known is None:
                if purge:
                    await self._purge_unknown(extension_id)
                return
            extension = self._open.get(extension_id)
            if extension is not None:
                # Writes in flight are finished and answered before the door closes.
                await self._take_out(extension, "gone")
                known = replace(known, revision=max(known.revision, extension.revision))
            if purge and known.location is not None:
                known = await self._purge(known, known.location)
            if known != self.registry.find(extension_id) or known.registered:
                await self.registry.save(replace(known, registered=False))

    async def _purge(self, record: Record, location: str) -> Record:
        # The file first: if the process dies in between, the extension has a missing
        # file, and purging it again ends what was begun.
        revision = await self._last_revision(record, location)
        await self.engine.discard(location, record.id)
        return replace(record, location=None, identity=None, revision=revision)

    async def _last_revision(self, record: Record, location: str) -> int:
        try:
            assert record.identity is not None
            return await self._go_on_above(location, record.identity, record.revision)
        except ValueTrackerError:
            # It cannot be asked any more. The registry lags behind by this at the most.
            return record.revision + 2 * NOTED_EVERY

    async def _purge_unknown(self, extension_id: str) -> None:
        location = self.engine.locate(extension_id, None)
        taken = location.casefold()
        if await self.engine.exists(location) and not any(
            other.location is not None and other.location.casefold() == taken
            for other in self.registry.others(extension_id)
        ):
            await self.engine.discard(location, extension_id)

    # Telling about them

    @property
    def open_count(self) -> int:
        return len(self._open)

    async def list_extensions(self) -> list[ExtensionSummary]:
        return [await self._summary(record) for record in self.registry.registered()]

    async def get_extension(self, extension_id: str) -> ExtensionSummary:
        record = self.registry.find_registered(extension_id)
        if record is None:
            raise ExtensionNotRegistered(extension_id)
        return await self._summary(record)

    async def _summary(self, record: Record) -> ExtensionSummary:
        summary: ExtensionSummary = {
            "id": record.id,
            "status": "ok",
            "revision": record.revision,
            "path": record.location or "",
            "registeredAt": record.registered_at,
        }
        try:
            extension = await self.enter(record.id)
        except ValueTrackerError as error:
            # One that cannot be opened must not hide the others.
            return {**summary, "status": error.code}
        try:
            head = (await extension.read(_head)).result
            return {
                **summary,
                "characters": head.characters,
                "instances": head.instances,
                "keys": head.keys,
                "bytes": await extension.database.size(),
                "revision": head.revision,
            }
        except ValueTrackerError as error:
            return {**summary, "status": error.code}
        finally:
            self.leave(extension)


async def _head(tx: Snapshot) -> Head:
    return tx.head


async def skip_to(tx: Ledger, revision: int) -> None:
    await tx.skip_to(revision)
