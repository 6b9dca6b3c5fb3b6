"""
Spools: content that is too large for memory, on its way in or out.

A spool is a temporary file without a name. It is gone as soon as nobody has it open, also when
the process is killed. It lies where the databases lie: that disk has space for such amounts.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from valuetracker.durable import FULL
from valuetracker.errors import StorageFull

# A spool leaves this much of the disk to the databases. It looks after every so many bytes.
SPARED_BYTES = 64 * 1024 * 1024
LOOKS_EVERY = 8 * 1024 * 1024
PIECE_BYTES = 256 * 1024


class Spool:
    """A temporary file that is written from the beginning to the end, and then read."""

    def __init__(self, folder: Path | None = None) -> None:
        usable = folder if folder is not None and folder.is_dir() else None
        with _full_disk_refused():
            # The buffer of a file could fail to be written when the file is closed.
            self.file: IO[bytes] = tempfile.TemporaryFile(  # noqa: SIM115
                dir=usable, buffering=0
            )
        self.size = 0
        self._looked_at = 0

    def write(self, piece: bytes) -> None:
        """Add bytes; raise if the disk is full, or nearly so."""
        with _full_disk_refused():
            rest = memoryview(piece)
            while rest:
                rest = rest[self.file.write(rest) :]
        self.size += len(piece)
        if self.size >= self._looked_at + LOOKS_EVERY:
            self._looked_at = self.size
            if self._free_bytes() < SPARED_BYTES:
                raise StorageFull("There is not enough space left for content of this size.")

    def _free_bytes(self) -> int:
        if not hasattr(os, "fstatvfs"):
            return SPARED_BYTES
        found = os.fstatvfs(self.file.fileno())
        return found.f_bavail * found.f_frsize

    def rewind(self) -> None:
        self.file.seek(0)

    def read(self, size: int = PIECE_BYTES) -> bytes:
        return self.file.read(size)

    def close(self) -> None:
        self.file.close()

    def __del__(self) -> None:
        # A request may be refused, or its client may leave, wherever its spool is by then.
        if hasattr(self, "file"):
            self.file.close()


@contextlib.contextmanager
def _full_disk_refused() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull() from error
        raise
