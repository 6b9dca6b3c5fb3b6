"""An open SQLite database when the disk is full, the file is removed, or the log grows."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import (
    IDENTITY,
    SCHEMA,
    Gate,
    held_writer,
    make_file,
    opened,
    revisions_of,
    select,
    waiting,
    write,
)
from valuetracker.engine import Transaction
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.sqlite_file import WAL_BYTES
from valuetracker.errors import DatabaseDamaged, StorageFull
from valuetracker.store.characters import put_character
from valuetracker.store.data import set_value
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.head import load_head
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.jobs import Written

TARGET = instance("i")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SQLiteDatabase]:
    async with opened(path) as database:
        await write(database, put_instance, "i", "c", None)
        yield database


async def on_writer(database: SQLiteDatabase, statement: str) -> Any:
    def ask(connection: sqlite3.Connection) -> Any:
        return connection.execute(statement).fetchone()[0]

    assert database._writer is not None
    return await database._writer.run(ask)


async def fill_disk(database: SQLiteDatabase) -> None:
    pages = await on_writer(database, "PRAGMA page_count")
    await on_writer(database, f"PRAGMA max_page_count = {pages}")


async def free_disk(database: SQLiteDatabase) -> None:
    await on_writer(database, "PRAGMA max_page_count = 1000000")


LARGE = '"' + "x" * 100_000 + '"'


# Settings of the connections


async def test_the_writer_syncs_each_commit_and_keeps_a_log(database: SQLiteDatabase) -> None:
    assert await on_writer(database, "PRAGMA synchronous") == 2
    assert await on_writer(database, "PRAGMA journal_mode") == "wal"
    assert await on_writer(database, "PRAGMA query_only") == 0
    assert await on_writer(database, "PRAGMA trusted_schema") == 0


async def test_no_reader_can_write(database: SQLiteDatabase) -> None:
    gates = [Gate(), Gate()]
    reads = [asyncio.create_task(database.read(gate.verb)) for gate in gates]
    for gate in gates:
        await gate.reached()
    for gate in gates:
        gate.open()
    await asyncio.gather(*reads)

    def ask(connection: sqlite3.Connection) -> list[Any]:
        names = ("query_only", "journal_mode", "trusted_schema", "cell_size_check")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    def write_anyway(connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA query_only = OFF")
        connection.execute("DELETE FROM head")

    assert len(database._all_readers) == 2
    for reader in database._all_readers:
        assert await reader.run(ask) == [1, "wal", 0, 1]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            await reader.run(write_anyway)


# A full disk


async def test_on_a_full_disk_writes_are_refused_and_reads_work(
    database: SQLiteDatabase, path: Path
) -> None:
    await fill_disk(database)

    for _ in range(3):
        with pytest.raises(StorageFull):
            await write(database, set_value, TARGET, "k", LARGE)

    assert (await database.read(load_head)).revision == 1
    assert select(path, "SELECT count(*) FROM data WHERE key <> ''") == [(0,)]
    assert not database.suspect


async def test_writes_work_again_as_soon_as_there_is_space(
    database: SQLiteDatabase, path: Path
) -> None:
    await fill_disk(database)
    with pytest.raises(StorageFull):
        await write(database, set_value, TARGET, "k", LARGE)

    await free_disk(database)
    written = await write(database, set_value, TARGET, "k", LARGE)

    assert written.revision == 2
    assert revisions_of(path) == [1, 2]


async def test_on_a_full_disk_a_write_that_fits_is_not_refused_with_its_group(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, set_value, TARGET, "small", "1")
    await fill_disk(database)

    async with held_writer(database):
        tasks = await waiting(
            database,
            (set_value, TARGET, "small", "2"),
            (set_value, TARGET, "large", LARGE),
            (set_value, TARGET, "small", "3"),
        )
    first, full, last = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(first, Written)
    assert isinstance(full, StorageFull)
    assert isinstance(last, Written)
    assert (first.revision, last.revision) == (3, 4)
    assert select(path, "SELECT key, value FROM data WHERE key <> ''") == [("small", "3")]


# A removed or replaced file


async def remove(path: Path) -> None:
    path.unlink()


async def replace_by_another(path: Path) -> None:
    other = path.with_name("other.db")
    await make_file(other)
    other.replace(path)


async def replace_by_a_copy(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copyfile(path, copy)
    copy.replace(path)


@pytest.mark.parametrize("harm", [remove, replace_by_another, replace_by_a_copy])
async def test_reads_and_writes_detect_a_removed_or_replaced_file(
    database: SQLiteDatabase, path: Path, harm: Any
) -> None:
    assert (await database.read(load_head)).revision == 1

    await harm(path)

    with pytest.raises(DatabaseDamaged, match="removed or replaced"):
        await database.read(load_head)
    with pytest.raises(DatabaseDamaged, match="removed or replaced"):
        await write(database, put_character, "late", None)
    assert database.suspect


async def test_a_file_with_another_identity_is_refused(path: Path) -> None:
    await make_file(path, identity="f" * 32)
    before = path.read_bytes()

    with pytest.raises(DatabaseDamaged, match="not the one that was registered"):
        await SQLiteDatabase.open(path, IDENTITY, SCHEMA, 1)

    assert path.read_bytes() == before


# The log beside the file


async def test_the_log_stays_bounded_however_much_is_written(
    database: SQLiteDatabase, path: Path
) -> None:
    wal = path.with_name("demo.db-wal")
    value = '"' + "x" * 500_000 + '"'
    largest = 0

    for number in range(120):
        await write(database, set_value, TARGET, f"k{number % 4}", value)
        largest = max(largest, wal.stat().st_size)

    assert largest < 2 * WAL_BYTES


async def test_the_log_stays_bounded_while_reads_overlap_without_a_pause(
    database: SQLiteDatabase, path: Path
) -> None:
    wal = path.with_name("demo.db-wal")
    value = '"' + "x" * 500_000 + '"'
    done = asyncio.Event()

    async def look(transaction: Transaction) -> int:
        return (await load_head(transaction)).revision

    async def read_on() -> None:
        while not done.is_set():
            await database.read(look)

    readers = [asyncio.create_task(read_on()) for _ in range(4)]
    largest = 0
    for number in range(120):
        await write(database, set_value, TARGET, f"k{number % 4}", value)
        largest = max(largest, wal.stat().st_size)
    done.set()
    await asyncio.gather(*readers)

    assert largest < 3 * WAL_BYTES


async def test_a_clean_close_leaves_one_file(path: Path) -> None:
    async with opened(path) as database:
        await write(database, put_character, "c", None)
        await database.read(load_head)
        assert path.with_name("demo.db-wal").exists()

    assert [each.name for each in path.parent.iterdir()] == ["demo.db"]
