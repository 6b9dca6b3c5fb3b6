"""Starting on a PostgreSQL that is missing, belongs to others or was changed."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from tests.conftest import running_server, wait_for
from tests.support.databases import write
from tests.support.engines import started
from tests.support.postgres import PostgresServer
from valuetracker.errors import StartupError
from valuetracker.store.characters import put_character

SECRET = "sesame"
SCHEMAS = "SELECT count(*) FROM pg_namespace WHERE nspname ~ '^(valuetracker|vt_)'"


def database_of(url: str) -> str:
    return url.split("/")[3].split("?")[0]


def serve(tmp_path: Path, url: str) -> subprocess.CompletedProcess[str]:
    """Run the program, which is expected to fail before it serves."""
    return subprocess.run(
        [sys.executable, "-m", "valuetracker", "serve", "--port", "0", "--database", url],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )


def check_refused(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that says why the program did not start."""
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    assert SECRET not in done.stderr
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    return error


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Collect garbage, so that a connection left open fails this test and not a later one."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def new_cluster() -> Iterator[PostgresServer]:
    """A new PostgreSQL cluster."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.end()


WRONG = {
    "unreachable": f"postgresql://somebody:{SECRET}@127.0.0.1:1/name",
    "unreachable, password behind": f"postgresql://127.0.0.1:1/name?user=me&password={SECRET}",
    "no port": f"postgresql://somebody:{SECRET}@127.0.0.1:port/name",
    "no such socket": f"postgresql://somebody:{SECRET}@/name?host=/nowhere",
    "no such option": f"postgresql://somebody:{SECRET}@127.0.0.1:1/name?sslmode=perhaps",
}


@pytest.mark.parametrize("url", WRONG.values(), ids=WRONG)
async def test_a_database_that_cannot_be_reached_stops_the_start(url: str, tmp_path: Path) -> None:
    with pytest.raises(StartupError) as failure:
        async with started(url, tmp_path):
            pass

    assert SECRET not in str(failure.value)
    assert str(failure.value).startswith("The database")


@pytest.mark.parametrize("url", [WRONG["unreachable"], WRONG["unreachable, password behind"]])
def test_the_program_exits_with_1_and_names_the_address_without_the_password(
    url: str, tmp_path: Path
) -> None:
    assert "127.0.0.1:1/name" in check_refused(serve(tmp_path, url))


def test_a_database_or_user_that_does_not_exist_is_named(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    assert "missing_database" in check_refused(serve(tmp_path, postgres.url("missing_database")))
    assert "stranger" in check_refused(serve(tmp_path, postgres.url("postgres", "stranger")))


# Rights


def test_missing_rights_are_named_and_nothing_is_created(
    new_cluster: PostgresServer, tmp_path: Path
) -> None:
    name = database_of(new_cluster.create_database())
    new_cluster.execute("CREATE ROLE powerless LOGIN")

    error = check_refused(serve(tmp_path, new_cluster.url(name, "powerless")))

    assert "right" in error
    assert "valuetracker_reader" in error
    assert new_cluster.execute(SCHEMAS, name) == "0"


async def test_a_start_that_failed_leaves_no_connection_behind(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    name = database_of(postgres.create_database())
    postgres.execute("CREATE ROLE leaver LOGIN")

    with pytest.raises(StartupError):
        async with started(postgres.url(name, "leaver"), tmp_path):
            pass

    def connections() -> str:
        return postgres.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'leaver'")

    await asyncio.to_thread(wait_for, lambda: connections() == "0", 3)


async def test_the_right_to_create_schemas_and_the_reader_role_are_enough(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database()
    async with started(url, tmp_path):
        pass
    url = postgres.create_database()
    name = database_of(url)
    postgres.execute("CREATE ROLE modest LOGIN")
    postgres.execute(f"GRANT CREATE ON DATABASE {name} TO modest")

    with pytest.raises(StartupError, match="valuetracker_reader"):
        async with started(postgres.url(name, "modest"), tmp_path):
            pass
    postgres.execute("GRANT valuetracker_reader TO modest")

    async with (
        started(postgres.url(name, "modest"), tmp_path) as bench,
        bench.opened(await bench.create()) as database,
    ):
        assert (await write(database, put_character, "c", None)).revision == 1


def test_revoked_rights_give_a_hint_and_granting_them_again_needs_no_restart(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database()
    name = database_of(url)
    with running_server(tmp_path, database=url, cache_mb=0) as server:
        for extension in ("demo", "other"):
            server.register(extension)
        with server.client("demo") as client, server.client("other") as other:
            client.post("/characters", json={"id": "c"})
            schema = schema_of(postgres, name, "demo")
            on_all = f"SELECT ON ALL TABLES IN SCHEMA {schema}"
            postgres.execute(f"REVOKE {on_all} FROM valuetracker_reader", name)

            refused = client.get("/characters")
            unharmed = other.get("/characters")
            postgres.execute(f"GRANT {on_all} TO valuetracker_reader", name)
            again = client.get("/characters")

    assert refused.status_code == 503
    assert refused.json()["code"] == "database_unavailable"
    assert "rights" in refused.json()["hint"]
    assert unharmed.status_code == 200
    assert [each["id"] for each in again.json()] == ["c"]


# Edited by hand


def schema_of(postgres: PostgresServer, database: str, extension: str) -> str:
    return postgres.execute(
        f"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'vt\\_{extension}\\_%'", database
    )


@pytest.mark.parametrize(
    "harm",
    [
        "ALTER TABLE {}.characters DROP COLUMN name",
        "ALTER TABLE {}.head RENAME COLUMN keys TO words",
        "DROP TABLE {}.head CASCADE",
        "DROP TABLE {}.file CASCADE",
        "DROP SCHEMA {} CASCADE",
        "UPDATE {}.file SET identity = 'another'",
    ],
)
def test_a_schema_edited_by_hand_stops_only_its_extension_and_can_be_purged(
    postgres: PostgresServer, tmp_path: Path, harm: str
) -> None:
    url = postgres.create_database()
    name = database_of(url)
    with running_server(tmp_path, database=url) as server:
        for extension in ("demo", "other"):
            server.register(extension)
            with server.client(extension) as client:
                assert client.post("/characters", json={"id": "c"}).status_code == 200
    postgres.execute(harm.replace("{}", schema_of(postgres, name, "demo")), name)

    with (
        running_server(tmp_path, database=url) as server,
        server.client("demo") as client,
        server.client("other") as other,
    ):
        refused = [client.get("/characters"), client.post("/characters", json={"id": "d"})]
        unharmed = [other.get("/characters"), other.post("/characters", json={"id": "d"})]
        listed = {each["id"]: each["status"] for each in client.get("/extensions").json()}
        body = {"extensionId": "demo", "purge": True}
        purged = client.request("DELETE", "/register", json=body)
        server.register("demo")
        anew = client.get("/characters")

    assert [each.status_code for each in refused] == [503, 503]
    assert {each.json()["code"] for each in refused} == {"database_damaged"}
    assert all(each.json()["hint"] for each in refused)
    assert [each.status_code for each in unharmed] == [200, 200]
    assert listed["other"] == "ok"
    if "characters" not in harm:
        # A list of extensions only counts the characters.
        assert listed["demo"] == "database_damaged"
    assert purged.status_code == 200, purged.text
    assert anew.json() == []


@pytest.mark.parametrize(
    "harm",
    [
        "ALTER TABLE valuetracker.extensions DROP COLUMN revision",
        "DROP TABLE valuetracker.extensions",
        "DROP TABLE valuetracker.file",
        "DELETE FROM valuetracker.file",
        "UPDATE valuetracker.file SET version = 1000",
    ],
)
def test_a_registry_edited_by_hand_stops_the_start_and_is_not_changed(
    postgres: PostgresServer, tmp_path: Path, harm: str
) -> None:
    url = postgres.create_database()
    name = database_of(url)
    with running_server(tmp_path, database=url) as server:
        server.register("demo")
    postgres.execute(harm, name)

    check_refused(serve(tmp_path, url))

    assert postgres.execute(SCHEMAS, name) == "2"


# Several servers at once


async def test_servers_starting_at_once_in_a_new_cluster_all_start(
    new_cluster: PostgresServer, tmp_path: Path
) -> None:
    new_cluster.execute("DROP ROLE IF EXISTS valuetracker_reader")
    urls = [new_cluster.create_database() for _ in range(3)]
    together = asyncio.Barrier(6)

    async def start(url: str) -> int:
        async with started(url, tmp_path, alone=False) as bench:
            await together.wait()
            return len(await bench.outside("SELECT * FROM valuetracker.file"))

    starting = [asyncio.create_task(start(url)) for url in urls * 2]
    done, waiting = await asyncio.wait(starting, timeout=40, return_when=asyncio.FIRST_EXCEPTION)
    for each in waiting:
        each.cancel()
    if waiting:
        await asyncio.wait(waiting)

    # Three new databases with two servers each; all share one role.
    assert [each.result() for each in starting if each in done] == [1] * 6
    connection = await asyncpg.connect(urls[0])
    try:
        assert await connection.fetchval(SCHEMAS) == 1
    finally:
        await connection.close()
