"""The schemas of PostgreSQL: rights, purging, statements, several servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.conftest import running_server
from tests.engine.test_postgres import database_of
from tests.support.databases import held_writer, waiting, write
from tests.support.engines import NAMES, Bench, started
from tests.support.postgres import PostgresServer
from valuetracker.engine import Transaction
from valuetracker.engine.postgres import PostgresEngine
from valuetracker.engine.statement import Statement
from valuetracker.store.characters import put_character
from valuetracker.store.data import set_value
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.ledger import Ledger

TARGET = instance("i")


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.create_database()


@pytest.fixture
async def bench(url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    async with started(url, tmp_path) as bench:
        yield bench


# Reading


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {}.members VALUES (1, 1)",
        "UPDATE {}.head SET revision = 1000",
        "DELETE FROM {}.characters",
        "TRUNCATE {}.characters",
        "SELECT * FROM {}.head FOR UPDATE",
        "DROP TABLE {}.characters",
        "CREATE TABLE {}.more (word TEXT)",
        "CREATE SCHEMA more",
        "UPDATE valuetracker.extensions SET revision = 1000",
    ],
)
async def test_the_role_of_readers_may_read_and_nothing_else(
    bench: Bench, url: str, statement: str
) -> None:
    await bench.create()
    connection = await asyncpg.connect(url)
    try:
        await connection.execute("SET ROLE valuetracker_reader")
        text = statement.replace("{}", bench.location())

        assert await connection.fetchval(f"SELECT count(*) FROM {bench.location()}.head") == 1
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(text)
    finally:
        await connection.close()


async def test_every_read_on_a_connection_runs_in_the_reader_role(
    bench: Bench,
) -> None:
    async def who(transaction: Transaction) -> Any:
        return await transaction.fetch_one(
            Statement("SELECT current_user, current_setting('transaction_read_only')")
        )

    async with bench.opened(await bench.create()) as database:
        found = [await database.read(who) for _ in range(5)]
        found += await asyncio.gather(*(database.read(who) for _ in range(20)))

    assert set(found) == {("valuetracker_reader", "on")}


# Purging


async def test_purging_renames_the_schema_and_keeps_its_content(bench: Bench, url: str) -> None:
    names = [*["demo"] * 3, "x" * 128, "x" * 127 + "y"]
    for number, name in enumerate(names):
        async with bench.opened(await bench.create(name), name) as database:
            await write(database, put_character, f"c{number}", None)

        assert await bench.engine.discard(bench.location(name), name)
        assert not await bench.engine.exists(bench.location(name))
        assert not await bench.engine.discard(bench.location(name), name)

    kept = await bench.outside("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'trash%'")
    found = [await bench.outside(f'SELECT id FROM "{schema}".characters') for (schema,) in kept]
    assert sorted(found) == [[(f"c{number}",)] for number in range(len(names))]


# Statements


async def test_another_search_path_changes_nothing(
    postgres: PostgresServer, url: str, tmp_path: Path
) -> None:
    name = database_of(url)
    tables = (
        *(
            "file",
            "head",
            "characters",
            "holders",
            "members",
            "data",
            "entries",
            "keyframes",
            "taken",
        ),
        *("chats", "aliases", "places", "flips", "sessions", "claims", "requests", "extensions"),
    )
    postgres.execute("CREATE SCHEMA decoy", name)
    for table in tables:
        postgres.execute(f"CREATE TABLE decoy.{table} (wrong BIGINT)", name)
    postgres.execute("CREATE ROLE misled LOGIN SUPERUSER")
    postgres.execute("ALTER ROLE misled SET search_path = decoy")

    with running_server(tmp_path, database=postgres.url(name, "misled"), cache_mb=0) as server:
        server.register("demo")
        with server.client("demo") as client:
            body = {"id": "i", "characterId": "c", "chatId": "chat"}
            answers = [
                client.post("/instances", json=body),
                client.put("/instances/i/data/merge", json={"a": 1, "b": 2}),
                client.post(
                    "/instances/i/data",
                    json={"key": "a", "value": 3},
                    headers={"idempotency-key": "once"},
                ),
                client.request("DELETE", "/instances/i/data/b"),
                client.get("/instances/i/history"),
                client.get("/instances/i/data?at=2"),
                client.get("/characters/c"),
                client.get("/changes?since=0"),
                client.post("/instances/i/restore", json={"revision": 2}),
                client.post("/compact", json={"keep": {"revisions": 1}}),
                client.get("/extensions/demo"),
                client.request("DELETE", "/register", json={"extensionId": "demo", "purge": True}),
            ]

    assert [(each.status_code, each.text) for each in answers if each.status_code != 200] == []
    for table in tables:
        assert postgres.execute(f"SELECT count(*) FROM decoy.{table}", name) == "0"


@pytest.mark.parametrize("keys", ["old", "new"])
async def test_a_group_of_many_writes_takes_few_statements(
    url: str, tmp_path: Path, keys: str
) -> None:
    said: list[str] = []
    async with (
        started(url, tmp_path, pool_size=1) as bench,
        bench.opened(await bench.create()) as database,
    ):
        engine = bench.engine
        assert isinstance(engine, PostgresEngine)
        await write(database, put_instance, "i", "c", None)
        for number in range(20):
            await write(database, set_value, TARGET, f"old{number}", "0")
        async with engine.pools.writers.acquire() as connection:
            connection.add_query_logger(lambda record: said.append(record.query))

        await write(database, set_value, TARGET, "old1", "1")
        alone = len(said)
        async with held_writer(database):
            tasks = await waiting(
                database, *((set_value, TARGET, f"{keys}{n % 20}", str(n)) for n in range(200))
            )
            said.clear()
        answers = await asyncio.gather(*tasks)

        assert answers[-1].revision == 222
        assert 0 < alone <= 12
        # The statements of the group, the commit of the held writer, the reset of a connection.
        assert 0 < len(said) <= 24, said


# Several servers on one database


async def test_two_servers_on_one_database_make_revisions_without_a_gap(
    bench: Bench, url: str, tmp_path: Path
) -> None:
    identity = await bench.create()
    async with (
        started(url, tmp_path, alone=False) as other,
        bench.opened(identity) as here,
        other.opened(identity) as there,
    ):
        await write(here, put_instance, "i", "c", None)

        async def write_on(database: Any, number: int) -> list[int]:
            return [
                (await write(database, set_value, TARGET, f"k{(number + turn) % 5}", "1")).revision
                for turn in range(15)
            ]

        found = await asyncio.gather(
            *(write_on(database, number) for number in range(4) for database in (here, there))
        )

    numbers = sorted(number for each in found for number in each)
    assert numbers == list(range(2, 122))
    assert all(each == sorted(each) for each in found)
    await bench.recount()


async def current_value(tx: Ledger) -> str:
    holder = await tx.find_instance("i")
    assert holder is not None
    row = (await tx.load_rows(holder, ["k"]))["k"]
    assert row is not None
    assert row.value is not None
    return row.value


async def test_rolled_back_rows_are_forgotten_when_another_server_makes_the_same_head(
    bench: Bench, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = await bench.create()
    async with started(url, tmp_path, alone=False) as other, other.opened(identity) as there:
        await write(there, put_instance, "i", "c", None)
        await write(there, set_value, TARGET, "k", "0")
        monkeypatch.setenv("VALUETRACKER_FAIL", "before_commit:raise")
        async with bench.opened(identity) as here:
            with pytest.raises(RuntimeError, match="failpoint"):
                await write(here, set_value, TARGET, "k", "1")

            # The same number of revisions, changes and keys: the same head.
            await write(there, set_value, TARGET, "k", "2")
            seen = await write(here, current_value)
            written = await write(here, set_value, TARGET, "k", "3")

    assert seen.body == b'"2"'
    assert written.revision == 4
    assert (await bench.recount())["data"] == {"i": {"k": "3"}}


async def test_a_database_made_by_two_servers_at_once_is_made_once(
    bench: Bench, url: str, tmp_path: Path
) -> None:
    async with started(url, tmp_path, alone=False) as other:
        made = await asyncio.gather(bench.create(), other.create(), return_exceptions=True)

        (identity,) = [each for each in made if isinstance(each, str)]
        assert await other.engine.identity(other.location()) == (identity, "demo")
        async with bench.opened(identity) as here, other.opened(identity) as there:
            await write(here, put_character, "a", None)
            await write(there, put_character, "b", None)
            assert await bench.outside(NAMES) == [("a",), ("b",)]
