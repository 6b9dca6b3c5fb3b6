"""The rows of a large file are verified while it is in use."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.conftest import PATIENCE_SECONDS
from tests.support.databases import (
    IDENTITY,
    SCHEMA,
    held_writer,
    opened,
    select,
    waiting,
    write,
)
from valuetracker.engine import NotVerifiedYet, Row, TableCheck, Transaction
from valuetracker.engine.known_files import KnownFiles
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    CharacterNotFound,
    DatabaseDamaged,
    DatabaseUnavailable,
    InstanceNotFound,
)
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extension import Extension
from valuetracker.store.characters import get_character, list_characters, put_character
from valuetracker.store.data import find_value, list_values, merge_values, set_value
from valuetracker.store.instances import get_instance, put_instance
from valuetracker.store.rows.head import load_head
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.context import Context
from valuetracker.store.tx.jobs import WriteJob, Written

TARGET = instance("i")


class Held:
    """A verification that waits before the last table, until it is let go."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = KnownFiles()
        self._go = threading.Event()
        last = "requests"
        check = SCHEMA.tables[last]

        def verify(row: Row) -> object:
            assert self._go.wait(PATIENCE_SECONDS)
            return check.verify(row)

        tables = {**SCHEMA.tables, last: TableCheck(check.columns, verify)}
        self._schema = replace(SCHEMA, tables=tables)

    def let_go(self) -> None:
        self._go.set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Extension]:
        database = await SQLiteDatabase.open(
            self.path, IDENTITY, self._schema, 2, self.known, background_bytes=0
        )
        try:
            head = await database.read(load_head)
            extension = Extension("demo", database, head, lambda *_: None, Capacity(4))
            database.on_commit = extension.apply_commit
            yield extension
        finally:
            self.let_go()
            await database.close()


@pytest.fixture
async def held(tmp_path: Path) -> Held:
    path = tmp_path / "demo.db"
    async with opened(path) as database:
        await write(database, put_instance, "i", "c", None)
        once = Context(idempotency_key="k", fingerprint="f")
        await database.write(WriteJob(merge_values, (TARGET, {"hp": "1", "mp": "2"}), once))
    assert select(path, "SELECT key FROM requests") == [("k",)]
    return Held(path)


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount


async def answer(extension: Extension, verb: Any, *arguments: Any) -> Any:
    """Return the answer of a reading verb as JSON says it."""
    return orjson.loads(orjson.dumps((await extension.read(verb, *arguments)).result))


def start(work: Any) -> asyncio.Task[Any]:
    return asyncio.create_task(work)


async def waits(task: asyncio.Task[Any]) -> bool:
    done, _ = await asyncio.wait([task], timeout=0.1)
    return not done


async def test_a_present_row_is_read_at_once(held: Held) -> None:
    async with held.opened() as extension:
        assert await answer(extension, find_value, TARGET, "hp") == {"hp": 1}
        assert extension.database.verifying


async def test_a_present_value_is_changed_at_once(held: Held) -> None:
    async with held.opened() as extension:
        written = await extension.write(set_value, TARGET, "hp", "5")

        assert written.revision == 3
        assert await answer(extension, find_value, TARGET, "hp") == {"hp": 5}
        assert extension.database.verifying


async def list_ids(tx: Snapshot) -> list[str]:
    return [each["id"] for each in await list_characters(tx)]


LISTS: list[tuple[Any, tuple[Any, ...], Any]] = [
    (find_value, (TARGET, "nothing"), {}),
    (list_values, (TARGET,), {"hp": 1, "mp": 2}),
    (list_ids, (), ["c"]),
]


@pytest.mark.parametrize(("verb", "arguments", "expected"), LISTS)
async def test_a_list_waits_for_all_rows(
    held: Held, verb: Any, arguments: tuple[Any, ...], expected: Any
) -> None:
    async with held.opened() as extension:
        reading = start(answer(extension, verb, *arguments))
        assert await waits(reading)

        held.let_go()

        assert await reading == expected
        assert not extension.database.verifying


@pytest.mark.parametrize(
    ("verb", "id", "error"),
    [(get_character, "nobody", CharacterNotFound), (get_instance, "nothing", InstanceNotFound)],
)
async def test_a_miss_waits_for_all_rows(held: Held, verb: Any, id: str, error: Any) -> None:
    async with held.opened() as extension:
        reading = start(extension.read(verb, id))
        assert await waits(reading)

        held.let_go()

        with pytest.raises(error):
            await reading


async def test_a_creation_waits_and_does_not_hold_up_the_others_of_its_group(held: Held) -> None:
    async with held.opened() as extension:
        async with held_writer(extension.database):
            creation = start(extension.write(put_character, "new", None))
            tasks = await waiting(
                extension.database, (set_value, TARGET, "hp", "5"), (set_value, TARGET, "mp", "6")
            )
        changed = await asyncio.gather(*tasks)
        assert [each.revision for each in changed] == [3, 4]
        assert await waits(creation)

        held.let_go()

        written = await creation
        assert isinstance(written, Written)
        assert written.revision == 5
    assert select(held.path, "SELECT id FROM characters ORDER BY number") == [("c",), ("new",)]


async def test_a_row_chosen_among_others_depends_on_all_of_them(held: Held) -> None:
    statements = [
        "SELECT max(revision) FROM {schema}.characters",
        "SELECT count(*) FROM {schema}.characters",
        "SELECT key FROM {schema}.data ORDER BY key LIMIT 1",
        "SELECT EXISTS (SELECT 1 FROM {schema}.data)",
    ]

    async def job(transaction: Transaction) -> None:
        for text in statements:
            with pytest.raises(NotVerifiedYet):
                await transaction.fetch_one(Statement(text))

    async with held.opened() as extension:
        await extension.database.read(job)


async def test_fetch_all_answers_as_soon_as_it_finds_what_is_expected(held: Held) -> None:
    statement = Statement("SELECT key FROM {schema}.data WHERE key IN ('hp', :other)")

    async def job(transaction: Transaction) -> None:
        assert len(await transaction.fetch_all(statement, expected=2, other="mp")) == 2
        with pytest.raises(NotVerifiedYet):
            await transaction.fetch_all(statement, expected=2, other="nothing")
        with pytest.raises(NotVerifiedYet):
            await transaction.fetch_all(statement, other="mp")

    async with held.opened() as extension:
        await extension.database.read(job)


async def test_a_key_that_was_damaged_in_its_order_is_never_reported_as_absent(held: Held) -> None:
    # No index holds this key, and the order of the rows is the same.
    change(held.path, "UPDATE data SET key = 'ho' WHERE key = 'hp'")

    async def open_and_read() -> Any:
        async with held.opened() as extension:
            return await answer(extension, find_value, TARGET, "hp")

    with pytest.raises(DatabaseDamaged, match="table data has a damaged row"):
        await open_and_read()


async def test_damage_that_is_found_late_refuses_all_from_then_on(
    held: Held, caplog: pytest.LogCaptureFixture
) -> None:
    change(held.path, "UPDATE requests SET live = live + 1")
    async with held.opened() as extension:
        miss = start(extension.read(get_character, "nobody"))
        creation = start(extension.write(put_character, "new", None))
        assert await waits(miss)
        assert await answer(extension, find_value, TARGET, "hp") == {"hp": 1}

        held.let_go()

        for request in (miss, creation):
            with pytest.raises(DatabaseDamaged, match="requests has a damaged row"):
                await request
        assert extension.database.suspect
        with pytest.raises(DatabaseDamaged):
            await extension.read(find_value, TARGET, "hp")
        with pytest.raises(DatabaseDamaged):
            await extension.write(set_value, TARGET, "hp", "7")
    (entry,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert entry.getMessage() == "The table requests has a damaged row: ('k',)"
    assert vars(entry)["file"] == str(held.path)

    with pytest.raises(DatabaseDamaged, match="requests has a damaged row"):
        async with held.opened():
            raise AssertionError("the file is known to be damaged")


async def test_a_file_closed_before_its_end_is_verified_again(held: Held) -> None:
    async with held.opened() as extension:
        waiting_for = start(extension.database.verified())
        assert await waits(waiting_for)
        held.let_go()
        await extension.database.close()
        with pytest.raises(DatabaseUnavailable):
            await waiting_for

    assert not held.known.is_sound(held.path)


async def test_a_file_that_was_verified_to_its_end_is_known_to_be_sound(held: Held) -> None:
    async with held.opened() as extension:
        held.let_go()
        await extension.database.verified()

    assert held.known.is_sound(held.path)
