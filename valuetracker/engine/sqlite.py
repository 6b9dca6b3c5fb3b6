"""
The SQLite engine: a data directory of files, one of them the registry.

Nothing above this module knows files; databases are named by location and identity.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from valuetracker.engine import (
    Conversion,
    Database,
    FirstRows,
    FoundDatabase,
    Job,
    NewRunnerFactory,
    Row,
    Stamp,
    TableCheck,
    Transaction,
    sqlite_adoption,
    sqlite_repair,
    sqlite_restore,
)
from valuetracker.engine import sqlite_file as files
from valuetracker.engine.data_directory import REGISTRY, DataDirectory
from valuetracker.engine.known_files import KnownFiles, stamp_of
from valuetracker.engine.migrations import load_migrations, migrations_directory
from valuetracker.engine.plain_runner import PlainRunner
from valuetracker.engine.sqlite_connection import in_thread
from valuetracker.engine.sqlite_copy import read_copy, verify_copy
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import RegistryUnusable, ValueTrackerError
from valuetracker.failpoints import Failpoint

T = TypeVar("T")


class SQLiteEngine:
    """Databases that are files in one directory."""

    name = "sqlite"
    version = sqlite3.sqlite_version
    has_stamps = True
    copies_files = True

    def __init__(
        self,
        directory: DataDirectory,
        new_runner_factory: NewRunnerFactory,
        readers: int,
        tables: Mapping[str, TableCheck],
        registry_tables: Mapping[str, TableCheck],
    ) -> None:
        self._directory = directory
        self._readers = readers
        migrations = migrations_directory() / "sqlite"
        self._schema = files.Schema(load_migrations(migrations), new_runner_factory, tables)
        self._registry_schema = files.Schema(
            load_migrations(migrations / "registry"), lambda: PlainRunner, registry_tables
        )
        self._known = KnownFiles()
        # The files outside the directory itself that were used since the start.
        self._used: set[Path] = set()

    def for_user(self, handle: str) -> SQLiteEngine:
        return SQLiteEngine(
            self._directory.for_user(handle),
            self._schema.new_runner_factory,
            self._readers,
            self._schema.tables,
            self._registry_schema.tables,
        )

    def lock(self) -> None:
        self._directory.lock()

    async def users(self) -> list[str]:
        return self._directory.users()

    async def verify_copy(self, path: Path, job: Job[T]) -> T:
        return await in_thread(lambda: verify_copy(path, self._schema, job))

    async def start(self, at: str, first_rows: FirstRows[Any] | None = None) -> Database:
        self.lock()
        path = self._directory.registry
        try:
            if not path.exists():
                setup: Job[Any] = _nothing
                if first_rows is not None:
                    read = first_rows.read
                    setup = first_rows.write(await in_thread(lambda: self._find_databases(read)))
                await files.create(
                    path, "registry", secrets.token_hex(16), self._registry_schema, at, setup
                )
            identity, _ = await files.read_identity(path, self._registry_schema)
            registry = await SQLiteDatabase.open(
                path, identity, self._registry_schema, readers=1, background_bytes=math.inf
            )
            # Failpoints of commits are about the databases of extensions.
            registry.failpoint = Failpoint(None)
            return registry
        except ValueTrackerError as error:
            self._directory.unlock()
            raise RegistryUnusable(f"The registry {path} cannot be used: {error.message}") from None

    def _find_databases(self, read: Job[T]) -> list[FoundDatabase[T]]:
        """Return all databases of ours in the directory, and in others that are allowed."""
        found: list[FoundDatabase[T]] = []
        for path in self._directory.database_files():
            try:
                if files.check_header(path) != files.APPLICATION_ID:
                    continue
            except ValueTrackerError:
                continue
            location = self._directory.location_of(path)
            try:
                mark, content = read_copy(path, self._schema, read)
                found.append(FoundDatabase(location, mark.identity, mark.name, content))
            except (ValueTrackerError, sqlite3.Error):
                found.append(FoundDatabase(location, "", path.stem, None))
        return found

    async def discard_registry(self) -> bool:
        self.lock()
        return await in_thread(lambda: self._directory.discard(REGISTRY, "registry"))

    async def stop(self) -> None:
        self._directory.unlock()

    def locate(self, name: str, wanted: str | None) -> str:
        return self._directory.locate(name, wanted)

    async def exists(self, location: str) -> bool:
        # A broken link occupies the location as well.
        path = await self._file(location)
        return path.exists() or path.is_symlink()

    async def stamps(self, locations: Sequence[str]) -> list[Stamp | None]:
        paths = [self._directory.file(location) for location in locations]
        return await asyncio.to_thread(lambda: [stamp_of(path) for path in paths])

    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str:
        identity = secrets.token_hex(16)
        path = await self._file(location)
        await files.create(path, name, identity, self._schema, at, setup)
        self._known.remember(path)
        return identity

    async def identity(self, location: str) -> tuple[str, str]:
        return await files.read_identity(await self._file(location), self._schema)

    async def open(self, location: str, identity: str) -> SQLiteDatabase:
        path = await self._file(location)
        return await SQLiteDatabase.open(path, identity, self._schema, self._readers, self._known)

    async def can_adopt(self, location: str, recognise: Job[bool]) -> bool:
        return await sqlite_adoption.can_adopt(await self._file(location), recognise)

    async def adopt(self, location: str, name: str, at: str, convert: Conversion) -> str:
        path = await self._file(location)
        identity = secrets.token_hex(16)
        await sqlite_adoption.adopt(path, name, identity, self._schema, at, convert)
        self._known.remember(path)
        return identity

    async def discard(self, location: str, label: str) -> bool:
        await self._file(location)
        return await in_thread(lambda: self._directory.discard(location, label))

    async def _file(self, location: str) -> Path:
        """Return the path of a location, after what a killed process has left to be done there."""
        path = self._directory.file(location)
        if path.parent != self._directory.path and path not in self._used:
            # Once, and before the first copy of this process.
            self._used.add(path)
            sqlite_restore.remove_unfinished_copies(path)
        if sqlite_restore.announced_of(path).exists():
            await in_thread(lambda: sqlite_restore.finish(self._directory, location))
        return path

    # Restoring

    async def copy_file(self, source: Path, location: str) -> tuple[Path, str]:
        path = await self._file(location)
        return await in_thread(lambda: sqlite_restore.copy_file(source, path))

    async def adapt_copy(self, copy: Path, identity: str, job: Job[Any]) -> None:
        await in_thread(lambda: sqlite_restore.adapt_copy(copy, self._schema, identity, job))

    async def rebuild_file(self, location: str, identity: str, job: Job[Any]) -> Path:
        path = await self._file(location)
        return await in_thread(
            lambda: sqlite_repair.rebuild_file(path, identity, self._schema, job)
        )

    async def read_intact(self, location: str, take: Callable[[str, Row], None]) -> list[str]:
        path = await self._file(location)
        return await in_thread(lambda: sqlite_repair.read_intact(path, self._schema, take))

    async def replace_file(self, location: str, copy: Path) -> None:
        work = asyncio.ensure_future(
            in_thread(lambda: sqlite_restore.replace_file(self._directory, location, copy))
        )
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread goes on: whoever unlocks the directory next must not be quicker.
            await asyncio.wait([work])
            raise


async def _nothing(transaction: Transaction) -> None:
    return None
