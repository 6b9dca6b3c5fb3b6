"""
One open SQLite database: a writer that is also the only checkpointer, and readers.

- SQLite before 3.51.3 can corrupt a file when two connections checkpoint or write one WAL
  at once: so one connection does both, and readers are opened read-only.
- `synchronous=FULL`: an answered write survives a power cut. Group commit buys back the
  speed: everything that waits goes into one transaction and one sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from valuetracker.engine import Job
from valuetracker.engine.group import GroupWriter, Outcome
from valuetracker.engine.migrations import migrate
from valuetracker.engine.sqlite_connection import (
    Connection,
    SQLiteTransaction,
    connect,
    drive,
    translate,
)
from valuetracker.engine.sqlite_file import (
    APPLICATION_ID,
    WAL_BYTES,
    Schema,
    check_header,
    inspect,
    open_file,
    open_reader,
    run,
    wal_of,
)
from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.failpoints import Failpoint

T = TypeVar("T")


@dataclass
class SQLiteOutcome(Outcome):
    """Also: whether the writer is to be opened anew."""

    reopen: bool = False

    @classmethod
    def of_failure(cls, error: Exception, jobs: int) -> SQLiteOutcome:
        return cls([(False, error)] * jobs)


class SQLiteDatabase(GroupWriter):
    """One open file: a writer that is also its only checkpointer, and readers."""

    def __init__(self, path: Path, schema: Schema, readers: int) -> None:
        super().__init__()
        self.path = path
        # Set when an answer of SQLite's calls the file itself into question: whoever
        # opened it should close it and have it looked at again.
        self.suspect = False
        self._schema = schema
        self._begin_work = schema.work()
        self._failpoint = Failpoint.from_environment()
        self._writer: Connection | None = None
        self._inode = (0, 0)
        # Asked about with every group: as texts, because making paths would cost more.
        self._path_text = str(path)
        self._wal_text = str(wal_of(path))
        self._idle_readers: list[Connection] = []
        self._all_readers: list[Connection] = []
        self._reader_places = asyncio.Semaphore(max(1, readers))

    @classmethod
    async def open(cls, path: Path, identity: str, schema: Schema, readers: int) -> SQLiteDatabase:
        """Open a file that must have this identity; refuses any other, untouched."""
        if check_header(path) != APPLICATION_ID:
            raise DatabaseDamaged("The file is not a database of Value Tracker.")
        database = cls(path, schema, readers)
        try:
            await database._open(identity)
        except BaseException:
            await database.close()
            raise
        return database

    async def _open(self, identity: str) -> None:
        wal = wal_of(self.path)
        unclean = wal.exists() and wal.stat().st_size > 0
        reader = await open_reader(self.path)
        self._all_readers.append(reader)
        found, _ = await run(
            reader,
            functools.partial(inspect, schema=self._schema, unclean=unclean),
        )
        if found != identity:
            raise DatabaseDamaged("The file is not the one that was registered.")
        self._inode = self._identity_on_disk()
        self._idle_readers.append(reader)
        self._writer = await connect(functools.partial(open_file, self.path, read_only=False))
        await run(self._writer, self._prepare_writer)

    def _prepare_writer(self, connection: sqlite3.Connection) -> None:
        migrate(connection, self._schema.migrations, self._failpoint)
        connection.execute("PRAGMA journal_mode = WAL")

    def _identity_on_disk(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path_text)
        except OSError:
            return (-1, -1)
        return (found.st_dev, found.st_ino)

    def _check_in_place(self) -> None:
        # An unlinked file goes on working until it is closed, and then everything
        # written to it is gone.
        if self._identity_on_disk() != self._inode:
            self.suspect = True
            raise DatabaseDamaged("The database file was removed or replaced.")

    async def size(self) -> int:
        wal = wal_of(self.path)
        return self.path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)

    # Reading

    async def read(self, job: Job[T]) -> T:
        async with self._reader_places:
            reader = self._idle_readers.pop() if self._idle_readers else await self._add_reader()
            try:
                return await reader.run(functools.partial(self._read, job=job))
            except Exception as error:
                raise self._judge(error) from error
            finally:
                # Its thread takes functions in order, so even one that was cancelled
                # half-way can be handed on.
                self._idle_readers.append(reader)

    async def _add_reader(self) -> Connection:
        reader = await open_reader(self.path)
        self._all_readers.append(reader)
        return reader

    def _read(self, connection: sqlite3.Connection, job: Job[T]) -> T:
        self._check_in_place()
        connection.execute("BEGIN")
        try:
            return drive(job(SQLiteTransaction(connection)))
        finally:
            connection.execute("ROLLBACK")

    def _judge(self, error: Exception) -> Exception:
        meaning = translate(error)
        # A verb that found one wrong row says so itself; the file may still be sound.
        if isinstance(meaning, DatabaseDamaged) and meaning is not error:
            self.suspect = True
        return meaning

    # Writing

    async def _write_waiting(self) -> None:
        group = self._take_group()
        if not group:
            return
        outcome = await self._write_group([job for job, _ in group])
        self._announce(group, outcome)
        if outcome.reopen and self._writer is not None:
            # After a failed sync nobody knows what the kernel still holds of the file.
            writer, self._writer = self._writer, None
            with contextlib.suppress(Exception):
                await writer.close()

    async def _write_group(self, jobs: list[Any]) -> SQLiteOutcome:
        try:
            if self._writer is None:
                self._writer = await connect(
                    functools.partial(open_file, self.path, read_only=False)
                )
            outcome = await self._writer.run(functools.partial(self._commit_group, jobs=jobs))
        except Exception as error:
            outcome = SQLiteOutcome.of_failure(self._judge(error), len(jobs))
        try:
            self._failpoint.reach("after_commit")
        except RuntimeError as error:
            # What is committed is committed, and told; only the answers are lost.
            outcome.results = [(False, error)] * len(jobs)
        return outcome

    def _commit_group(self, connection: sqlite3.Connection, jobs: list[Any]) -> SQLiteOutcome:
        self._check_in_place()
        try:
            outcome = self._transact(connection, jobs)
        except Exception as error:
            _roll_back(connection)
            # What was known of the rows included changes that did not happen.
            self._begin_work = self._schema.work()
            if len(jobs) == 1 or _is_io_error(error):
                # After a failed write or sync nothing this connection says can be relied
                # on: nothing of the group is acknowledged, and it is opened anew.
                failed = SQLiteOutcome.of_failure(self._judge(error), len(jobs))
                failed.reopen = _is_io_error(error)
                return failed
            # One of them failed in a way nobody foresaw, or the disk did. Alone, each
            # gets its own answer.
            outcome = SQLiteOutcome()
            for job in jobs:
                alone = self._commit_group(connection, [job])
                outcome.add(alone)
                outcome.reopen = outcome.reopen or alone.reopen
            return outcome
        self._bound_wal(connection)
        return outcome

    def _transact(self, connection: sqlite3.Connection, jobs: list[Any]) -> SQLiteOutcome:
        connection.execute("BEGIN IMMEDIATE")
        work = self._begin_work(SQLiteTransaction(connection))
        results: list[tuple[bool, Any]] = []
        for job in jobs:
            try:
                results.append((True, drive(work.perform(job))))
            except ValueTrackerError as refusal:
                if not work.clean:
                    raise
                results.append((False, refusal))
        committed = drive(work.finish())
        self._failpoint.reach("before_commit")
        connection.execute("COMMIT")
        return SQLiteOutcome(results, [committed])

    def _bound_wal(self, connection: sqlite3.Connection) -> None:
        try:
            if os.stat(self._wal_text).st_size > WAL_BYTES:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except (sqlite3.Error, OSError):
            # The commit stands. Room is made after a later one.
            return

    # Closing

    async def close(self) -> None:
        """Answer what is waiting, then close: readers first, the writer last."""
        await self.finish_writing()
        for reader in self._all_readers:
            await _close(reader)
        self._all_readers.clear()
        self._idle_readers.clear()
        if self._writer is not None:
            await _close(self._writer)
            self._writer = None
        if self._inode not in ((0, 0), self._identity_on_disk()):
            self._set_log_aside()

    def _set_log_aside(self) -> None:
        # Another file lies in our file's place, or none, and SQLite has left our log
        # there. It must not be played into whatever comes; it is kept, under another name.
        wal = wal_of(self.path)
        with contextlib.suppress(OSError):
            if wal.exists():
                wal.rename(wal.with_name(f"{wal.name}.left-{secrets.token_hex(4)}"))
        with contextlib.suppress(OSError):
            self.path.with_name(self.path.name + "-shm").unlink()


async def _close(connection: Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        await connection.close()


def _roll_back(connection: sqlite3.Connection) -> None:
    # A full disk may have rolled back already.
    with contextlib.suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def _is_io_error(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_IOERR
