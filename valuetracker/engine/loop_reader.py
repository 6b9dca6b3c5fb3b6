"""
The reader of the event loop: reads a few rows without changing to a thread.

To begin and end a transaction costs as much as to read a row, so its transaction stays open until
the database says that there is something new (`end_snapshot`). If the disk is slow, or the values
are large, the event loop must not wait for them: reads go to a thread for a while.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from valuetracker.engine import Job, NotVerifiedYet, TooLong
from valuetracker.engine.sqlite_connection import SQLiteTransaction, drive
from valuetracker.engine.sqlite_file import code_of, open_file
from valuetracker.errors import ValueTrackerError

T = TypeVar("T")

# If reads take the event loop longer than this, they leave it for a while.
SLOW_SECONDS = 0.002
SLOW_PAUSE_SECONDS = 1.0
# A snapshot that is older is ended also if this process has committed nothing: a person may have
# changed the file with a tool.
SNAPSHOT_SECONDS = 0.25


class LoopReader:
    """One connection of the event loop, which cannot write."""

    def __init__(
        self, path: Path, transaction: Callable[[sqlite3.Connection], SQLiteTransaction]
    ) -> None:
        self._path = path
        # Makes the transaction of a connection, or refuses to.
        self._transaction = transaction
        self._connection: sqlite3.Connection | None = None
        self._snapshot: SQLiteTransaction | None = None
        self._begun = 0.0
        # About how long a read takes, and when the next one may begin.
        self._seconds = 0.0
        self._slow_until = 0.0

    def read(self, job: Job[T]) -> T | None:
        """Run a job, or return None if the event loop should not wait for it."""
        started = time.monotonic()
        if started < self._slow_until:
            return None
        try:
            if started > self._begun + SNAPSHOT_SECONDS:
                self.end_snapshot()
            if self._snapshot is None:
                self._snapshot = self._begin()
                self._begun = started = time.monotonic()
            return drive(job(self._snapshot))
        except (ValueTrackerError, TooLong, NotVerifiedYet):
            raise
        except Exception as error:
            self.end_snapshot()
            if code_of(error) == sqlite3.SQLITE_BUSY:
                return None
            raise
        finally:
            ended = time.monotonic()
            # An average, because another process may have had the processor once.
            took = min(ended - started, 4 * SLOW_SECONDS)
            self._seconds += (took - self._seconds) / 16
            if self._seconds > SLOW_SECONDS:
                self._seconds = 0.0
                self._slow_until = ended + SLOW_PAUSE_SECONDS

    def _begin(self) -> SQLiteTransaction:
        if self._connection is None:
            # Another program may have locked the file: only a thread waits for it.
            self._connection = open_file(self._path, read_only=True, busy_ms=0)
        transaction = self._transaction(self._connection)
        self._connection.execute("BEGIN")
        return transaction

    def end_snapshot(self) -> None:
        """
        Let the next read see what has been committed.

        Also called before a group: SQLite begins the WAL again only while nobody reads it.
        """
        if self._connection is not None and self._snapshot is not None:
            self._snapshot = None
            with contextlib.suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self.end_snapshot()
        if self._connection is not None:
            self._connection.close()
            self._connection = None
