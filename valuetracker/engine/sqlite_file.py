"""
One SQLite file: inspecting and creating it.

A file is inspected through a read-only connection before anything may write to it, so a
damaged file is left exactly as it was found. A new file is completed under another name first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from valuetracker import durable
from valuetracker.engine import Job, NewRunnerFactory, TableCheck, mark
from valuetracker.engine.data_directory import COMPANIONS
from valuetracker.engine.migrations import Migration, check_version, migrate, version_of
from valuetracker.engine.sqlite_connection import (
    Connection,
    SQLiteTransaction,
    connect,
    drive,
    roll_back,
    translate,
)
from valuetracker.errors import DatabaseDamaged, DatabaseTooOld, PathNotAllowed
from valuetracker.failpoints import Failpoint

T = TypeVar("T")

# "VTK2": marks a file as ours in its header, where `file` and other tools read it.
APPLICATION_ID = 0x56544B32
# Layouts from before the first release ("VTKR", "VTK1"); no migration converts them.
UNRELEASED_IDS = {0x56544B52, 0x56544B31}
# After about so many changed pages the WAL is copied into the file and begun again. It keeps its
# size: to write over it takes a sync half as long as to make it longer.
CHECKPOINT_PAGES = 4_000
# Overlapping readers can keep the WAL from being begun again. Above this many bytes we wait for
# the readers once, and cut it.
WAL_BYTES = 32 * 1024 * 1024
BUSY_MS = 5_000
MARK = TableCheck(("identity", "name", "created_at", "opening", "checksum"), mark.verify)
SELECT_MARK = f"SELECT {', '.join(MARK.columns)} FROM file"


@dataclass(frozen=True)
class Schema:
    """The migrations of a kind of database, the runners of its groups, and its tables by name."""

    migrations: tuple[Migration, ...]
    new_runner_factory: NewRunnerFactory
    # All but `file`, which is the engine's own.
    tables: Mapping[str, TableCheck]


def open_file(path: Path, *, read_only: bool, busy_ms: int = BUSY_MS) -> sqlite3.Connection:
    mode = "ro" if read_only else "rw"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        cached_statements=256,
        # The writer is used by its thread and by the event loop, never by both at once.
        check_same_thread=read_only,
    )
    connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute("PRAGMA synchronous = FULL")
        # The server copies the WAL into the file itself, when nobody waits for an answer.
        connection.execute("PRAGMA wal_autocheckpoint = 0")
    return connection


def code_of(error: Exception) -> int | None:
    """Return the primary code of an error of SQLite; None for any other error."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if code is not None else None


def wal_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def keep_log(path: Path) -> None:
    """
    Keep the log of a file that was removed or replaced under another name.

    SQLite has left it beside the file, and must not apply it to another one.
    """
    wal = wal_of(path)
    with contextlib.suppress(OSError):
        if wal.exists():
            durable.rename(wal, wal.with_name(f"{wal.name}.left-{secrets.token_hex(4)}"))
    with contextlib.suppress(OSError):
        durable.remove_files([path.with_name(path.name + "-shm")])


def check_header(path: Path) -> int:
    """Return the application id in the header; raise if this is not an SQLite file."""
    try:
        # To open a pipe would wait for a process at its other end.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise DatabaseDamaged("The path is not that of a file.")
        with path.open("rb") as handle:
            header = handle.read(100)
    except FileNotFoundError:
        raise DatabaseDamaged("The database file is missing.") from None
    except OSError as error:
        raise translate(error) from error
    if not header:
        raise DatabaseDamaged("The database file is empty.")
    if (
        len(header) < 100
        or not header.startswith(b"SQLite format 3\x00")
        # Its format for writing and for reading: with a rollback journal, or with a log.
        or header[18:20] not in (b"\1\1", b"\2\2")
    ):
        raise DatabaseDamaged("The file is not a database.")
    application_id = int.from_bytes(header[68:72], "big")
    if application_id in UNRELEASED_IDS:
        raise DatabaseTooOld()
    return application_id


def page_size_of(path: Path) -> int:
    with path.open("rb") as handle:
        size = int.from_bytes(handle.read(18)[16:], "big")
    return 65_536 if size == 1 else size


def check_application_id(connection: sqlite3.Connection) -> None:
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise DatabaseDamaged("The file is not a database of Value Tracker.")


class Mark(NamedTuple):
    """The row of the table `file`."""

    identity: str
    name: str
    created_at: str
    # Another one each time the file is opened for writing.
    opening: str = ""


def inspect(connection: sqlite3.Connection, schema: Schema) -> Mark:
    """Return the mark of a file; refuse one that is not ours, or of the future."""
    check_application_id(connection)
    check_version(version_of(connection), schema.migrations)
    return Mark(*mark.verify(connection.execute(SELECT_MARK).fetchone()))


def write_mark(connection: sqlite3.Connection, new: Mark) -> None:
    """Replace the mark of a file, in a transaction of its own."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        update_mark(connection, new)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise


def update_mark(connection: sqlite3.Connection, new: Mark) -> None:
    connection.execute(
        "UPDATE file SET identity = ?, name = ?, created_at = ?, opening = ?, checksum = ?",
        mark.seal(*new),
    )


async def read_identity(path: Path, schema: Schema) -> tuple[str, str]:
    """Return the identity and name of a file without opening it for writing."""
    if check_header(path) != APPLICATION_ID:
        raise DatabaseDamaged("The file is not a database of Value Tracker.")
    reader = await open_reader(path)
    try:
        return (await run(reader, functools.partial(inspect, schema=schema)))[:2]
    finally:
        await reader.close()


def unfinished_of(path: Path) -> Path:
    """Return the name of a new file until it is complete; what has that name was never complete."""
    return path.with_name(f".new-{path.name}")


def remove_unfinished(path: Path) -> None:
    """Remove a file and its companions, if there are any."""
    for ending in ("", *COMPANIONS):
        with contextlib.suppress(OSError):
            path.with_name(path.name + ending).unlink()


async def create(
    path: Path, name: str, identity: str, schema: Schema, at: str, setup: Job[Any]
) -> None:
    """
    Create a database completely under another name, and then rename it.

    A process that is killed half-way leaves no file that looks like a database.
    """
    unfinished = unfinished_of(path)
    remove_unfinished(unfinished)
    try:
        durable.make_folders(path.parent)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except (FileExistsError, NotADirectoryError):
        raise PathNotAllowed("A part of the path is a file.") from None
    except OSError as error:
        raise translate(error) from error

    try:
        writer = await open_writer(unfinished)
        try:
            await run(
                writer, lambda connection: build(connection, name, identity, schema, at, setup)
            )
        finally:
            await writer.close()
        # The file that had this name may have left its log.
        keep_log(path)
        durable.put_in_place(unfinished, path)
    except OSError as error:
        raise translate(error) from error
    finally:
        remove_unfinished(unfinished)


def build(
    connection: sqlite3.Connection,
    name: str,
    identity: str,
    schema: Schema,
    at: str,
    setup: Job[Any],
) -> None:
    """Make an empty file a database; `setup` writes its first rows."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    migrate(connection, schema.migrations, Failpoint.from_environment())
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(
        "INSERT INTO file VALUES (?, ?, ?, ?, ?)", mark.seal(*Mark(identity, name, at))
    )
    drive(setup(SQLiteTransaction(connection)))
    connection.execute("COMMIT")
    if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
        raise DatabaseDamaged("The file system does not allow write-ahead logging.")


async def open_reader(path: Path) -> Connection:
    return await connect(functools.partial(open_file, path, read_only=True))


async def open_writer(path: Path) -> Connection:
    return await connect(functools.partial(open_file, path, read_only=False))


async def run(connection: Connection, function: Callable[[sqlite3.Connection], T]) -> T:
    try:
        return await connection.run(function)
    except Exception as error:
        raise translate(error) from error
