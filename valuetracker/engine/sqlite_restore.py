"""
Putting a copy in the place of an SQLite database: the old file or the new one, never half.

The copy is completed under another name beside the old file. Then it is announced: renamed to
`.restored-<name>`. From there on it counts: whoever uses the file next moves the old one to the
trash and gives the copy its name, if a process that was killed has not done so. So a kill before
the announcement leaves the old file as it was, and a kill after it leaves the new one.
"""

from __future__ import annotations

import glob
import hashlib
import os
import secrets
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from valuetracker import durable
from valuetracker.engine import Job
from valuetracker.engine.data_directory import DataDirectory
from valuetracker.engine.migrations import migrate
from valuetracker.engine.sqlite_connection import SQLiteTransaction, drive, roll_back
from valuetracker.engine.sqlite_file import (
    Schema,
    inspect,
    open_file,
    remove_unfinished,
    update_mark,
)
from valuetracker.failpoints import Failpoint

CHUNK_BYTES = 1024 * 1024

# Only one thread at a time finishes: a second would take the new file for the old one.
_finishing = threading.Lock()


def announced_of(path: Path) -> Path:
    return path.with_name(f".restored-{path.name}")


def copy_file(source: Path, path: Path) -> tuple[Path, str]:
    """Copy a file to a free name beside a path; return that name, and the SHA-256 of the bytes."""
    durable.make_folders(path.parent)
    copy = path.with_name(f".new-{secrets.token_hex(3)}-{path.name}")
    digest = hashlib.sha256()
    try:
        with (
            source.open("rb") as old,
            open(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as new,
        ):
            while piece := old.read(CHUNK_BYTES):
                digest.update(piece)
                new.write(piece)
        durable.sync_file(copy)
    except BaseException:
        remove_unfinished(copy)
        raise
    return copy, digest.hexdigest()


def remove_unfinished_copies(path: Path) -> None:
    """Remove the copies for a path that a killed process has not completed."""
    for left in path.parent.glob(f".new-??????-{glob.escape(path.name)}"):
        remove_unfinished(left)


def adapt_copy(copy: Path, schema: Schema, identity: str, job: Job[Any]) -> None:
    """Give a copy another identity, and write with `job` what else must be another in it."""
    failpoint = Failpoint.from_environment()
    with closing(open_file(copy, read_only=False)) as connection:
        migrate(connection, schema.migrations, failpoint)
        new = inspect(connection, schema)._replace(identity=identity, opening="")
        connection.execute("BEGIN IMMEDIATE")
        try:
            update_mark(connection, new)
            drive(job(SQLiteTransaction(connection)))
            connection.execute("COMMIT")
        except BaseException:
            roll_back(connection)
            raise
    durable.sync_file(copy)
    failpoint.reach("restore_prepared")


def replace_file(directory: DataDirectory, location: str, copy: Path) -> None:
    """Put a complete copy in the place of a database that nobody has open."""
    path = directory.file(location)
    announced = announced_of(path)
    with _finishing:
        durable.rename(copy, announced)
        Failpoint.from_environment().reach("restore_announced")
        try:
            _finish(directory, location)
        except OSError:
            # The old file goes on, unless it is in the trash already.
            if path.exists():
                announced.unlink(missing_ok=True)
            raise


def finish(directory: DataDirectory, location: str) -> None:
    """Finish what was announced for a location, if there is something."""
    with _finishing:
        # Another thread may have finished it meanwhile.
        if announced_of(directory.file(location)).exists():
            _finish(directory, location)


def _finish(directory: DataDirectory, location: str) -> None:
    path = directory.file(location)
    directory.discard(location, path.name.removesuffix(".db"))
    Failpoint.from_environment().reach("restore_discarded")
    durable.rename(announced_of(path), path)
    Failpoint.from_environment().reach("restore_renamed")
