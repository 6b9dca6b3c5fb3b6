"""
One open PostgreSQL database: a schema, reached through two pools.

A whole group of writes is one transaction on one connection; its rows are written with one
statement per table, however many there are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import asyncpg

from valuetracker.engine import Job, WorkMaker
from valuetracker.engine.group import GroupWriter, Outcome
from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    DatabaseDamaged,
    DatabaseUnavailable,
    StorageFull,
    ValueTrackerError,
)
from valuetracker.failpoints import Failpoint

T = TypeVar("T")


def translate(error: Exception) -> Exception:
    """What a failure of PostgreSQL or of the way to it means to a caller."""
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
            hint="Give it back the rights on its schemas; the server's log says more.",
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
    """Whether trying the same again on this connection makes no sense."""
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
    """The transaction a verb is given."""

    __slots__ = ("_connection", "_schema")

    def __init__(self, connection: Any, schema: str) -> None:
        self._connection = connection
        self._schema = schema

    def _text(self, statement: Statement) -> str:
        return statement.postgres.replace("{schema}", self._schema)

    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[tuple[Any, ...]]:
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
async def _telling_loss(connection: Any) -> AsyncIterator[None]:
    # On a connection that was cut off anything may fail in any way; it means one thing.
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

    @asynccontextmanager
    async def writer(self) -> AsyncIterator[Any]:
        async with self.writers.acquire() as connection, _telling_loss(connection):
            yield connection

    @asynccontextmanager
    async def reader(self) -> AsyncIterator[Any]:
        async with (
            self.readers.acquire() as connection,
            _telling_loss(connection),
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            yield connection


class PostgresDatabase(GroupWriter):
    """One schema."""

    def __init__(self, pools: Pools, schema: str, work: WorkMaker) -> None:
        super().__init__()
        self.suspect = False
        self._pools = pools
        self._schema = schema
        self._work = work
        self._begin_work = work()
        self._failpoint = Failpoint.from_environment()

    async def read(self, job: Job[T]) -> T:
        try:
            async with self._pools.reader() as connection:
                return await job(PostgresTransaction(connection, self._schema))
        except Exception as error:
            raise self._judge(error) from error

    def _judge(self, error: Exception) -> Exception:
        meaning = translate(error)
        # A verb that found one wrong row says so itself; the rest may still be sound.
        if isinstance(meaning, DatabaseDamaged) and meaning is not error:
            self.suspect = True
        return meaning

    async def _write_waiting(self) -> None:
        group = self._take_group()
        if group:
            jobs = [job for job, _ in group]
            try:
                outcome = await self._write_group(jobs)
            except Exception as error:
                outcome = Outcome.failed(error, len(jobs))
            try:
                self._failpoint.reach("after_commit")
            except RuntimeError as error:
                # What is committed is committed, and told; only the answers are lost.
                outcome.results = [(False, error)] * len(jobs)
            self._announce(group, outcome)

    async def _write_group(self, jobs: list[Any]) -> Outcome:
        try:
            return await self._transact(jobs)
        except Exception as error:
            # What was known of the rows included changes that did not happen.
            self._begin_work = self._work()
            # Nobody knows whether a commit whose answer was lost has happened, so only
            # what certainly has not is tried again.
            if len(jobs) == 1 or lost_connection(error):
                raise self._judge(error) from error
        outcome = Outcome()
        for job in jobs:
            try:
                outcome.add(await self._transact([job]))
            except Exception as error:
                self._begin_work = self._work()
                outcome.add(Outcome.failed(self._judge(error), 1))
        return outcome

    async def _transact(self, jobs: list[Any]) -> Outcome:
        results: list[tuple[bool, Any]] = []
        async with self._pools.writer() as connection, connection.transaction():
            work = self._begin_work(PostgresTransaction(connection, self._schema))
            if len(jobs) > 1:
                await work.prepare(jobs)
            for job in jobs:
                try:
                    results.append((True, await work.perform(job)))
                except ValueTrackerError as refusal:
                    if not work.clean:
                        raise
                    results.append((False, refusal))
            committed = await work.finish()
            self._failpoint.reach("before_commit")
        return Outcome(results, [committed])

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
