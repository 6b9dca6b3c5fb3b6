from __future__ import annotations

import os
import random
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import wait_for
from tests.support.databases import IDENTITY, SCHEMA, make_file
from valuetracker.engine.migrations import (
    Migration,
    load_migrations,
    migrate,
    migrations_directory,
    split,
    version_of,
)
from valuetracker.engine.sqlite_copy import verify_copy
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import DatabaseTooNew
from valuetracker.failpoints import Failpoint
from valuetracker.store.rows.head import load_head

NEVER = Failpoint(None)
SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"

FIRST = Migration(1, ("CREATE TABLE words (word TEXT NOT NULL)",))
# Every statement has an effect by which a partial upgrade would be detected.
SECOND = Migration(
    2,
    (
        "ALTER TABLE words ADD COLUMN length INTEGER",
        "UPDATE words SET length = length(word)",
        "CREATE TABLE letters (letter TEXT)",
        "INSERT INTO letters SELECT DISTINCT substr(word, 1, 1) FROM words",
        "CREATE INDEX words_by_length ON words (length)",
    ),
)

# Upgrades the file named on its command line as the engine would.
UPGRADE = """
import sqlite3, sys
from tests.engine.test_migrations import FIRST, SECOND
from valuetracker.engine.migrations import migrate
from valuetracker.failpoints import Failpoint

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
print("begun", flush=True)
migrate(connection, [FIRST, SECOND], Failpoint.from_environment())
"""


def connect(path: Path | str) -> closing[sqlite3.Connection]:
    return closing(sqlite3.connect(path, isolation_level=None))


def make_old(path: Path, words: int) -> None:
    with connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, [FIRST], NEVER)
        connection.execute("BEGIN")
        connection.executemany(
            "INSERT INTO words VALUES (?)", [(f"word {n}",) for n in range(words)]
        )
        connection.execute("COMMIT")


def generation(path: Path, words: int) -> str:
    """Return `old` or `new`; fail for anything in between."""
    with connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM words").fetchone() == (words,)
        objects = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
        columns = [row[1] for row in connection.execute("PRAGMA table_info(words)")]
        version = version_of(connection)
        if version == 1:
            assert objects == {"words"}
            assert columns == ["word"]
            return "old"
        assert version == 2
        assert objects == {"words", "letters", "words_by_length"}
        assert columns == ["word", "length"]
        assert connection.execute("SELECT letter FROM letters").fetchall() == [("w",)]
        unset = "SELECT count(*) FROM words WHERE length IS NOT length(word)"
        assert connection.execute(unset).fetchone() == (0,)
        return "new"


def upgrade(path: Path, failpoint: str = "") -> subprocess.Popen[str]:
    environment = {**os.environ, "VALUETRACKER_FAIL": failpoint}
    return subprocess.Popen(
        [sys.executable, "-c", UPGRADE, str(path)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent.parent.parent,
    )


def test_the_migrations_of_the_checkout_are_in_order_and_without_gaps() -> None:
    for directory in (
        migrations_directory() / "sqlite",
        migrations_directory() / "sqlite/registry",
    ):
        numbers = [migration.number for migration in load_migrations(directory)]

        assert numbers == list(range(1, len(numbers) + 1))
        assert numbers


def test_a_script_is_split_where_statements_end() -> None:
    script = (
        "-- a comment; with a semicolon\n"
        "CREATE TABLE a (x TEXT DEFAULT 'one;\ntwo');\n"
        "CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  DELETE FROM a;\n  SELECT 1;\nEND;\n"
        "INSERT INTO a VALUES ('x');\n"
    )

    statements = split(script)

    assert [statement.split()[0] for statement in statements] == ["--", "CREATE", "INSERT"]
    with connect(":memory:") as connection:
        for statement in statements:
            connection.execute(statement)


def test_migrating_again_changes_nothing() -> None:
    with connect(":memory:") as connection:
        migrate(connection, [FIRST, SECOND], NEVER)
        before = connection.total_changes, list(connection.iterdump())

        migrate(connection, [FIRST, SECOND], NEVER)

        assert (connection.total_changes, list(connection.iterdump())) == before
        assert version_of(connection) == 2


@pytest.mark.parametrize("count", range(1, len(SECOND.statements) + 1))
def test_a_migration_that_fails_leaves_the_old_version(tmp_path: Path, count: int) -> None:
    path = tmp_path / "words.db"
    make_old(path, 10)

    with connect(path) as connection:
        with pytest.raises(RuntimeError, match="mid_migration"):
            migrate(connection, [FIRST, SECOND], Failpoint(f"mid_migration:raise:{count}"))
        assert not connection.in_transaction

    assert generation(path, 10) == "old"


def test_a_migration_that_fails_keeps_the_ones_before_it(tmp_path: Path) -> None:
    path = tmp_path / "words.db"

    with connect(path) as connection, pytest.raises(RuntimeError, match="mid_migration"):
        migrate(connection, [FIRST, SECOND], Failpoint("mid_migration:raise:3"))

    assert generation(path, 0) == "old"


@pytest.mark.parametrize("count", range(1, len(SECOND.statements) + 1))
def test_an_upgrade_killed_after_any_statement_is_the_old_version_and_can_be_made_again(
    tmp_path: Path, count: int
) -> None:
    path = tmp_path / "words.db"
    make_old(path, 2_000)

    with upgrade(path, f"mid_migration:kill:{count}") as killed:
        assert killed.wait(60) == -signal.SIGKILL

    assert generation(path, 2_000) == "old"
    with connect(path) as connection:
        migrate(connection, [FIRST, SECOND], NEVER)
    assert generation(path, 2_000) == "new"


def test_an_upgrade_killed_at_any_moment_is_the_old_version_or_the_new_one(tmp_path: Path) -> None:
    words = 20_000
    chance = random.Random(1)
    original = tmp_path / "original.db"
    make_old(original, words)
    found: list[str] = []

    for number in range(500 if SOAK else 8):
        path = tmp_path / f"{number}.db"
        path.write_bytes(original.read_bytes())
        with upgrade(path) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "begun\n"
            time.sleep(chance.random() * 0.1)
            process.kill()
        found.append(generation(path, words))
        path.unlink()

    assert set(found) <= {"old", "new"}


def test_the_upgrade_that_is_killed_here_works_when_it_is_not(tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    make_old(path, 10)

    with upgrade(path) as process:
        assert wait_for(lambda: process.poll() is not None)

    assert process.returncode == 0
    assert generation(path, 10) == "new"


def test_a_newer_schema_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "words.db"
    make_old(path, 10)
    with connect(path) as connection:
        connection.execute("PRAGMA user_version = 3")
    before = path.read_bytes()

    with connect(path) as connection, pytest.raises(DatabaseTooNew):
        migrate(connection, [FIRST, SECOND], NEVER)

    assert path.read_bytes() == before


class WithoutRollback(sqlite3.Connection):
    """A connection to a disk that is full, or fails, also while SQLite rolls back."""

    def execute(self, statement: str, *parameters: Any) -> sqlite3.Cursor:
        if statement == "ROLLBACK":
            raise sqlite3.OperationalError("disk I/O error")
        return super().execute(statement, *parameters)


def test_a_rollback_that_fails_does_not_hide_the_first_error() -> None:
    failing = Migration(1, ("CREATE TABLE made (word TEXT)", "INSERT INTO missing VALUES (1)"))
    with (
        closing(
            sqlite3.connect(":memory:", isolation_level=None, factory=WithoutRollback)
        ) as connection,
        pytest.raises(sqlite3.OperationalError, match="no such table: missing"),
    ):
        migrate(connection, [failing], NEVER)


async def test_a_copy_of_the_old_version_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "demo.db"
    await make_file(path)
    later = Migration(2, ("CREATE TABLE words (word TEXT NOT NULL) STRICT",))
    schema = replace(SCHEMA, migrations=(*SCHEMA.migrations, later))

    for _ in range(2):
        database = await SQLiteDatabase.open(path, IDENTITY, schema, readers=1)
        await database.close()

    with connect(path) as connection:
        assert version_of(connection) == 2
    kept = path.with_name("demo.db.v1")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert verify_copy(kept, SCHEMA, load_head).revision == 0
    assert sorted(each.name for each in tmp_path.iterdir()) == ["demo.db", "demo.db.v1"]
