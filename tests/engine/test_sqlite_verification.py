"""A file whose header, schema, pages or indexes are wrong is refused before anything may write."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.databases import IDENTITY, SCHEMA, opened, write
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.sqlite_file import open_file
from valuetracker.engine.sqlite_verification import RowVerification, verify_file
from valuetracker.errors import DatabaseDamaged, DatabaseTooNew, DatabaseUnavailable
from valuetracker.store.characters import put_character
from valuetracker.store.data import merge_values
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.spaces import instance

TARGET = instance("i")
KEYS = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "demo.db"
    asyncio.run(fill(path))
    return path


async def fill(path: Path) -> None:
    async with opened(path) as database:
        await write(database, put_instance, "i", "c", None)
        await write(database, merge_values, TARGET, {f"key {n}": "1" for n in range(KEYS)})


def execute(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        # Any part of the schema may be changed.
        connection.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            connection.execute(statement)


def edit_schema(name: str, old: str, new: str) -> str:
    return (
        f"UPDATE sqlite_schema SET sql = replace(sql, '{old}', '{new}') WHERE name = '{name}'"
        f" AND sql LIKE '%{old}%' RETURNING 1"
    )


SCHEMAS = [
    ("PRAGMA user_version = 0", "number of the schema"),
    ("PRAGMA user_version = -1", "number of the schema"),
    ("PRAGMA application_id = 0x56544B30", "not a database of Value Tracker"),
    ("CREATE TABLE more (id TEXT)", "table more of the schema"),
    ("CREATE INDEX more ON data (value)", "index more of the schema"),
    ("CREATE TRIGGER more AFTER INSERT ON data BEGIN DELETE FROM data; END", "trigger more"),
    ("DROP INDEX instances_by_id", "index instances_by_id of the schema"),
    ("DROP VIEW instance_values", "view instance_values of the schema"),
    ("DROP TABLE requests", "index requests_by_time of the schema"),
    ("ALTER TABLE data ADD COLUMN more INTEGER", "table data of the schema"),
    (edit_schema("data", "value         TEXT", "value         BLOB"), "table data of the schema"),
    (edit_schema("characters", "name       TEXT", "name       TEXT DEFAULT 1"), "table characters"),
    (edit_schema("instance_values", "AS key", "AS KEY"), "view instance_values of the schema"),
    ("UPDATE sqlite_schema SET name = 7 WHERE name = 'instance_values'", "cannot read the schema"),
    ("UPDATE sqlite_schema SET type = x'696e' WHERE name = 'instance_values'", "schema"),
]


@pytest.mark.parametrize(("harm", "finding"), SCHEMAS, ids=[harm for harm, _ in SCHEMAS])
async def test_another_schema_than_the_migrations_make_is_refused(
    path: Path, harm: str, finding: str
) -> None:
    execute(path, harm)
    before = path.read_bytes()

    with pytest.raises(DatabaseDamaged, match=finding):
        verify_file(path, SCHEMA)
    with pytest.raises(DatabaseDamaged, match=finding):
        await SQLiteDatabase.open(path, IDENTITY, SCHEMA, 1)

    assert path.read_bytes() == before


async def test_a_newer_version_is_refused_by_name(path: Path) -> None:
    execute(path, "PRAGMA user_version = 1000")

    with pytest.raises(DatabaseTooNew):
        verify_file(path, SCHEMA)


def test_what_sqlite_adds_for_itself_is_no_damage(path: Path) -> None:
    execute(path, "ANALYZE", "VACUUM", "PRAGMA journal_mode = DELETE")

    verify_file(path, SCHEMA)


def root_of(path: Path, name: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,))
        return int(found.fetchone()[0])


def change_letter(path: Path, page: str, old: bytes, new: bytes) -> None:
    start = (root_of(path, page) - 1) * 4096
    content = bytearray(path.read_bytes())
    offset = content.index(old, start, start + 4096)
    content[offset : offset + len(old)] = new
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("page", "old", "new", "finding"),
    [
        # The order of the rows is wrong.
        ("data", b"key 5", b"kez 5", "pages and indexes"),
        # The order is kept, but the table says that the index must hold something else.
        ("sqlite_autoindex_characters_1", b"c", b"d", "pages and indexes"),
        # The order is kept, and there is no other index: only the checksum is wrong.
        ("data", b"key 9", b"key A", r"table data has a damaged row: \(2, 'key A'\)"),
        ("data", b"key 9", b"key\xff9", "cannot read the table data"),
    ],
)
def test_a_changed_letter_is_found(
    path: Path, page: str, old: bytes, new: bytes, finding: str
) -> None:
    change_letter(path, page, old, new)

    with pytest.raises(DatabaseDamaged, match=finding):
        verify_file(path, SCHEMA)


@pytest.mark.parametrize("offset", [16, 18, 19, 20, 21, 28, 47, 52, 56, 59, 60, 63, 68, 71])
def test_a_bit_of_the_header_that_matters_is_found(path: Path, offset: int) -> None:
    good = path.read_bytes()
    for bit in range(8):
        content = bytearray(good)
        content[offset] ^= 1 << bit
        path.write_bytes(content)

        try:
            verify_file(path, SCHEMA)
        except (DatabaseDamaged, DatabaseTooNew):
            continue
        # SQLite can do without these bits, and so the content is the same.
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("SELECT count(*) FROM data").fetchone() == (KEYS + 1,)


@pytest.mark.parametrize("table", ["head", "file"])
@pytest.mark.parametrize("harm", ["DELETE FROM {}", "INSERT INTO {0} SELECT * FROM {0}"])
def test_there_is_exactly_one_row_about_the_database_itself(
    path: Path, table: str, harm: str
) -> None:
    execute(path, harm.format(table))

    with pytest.raises(DatabaseDamaged, match=f"table {table} has . rows in place of one|damaged"):
        verify_file(path, SCHEMA)


async def test_a_file_that_another_program_has_locked_is_not_called_damaged(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("valuetracker.engine.sqlite_file.BUSY_MS", 1)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")

        with pytest.raises(DatabaseUnavailable):
            await SQLiteDatabase.open(path, IDENTITY, SCHEMA, 1)

    async with opened(path) as database:
        await write(database, put_character, "d", None)


# In slices


def test_rows_verified_one_at_a_time_are_all_verified(path: Path) -> None:
    with (
        closing(open_file(path, read_only=True)) as reader,
        closing(open_file(path, read_only=False)) as writer,
    ):
        verification = RowVerification(SCHEMA)
        slices = 1
        while not verification.run(reader, seconds=0):
            slices += 1
            # Nothing of the log is in use between two slices: it can be copied and begun anew.
            writer.execute("UPDATE characters SET revision = revision")
            assert writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)

        rows = sum(
            reader.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in SCHEMA.tables
        )

    # A slice ends after each row, but not after the head: that table has no key to go on from.
    # The last one finds nothing more.
    assert slices == rows - 1 + 1


def test_a_damaged_row_in_a_later_slice_is_found(path: Path) -> None:
    execute(path, "UPDATE data SET value = '2' WHERE key = 'key 7'")

    def run_slices() -> None:
        verification = RowVerification(SCHEMA)
        with closing(open_file(path, read_only=True)) as reader:
            while not verification.run(reader, seconds=0):
                pass

    with pytest.raises(DatabaseDamaged, match="'key 7'"):
        run_slices()
