"""
The data directory: its lock, the paths in it, and its trash.

Databases are `<name>.db`; names that begin with a dot are the server's own. Only one server at a
time may use a directory: it has an operating-system lock on `.lock`. The lock ends with its
process, so that of a killed server is free again.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import stat
from pathlib import Path

from filelock import FileLock, Timeout

from valuetracker import durable
from valuetracker.errors import (
    DataDirectoryInUse,
    InvalidBody,
    PathInUse,
    PathNotAllowed,
    StartupError,
)

logger = logging.getLogger(__name__)

REGISTRY = ".registry.db"
LOCK = ".lock"
TRASH = "trash"
BACKUPS = "backups"
USERS = ".users"
# Every backup has such a file, and so have others; databases in a backup are copies.
MANIFEST = "manifest.json"
# The folders in a data directory that no database can lie in.
OWN = (TRASH, BACKUPS)
# The files by which people keep an empty directory.
KEPT_EMPTY = (".gitignore", ".gitkeep")
# The suffixes of files in which SQLite stores what is not yet in the main file.
COMPANIONS = ("-wal", "-shm", "-journal")
# The suffix of the copy that is made of a file before it is adopted.
ORIGINAL = ".original"
# In bytes. File systems allow 255, and the suffixes above must fit in as well, also those of a
# copy, `.new-<random>-<name>`.
LONGEST_NAME = 230


class DataDirectory:
    """One directory of databases, used by one process at a time."""

    def __init__(self, path: Path, allowed_roots: tuple[Path, ...] = ()) -> None:
        self.path = path.resolve()
        self._roots = (self.path, *(root.resolve() for root in allowed_roots))
        self._lock = FileLock(self.path / LOCK, mode=0o600, thread_local=False)
        # If there was something in the directory before this process locked it.
        self._was_used = False

    def for_user(self, handle: str) -> DataDirectory:
        """Return the directory for the databases of one user."""
        return DataDirectory(self.path / USERS / handle)

    def users(self) -> list[str]:
        """Return the users who have databases."""
        # The registry of one may be lost.
        found = (self.path / USERS).glob("*/*.db")
        return sorted({each.parent.name for each in found})

    # The lock

    def lock(self) -> None:
        """Make the directory if it is missing and lock it for this process, unless it is locked."""
        if self._lock.is_locked:
            return
        try:
            durable.make_folders(self.path)
            self._was_used = any(each.name not in KEPT_EMPTY for each in self.path.iterdir())
            self._restrict()
            self._lock.acquire(timeout=0)
            self._pid_file.write_text(str(os.getpid()))
            self._pid_file.chmod(0o600)
        except Timeout:
            raise DataDirectoryInUse(
                f"Another server (pid {self._pid()}) is using {self.path}."
            ) from None
        except OSError as error:
            raise StartupError(
                f"The data directory {self.path} cannot be used: {error.strerror}."
            ) from error
        self._remove_unfinished()

    def unlock(self) -> None:
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                self._pid_file.unlink()
            self._lock.release()

    @property
    def _pid_file(self) -> Path:
        return self.path / ".pid"

    def _pid(self) -> str:
        try:
            return self._pid_file.read_text().strip() or "unknown"
        except OSError:
            return "unknown"

    def _restrict(self) -> None:
        # A directory that was made for us is closed to others. One with other content (a home,
        # /tmp) is left as it is, with a warning.
        mode = stat.S_IMODE(self.path.stat().st_mode)
        if os.name != "posix" or not mode & 0o077:
            return
        names = {entry.name for entry in self.path.iterdir()}
        if REGISTRY in names or not names - {*KEPT_EMPTY, LOCK, ".pid"}:
            self.path.chmod(0o700)
        else:
            logger.warning("the data directory is readable by others", extra={"mode": f"{mode:o}"})

    def _remove_unfinished(self) -> None:
        # Databases are created under such a name and renamed when they are complete.
        for left in self.path.glob(".new-*"):
            with contextlib.suppress(OSError):
                left.unlink()

    # Paths

    @property
    def registry(self) -> Path:
        return self.path / REGISTRY

    def file(self, location: str) -> Path:
        """Return the path of a location; relative ones are inside the data directory."""
        return self.path / location

    def location_of(self, path: Path) -> str:
        """Return the location of a path; the opposite of `file`."""
        inside = path.is_relative_to(self.path)
        return path.relative_to(self.path).as_posix() if inside else str(path)

    def database_files(self) -> list[Path]:
        """
        Return the files that may be databases: with any name, wherever `locate` allows one.

        A directory that is used for the first time has none elsewhere; those that lie there, and
        all in the data directory of another server, are not ours.
        """
        found: dict[Path, None] = {}
        for root in self._roots if self._was_used else (self.path,):
            for folder, folders, names in os.walk(root):
                here = Path(folder)
                own = OWN if here == self.path else ()
                is_another = here != self.path and (REGISTRY in names or LOCK in names)
                if is_another or (MANIFEST in names and _is_backup(here / MANIFEST)):
                    folders.clear()
                    continue
                folders[:] = sorted(
                    each for each in folders if not (each.startswith(".") or each in own)
                )
                for name in sorted(names):
                    if not name.startswith(".") and not name.endswith((*COMPANIONS, ORIGINAL)):
                        found[here / name] = None
        return [path for path in found if path.is_file()]

    def locate(self, name: str, wanted: str | None) -> str:
        """Return the location of a new database: the default, or the wanted one if allowed."""
        if wanted is None:
            return f"{name}.db"
        if not wanted or "\x00" in wanted or len(wanted) > 4096:
            raise InvalidBody("dbPath must be a path.")
        try:
            # Links are resolved before the comparison, so none can lead outside.
            path = (self.path / wanted).resolve()
            is_directory = path.is_dir()
        except (OSError, RuntimeError, ValueError):
            raise PathNotAllowed() from None
        if path == self.registry:
            raise PathInUse("This file is the registry.")
        root = next((root for root in self._roots if path.is_relative_to(root)), None)
        if root is None or path == root:
            raise PathNotAllowed()
        if is_directory or wanted.endswith(("/", os.sep)):
            raise PathNotAllowed("dbPath names a directory.")
        if path.name.endswith((*COMPANIONS, ORIGINAL)):
            raise PathNotAllowed("The server keeps files of its own under such a name.")
        if len(os.fsencode(path.name)) > LONGEST_NAME:
            raise PathNotAllowed("The file name is too long.")
        if root == self.path:
            inside = path.relative_to(root)
            if any(part.startswith(".") for part in inside.parts) or inside.parts[0] in OWN:
                raise PathNotAllowed(
                    "Names that begin with a dot, `trash` and `backups` are the server's."
                )
            return inside.as_posix()
        return str(path)

    # The trash

    def discard(self, location: str, label: str) -> bool:
        """Move a file with its companions to the trash; return false if there is none."""
        path = self.file(location)
        found = [
            ending
            for ending in (*COMPANIONS, "")
            if os.path.lexists(path.with_name(path.name + ending))
        ]
        if not found:
            return False
        trash = self.path / TRASH
        durable.make_folders(trash)
        number = 1
        while list(trash.glob(f"{glob.escape(label)}.{number}.db*")):
            number += 1
        durable.move_files(
            (path.with_name(path.name + ending), trash / f"{label}.{number}.db{ending}")
            for ending in found
        )
        return True


def _is_backup(manifest: Path) -> bool:
    try:
        content = manifest.read_bytes()
    except OSError:
        return False
    return b'"createdAt"' in content and b'"sha256"' in content
