"""Two servers, one PostgreSQL database: the second is refused, and the lock is kept."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import httpx

from tests.conftest import wait_for
from tests.support.postgres import PostgresServer
from tests.system.conftest import RunProgram

WAITING = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
HOLDER = (
    "SELECT pid FROM pg_locks JOIN pg_database ON pg_database.oid = database "
    "WHERE locktype = 'advisory' AND granted AND datname = current_database() AND objid = 2"
)


def holder(postgres: PostgresServer, url: str) -> str:
    return postgres.execute(HOLDER, database_of(url))


def database_of(url: str) -> str:
    return url.partition("@/")[2].partition("?")[0]


def is_quiet(postgres: PostgresServer, url: str) -> bool:
    """Return True if the connection of the lock has not been used for a second."""
    used = "SELECT query_start < now() - interval '1 s' FROM pg_stat_activity WHERE pid = "
    return postgres.execute(used + holder(postgres, url), database_of(url)) == "t"


def write(client: httpx.Client, value: Any) -> httpx.Response:
    return client.post("/instances/i/data", json={"key": "k", "value": value})


def test_a_second_server_is_refused_and_names_the_first(
    run_program: RunProgram, postgres: PostgresServer
) -> None:
    url = postgres.create_database()
    first = run_program("--database", url)
    first.register("demo")

    second = run_program("--database", url, ready=False)

    assert second.wait() == 3
    assert f"error: Another server (pid {first.process.pid} on " in second.log
    assert "hint: Stop that server first" in second.log
    with first.client("demo") as client:
        assert client.post("/characters", json={"id": "c"}).status_code == 200
    # A killed server has no lock, and neither has one that was stopped.
    first.stop(9)
    third = run_program("--database", url)
    assert third.stop() == 0
    assert run_program("--database", url).stop() == 0
    # Another database has another lock.
    run_program("--database", url)
    run_program("--database", postgres.create_database())


def test_the_lock_is_taken_again_when_its_connection_is_lost(
    run_program: RunProgram, postgres: PostgresServer
) -> None:
    url = postgres.create_database()
    program = run_program("--database", url)
    program.register("demo")
    with program.client("demo") as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        for number in range(3):
            before = holder(postgres, url)
            postgres.execute(f"SELECT pg_terminate_backend({before})")

            # A write waits until the server has the lock again.
            assert write(client, number).status_code == 200
            after = wait_for(lambda: holder(postgres, url))
            assert after != before
        # Also while nobody writes.
        postgres.execute(f"SELECT pg_terminate_backend({after})")
        assert wait_for(lambda: holder(postgres, url)) != after

    assert run_program("--database", url, ready=False).wait() == 3


async def test_without_the_lock_there_are_reads_and_no_writes(
    run_program: RunProgram, postgres: PostgresServer
) -> None:
    url = postgres.create_database()
    program = run_program("--database", url, "--cache-mb", "0")
    for name in ("demo", "closed"):
        program.register(name)
    other = await asyncpg.connect(url)
    with program.client("demo") as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        assert write(client, 1).status_code == 200
        # Another server waits for the lock, so that it is the next to have it.
        waiting = asyncio.create_task(other.execute(f"SELECT pg_advisory_lock({0x5654}, 2)"))
        while postgres.execute(WAITING, database_of(url)) == "0":
            await asyncio.sleep(0.01)
        postgres.execute(f"SELECT pg_terminate_backend({holder(postgres, url)})")
        await waiting

        # The server may not have noticed yet that the connection of its lock is gone.
        refused = wait_for(lambda: (found := write(client, 2)).status_code != 200 and found)
        read = client.get("/instances/i/data/k")

        assert (refused.status_code, refused.json()["code"]) == (503, "database_unavailable")
        assert "Another server" in refused.json()["error"]
        assert read.json()["k"] in (1, 2)
        headers = {"x-extension-id": "closed"}
        assert client.get("/characters", headers=headers).json() == []

        await other.close()

        answer = wait_for(lambda: (found := write(client, 3)).status_code == 200 and found)
        assert int(answer.headers["x-revision"]) == int(read.headers["etag"].strip('"')) + 1
        # Then the connection of the lock is used once in a while only.
        wait_for(lambda: is_quiet(postgres, url))
    assert program.stop() == 0
