"""
Verifying an SQLite file: all that is checked before its content is relied on.

SQLite finds what has a checksum (the frames of the log) and what contradicts itself (pages,
indexes). It does not notice a flipped bit in a row, a changed schema, or a log that ends too
early. So a file is verified completely when it is opened, in this order:

    check_log        the log beside the file, which SQLite would shorten without a word
    check_structure  version, schema, and `PRAGMA integrity_check`
    RowVerification  the checksum of every row, in slices if need be

Nothing here writes to the file. Each finding is a `DatabaseDamaged` that says what and where.
"""

from __future__ import annotations

import functools
import math
import os
import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from valuetracker.engine import TableCheck
from valuetracker.engine.migrations import Migration, apply, check_version, version_of
from valuetracker.engine.sqlite_file import (
    APPLICATION_ID,
    MARK,
    Schema,
    check_application_id,
    check_header,
    open_file,
    page_size_of,
    wal_of,
)
from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.failpoints import Failpoint

# SQLite cannot reach the file now, which says nothing about its content.
UNREACHABLE = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN}
FINDINGS_NAMED = 3
KEY_LENGTH = 200

# The log: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
LOG_HEADER_BYTES = 32
FRAME_HEADER_BYTES = 24
LOG_VERSION = 3_007_000
# The first number of a log says in which byte order its checksums are computed.
LITTLE_ENDIAN, BIG_ENDIAN = 0x377F0682, 0x377F0683
# Where the index of the log (`-shm`) has the number of frames that SQLite accepted.
ACCEPTED_FRAMES_OFFSET = 16


def verify_file(path: Path, schema: Schema) -> None:
    """Verify a file that nobody has open; raise if it is damaged."""
    if check_header(path) != APPLICATION_ID:
        raise DatabaseDamaged("The file is not a database of Value Tracker.")
    check_log(path)
    with closing(open_file(path, read_only=True)) as connection:
        if check_structure(connection, schema):
            RowVerification(schema).run(connection)


@contextmanager
def judging(what: str) -> Iterator[None]:
    """Report any failure as damage, unless SQLite cannot reach the file."""
    try:
        yield
    except ValueTrackerError:
        raise
    except Exception as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in UNREACHABLE:
            raise
        raise DatabaseDamaged(f"SQLite cannot read {what}.") from error


# The structure


@dataclass(frozen=True)
class Layout:
    """The objects that a database consists of, and the primary key of each table."""

    objects: dict[tuple[str, str], tuple[str, str | None]]
    keys: dict[str, tuple[str, ...]]


@functools.lru_cache
def layouts_of(migrations: tuple[Migration, ...]) -> dict[int, Layout]:
    """Return the layout after each migration."""
    layouts: dict[int, Layout] = {}
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for migration in migrations:
            apply(connection, migration, Failpoint(None))
            objects = objects_of(connection)
            keys = {name: _key_of(connection, name) for kind, name in objects if kind == "table"}
            layouts[migration.number] = Layout(objects, keys)
    return layouts


def objects_of(connection: sqlite3.Connection) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return tables, indexes and views by type and name: the table of each, and its text."""
    # SQLite adds tables of its own, for example for ANALYZE.
    found = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema"
        " WHERE type <> 'table' OR name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    return {(kind, name): (table, text) for kind, name, table, text in found}


def _key_of(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    found = connection.execute(
        "SELECT name FROM pragma_table_info(?) WHERE pk ORDER BY pk", (table,)
    )
    return tuple(name for (name,) in found)


def check_structure(connection: sqlite3.Connection, schema: Schema) -> bool:
    """
    Check version, schema, pages and indexes.

    Returns false if the file is of an older version: then its rows can be verified only after
    the migrations.
    """
    with judging("the schema"):
        check_application_id(connection)
        version = version_of(connection)
        check_version(version, schema.migrations)
        layout = layouts_of(schema.migrations).get(version)
        if layout is None:
            raise DatabaseDamaged("The number of the schema is wrong.")
        found = objects_of(connection)
        # A damaged name may be anything, also a number.
        for kind, name in sorted(found.keys() | layout.objects.keys(), key=repr):
            if found.get((kind, name)) != layout.objects.get((kind, name)):
                raise DatabaseDamaged(
                    f"The {kind} {str(name)[:KEY_LENGTH]} of the schema is wrong."
                )
    with judging("all pages"):
        findings = connection.execute(f"PRAGMA integrity_check({FINDINGS_NAMED})").fetchall()
    if findings != [("ok",)]:
        named = "; ".join(str(finding) for (finding,) in findings)
        raise DatabaseDamaged(f"SQLite's check of pages and indexes says: {named[:1000]}")
    return version == schema.migrations[-1].number


# The rows


class RowVerification:
    """
    Verifies the checksum of every row, table by table, in the order of the primary key.

    It can be stopped after any row. No transaction stays open until it is continued, so the log
    can be copied into the file meanwhile. Rows that were written since are the server's own.
    """

    def __init__(self, schema: Schema) -> None:
        layout = layouts_of(schema.migrations)[schema.migrations[-1].number]
        self._tables = [
            _Table(name, layout.keys[name], check)
            for name, check in {"file": MARK, **schema.tables}.items()
        ]
        # The key of the last row that was verified in the first of these tables.
        self._after: tuple[Any, ...] | None = None

    def run(self, connection: sqlite3.Connection, seconds: float = math.inf) -> bool:
        """Verify rows for as long as this, or a little longer; return true at the end."""
        end = time.monotonic() + seconds
        while self._tables:
            table = self._tables[0]
            self._after = table.verify(connection, self._after, end)
            if self._after is not None:
                return False
            self._tables.pop(0)
        return True


class _Table:
    """One table, and the statements that go through its rows."""

    def __init__(self, name: str, key: tuple[str, ...], check: TableCheck) -> None:
        self._name = name
        self._check = check
        self._places = [check.columns.index(column) for column in key]
        text = f"SELECT {', '.join(check.columns)} FROM {name}"
        order = f" ORDER BY {', '.join(key)}" if key else ""
        self._first = text + order
        marks = ", ".join("?" * len(key))
        self._next = f"{text} WHERE ({', '.join(key)}) > ({marks}){order}"

    def verify(
        self, connection: sqlite3.Connection, after: tuple[Any, ...] | None, end: float
    ) -> tuple[Any, ...] | None:
        """Verify rows until that time; return the key of the last one, or None at the end."""
        verify, clock, count = self._check.verify, time.monotonic, 0
        statement = self._first if after is None else self._next
        with (
            judging(f"the table {self._name}"),
            closing(connection.execute(statement, after or ())) as rows,
        ):
            for row in rows:
                try:
                    verify(row)
                except DatabaseDamaged as damage:
                    key = repr(self._key(row))[:KEY_LENGTH]
                    raise DatabaseDamaged(
                        f"The table {self._name} has a damaged row: {key}"
                    ) from damage
                count += 1
                if clock() >= end and self._places:
                    return self._key(row)
        # A table without a key holds one row about the database itself.
        if not self._places and count != 1:
            raise DatabaseDamaged(f"The table {self._name} has {count} rows in place of one.")
        return None

    def _key(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(row[place] for place in self._places)


# The log


def check_log(path: Path) -> None:
    """
    Check the log beside a file that no connection of this process has open.

    SQLite ends the log at the first frame that is wrong, as if it had never been written. In the
    last transaction that is likely: so ends the log of a killed process. But a transaction is
    begun only when the one before is complete, so if anything follows, the frame was right once.
    """
    try:
        log = wal_of(path).open("rb", buffering=0)
    except FileNotFoundError:
        return
    with log:
        size = log.seek(0, os.SEEK_END)
        # Without a frame there is nothing to lose.
        if size > LOG_HEADER_BYTES:
            _check_frames(path, log, size)


def _check_frames(path: Path, log: BinaryIO, size: int) -> None:
    page_size = page_size_of(path)
    header = _read(log, 0, LOG_HEADER_BYTES)
    _check_log_header(header, page_size)
    salts = header[16:20], header[20:24]
    frame_bytes = FRAME_HEADER_BYTES + page_size
    complete = False
    for number in range(_accepted_frames(path), (size - LOG_HEADER_BYTES) // frame_bytes):
        frame = _read(log, LOG_HEADER_BYTES + number * frame_bytes, FRAME_HEADER_BYTES)
        # Frames that are left from before the log was begun anew have two other salts.
        if frame[8:12] == salts[0] or frame[12:16] == salts[1]:
            if complete:
                raise DatabaseDamaged("The log beside the file is damaged before its end.")
            # The last frame of a transaction has the new size of the file here.
            complete = any(frame[4:8])


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def _check_log_header(header: bytes, page_size: int) -> None:
    magic, version, size = struct.unpack(">III", header[:12])
    one = other = 0
    order = ">" if magic == BIG_ENDIAN else "<"
    for first, second in struct.iter_unpack(f"{order}II", header[:24]):
        one = (one + first + other) & 0xFFFFFFFF
        other = (other + second + one) & 0xFFFFFFFF
    if (
        magic not in (LITTLE_ENDIAN, BIG_ENDIAN)
        or (version, size) != (LOG_VERSION, page_size)
        or (one, other) != struct.unpack(">II", header[24:])
    ):
        raise DatabaseDamaged("The log beside the file has a damaged header.")


def _accepted_frames(path: Path) -> int:
    """Return how many frames of the log SQLite accepts."""
    index = None
    connection = open_file(path, read_only=True)
    try:
        with judging("the log beside the file"):
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        index = path.with_name(path.name + "-shm").open("rb", buffering=0)
        accepted: int = struct.unpack("=I", _read(index, ACCEPTED_FRAMES_OFFSET, 4))[0]
        return accepted
    finally:
        connection.close()
        # To close any handle of this file ends the locks that SQLite has on it: so last of all.
        if index is not None:
            index.close()
