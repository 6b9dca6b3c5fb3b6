"""
The SQLite engine: a data directory of files, one of them the registry.

Nothing above this module knows files; databases are named by location and identity.
"""

from __future__ import annotations

import asyncio
import math
import secrets
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from valuetracker.engine import (
    Conversion,
    Database,
    Job,
    NewRunnerFactory,
    Stamp,
    TableCheck,
    Transaction,
    sqlite_adoption,
)
from valuetracker.engine import sqlite_file as files
from valuetracker.engine.data_directory import DataDirectory
from valuetracker.engine.known_files import KnownFiles, stamp_of
from valuetracker.engine.migrations import load_migrations, migrations_directory
from valuetracker.engine.plain_runner import PlainRunner
from valuetracker.engine.sqlite_connection import in_thread
from valuetracker.engine.sqlite_copy import verify_copy
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import RegistryUnusable, ValueTrackerError

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

    async def start(self, at: str) -> Database:
        self.lock()
        path = self._directory.registry
        try:
            if not path.exists():
                await files.create(
                    path, "registry", secrets.token_hex(16), self._registry_schema, at, _nothing
                )
            identity, _ = await files.read_identity(path, self._registry_schema)
            return await SQLiteDatabase.open(
                path, identity, self._registry_schema, readers=1, background_bytes=math.inf
            )
        except ValueTrackerError as error:
            self._directory.unlock()
            raise RegistryUnusable(f"The registry {path} cannot be used: {error.message}") from None

    async def stop(self) -> None:
        self._directory.unlock()

    def locate(self, name: str, wanted: str | None) -> str:
        return self._directory.locate(name, wanted)

    async def exists(self, location: str) -> bool:
        # A broken link occupies the location as well.
        path = self._directory.file(location)
        return path.exists() or path.is_symlink()

    async def stamps(self, locations: Sequence[str]) -> list[Stamp | None]:
        paths = [self._directory.file(location) for location in locations]
        return await asyncio.to_thread(lambda: [stamp_of(path) for path in paths])

    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str:
        identity = secrets.token_hex(16)
        path = self._directory.file(location)
        await files.create(path, name, identity, self._schema, at, setup)
        self._known.remember(path)
        return identity

    async def identity(self, location: str) -> tuple[str, str]:
        return await files.read_identity(self._directory.file(location), self._schema)

    async def open(self, location: str, identity: str) -> SQLiteDatabase:
        path = self._directory.file(location)
        return await SQLiteDatabase.open(path, identity, self._schema, self._readers, self._known)

    async def can_adopt(self, location: str, recognise: Job[bool]) -> bool:
        return await sqlite_adoption.can_adopt(self._directory.file(location), recognise)

    async def adopt(self, location: str, name: str, at: str, convert: Conversion) -> str:
        path = self._directory.file(location)
        identity = secrets.token_hex(16)
        await sqlite_adoption.adopt(path, name, identity, self._schema, at, convert)
        self._known.remember(path)
        return identity

    async def discard(self, location: str, label: str) -> bool:
        return await in_thread(lambda: self._directory.discard(location, label))


async def _nothing(transaction: Transaction) -> None:
    return None
