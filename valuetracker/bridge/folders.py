"""
Folders that are read and written without following symbolic links.

A path is opened one name at a time, each relative to the folder before it, and a link is
never followed. So nobody can insert a link between a check and the write. Where the system
cannot open relative to a folder (Windows), each name is checked first. A file is written
under a temporary name and then renamed, so a reader finds the old content or the new one. The
folder is synced after each change, so that a power cut does not undo it.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from valuetracker import durable
from valuetracker.errors import (
    NotWritable,
    SourceNotFound,
    StorageFull,
    SymlinkRefused,
    ValueTrackerError,
)

FILE_BYTES = 64 * 1024 * 1024
# True where the system can open relative to an open folder.
RELATIVE = os.open in os.supports_dir_fd
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
BINARY = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
# Non-blocking: to open a pipe would wait for a process at its other end.
READ = os.O_RDONLY | NO_FOLLOW | BINARY | getattr(os, "O_NONBLOCK", 0)
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | BINARY


class Folder:
    """An open folder. Use it, and every child it returns, as a context manager."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, root: Path, names: tuple[str, ...] = (), create: bool = False) -> Folder:
        """Open the folder that these names lead to from a root; the root itself may be a link."""
        try:
            with translating_errors(root):
                descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY) if RELATIVE else None
                if not RELATIVE and not root.is_dir():
                    raise FileNotFoundError(errno.ENOENT, "no such folder")
        except FileNotFoundError:
            raise SourceNotFound(f"There is no folder {root}.") from None
        folder = cls(root, descriptor)
        for name in names:
            with folder:
                folder = folder.child(name, create)
        return folder

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # Each system call gets a name and, where possible, the open folder it is relative to.

    def _at(self, name: str) -> Path | str:
        assert name not in ("", ".", "..")
        assert "/" not in name
        assert os.sep not in name
        return name if RELATIVE else self.path / name

    def _stat(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _refuse_link(self, name: str) -> None:
        found = self._stat(name)
        if found is not None and stat.S_ISLNK(found.st_mode):
            raise SymlinkRefused(f"{self.path / name} is a symbolic link.")

    def child(self, name: str, create: bool = False) -> Folder:
        with translating_errors(self.path / name):
            self._refuse_link(name)
            if create:
                try:
                    os.mkdir(self._at(name), dir_fd=self._descriptor)
                except FileExistsError:
                    self._refuse_link(name)
                self._sync()
            if not RELATIVE:
                if not (self.path / name).is_dir():
                    raise FileNotFoundError(errno.ENOENT, "no such folder")
                return Folder(self.path / name, None)
            flags = os.O_RDONLY | os.O_DIRECTORY | NO_FOLLOW
            return Folder(self.path / name, os.open(name, flags, dir_fd=self._descriptor))

    def has(self, name: str) -> bool:
        with translating_errors(self.path / name):
            return self._stat(name) is not None

    def names(self) -> list[str]:
        with translating_errors(self.path):
            return sorted(os.listdir(self.path if self._descriptor is None else self._descriptor))

    def is_folder(self, name: str) -> bool:
        with translating_errors(self.path / name):
            found = self._stat(name)
            return found is not None and stat.S_ISDIR(found.st_mode)

    def files(self, above: str = "") -> Iterator[tuple[str, bytes]]:
        """Yield all files below with their bytes, in order. Skip hidden names, refuse links."""
        for name in self.names():
            if name.startswith("."):
                continue
            self._refuse_link(name)
            if self.is_folder(name):
                with self.child(name) as child:
                    yield from child.files(f"{above}{name}/")
            else:
                content = self.read(name)
                if content is not None:
                    yield above + name, content

    def read(self, name: str, follow: bool = False) -> bytes | None:
        """Return the content of a file, None if there is none; refuse a link unless `follow`."""
        with translating_errors(self.path / name):
            if not follow:
                self._refuse_link(name)
            flags = READ & ~NO_FOLLOW if follow else READ
            try:
                descriptor = os.open(self._at(name), flags, dir_fd=self._descriptor)
            except FileNotFoundError:
                return None
            with open(descriptor, "rb") as file:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES:
                    raise NotWritable(f"{self.path / name} is not a file that can be used.")
                return file.read(FILE_BYTES)

    def write(self, name: str, content: bytes, replace: bool = True) -> None:
        """Write a file completely, or leave it as it was."""
        with translating_errors(self.path / name):
            self._refuse_link(name)
            if self.is_folder(name):
                raise NotWritable(f"{self.path / name} is a folder.")
            temporary = f".{name[:100]}.{secrets.token_hex(6)}.tmp"
            descriptor = os.open(self._at(temporary), CREATE, 0o644, dir_fd=self._descriptor)
            try:
                with open(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(descriptor)
                self._rename(temporary, name, replace)
                self._sync()
            except BaseException:
                self.remove(temporary)
                raise

    def _rename(self, old: str, new: str, replace: bool) -> None:
        source, target, at = self._at(old), self._at(new), self._descriptor
        if replace:
            os.replace(source, target, src_dir_fd=at, dst_dir_fd=at)
        elif RELATIVE:
            # A rename would replace a file that was created meanwhile; a hard link does not.
            try:
                os.link(source, target, src_dir_fd=at, dst_dir_fd=at)
            except OSError as error:
                if error.errno not in durable.NO_LINKS:
                    raise
                if self._stat(new) is not None:
                    raise FileExistsError(errno.EEXIST, "it exists") from None
                os.replace(source, target, src_dir_fd=at, dst_dir_fd=at)
            else:
                os.unlink(source, dir_fd=at)
        else:
            # On Windows this does not replace.
            os.rename(source, target)

    def remove(self, name: str) -> None:
        with translating_errors(self.path / name):
            try:
                os.unlink(self._at(name), dir_fd=self._descriptor)
            except FileNotFoundError:
                return
            self._sync()

    def remove_folder(self, name: str) -> bool:
        """Remove a folder if it is empty; return false if it is not."""
        with translating_errors(self.path / name):
            try:
                os.rmdir(self._at(name), dir_fd=self._descriptor)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.ENOTDIR):
                    return False
                raise
            self._sync()
            return True

    def _sync(self) -> None:
        durable.sync_folder(self.path if self._descriptor is None else self._descriptor)


@contextmanager
def translating_errors(path: Path) -> Iterator[None]:
    """Turn errors of the system into ours, except that a file is missing or exists already."""
    try:
        yield
    except ValueTrackerError:
        raise
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        why = error.strerror or type(error).__name__
        if error.errno in durable.FULL:
            raise StorageFull() from error
        if error.errno == errno.ELOOP:
            raise SymlinkRefused(f"{path} is a symbolic link.") from error
        raise NotWritable(f"{path} cannot be used: {why}.") from error
