"""
Adopting a file that another program made: its rows become a new file, which takes its name.

The file itself is never converted. Kill the process or cut the power at any moment: there is the
original, which can be adopted again, or the finished new file.

1. The original becomes one file: SQLite takes in what an interrupted program left in its
   companions (`-journal`, `-wal`). Those belong to it by their names alone, so none of them may
   be there when another file takes the name. From here on the original is locked.
2. The new file is written under another name, and synced. What is found under that name is left
   from an adoption that did not end.
3. The original gets a second name, `<name>.original`, and the directory is synced.
4. The new file is renamed to the original's name, which replaces that in one step, and the
   directory is synced again.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO

from valuetracker import durable
from valuetracker.engine import Conversion, Job, Row, Transaction
from valuetracker.engine.data_directory import COMPANIONS, ORIGINAL
from valuetracker.engine.sqlite_connection import SQLiteTransaction, drive, in_thread
from valuetracker.engine.sqlite_file import (
    Schema,
    build,
    check_header,
    open_file,
    remove_unfinished,
    unfinished_of,
)
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseUnavailable
from valuetracker.failpoints import Failpoint

CHUNK_BYTES = 1024 * 1024


class SQLiteOriginal(SQLiteTransaction):
    """The rows of the original. Only temporary tables can be written."""

    __slots__ = ()

    def stream(self, statement: Statement, **parameters: Any) -> Iterator[Row]:
        return self._connection.execute(statement.sqlite, statement.values(parameters))


async def can_adopt(path: Path, recognise: Job[bool]) -> bool:
    """Return true if another program made the file and `recognise` accepts it."""
    # 0 is the application id of a file whose program set none.
    if check_header(path) != 0:
        return False
    return await in_thread(lambda: _recognise(path, recognise))


def _recognise(path: Path, recognise: Job[bool]) -> bool:
    path = path.resolve()
    if _beside(path, "-journal").exists():
        # A transaction was not finished. Only a connection that may write can undo it.
        with closing(open_file(path, read_only=False)) as connection:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    with closing(open_file(path, read_only=True)) as connection:
        return drive(recognise(SQLiteTransaction(connection)))


async def adopt(
    path: Path, name: str, identity: str, schema: Schema, at: str, convert: Conversion
) -> None:
    """Put a database with the rows that `convert` writes in the place of the file."""
    adoption = _Adoption(path, name, identity, schema, at, convert)
    await in_thread(adoption.run)


class _Adoption:
    """One adoption; see the steps above."""

    def __init__(
        self, path: Path, name: str, identity: str, schema: Schema, at: str, convert: Conversion
    ) -> None:
        # A link to the file stays: SQLite keeps companions beside the file itself, too.
        self._path = path = path.resolve()
        self._copy = _beside(path, ORIGINAL)
        # True once this adoption, and none before it, has made the copy.
        self._keeps = False
        self._unfinished = unfinished_of(path)
        self._name, self._identity, self._at = name, identity, at
        self._schema = schema
        self._convert = convert
        self._failpoint = Failpoint.from_environment()

    def run(self) -> None:
        with contextlib.ExitStack() as stack:
            # To close any handle of a file ends all locks that the process has on it: so this
            # one stays open for as long as the lock is needed.
            content = stack.enter_context(self._path.open("rb"))
            lock = stack.enter_context(closing(open_file(self._path, read_only=False)))
            self._fold(lock)
            self._failpoint.reach("adoption_folded")
            try:
                self._write()
                self._failpoint.reach("adoption_written")
                self._keep(content)
                self._failpoint.reach("adoption_kept")
                if os.name != "posix":
                    # Elsewhere a file that is open cannot be replaced.
                    stack.close()
                self._unfinished.replace(self._path)
            except BaseException:
                if self._keeps:
                    with contextlib.suppress(OSError):
                        self._copy.unlink()
                raise
            finally:
                remove_unfinished(self._unfinished)
            self._failpoint.reach("adoption_renamed")
            durable.sync_name(self._path)

    # 1. The original becomes one file

    def _fold(self, connection: sqlite3.Connection) -> None:
        # SQLite refuses to end the log of a file that another program has open.
        connection.execute("PRAGMA journal_mode = DELETE").fetchone()
        # From here on nobody else can begin to write.
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            raise DatabaseUnavailable("Another program has the file open.")
        # SQLite has taken in what they hold; it leaves empty ones behind.
        durable.remove_files(_beside(self._path, ending) for ending in COMPANIONS)

    # 2. The new file is written

    def _write(self) -> None:
        remove_unfinished(self._unfinished)
        os.close(os.open(self._unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            closing(open_file(self._path, read_only=True)) as source,
            closing(open_file(self._unfinished, read_only=False)) as target,
        ):
            source.execute("PRAGMA query_only = OFF")
            source.execute("PRAGMA temp_store = FILE")
            # Nobody ever checked that the texts are UTF-8.
            source.text_factory = bytes
            source.execute("BEGIN")
            original = SQLiteOriginal(source)

            async def setup(transaction: Transaction) -> None:
                await self._convert(transaction, original)
                self._failpoint.reach("mid_adoption")

            # Until it is complete nobody needs what is in it, so nothing is made undoable.
            target.execute("PRAGMA locking_mode = EXCLUSIVE")
            target.execute("PRAGMA journal_mode = OFF")
            target.execute("PRAGMA synchronous = OFF")
            build(target, self._name, self._identity, self._schema, self._at, setup)
        durable.sync_file(self._unfinished)

    # 3. The original is kept

    def _keep(self, content: BinaryIO) -> None:
        self._path.chmod(0o600)
        # It may be left from an earlier try, and the file may have been written to since.
        if self._copy.exists() and not self._is_kept(content):
            durable.rename(self._copy, _beside(self._copy, f"-{secrets.token_hex(4)}"))
        if not self._copy.exists():
            self._keeps = True
            try:
                os.link(self._path, self._copy)
            except OSError as error:
                if error.errno not in durable.NO_LINKS:
                    raise
                self._copy_content(content)
        if os.name == "posix":
            # The program that wrote it need not have synced it.
            os.fsync(content.fileno())
        durable.sync_name(self._copy)

    def _copy_content(self, content: BinaryIO) -> None:
        draft = _beside(self._unfinished, ORIGINAL)
        try:
            content.seek(0)
            flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY
            with open(os.open(draft, flags, 0o600), "wb") as target:
                shutil.copyfileobj(content, target, CHUNK_BYTES)
            durable.put_in_place(draft, self._copy)
        finally:
            draft.unlink(missing_ok=True)

    def _is_kept(self, content: BinaryIO) -> bool:
        """Return true if the copy that is there is of these bytes."""
        if self._copy.samefile(self._path):
            return True
        content.seek(0)
        with self._copy.open("rb") as copy:
            while chunk := content.read(CHUNK_BYTES):
                if chunk != copy.read(CHUNK_BYTES):
                    return False
            return not copy.read(1)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)
