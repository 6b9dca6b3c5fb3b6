"""Reading beside a writer, on connections that cannot write."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import Gate, held_writer, opened, select, write
from valuetracker.engine import Transaction
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseUnavailable
from valuetracker.store.characters import put_character
from valuetracker.store.rows.head import load_head

COUNT_CHARACTERS = Statement("SELECT count(*) FROM characters")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SQLiteDatabase]:
    async with opened(path) as database:
        yield database


async def count(transaction: Transaction) -> int:
    row = await transaction.fetch_one(COUNT_CHARACTERS)
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM head",
        "INSERT INTO file VALUES ('a', 'b', 'c')",
        "CREATE TABLE other (a)",
        "DROP TABLE data",
        "PRAGMA user_version = 7",
    ],
)
async def test_a_read_cannot_write(database: SQLiteDatabase, path: Path, statement: str) -> None:
    async def job(transaction: Transaction) -> None:
        await transaction.execute(Statement(statement))

    before = select(path, "SELECT * FROM head"), select(path, "SELECT name FROM sqlite_schema")

    with pytest.raises(DatabaseUnavailable):
        await database.read(job)

    assert not database.suspect
    after = select(path, "SELECT * FROM head"), select(path, "SELECT name FROM sqlite_schema")
    assert after == before
    assert select(path, "PRAGMA user_version") == [(1,)]


async def test_a_reader_that_was_talked_out_of_its_promise_still_cannot_write(
    database: SQLiteDatabase, path: Path
) -> None:
    async def job(transaction: Transaction) -> None:
        await transaction.execute(Statement("PRAGMA query_only = OFF"))
        await transaction.execute(Statement("DELETE FROM head"))

    with pytest.raises(DatabaseUnavailable):
        await database.read(job)

    assert select(path, "SELECT count(*) FROM head") == [(1,)]


async def test_a_read_holds_up_no_write_and_keeps_its_own_moment(
    database: SQLiteDatabase,
) -> None:
    gate = Gate()

    async def slow(transaction: Transaction) -> tuple[int, int]:
        before = await count(transaction)
        await gate.verb(transaction)
        return before, await count(transaction)

    reading = asyncio.create_task(database.read(slow))
    await gate.reached()
    await write(database, put_character, "a", None)
    seen_meanwhile = await database.read(count)
    gate.open()

    assert seen_meanwhile == 1
    assert await reading == (0, 0)


async def test_a_write_holds_up_no_read(database: SQLiteDatabase) -> None:
    await write(database, put_character, "a", None)

    async with held_writer(database):
        assert await database.read(count) == 1
        assert (await database.read(load_head)).revision == 1


async def test_reads_run_beside_each_other_up_to_their_number(database: SQLiteDatabase) -> None:
    both = threading.Barrier(2)

    async def job(transaction: Transaction) -> int:
        return both.wait(60)

    found = await asyncio.gather(database.read(job), database.read(job))

    assert sorted(found) == [0, 1]


async def test_a_cancelled_read_hands_its_connection_on(path: Path) -> None:
    gate = Gate()
    async with opened(path, readers=1) as database:
        reading = asyncio.create_task(database.read(gate.verb))
        await gate.reached()
        reading.cancel()
        await asyncio.wait([reading])
        gate.open()

        assert await database.read(count) == 0
        assert len(database._all_readers) == 1


async def test_a_failed_read_leaves_its_connection_fit_for_the_next(path: Path) -> None:
    async def job(transaction: Transaction) -> None:
        raise ZeroDivisionError

    async with opened(path, readers=1) as database:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await database.read(job)

        assert await database.read(count) == 0
