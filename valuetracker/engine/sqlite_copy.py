"""
Copies of an SQLite database that is in use: one consistent state, in one file.

All pages are copied in one step, inside one reading transaction: writers go on, and a copy in
several steps would begin again after each of their commits. The copy is a file without a log
beside it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from valuetracker import durable
from valuetracker.engine import Job
from valuetracker.engine.sqlite_connection import SQLiteTransaction, drive
from valuetracker.engine.sqlite_file import (
    Mark,
    Schema,
    inspect,
    open_file,
    remove_unfinished,
    unfinished_of,
)
from valuetracker.engine.sqlite_verification import verify_file

T = TypeVar("T")


def copy_database(source: sqlite3.Connection, path: Path) -> None:
    """Copy a database to a path that is free, and sync the copy and its name."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    with closing(open_file(path, read_only=False)) as target:
        # Until it is complete nobody needs what is in it, so nothing is made undoable.
        target.execute("PRAGMA locking_mode = EXCLUSIVE")
        target.execute("PRAGMA journal_mode = OFF")
        target.execute("PRAGMA synchronous = OFF")
        source.backup(target, pages=-1)
        target.execute("PRAGMA journal_mode = DELETE").fetchone()
    durable.sync_file(path)
    durable.sync_name(path)


def keep_version(source: sqlite3.Connection, path: Path, version: int) -> None:
    """Keep a copy of a file beside it, before a migration makes another version of it."""
    unfinished = unfinished_of(path)
    remove_unfinished(unfinished)
    try:
        copy_database(source, unfinished)
        durable.rename(unfinished, path.with_name(f"{path.name}.v{version}"))
    finally:
        remove_unfinished(unfinished)


def verify_copy(path: Path, schema: Schema, job: Job[T]) -> T:
    """Verify a copy as a file is verified when it is opened, and return what `job` reads in it."""
    verify_file(path, schema)
    return read_copy(path, schema, job)[1]


def read_copy(path: Path, schema: Schema, job: Job[T]) -> tuple[Mark, T]:
    """Return the mark of a file, and what `job` reads in it."""
    with closing(open_file(path, read_only=True)) as connection:
        return inspect(connection, schema), drive(job(SQLiteTransaction(connection)))
