"""
The SQLite engine: a data directory of files, one of them the registry.

SQLite stays below this line: what lies above names databases by location and identity.
"""

from __future__ import annotations

import hashlib
import secrets
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from valuetracker.engine import Database, Job, Transaction, WorkMaker
from valuetracker.engine import sqlite_file as files
from valuetracker.engine.data_directory import (
    COMPANIONS,
    ORIGINAL,
    DataDirectory,
    sync_directory,
    sync_file,
)
from valuetracker.engine.migrations import load_migrations, migrations_directory
from valuetracker.engine.plain import PlainWork
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import StartupError, ValueTrackerError


class SQLiteEngine:
    """Databases that are files in one directory."""

    name = "sqlite"
    version = sqlite3.sqlite_version

    def __init__(self, directory: DataDirectory, work: WorkMaker, readers: int) -> None:
        self._directory = directory
        self._work = work
        self._readers = readers
        migrations = migrations_directory() / "sqlite"
        self._schema = files.Schema(load_migrations(migrations), work)
        self._registry_schema = files.Schema(
            load_migrations(migrations / "registry"), lambda: PlainWork
        )

    def for_user(self, handle: str) -> SQLiteEngine:
        """The same for the databases of one user."""
        return SQLiteEngine(self._directory.for_user(handle), self._work, self._readers)

    def hold(self) -> None:
        """Take the directory for this process; again does nothing."""
        self._directory.hold()

    async def start(self, at: str) -> Database:
        """Take the directory and open its registry, which is made on first use."""
        self.hold()
        path = self._directory.registry
        try:
            if not path.exists():
                await files.create(
                    path, "registry", secrets.token_hex(16), self._registry_schema, at, _nothing
                )
            identity, _ = await files.read_identity(path, self._registry_schema)
            return await SQLiteDatabase.open(path, identity, self._registry_schema, readers=1)
        except ValueTrackerError as error:
            self._directory.release()
            raise StartupError(f"The registry {path} cannot be used: {error.message}") from error

    async def stop(self) -> None:
        self._directory.release()

    def locate(self, name: str, wanted: str | None) -> str:
        return self._directory.locate(name, wanted)

    async def exists(self, location: str) -> bool:
        # A link that leads nowhere is something that is there, too.
        path = self._directory.file(location)
        return path.exists() or path.is_symlink()

    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str:
        """Make a new database; its identity."""
        identity = secrets.token_hex(16)
        path = self._directory.file(location)
        await files.create(path, name, identity, self._schema, at, setup)
        return identity

    async def identity(self, location: str) -> tuple[str, str]:
        """The identity and name a database gives itself."""
        return await files.read_identity(self._directory.file(location), self._schema)

    async def open(self, location: str, identity: str) -> SQLiteDatabase:
        path = self._directory.file(location)
        return await SQLiteDatabase.open(path, identity, self._schema, self._readers)

    async def is_unmarked(self, location: str, recognise: Job[bool]) -> bool:
        """Whether this is a file without any mark of ours that `recognise` accepts."""
        path = self._directory.file(location)
        if files.check_header(path) != 0:
            return False
        if path.with_name(path.name + "-journal").exists():
            # A change was cut short. Only a connection that may write can undo it.
            await files.recover(path)
        return await files.look(path, recognise)

    async def adopt(self, location: str, name: str, at: str, convert: Job[Any]) -> str:
        """Turn such a file into one of ours, keeping one copy of what it was; its identity."""
        path = self._directory.file(location)
        identity = secrets.token_hex(16)
        _keep_copy(path)
        await files.adopt(path, name, identity, self._schema, at, convert)
        return identity

    async def discard(self, location: str, label: str) -> bool:
        return self._directory.discard(location, label)


async def _nothing(transaction: Transaction) -> None:
    return None


def _keep_copy(path: Path) -> None:
    # There may be one of an earlier try, and the file have been written to since.
    copy = path.with_name(path.name + ORIGINAL)
    unfinished = path.with_name(f".new-{secrets.token_hex(8)}")
    if any(path.with_name(path.name + ending).exists() for ending in COMPANIONS):
        # Part of it is still beside the file; only SQLite can put the two together.
        with (
            closing(files.open_file(path, read_only=True)) as source,
            closing(sqlite3.connect(unfinished)) as target,
        ):
            source.backup(target)
    else:
        shutil.copyfile(path, unfinished)
    unfinished.chmod(0o600)
    sync_file(unfinished)
    if copy.exists():
        if _is_same_database(unfinished, copy):
            # Made before an adoption that was cut short: the untouched one stays.
            unfinished.unlink()
            return
        copy.replace(copy.with_name(f"{copy.name}-{secrets.token_hex(4)}"))
    unfinished.replace(copy)
    sync_directory(path.parent)


def _is_same_database(one: Path, other: Path) -> bool:
    """Whether two files say the same; bytes differ as soon as SQLite has undone something."""
    try:
        return _digest(one) == _digest(other)
    except sqlite3.Error:
        return False


def _digest(path: Path) -> bytes:
    digest = hashlib.sha256()
    with closing(files.open_file(path, read_only=True)) as connection:
        connection.text_factory = lambda text: text.decode("utf-8", "surrogateescape")
        for line in connection.iterdump():
            digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.digest()
