"""
One SQLite connection on a thread of its own, and the meaning of its errors.

aiosqlite changes to its thread once per statement, which costs ten times as much as the SQL.
`Connection.run` runs a whole function on the thread with one change instead. It uses two
internals of aiosqlite (`_execute`, `_conn`), which is why the version is pinned and
`tests/engine/test_sqlite_connection.py` tests them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import aiosqlite

from valuetracker import durable
from valuetracker.engine import NotUnique, NotVerifiedYet
from valuetracker.engine.statement import CHUNK_LENGTH, CHUNK_ROWS, Statement, length_of
from valuetracker.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    StorageFull,
    ValueTrackerError,
)

T = TypeVar("T")

# At debug level aiosqlite would log the arguments of every call, which are people's values.
logging.getLogger("aiosqlite").setLevel(logging.WARNING)

# A row that is the last of several, or sums them up, depends on all of them.
CHOOSES = re.compile(r"\bORDER BY\b|\b(count|exists|max|min|sum)\s*\(", re.IGNORECASE)

DAMAGE = {
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_EMPTY,
}


class Connection(aiosqlite.Connection):
    """A connection whose thread runs whole functions."""

    def __init__(self, connector: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connector, iter_chunk_size=64)
        # A server that fails while starting must be able to exit without closing the connection.
        self._thread.daemon = True

    @property
    def connection(self) -> sqlite3.Connection:
        """Return the connection itself, to be used while its thread has nothing to do."""
        return self._conn

    async def run(self, function: Callable[[sqlite3.Connection], T]) -> T:
        result: T = await self._execute(function, self._conn)  # type: ignore[no-untyped-call]
        return result


class SQLiteTransaction:
    """
    The transaction that a job is called with.

    Its methods are coroutines that never suspend, so `drive` can run the job from start to end
    on the connection's thread.
    """

    __slots__ = ("_connection",)

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fetch_all(
        self, statement: Statement, expected: int | None = None, **parameters: Any
    ) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement.sqlite, statement.values(parameters)).fetchall()

    async def fetch_chunks(
        self, statement: Statement, **parameters: Any
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        chunk: list[tuple[Any, ...]] = []
        length = 0
        for row in self._connection.execute(statement.sqlite, statement.values(parameters)):
            chunk.append(row)
            length += length_of(row)
            if length >= CHUNK_LENGTH or len(chunk) >= CHUNK_ROWS:
                yield chunk
                chunk, length = [], 0
        if chunk:
            yield chunk

    async def fetch_one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self._connection.execute(
            statement.sqlite, statement.values(parameters)
        ).fetchone()
        return row

    async def execute(self, statement: Statement, **parameters: Any) -> None:
        self._connection.execute(statement.sqlite, statement.values(parameters))

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        try:
            self._connection.executemany(statement.sqlite, map(statement.of_row, rows))
        except sqlite3.IntegrityError as error:
            raise NotUnique from error

    async def write_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        self._connection.executemany(statement.sqlite, map(statement.of_row, rows))

    async def execute_tuples(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.executemany(statement.sqlite, rows)


class UnverifiedTransaction(SQLiteTransaction):
    """The transaction of a database whose rows are still being verified."""

    __slots__ = ()

    async def fetch_all(
        self, statement: Statement, expected: int | None = None, **parameters: Any
    ) -> list[tuple[Any, ...]]:
        if expected is not None:
            rows = await super().fetch_all(statement, **parameters)
            if len(rows) >= expected:
                return rows
        raise NotVerifiedYet()

    def fetch_chunks(
        self, statement: Statement, **parameters: Any
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        raise NotVerifiedYet()

    async def fetch_one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        row = await super().fetch_one(statement, **parameters)
        if row is None or CHOOSES.search(statement.sqlite):
            raise NotVerifiedYet()
        return row


def drive(verb: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits only an immediate transaction, without an event loop."""
    try:
        verb.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    verb.close()
    raise RuntimeError("A verb awaited something other than its transaction.")


async def connect(connector: Callable[[], sqlite3.Connection]) -> Connection:
    connection = Connection(connector)
    try:
        await connection
    except (sqlite3.Error, OSError) as error:
        raise translate(error) from error
    return connection


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that failed; if that fails too, the first error is the one to report."""
    # SQLite may have rolled back already, for example when the disk is full.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function that waits for the disk, beside the event loop."""
    try:
        return await asyncio.to_thread(function)
    except Exception as error:
        raise translate(error) from error


def translate(error: Exception) -> Exception:
    """Return the error that a caller gets for an error of SQLite or of the file system."""
    if isinstance(error, ValueTrackerError):
        return error
    if isinstance(error, NotUnique) and isinstance(error.__cause__, sqlite3.Error):
        return error.__cause__
    if isinstance(error, UnicodeDecodeError):
        return DatabaseDamaged()
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        primary = code & 0xFF if code is not None else None
        text = str(error)
        # The second: no space for the index of the log, `-shm`.
        if primary == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_SHMSIZE:
            return StorageFull()
        # A truncated file causes an I/O error; invalid UTF-8 and missing tables cause plain
        # errors. To try again later helps against none of them.
        if (
            primary in DAMAGE
            or code == sqlite3.SQLITE_IOERR_SHORT_READ
            or text.startswith(("Could not decode to UTF-8", "no such table", "no such column"))
        ):
            return DatabaseDamaged()
        if isinstance(error, sqlite3.OperationalError | sqlite3.ProgrammingError):
            return DatabaseUnavailable()
        return error
    if isinstance(error, OSError):
        return StorageFull() if error.errno in durable.FULL else DatabaseUnavailable()
    return error
