"""
Jobs on the threads of SQLite's connections.

The contract tests cover what SQLite has in common with PostgreSQL.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.databases import Gate, held_writer, opened, revisions_of, select, waiting
from valuetracker.engine import Transaction
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseUnavailable
from valuetracker.store.characters import put_character
from valuetracker.store.rows.head import load_head
from valuetracker.store.tx.jobs import Written
from valuetracker.store.tx.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SQLiteDatabase]:
    async with opened(path) as database:
        yield database


async def test_a_job_that_awaits_something_else_fails_alone(
    database: SQLiteDatabase, path: Path
) -> None:
    async def verb(tx: Ledger) -> None:
        await asyncio.sleep(0)

    async with held_writer(database):
        tasks = await waiting(database, (verb,), (put_character, "a", None))

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(answers[0], RuntimeError)
    assert isinstance(answers[1], Written)
    assert revisions_of(path) == [1]


async def test_a_read_cannot_change_a_setting_of_the_file(
    database: SQLiteDatabase, path: Path
) -> None:
    async def job(transaction: Transaction) -> None:
        await transaction.execute(Statement("PRAGMA user_version = 7"))

    with pytest.raises(DatabaseUnavailable):
        await database.read(job)

    assert not database.suspect
    assert select(path, "PRAGMA user_version") == [(1,)]


async def test_as_many_reads_run_at_once_as_there_are_readers(database: SQLiteDatabase) -> None:
    both = threading.Barrier(2)

    async def job(transaction: Transaction) -> int:
        return both.wait(60)

    found = await asyncio.gather(database.read(job), database.read(job))

    assert sorted(found) == [0, 1]


async def test_the_connection_of_a_cancelled_read_is_used_again(path: Path) -> None:
    gate = Gate()
    async with opened(path, readers=1) as database:
        reading = asyncio.create_task(database.read(gate.verb))
        await gate.reached()
        reading.cancel()
        await asyncio.wait([reading])
        gate.open()

        assert (await database.read(load_head)).revision == 0
        assert len(database._all_readers) == 1
