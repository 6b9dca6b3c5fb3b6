"""
One open PostgreSQL database: a schema, reached through two pools.

A group of writes is one transaction on one connection. Its rows are written with one statement
per table, however many rows there are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from valuetracker.engine import Job, NewRunnerFactory
from valuetracker.engine.group import GroupWriter, Outcome
from valuetracker.engine.postgres_lock import ServerLock
from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    StorageFull,
    ValueTrackerError,
)

T = TypeVar("T")


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
        asyncpg.PostgresError
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


class PostgresTransaction:
    """The transaction that a job is called with."""

    __slots__ = ("_connection", "_schema")

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def _text(self, statement: Statement) -> str:
        return statement.postgres.replace("{schema}", self._schema)

    async def fetch_all(
        self, statement: Statement, expected: int | None = None, **parameters: Any
    ) -> list[tuple[Any, ...]]:
        rows = await self._connection.fetch(self._text(statement), *statement.values(parameters))
        return [tuple(row) for row in rows]

    async def fetch_one(self, statement: Statement, **parameters: Any) -> tuple[Any, ...] | None:
        row = await self._connection.fetchrow(self._text(statement), *statement.values(parameters))
        return tuple(row) if row is not None else None

    async def execute(self, statement: Statement, **parameters: Any) -> None:
        await self._connection.execute(self._text(statement), *statement.values(parameters))

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        await self.execute_tuples(statement, [statement.of_row(row) for row in rows])

    async def execute_tuples(self, statement: Statement, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            # One array per column: a single statement, however many rows.
            columns = [list(column) for column in zip(*rows, strict=True)]
            await self._connection.execute(self._text(statement), *columns)


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
            runner = self._make_runner(PostgresTransaction(connection, self._schema))
            if len(jobs) > 1:
                await runner.prepare(jobs)
            return await self._run_jobs(runner, jobs)

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

    async def close(self) -> None:
        await self.finish_writing()
