"""
The files of a backup: writing, measuring and checking them.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import IO

from valuetracker import durable
from valuetracker.errors import DatabaseDamaged, StorageFull
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.transfer.exporting import write_lines
from valuetracker.store.transfer.lines import Lines, LineWriter
from valuetracker.store.transfer.part import Wanted

CHUNK_BYTES = 1024 * 1024


def meaning(error: BaseException) -> BaseException:
    """Return the error that a caller gets for an error of the file system."""
    if isinstance(error, OSError) and error.errno in durable.FULL:
        return StorageFull()
    if isinstance(error, OSError):
        return DatabaseDamaged(f"The folder of the backups cannot be used: {error.strerror}.")
    return error


def measure(path: Path) -> tuple[int, str]:
    """Return the size of a file, and its SHA-256."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            digest.update(piece)
            size += len(piece)
    return size, digest.hexdigest()


# On PostgreSQL


async def export_to(tx: Snapshot, extension_id: str, path: Path) -> int:
    """Write an export with operations to a new file; return the revision that it is of."""
    with new_file(path) as file:
        return await write_lines(tx, extension_id, Wanted(), True, LineWriter(file))


def new_file(path: Path) -> IO[bytes]:
    return open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb")


def sync(path: Path) -> None:
    """Make a file and its name durable."""
    durable.sync_file(path)
    durable.sync_name(path)


def check_export(path: Path) -> None:
    """Refuse an export that is not whole."""
    with path.open("rb") as file:
        Lines(FileContent(file, path.stat().st_size)).check()


class FileContent:
    """A file as `Lines` reads it."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self.size = size

    def rewind(self) -> None:
        self._file.seek(0)

    def read(self, size: int = CHUNK_BYTES) -> bytes:
        return self._file.read(size)
