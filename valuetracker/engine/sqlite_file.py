"""
One SQLite file: looked at, made, adopted.

A file is looked at through a read-only connection before anything may write to it, so a
damaged one is left exactly as it was found. A new one is made whole under another name.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from valuetracker.engine import Job, WorkMaker
from valuetracker.engine.data_directory import sync_directory, sync_file
from valuetracker.engine.migrations import Migration, apply, check_version, migrate, version_of
from valuetracker.engine.sqlite_connection import (
    Connection,
    SQLiteTransaction,
    connect,
    drive,
    translate,
)
from valuetracker.errors import DatabaseDamaged, DatabaseTooOld, PathNotAllowed
from valuetracker.failpoints import Failpoint

T = TypeVar("T")

# "VTK1": marks a file as ours in its header, where `file` and other tools look.
APPLICATION_ID = 0x56544B31
# Layouts from before the first release ("VTKR"), which no migration leads out of.
UNRELEASED_IDS = {0x56544B52}
# SQLite copies the WAL back every 1,000 pages by itself; readers that overlap can keep
# it from starting over, so past this many bytes we wait for them once.
WAL_BYTES = 16 * 1024 * 1024
BUSY_MS = 5_000


@dataclass(frozen=True)
class Schema:
    """What a file is meant to hold: its migrations, and what makes the work of groups."""

    migrations: list[Migration]
    work: WorkMaker


def open_file(path: Path, *, read_only: bool) -> sqlite3.Connection:
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        cached_statements=256,
    )
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES // 4}")
    return connection


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def check_header(path: Path) -> int:
    """The application id in the header; raises if this is no SQLite file at all."""
    try:
        # To open a pipe would wait for somebody at its other end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DatabaseDamaged("What lies there is not a file.")
        with path.open("rb") as handle:
            header = handle.read(100)
    except FileNotFoundError:
        raise DatabaseDamaged("The database file is missing.") from None
    except OSError as error:
        raise translate(error) from error
    if not header:
        raise DatabaseDamaged("The database file is empty.")
    if len(header) < 100 or not header.startswith(b"SQLite format 3\x00"):
        raise DatabaseDamaged("The file is not a database.")
    application_id = int.from_bytes(header[68:72], "big")
    if application_id in UNRELEASED_IDS:
        raise DatabaseTooOld()
    return application_id


def inspect(connection: sqlite3.Connection, schema: Schema, unclean: bool) -> tuple[str, str]:
    """Look before anything may write; the identity and name the file gives itself."""
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise DatabaseDamaged("The file is not a database of Value Tracker.")
    check_version(version_of(connection), schema.migrations)
    # After a clean stop there is no WAL. One that is there was left by a kill, which is
    # fine, or belongs to another file, which only a look at the whole can tell.
    if unclean:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise DatabaseDamaged()
    row: tuple[str, str] | None = connection.execute("SELECT identity, name FROM file").fetchone()
    if row is None:
        raise DatabaseDamaged()
    return row


async def read_identity(path: Path, schema: Schema) -> tuple[str, str]:
    """The identity of a file and its name, without opening it for writing."""
    if check_header(path) != APPLICATION_ID:
        raise DatabaseDamaged("The file is not a database of Value Tracker.")
    reader = await open_reader(path)
    try:
        return await run(reader, functools.partial(inspect, schema=schema, unclean=False))
    finally:
        await reader.close()


async def create(
    path: Path, name: str, identity: str, schema: Schema, at: str, setup: Job[Any]
) -> None:
    """
    Make a new database whole, under another name, and then put it in its place.

    A process killed half-way leaves nothing that could be taken for a database.
    """
    unfinished = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except (FileExistsError, NotADirectoryError):
        raise PathNotAllowed("A part of the path is a file.") from None
    except OSError as error:
        raise translate(error) from error

    def build(connection: sqlite3.Connection) -> None:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        migrate(connection, schema.migrations, Failpoint.from_environment())
        connection.execute("BEGIN IMMEDIATE")
        identify(connection, name, identity, at)
        drive(setup(SQLiteTransaction(connection)))
        connection.execute("COMMIT")
        if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
            raise DatabaseDamaged("The file system does not allow write-ahead logging.")

    try:
        writer = await connect(functools.partial(open_file, unfinished, read_only=False))
        try:
            await run(writer, build)
        finally:
            await writer.close()
        sync_file(unfinished)
        unfinished.rename(path)
        sync_directory(path.parent)
    except OSError as error:
        raise translate(error) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def identify(connection: sqlite3.Connection, name: str, identity: str, at: str) -> None:
    connection.execute("INSERT INTO file VALUES (?, ?, ?)", (identity, name, at))


async def adopt(
    path: Path, name: str, identity: str, schema: Schema, at: str, convert: Job[Any]
) -> None:
    """
    Turn a file of another make into one of ours, in one transaction.

    `convert` is given the transaction with the old tables renamed to `adopted_<name>` and
    the new ones made; what it returns is of no interest.
    """

    def build(connection: sqlite3.Connection) -> None:
        failpoint = Failpoint.from_environment()
        # Nobody has ever checked what is in there; a letter that is none must not cost the rest.
        connection.text_factory = lambda text: text.decode("utf-8", "replace")
        # Renaming a table would otherwise rewrite other tables' references to it.
        connection.execute("PRAGMA legacy_alter_table = ON")
        connection.execute("BEGIN IMMEDIATE")
        try:
            tables = connection.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            ).fetchall()
            for object_type, other in connection.execute(
                "SELECT type, name FROM sqlite_schema WHERE sql IS NOT NULL AND type <> 'table'"
            ).fetchall():
                connection.execute(f"DROP {object_type} IF EXISTS {_quoted(other)}")
            for (table,) in tables:
                connection.execute(
                    f"ALTER TABLE {_quoted(table)} RENAME TO {_quoted('adopted_' + table)}"
                )
            for migration in schema.migrations:
                apply(connection, migration, failpoint)
            identify(connection, name, identity, at)
            drive(convert(SQLiteTransaction(connection)))
            failpoint.reach("mid_adoption")
            for (table,) in tables:
                connection.execute(f"DROP TABLE {_quoted('adopted_' + table)}")
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("PRAGMA journal_mode = WAL")

    if os.name == "posix":
        os.chmod(path, 0o600)
    writer = await connect(functools.partial(open_file, path, read_only=False))
    try:
        await run(writer, build)
    finally:
        await writer.close()
    sync_file(path)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


async def recover(path: Path) -> None:
    """Let SQLite undo what a process left half done."""
    writer = await connect(functools.partial(open_file, path, read_only=False))
    try:
        await run(writer, lambda connection: connection.execute("SELECT * FROM sqlite_schema"))
    finally:
        await writer.close()


async def look(path: Path, job: Job[T]) -> T:
    """Run a job on a file of any make, read-only."""
    check_header(path)
    reader = await open_reader(path)
    try:
        return await run(reader, lambda connection: drive(job(SQLiteTransaction(connection))))
    finally:
        await reader.close()


async def open_reader(path: Path) -> Connection:
    return await connect(functools.partial(open_file, path, read_only=True))


async def run(connection: Connection, function: Callable[[sqlite3.Connection], T]) -> T:
    try:
        return await connection.run(function)
    except Exception as error:
        raise translate(error) from error
