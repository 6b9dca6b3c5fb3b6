"""
One open SQLite database: a writer that is also the only checkpointer, and readers.

- SQLite before 3.51.3 can corrupt a file when two connections checkpoint or write one WAL
  at once: so one connection does both, and readers are opened read-only.
- `synchronous=FULL`: an answered write survives a power cut. Group commit buys back the
  speed: all jobs that wait go into one transaction and one sync.
- A file is verified before anything may write to it. The rows of a large one are verified while
  it is in use, in slices on a connection of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from valuetracker.engine import MOST_ROWS, Job, NotVerifiedYet, TooLong
from valuetracker.engine.group import GroupWriter, Outcome
from valuetracker.engine.known_files import KnownFiles
from valuetracker.engine.loop_commits import LoopCommits
from valuetracker.engine.loop_reader import LoopReader
from valuetracker.engine.migrations import migrate, version_of
from valuetracker.engine.sqlite_connection import (
    Connection,
    SQLiteTransaction,
    UnverifiedTransaction,
    drive,
    roll_back,
    translate,
)
from valuetracker.engine.sqlite_copy import copy_database, keep_version
from valuetracker.engine.sqlite_file import (
    APPLICATION_ID,
    BUSY_MS,
    CHECKPOINT_PAGES,
    WAL_BYTES,
    Mark,
    Schema,
    check_header,
    code_of,
    inspect,
    keep_log,
    open_reader,
    open_writer,
    run,
    wal_of,
    write_mark,
)
from valuetracker.engine.sqlite_verification import RowVerification, check_log, check_structure
from valuetracker.errors import DatabaseDamaged, DatabaseUnavailable, ValueTrackerError

T = TypeVar("T")

logger = logging.getLogger(__name__)

# The rows of larger files are verified while they are in use.
BACKGROUND_BYTES = 16 * 1024 * 1024
# For this long rows are verified, and then for this long they are not, so that requests get
# their turn.
SLICE_SECONDS = 0.005
PAUSE_SECONDS = 0.005


class SQLiteDatabase(GroupWriter):
    """One open file: a writer that is also its only checkpointer, and readers."""

    def __init__(self, path: Path, schema: Schema, readers: int, known: KnownFiles) -> None:
        super().__init__(schema.new_runner_factory)
        self.path = path
        self._schema = schema
        self._known = known
        # The rows that are still to be verified; None once all have been.
        self._unverified: RowVerification | None = RowVerification(schema)
        self._verification: asyncio.Task[None] | None = None
        # Why the file must not be used any more.
        self._finding: ValueTrackerError | None = None
        self._writer: Connection | None = None
        # If there was a log beside the file when it was opened.
        self.had_log = False
        self._mark = Mark("", "", "")
        self._inode = (0, 0)
        # Needed for every group; as texts, because making paths would cost more.
        self._path_text = str(path)
        self._wal_text = str(wal_of(path))
        self._idle_readers: list[Connection] = []
        self._all_readers: list[Connection] = []
        self._reader_slots = asyncio.Semaphore(max(1, readers))
        self._loop_commits = LoopCommits()
        # Closes a writer that failed on the event loop.
        self._closing: asyncio.Task[None] | None = None
        # How many rows the writer had changed when the WAL was last copied into the file.
        self._copied_changes = 0
        self._loop_reader = LoopReader(path, self._snapshot)

    @classmethod
    async def open(
        cls,
        path: Path,
        identity: str,
        schema: Schema,
        readers: int,
        known: KnownFiles | None = None,
        background_bytes: float = BACKGROUND_BYTES,
    ) -> SQLiteDatabase:
        """Open the file that has this identity; refuse any other without changing it."""
        if check_header(path) != APPLICATION_ID:
            raise DatabaseDamaged("The file is not a database of Value Tracker.")
        database = cls(path, schema, readers, known or KnownFiles())
        try:
            await database._open(identity, background_bytes)
        except BaseException:
            await database.close()
            raise
        return database

    async def _open(self, identity: str, background_bytes: float) -> None:
        with contextlib.suppress(OSError):
            # Who may only read leaves an empty log behind.
            self.had_log = wal_of(self.path).stat().st_size > 0
        if self._known.is_sound(self.path):
            self._unverified = None
        elif wal_of(self.path).exists():
            await self._verify(asyncio.to_thread(check_log, self.path))
        reader = await open_reader(self.path)
        self._all_readers.append(reader)
        if self._unverified is not None:
            at_once = await self.size() <= background_bytes
            await self._verify(reader.run(functools.partial(self._verify_file, at_once=at_once)))
        self._mark = await run(reader, functools.partial(inspect, schema=self._schema))
        if self._mark.identity != identity:
            raise DatabaseDamaged("The file is not the one that was registered.")
        self._inode = self._identity_on_disk()
        self._idle_readers.append(reader)
        self._writer = await open_writer(self.path)
        await run(self._writer, self._prepare_writer)
        if self._unverified is not None:
            self._verification = self._loop.create_task(self._verify_rows(self._unverified))

    def _prepare_writer(self, connection: sqlite3.Connection) -> None:
        version = version_of(connection)
        if version < self._schema.migrations[-1].number:
            keep_version(connection, self.path, version)
        migrate(connection, self._schema.migrations, self.failpoint)
        connection.execute("PRAGMA journal_mode = WAL")

    def _identity_on_disk(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path_text)
        except OSError:
            return (-1, -1)
        return (found.st_dev, found.st_ino)

    def _check_in_place(self) -> None:
        self._check_finding()
        # An unlinked file can be written to until it is closed; then all its content is lost.
        if self._identity_on_disk() != self._inode:
            self.suspect = True
            raise DatabaseDamaged("The database file was removed or replaced.")

    # Verifying

    def _verify_file(self, connection: sqlite3.Connection, at_once: bool) -> None:
        is_current = check_structure(connection, self._schema)
        if is_current and at_once and self._unverified is not None:
            self._unverified.run(connection)
            self._unverified = None

    async def _verify_rows(self, rows: RowVerification) -> None:
        """Verify the rows while the file is in use."""
        with contextlib.suppress(ValueTrackerError):
            await self._verify(self._run_slices(rows))
            self._unverified = None
            self._loop_reader.end_snapshot()

    async def _run_slices(self, rows: RowVerification) -> None:
        reader = await self._add_reader()
        while True:
            if await reader.run(functools.partial(rows.run, seconds=SLICE_SECONDS)):
                break
            await asyncio.sleep(PAUSE_SECONDS)
        self._all_readers.remove(reader)
        await _close(reader)

    async def _verify(self, part: Awaitable[T]) -> T:
        """Return the result of a part of the verification; if it fails, refuse the file."""
        try:
            return await part
        except Exception as error:
            finding = translate(error)
            if not isinstance(finding, ValueTrackerError):
                finding = DatabaseUnavailable("The file could not be verified.")
            self.suspect = True
            self._finding = finding
            # Its text might quote what was read.
            cause = type(error.__cause__ or error).__name__
            logger.error(finding.message, extra={"file": self._path_text, "cause": cause})
            raise finding from error

    def _check_finding(self) -> None:
        if self._finding is not None:
            raise type(self._finding)(self._finding.message)

    @property
    def verifying(self) -> bool:
        return self._unverified is not None

    async def verified(self) -> None:
        if self._verification is not None:
            # Others wait, too: it goes on if this request is cancelled.
            await asyncio.wait([self._verification])
        self._check_finding()
        if self._unverified is not None:
            raise DatabaseUnavailable("The database was closed before it was verified.")

    # Open for writing

    @property
    def opening(self) -> str:
        return self._mark.opening

    async def mark_opening(self, opening: str) -> None:
        self._check_in_place()
        self._mark = self._mark._replace(opening=opening)
        try:
            await self._run_on_writer(self._write_mark)
        except Exception as error:
            raise self._judge(error) from error

    def _write_mark(self, connection: sqlite3.Connection) -> None:
        write_mark(connection, self._mark)

    async def size(self) -> int:
        wal = wal_of(self.path)
        return self.path.stat().st_size + (wal.stat().st_size if wal.exists() else 0)

    async def check_structure(self) -> None:
        await self._run_apart(functools.partial(check_structure, schema=self._schema))

    async def copy_to(self, path: Path) -> None:
        self._check_in_place()
        await self._run_apart(functools.partial(copy_database, path=path))

    async def _run_apart(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Run something that takes long on a reader of its own."""
        reader = await self._add_reader()
        try:
            await reader.run(work)
        except Exception as error:
            raise self._judge(error) from error
        finally:
            self._all_readers.remove(reader)
            await _close(reader)

    # Reading

    async def read(self, job: Job[T]) -> T:
        async with self._reader_slots:
            reader = self._idle_readers.pop() if self._idle_readers else await self._add_reader()
            try:
                return await reader.run(functools.partial(self._read, job=job))
            except Exception as error:
                raise self._judge(error) from error
            finally:
                # The thread of a reader runs functions in order, so a reader can be used again
                # even if its last job was cancelled half-way.
                self._idle_readers.append(reader)

    def read_at_once(self, job: Job[T]) -> T | None:
        self._check_finding()
        try:
            return self._loop_reader.read(job)
        except (ValueTrackerError, TooLong, NotVerifiedYet):
            raise
        except Exception as error:
            raise self._judge(error) from error

    async def _add_reader(self) -> Connection:
        reader = await open_reader(self.path)
        self._all_readers.append(reader)
        return reader

    def _read(self, connection: sqlite3.Connection, job: Job[T]) -> T:
        self._check_in_place()
        connection.execute("BEGIN")
        try:
            return drive(job(self._transaction(connection)))
        finally:
            roll_back(connection)

    def _snapshot(self, connection: sqlite3.Connection) -> SQLiteTransaction:
        """Return the transaction of several reads: so often is looked if the file is in place."""
        self._check_in_place()
        return self._transaction(connection)

    def _transaction(self, connection: sqlite3.Connection) -> SQLiteTransaction:
        if self._unverified is not None:
            return UnverifiedTransaction(connection)
        return SQLiteTransaction(connection)

    def _translate(self, error: Exception) -> Exception:
        return translate(error)

    # Writing

    def _announce_commits(self, outcome: Outcome) -> None:
        self._loop_reader.end_snapshot()
        super()._announce_commits(outcome)

    async def _commit(self, jobs: list[Any]) -> Outcome:
        self._loop_reader.end_snapshot()
        return await self._run_on_writer(functools.partial(self._run_group, jobs=jobs))

    async def _run_on_writer(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._writer is None:
            self._writer = await open_writer(self.path)
        writer = self._writer
        try:
            return await writer.run(work)
        except Exception as error:
            if _is_io_error(error):
                self._writer = None
                await _close_failed(writer)
            raise

    def _commit_at_once(self, job: Any) -> Outcome | None:
        """Commit one job on the event loop; return None if that should not wait for it."""
        writer = self._writer
        if writer is None or not self._loop_commits.allow(job):
            return None
        self._loop_reader.end_snapshot()
        connection = writer.connection
        try:
            # Another program may have locked the file: only a thread waits for it.
            connection.execute("PRAGMA busy_timeout = 0")
            return self._run_group(connection, [job], most_rows=MOST_ROWS)
        except Exception as error:
            self._forget_rows()
            if isinstance(error, TooLong) or code_of(error) == sqlite3.SQLITE_BUSY:
                return None
            if _is_io_error(error):
                self._writer = None
                self._closing = self._loop.create_task(_close_failed(writer))
            return self._failed(error, 1)
        finally:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")

    def _is_final(self, error: Exception) -> bool:
        return self._writer is None or self._identity_on_disk() != self._inode

    def _run_group(
        self, connection: sqlite3.Connection, jobs: list[Any], most_rows: int | None = None
    ) -> Outcome:
        """Run a group in one transaction, on the writer's thread or on the event loop."""
        self._check_in_place()
        try:
            connection.execute("BEGIN IMMEDIATE")
            runner = self._make_runner(self._transaction(connection))
            runner.most_rows = most_rows
            outcome = drive(self._run_jobs(runner, jobs))
            started = time.monotonic()
            connection.execute("COMMIT")
            self._loop_commits.add(time.monotonic() - started)
        except Exception:
            roll_back(connection)
            raise
        return outcome

    async def _after_group(self) -> None:
        writer = self._writer
        if writer is not None and self._checkpoint_due(writer.connection):
            self._loop_reader.end_snapshot()
            with contextlib.suppress(Exception):
                # The group is committed and answered. A later group tries again.
                await writer.run(self._checkpoint)

    def _is_work_left(self) -> bool:
        return self._writer is not None and self._checkpoint_due(self._writer.connection)

    def _checkpoint_due(self, connection: sqlite3.Connection) -> bool:
        # A changed row is about one page; many rows of one page are counted too often.
        if connection.total_changes - self._copied_changes > CHECKPOINT_PAGES:
            return True
        try:
            return os.stat(self._wal_text).st_size > WAL_BYTES
        except OSError:
            return False

    def _checkpoint(self, connection: sqlite3.Connection) -> None:
        """Copy the WAL into the file, so that it is begun again."""
        self._copied_changes = connection.total_changes
        if os.stat(self._wal_text).st_size <= WAL_BYTES:
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            return
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        # While the file is open for writing, its log is never empty: a log that is missing after
        # a crash was lost.
        self._write_mark(connection)

    # Closing

    async def close(self) -> None:
        """Answer the jobs that wait, then close: readers first, the writer last."""
        await self.finish_writing()
        if self._verification is not None:
            self._verification.cancel()
            await asyncio.wait([self._verification])
        self._loop_reader.close()
        if self._closing is not None:
            await asyncio.wait([self._closing])
        for reader in self._all_readers:
            await _close(reader)
        self._all_readers.clear()
        self._idle_readers.clear()
        if self._writer is not None:
            await _close(self._writer)
            self._writer = None
        if self._inode not in ((0, 0), self._identity_on_disk()):
            keep_log(self.path)
        elif isinstance(self._finding, DatabaseDamaged):
            self._known.remember(self.path, self._finding.message)
        elif self._unverified is None and not self.suspect:
            self._known.remember(self.path)


async def _close(connection: Connection) -> None:
    with contextlib.suppress(sqlite3.Error):
        await connection.close()


async def _close_failed(writer: Connection) -> None:
    """
    Close a writer after a failed write or sync; the next group opens another one.

    Nothing that this connection says can be relied on, and nobody knows how much of the file the
    kernel still has.
    """
    with contextlib.suppress(Exception):
        await writer.close()


def _is_io_error(error: Exception) -> bool:
    return code_of(error) == sqlite3.SQLITE_IOERR
