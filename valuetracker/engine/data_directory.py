"""
The data directory: who may use it, what lies where, and how files leave it.

Files are `<name>.db`; what begins with a dot is the server's own. One server at a time:
an operating-system lock on `.lock`, which dies with its holder, so a killed server's lock
is simply free again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from valuetracker.errors import (
    DataDirectoryInUse,
    InvalidBody,
    PathInUse,
    PathNotAllowed,
    StartupError,
)

logger = logging.getLogger(__name__)

REGISTRY = ".registry.db"
TRASH = "trash"
USERS = ".users"
# SQLite keeps what is not yet in the main file beside it, under these endings.
COMPANIONS = ("-wal", "-shm", "-journal")
# The copy that is kept of a file before it is adopted.
ORIGINAL = ".original"
# Bytes; file systems allow 255, and the endings above must fit in as well.
LONGEST_NAME = 240


class DataDirectory:
    """One directory of databases, held by this process alone."""

    def __init__(self, path: Path, allowed_roots: tuple[Path, ...] = ()) -> None:
        self.path = path.resolve()
        self._roots = (self.path, *(root.resolve() for root in allowed_roots))
        self._lock = FileLock(self.path / ".lock", mode=0o600, thread_local=False)

    def for_user(self, handle: str) -> DataDirectory:
        """Where the databases of one user lie, apart from everybody else's."""
        return DataDirectory(self.path / USERS / handle)

    # Holding it

    def hold(self) -> None:
        """Make the directory if need be and lock it for this process; again does nothing."""
        if self._lock.is_locked:
            return
        try:
            # The mode is that of the last one alone; a folder of users is as private.
            if self.path.parent.name == USERS:
                self.path.parent.mkdir(exist_ok=True, mode=0o700)
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._restrict()
            self._lock.acquire(timeout=0)
            self._pid_file.write_text(str(os.getpid()))
            self._pid_file.chmod(0o600)
        except Timeout:
            raise DataDirectoryInUse(
                f"Another server (pid {self._holder()}) is using {self.path}."
            ) from None
        except OSError as error:
            raise StartupError(
                f"The data directory {self.path} cannot be used: {error.strerror}."
            ) from error
        self._remove_unfinished()

    def release(self) -> None:
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                self._pid_file.unlink()
            self._lock.release()

    @property
    def _pid_file(self) -> Path:
        return self.path / ".pid"

    def _holder(self) -> str:
        try:
            return self._pid_file.read_text().strip() or "unknown"
        except OSError:
            return "unknown"

    def _restrict(self) -> None:
        # A directory that was made for us is closed to others. One that holds other
        # people's things too (somebody's home, /tmp) is left as it is, and said so.
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if os.name != "posix" or not mode & 0o077:
            return
        names = {entry.name for entry in self.path.iterdir()}
        if REGISTRY in names or not names - {".gitignore", ".gitkeep", ".lock", ".pid"}:
            self.path.chmod(0o700)
        else:
            logger.warning("the data directory is readable by others", extra={"mode": f"{mode:o}"})

    def _remove_unfinished(self) -> None:
        # Databases are made under such a name and renamed when whole.
        for left in self.path.glob(".new-*"):
            with contextlib.suppress(OSError):
                left.unlink()

    # Finding places in it

    @property
    def registry(self) -> Path:
        return self.path / REGISTRY

    def file(self, location: str) -> Path:
        """Where a location lies: relative ones are inside the data directory."""
        return self.path / location

    def locate(self, name: str, wanted: str | None) -> str:
        """The location of a database: its default place, or the wanted one if allowed."""
        if wanted is None:
            return f"{name}.db"
        if not wanted or "\x00" in wanted or len(wanted) > 4096:
            raise InvalidBody("dbPath must be a path.")
        try:
            # Links are followed before the comparison, so none can lead out.
            path = (self.path / wanted).resolve()
            is_directory = path.is_dir()
        except (OSError, RuntimeError, ValueError):
            raise PathNotAllowed() from None
        if path == self.registry:
            raise PathInUse("That file is the registry.")
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        if root is None or path == root:
            raise PathNotAllowed()
        if is_directory or wanted.endswith(("/", os.sep)):
            raise PathNotAllowed("dbPath names a directory.")
        if path.name.endswith((*COMPANIONS, ORIGINAL)):
            raise PathNotAllowed("The server keeps files of its own under such a name.")
        if len(os.fsencode(path.name)) > LONGEST_NAME:
            raise PathNotAllowed("The name of the file is too long.")
        if root == self.path:
            inside = path.relative_to(root)
            if any(part.startswith(".") for part in inside.parts) or inside.parts[0] == TRASH:
                raise PathNotAllowed("Names that begin with a dot, and `trash`, are the server's.")
            return inside.as_posix()
        return str(path)

    # Leaving it

    def discard(self, location: str, label: str) -> bool:
        """Move a file with its companions to the trash; whether there was one."""
        path = self.file(location)
        found = [
            ending
            for ending in (*COMPANIONS, "")
            if os.path.lexists(path.with_name(path.name + ending))
        ]
        if not found:
            return False
        trash = self.path / TRASH
        trash.mkdir(mode=0o700, exist_ok=True)
        number = 1
        while list(trash.glob(f"{label}.{number}.db*")):
            number += 1
        for ending in found:
            # It may lie on another file system, where a rename is not possible.
            target = trash / f"{label}.{number}.db{ending}"
            shutil.move(path.with_name(path.name + ending), target)
            if target.is_file():
                sync_file(target)
        sync_directory(trash)
        sync_directory(path.parent)
        return True


def sync_directory(path: Path) -> None:
    """Make renames in a directory survive a power cut, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_file(path: Path) -> None:
    # Windows flushes only through a handle that may write.
    with path.open("r+b") as handle:
        os.fsync(handle.fileno())
