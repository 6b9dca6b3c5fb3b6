"""
Repairing a damaged SQLite file: making anew what follows from its tables, and reading what is left.

Nothing here writes to the damaged file. A repaired file is a new one, which is verified completely
before anybody may put it in place.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from valuetracker import durable
from valuetracker.engine import Job, TableCheck
from valuetracker.engine.migrations import migrate, version_of
from valuetracker.engine.sqlite_connection import SQLiteTransaction, drive
from valuetracker.engine.sqlite_file import (
    APPLICATION_ID,
    Schema,
    check_header,
    inspect,
    open_file,
    remove_unfinished,
)
from valuetracker.engine.sqlite_verification import check_log, layouts_of, verify_file
from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.failpoints import Failpoint

Row = tuple[Any, ...]
CHUNK_ROWS = 500
# Called with the name of a table and a row of it that is intact.
Take = Callable[[str, Row], None]


def rebuild_file(path: Path, identity: str, schema: Schema, job: Job[Any]) -> Path:
    """
    Write a copy of a file with its indexes made anew, and return its name beside the file.

    `job` then makes anew what the store can. The copy is sound, or the damage is raised; a file of
    another identity is refused.
    """
    if check_header(path) != APPLICATION_ID:
        raise DatabaseDamaged("The file is not a database of Value Tracker.")
    check_log(path)
    copy = path.with_name(f".new-{secrets.token_hex(3)}-{path.name}")
    try:
        os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with (
            closing(open_file(path, read_only=True)) as source,
            closing(open_file(copy, read_only=False)) as target,
        ):
            if version_of(source) != schema.migrations[-1].number:
                raise DatabaseDamaged("A damaged file of an older version cannot be repaired.")
            if inspect(source, schema).identity != identity:
                raise DatabaseDamaged("The file is not the one that was registered.")
            target.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            migrate(target, schema.migrations, Failpoint(None))
            target.execute("BEGIN IMMEDIATE")
            for table in ("file", *schema.tables):
                _copy_table(source, target, table)
            drive(job(SQLiteTransaction(target)))
            target.execute("COMMIT")
        durable.sync_file(copy)
        verify_file(copy, schema)
    except BaseException as error:
        remove_unfinished(copy)
        if isinstance(error, sqlite3.IntegrityError | sqlite3.DataError):
            raise DatabaseDamaged("A row breaks a rule of its table.") from error
        raise
    return copy


def _copy_table(source: sqlite3.Connection, target: sqlite3.Connection, table: str) -> None:
    """Copy all rows of a table, as they lie there; no index is read."""
    columns = [row[1] for row in target.execute(f"PRAGMA table_info({table})")]
    marks = ", ".join("?" * len(columns))
    rows = source.execute(f"SELECT {', '.join(columns)} FROM {table} NOT INDEXED")
    while chunk := rows.fetchmany(CHUNK_ROWS):
        target.executemany(f"INSERT INTO {table} VALUES ({marks})", chunk)


def read_intact(path: Path, schema: Schema, take: Take) -> list[str]:
    """Read every row that is intact, table by table; return what is lost."""
    lost: list[str] = []
    layout = layouts_of(schema.migrations)[schema.migrations[-1].number]
    with closing(open_file(path, read_only=True)) as connection:
        for name, check in schema.tables.items():
            reading = _Reading(connection, name, layout.keys[name], check)
            for row in reading.rows():
                take(name, row)
            lost += reading.lost
    return lost


class _Reading:
    """Reads one table: from its beginning to the damage, and from its end back to it."""

    def __init__(
        self, connection: sqlite3.Connection, name: str, key: tuple[str, ...], check: TableCheck
    ) -> None:
        self._connection = connection
        self._name = name
        self._check = check
        self._key = key
        self._places = [check.columns.index(column) for column in key]
        self.lost: list[str] = []

    def rows(self) -> Iterator[Row]:
        seen: Row | None = None
        try:
            for row in self._select(""):
                seen = self._key_of(row)
                if self._is_intact(row):
                    yield row
            return
        except sqlite3.Error:
            self.lost.append(f"{self._name}: rows on pages that cannot be read.")
        if not self._key:
            return
        order = ", ".join(f"{column} DESC" for column in self._key)
        try:
            for row in self._select(f" ORDER BY {order}"):
                key = self._key_of(row)
                if key == seen:
                    return
                if self._is_intact(row):
                    yield row
        except sqlite3.Error:
            return

    def _select(self, order: str) -> Iterator[Row]:
        if not order and self._key:
            order = f" ORDER BY {', '.join(self._key)}"
        columns = ", ".join(self._check.columns)
        # An index may be damaged, too: the rows are read where they are.
        yield from self._connection.execute(
            f"SELECT {columns} FROM {self._name} NOT INDEXED{order}"
        )

    def _key_of(self, row: Row) -> Row:
        return tuple(row[place] for place in self._places)

    def _is_intact(self, row: Row) -> bool:
        try:
            self._check.verify(row)
        except (ValueTrackerError, ValueError, TypeError):
            self.lost.append(f"{self._name}: {repr(self._key_of(row))[:200]}")
            return False
        return True
