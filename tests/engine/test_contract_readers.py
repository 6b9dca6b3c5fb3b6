"""The contract of both engines: readers and writers at the same time."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.databases import Gate, held_writer, waiting, write
from tests.support.engines import NAMES, Bench, revision_of
from valuetracker.engine import Database, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import ValueTrackerError
from valuetracker.store.characters import put_character
from valuetracker.store.rows.head import load_head
from valuetracker.store.tx.ledger import Ledger


async def test_two_databases_are_independent(bench: Bench, database: Database) -> None:
    async with bench.opened(await bench.create("other"), "other") as other:
        await write(database, put_character, "mine", None)
        async with held_writer(other):
            # While the other database is held, this one can be written to.
            for number in range(3):
                await write(database, put_character, f"more-{number}", None)
        assert (await write(other, put_character, "theirs", None)).revision == 1

        assert await bench.outside(NAMES, "other") == [("theirs",)]
        assert (await bench.outside(NAMES))[0] == ("mine",)
        assert (await revision_of(database), await revision_of(other)) == (4, 1)


async def test_a_reader_neither_waits_for_the_writer_nor_reads_uncommitted_changes(
    database: Database,
) -> None:
    await write(database, put_character, "first", None)
    gate = Gate()

    async def verb(tx: Ledger) -> None:
        await put_character(tx, "second", None)
        await tx.fetch_all(Statement("SELECT id FROM {schema}.characters"))
        await gate.verb(tx)

    (writing,) = await waiting(database, (verb,))
    await gate.reached()
    try:
        seen = [await asyncio.wait_for(revision_of(database), 20) for _ in range(5)]
    finally:
        gate.open()
    await writing

    assert seen == [1] * 5
    assert await revision_of(database) == 2


async def test_the_writer_does_not_wait_for_a_reader_and_the_reader_keeps_its_snapshot(
    database: Database,
) -> None:
    gate = Gate()

    async def slow(transaction: Transaction) -> tuple[int, int]:
        before = await load_head(transaction)
        await gate.verb(transaction)
        return before.revision, (await load_head(transaction)).revision

    reading = asyncio.create_task(database.read(slow))
    await gate.reached()
    try:
        for number in range(5):
            await asyncio.wait_for(write(database, put_character, f"c{number}", None), 20)
    finally:
        gate.open()

    assert await reading == (0, 0)
    assert await revision_of(database) == 5


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM {schema}.characters",
        "UPDATE {schema}.head SET revision = 1000",
        "INSERT INTO {schema}.members VALUES (1000, 1000)",
        "DROP TABLE {schema}.characters",
        "CREATE TABLE {schema}.more (word TEXT)",
    ],
)
async def test_a_reader_cannot_write(bench: Bench, database: Database, statement: str) -> None:
    await write(database, put_character, "c", None)

    async def job(transaction: Transaction) -> None:
        await transaction.execute(Statement(statement))

    with pytest.raises(ValueTrackerError):
        await database.read(job)

    assert await bench.outside(NAMES) == [("c",)]
    assert await revision_of(database) == 1
    assert (await write(database, put_character, "d", None)).revision == 2
    await bench.recount()


async def test_a_read_that_is_cancelled_or_fails_leaves_the_others_readable(
    database: Database,
) -> None:
    gates = [Gate() for _ in range(4)]
    reads = [asyncio.create_task(database.read(gate.verb)) for gate in gates]
    for gate in gates:
        await gate.reached()
    for each in reads:
        each.cancel()
    for gate in gates:
        gate.open()
    await asyncio.wait(reads)

    async def fail(transaction: Transaction) -> None:
        raise ZeroDivisionError

    for _ in range(8):
        with pytest.raises(ZeroDivisionError):
            await database.read(fail)

    assert await asyncio.wait_for(revision_of(database), 20) == 0
