"""
Files that survive a power cut: making folders, and creating, replacing, moving and removing files.

A disk stores the bytes of a file and its name in a folder separately, and each only for certain
after a sync of its own. So every function here syncs the bytes first, then the folder that holds
the name. When it returns, a power cut changes nothing any more; before that, there is the old
state or the new one. Whatever the server writes goes through here, except for what SQLite writes.

Windows cannot sync a folder. There a file is synced again under its new name, which also writes
what the file system knows of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

CAN_SYNC_FOLDERS = os.name == "posix"
# Errors of file systems that cannot sync a folder: they have no better way.
NO_SYNC = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS}
# Errors of `os.link` where a file cannot get a second name, or not in that folder.
NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EINVAL,
    errno.EXDEV,
}
FULL = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


def make_folders(path: Path, mode: int = 0o700) -> None:
    """Make a folder and those above it that are missing, all with this mode."""
    missing: list[Path] = []
    there = path
    while not there.exists() and there != there.parent:
        missing.append(there)
        there = there.parent
    # An earlier call may have been interrupted between making this one and the sync.
    with contextlib.suppress(PermissionError):
        sync_folder(there.parent)
    for folder in reversed(missing):
        folder.mkdir(mode=mode, exist_ok=True)
        sync_folder(folder.parent)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Create or replace a file."""
    unfinished = path.with_name(f".new-{secrets.token_hex(8)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(unfinished, flags, mode), "wb") as file:
            file.write(content)
        put_in_place(unfinished, path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink()


def put_in_place(unfinished: Path, path: Path) -> None:
    """Give a finished file of the same folder its name; replace the file that has it."""
    sync_file(unfinished)
    rename(unfinished, path)


def rename(old: Path, new: Path) -> None:
    """Rename a file that is synced inside its folder; replace the file that has the name."""
    old.replace(new)
    sync_name(new)


def move_files(moves: Iterable[tuple[Path, Path]]) -> None:
    """
    Move files to names that are free, maybe in other folders.

    Every file is under its new name before the first loses its old one, so that a power cut
    never separates files that belong together.
    """
    moves = list(moves)
    try:
        for old, new in moves:
            _link_or_copy(old, new)
            sync_name(new)
    except BaseException:
        for old, new in moves:
            # What could not be linked or copied was moved, and is nowhere else.
            if os.path.lexists(old):
                with contextlib.suppress(OSError):
                    new.unlink()
        raise
    remove_files(old for old, _ in moves)


def _link_or_copy(old: Path, new: Path) -> None:
    if old.is_symlink() or not old.is_file():
        # A link or a folder has no bytes of its own to lose.
        shutil.move(old, new)
        return
    try:
        os.link(old, new)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        shutil.copy2(old, new)
    sync_file(new)


def remove_files(paths: Iterable[Path]) -> None:
    """Remove files that may be missing, in this order."""
    paths = list(paths)
    for path in paths:
        path.unlink(missing_ok=True)
    for folder in {path.parent for path in paths}:
        sync_folder(folder)


def sync_name(path: Path) -> None:
    """Make the name of a file that was synced, and names removed from its folder, durable."""
    if CAN_SYNC_FOLDERS:
        sync_folder(path.parent)
    elif path.is_file():
        sync_file(path)


def sync_folder(folder: Path | int) -> None:
    """Make the names in a folder durable, which may be given by its descriptor."""
    if not CAN_SYNC_FOLDERS:
        return
    descriptor = folder if isinstance(folder, int) else os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_SYNC:
            raise
    finally:
        if descriptor is not folder:
            os.close(descriptor)


def sync_file(path: Path) -> None:
    # Windows flushes only through a handle that may write.
    with path.open("r+b") as handle:
        os.fsync(handle.fileno())
