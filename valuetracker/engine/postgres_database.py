"""
One open PostgreSQL database: a schema, reached through two pools.

A group of writes is one transaction on one connection. Its rows are written with one statement,
however many tables and rows there are: each statement is a round trip to PostgreSQL.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg

from valuetracker.engine import Job, NewRunnerFactory, NotUnique
from valuetracker.engine.group import GroupWriter, Outcome
from valuetracker.engine.postgres_lock import ServerLock
from valuetracker.engine.statement import CHUNK_LENGTH, CHUNK_ROWS, Statement, length_of
from valuetracker.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    PathNotAllowed,
    StorageFull,
    ValueTrackerError,
)

T = TypeVar("T")

# How many rows are read at first: they may be large.
FIRST_ROWS = 16


def translate(error: Exception) -> Exception:
    """Return the error that a caller gets for an error of PostgreSQL or of the connection."""
    if isinstance(error, ValueTrackerError):
        return error
    if isinstance(
        error,
        asyncpg.DiskFullError | asyncpg.OutOfMemoryError | asyncpg.ProgramLimitExceededError,
    ):
        return StorageFull()
    if isinstance(
        error,
        asyncpg.UndefinedTableError
        | asyncpg.UndefinedColumnError
        | asyncpg.DatatypeMismatchError
        | asyncpg.InvalidSchemaNameError
        | asyncpg.DataCorruptedError
        | asyncpg.IndexCorruptedError,
    ):
        return DatabaseDamaged()
    if isinstance(error, asyncpg.InsufficientPrivilegeError):
        return DatabaseUnavailable(
            "The database user lacks a right it needs.",
            hint="Grant it the rights on its schemas again; the server's log says more.",
        )
    if isinstance(
        error,
        NotUnique
        | asyncpg.PostgresError
        | asyncpg.InterfaceError
        | asyncpg.InternalClientError
        | OSError
        | TimeoutError
        | EOFError,
    ):
        return DatabaseUnavailable()
    return error


def lost_connection(error: Exception) -> bool:
    """Return true if the connection may be lost."""
    return isinstance(
        error,
        asyncpg.PostgresConnectionError
        | asyncpg.InterfaceError
        | asyncpg.InternalClientError
        | DatabaseUnavailable
        | asyncpg.AdminShutdownError
        | asyncpg.CrashShutdownError
        | asyncpg.CannotConnectNowError
        | OSError
        | TimeoutError
        | EOFError,
    )


# The verb of a statement that writes, and its table.
WRITES = re.compile(r"(INSERT INTO|UPDATE) \{schema\}\.(\w+)")
NUMBERED = re.compile(r"\$(\d+)")


class PostgresTransaction:
    """
    The transaction that a job is called with.

    Rows that are written wait until something is read, or until the end of the transaction. Then
    all of them are written by one statement. The parts of a statement do not see each other, so a
    table whose rows are written again is written before that.
    """

    __slots__ = ("_connection", "_schema", "_tables", "_waiting")

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self._schema = schema
        # Statements with their columns, and the tables they write.
        self._waiting: list[tuple[Statement, list[list[Any]]]] = []
        self._tables: set[str] = set()

    def _text(self, statement: Statement) -> str:
        return statement.postgres.replace("{schema}", self._schema)

    async def fetch_all(
        self, statement: Statement, expected: int | None = None, **parameters: Any
    ) -> list[tuple[Any, ...]]:
        await self.flush()
        rows = await self._connection.fetch(self._text(statement), *statement.values(parameters))
        return [tuple(row) for row in rows]

    async def fetch_chunks(
        self, statement: Statement, **parameters: Any
    ) -> AsyncIterator[list[tuple[Any, ...]]]:
        await self.flush()
        cursor = await self._connection.cursor(self._text(statement), *statement.values(parameters))
        count = FIRST_ROWS
        while rows := await cursor.fetch(count):
            chunk = [tuple(row) for row in rows]
            yield chunk
            length = sum(map(length_of, chunk))
            count = max(1, count // 4) if length > CHUNK_LENGTH else min(CHUNK_ROWS, count * 4)

    async def fetch_one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        await self.flush()
        row = await self._connection.fetchrow(self._text(statement), *statement.values(parameters))
        return tuple(row) if row is not None else None

    async def execute(self, statement: Statement, **parameters: Any) -> None:
        await self.flush()
        await self._connection.execute(self._text(statement), *statement.values(parameters))

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        await self.execute_tuples(statement, [statement.of_row(row) for row in rows])

    async def execute_tuples(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> None:
        await self.flush()
        if rows:
            self._waiting.append((statement, _columns(rows)))
            await self.flush()

    async def write_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        if not rows:
            return
        found = WRITES.search(statement.postgres)
        assert found is not None, statement.postgres
        # New rows are others than those that are updated.
        if found[2] in self._tables and found[1] == "UPDATE":
            await self.flush()
        self._waiting.append((statement, _columns([statement.of_row(row) for row in rows])))
        self._tables.add(found[2])

    async def flush(self) -> None:
        """Write the rows that wait."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        self._tables.clear()
        texts: list[str] = []
        columns: list[list[Any]] = []
        for statement, own in waiting:
            texts.append(_renumbered(self._text(statement), len(columns)))
            columns += own
        parts = [f"part{number} AS ({text})" for number, text in enumerate(texts[:-1])]
        first = f"WITH {', '.join(parts)} " if parts else ""
        try:
            await self._connection.execute(first + texts[-1], *columns)
        except asyncpg.UniqueViolationError as error:
            raise NotUnique from error


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Return one array per column: a single statement takes any number of rows."""
    return [list(column) for column in zip(*rows, strict=True)]


def _renumbered(text: str, used: int) -> str:
    """Return a statement whose parameters come after others."""
    return NUMBERED.sub(lambda match: f"${int(match[1]) + used}", text) if used else text


@asynccontextmanager
async def _reporting_loss(connection: Any) -> AsyncIterator[None]:
    # On a lost connection any call may raise any error; all of them mean the same.
    try:
        yield
    except Exception as error:
        if connection.is_closed() and not isinstance(error, ValueTrackerError):
            raise DatabaseUnavailable() from error
        raise


@dataclass(frozen=True)
class Pools:
    """Connections that may write, and connections that cannot."""

    writers: Any
    readers: Any
    # None if several servers may use the database.
    lock: ServerLock | None

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[Any]:
        """Return a connection to write with, which needs the lock of the server."""
        if self.lock is not None:
            await self.lock.ensure()
        async with self.looker() as connection:
            yield connection

    @asynccontextmanager
    async def looker(self) -> AsyncIterator[Any]:
        """Return a connection to look with at what readers may not see."""
        async with self.writers.acquire() as connection, _reporting_loss(connection):
            yield connection

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Any]:
        async with (
            self.readers.acquire() as connection,
            _reporting_loss(connection),
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection


class PostgresDatabase(GroupWriter):
    """One schema."""

    def __init__(self, pools: Pools, schema: str, new_runner_factory: NewRunnerFactory) -> None:
        super().__init__(new_runner_factory)
        self._pools = pools
        self._schema = schema

    def read_at_once(self, job: Job[T]) -> T | None:
        # The answer comes over a socket: the event loop does not wait for it.
        return None

    async def read(self, job: Job[T]) -> T:
        try:
            async with self._pools.reader() as connection:
                return await job(PostgresTransaction(connection, self._schema))
        except Exception as error:
            raise self._judge(error) from error

    async def _commit(self, jobs: list[Any]) -> Outcome:
        async with self._pools.writer() as connection, connection.transaction():
            transaction = PostgresTransaction(connection, self._schema)
            runner = self._make_runner(transaction)
            if len(jobs) > 1:
                await runner.prepare(jobs)
            outcome = await self._run_jobs(runner, jobs)
            await transaction.flush()
            return outcome

    def _is_final(self, error: Exception) -> bool:
        # The commit may have happened although its answer was lost. Only what certainly was not
        # committed may run again.
        return lost_connection(error)

    def _translate(self, error: Exception) -> Exception:
        return translate(error)

    async def size(self) -> int:
        try:
            async with self._pools.reader() as connection:
                size: int = await connection.fetchval(
                    "SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint "
                    "FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace "
                    "WHERE nspname = $1 AND relkind = 'r'",
                    self._schema,
                )
                return size
        except Exception as error:
            raise translate(error) from error

    # PostgreSQL notices by itself if its log is lost.
    opening = ""
    had_log = True

    async def mark_opening(self, opening: str) -> None:
        pass

    async def copy_to(self, path: Path) -> None:
        raise PathNotAllowed("On PostgreSQL there are no files to copy.")

    async def check_structure(self) -> None:
        """Do nothing: PostgreSQL has checksums of its own for its pages."""

    async def close(self) -> None:
        await self.finish_writing()
