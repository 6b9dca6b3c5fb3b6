"""
Migrations: numbered SQL files that bring a database to the newest schema.

A migration and the record of it (`user_version`) commit together, so a process that is killed
at any instruction leaves the old version or the new one.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from valuetracker.engine.sqlite_connection import roll_back
from valuetracker.errors import DatabaseTooNew
from valuetracker.failpoints import Failpoint

CREATE_TABLE = re.compile(r"^CREATE TABLE (?:\{schema\}\.)?(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Migration:
    number: int
    statements: tuple[str, ...]

    @property
    def tables(self) -> set[str]:
        """Return the names of the tables it creates."""
        return {name for text in self.statements for name in CREATE_TABLE.findall(text)}


def migrations_directory() -> Path:
    """Return `migrations/` inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def load_migrations(directory: Path) -> tuple[Migration, ...]:
    return tuple(
        Migration(int(file.name.split("_")[0]), tuple(split(file.read_text("utf-8"))))
        for file in sorted(directory.glob("[0-9]*_*.sql"))
    )


def split(script: str) -> list[str]:
    """Return the statements of a script. (`executescript` would commit before it begins.)"""
    statements: list[str] = []
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            statements.append(pending.strip())
            pending = ""
    return statements


def version_of(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def check_version(version: int, migrations: Sequence[Migration]) -> None:
    if version > migrations[-1].number:
        raise DatabaseTooNew()


def migrate(
    connection: sqlite3.Connection, migrations: Sequence[Migration], failpoint: Failpoint
) -> None:
    """Apply the missing migrations, each in a transaction of its own."""
    version = version_of(connection)
    check_version(version, migrations)
    for migration in migrations:
        if migration.number > version:
            connection.execute("BEGIN IMMEDIATE")
            try:
                apply(connection, migration, failpoint)
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise


def apply(connection: sqlite3.Connection, migration: Migration, failpoint: Failpoint) -> None:
    """Apply one migration inside the open transaction, and record its number."""
    for statement in migration.statements:
        connection.execute(statement)
        failpoint.reach("mid_migration")
    connection.execute(f"PRAGMA user_version = {migration.number}")
