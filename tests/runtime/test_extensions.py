from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.integrity.recount import recount
from tests.support.databases import log_of, revisions_of


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "db", open_databases=2) as server:
        yield server


def register(client: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return client.post("/register", json={"extensionId": name, **more})


def deregister(client: httpx.Client, name: str, purge: bool = False) -> httpx.Response:
    body = {"extensionId": name, "purge": purge}
    return client.request("DELETE", "/register", json=body)


def put_value(client: httpx.Client, value: Any, extension: str | None = None) -> httpx.Response:
    headers = {"x-extension-id": extension} if extension else {}
    client.post("/instances", json={"id": "i", "characterId": "c"}, headers=headers)
    body = {"key": "k", "value": value}
    return client.post("/instances/i/data", json=body, headers=headers)


def open_databases(client: httpx.Client) -> int:
    return int(client.get("/healthz").json()["openDatabases"])


# Opening and closing


def test_many_extensions_share_few_open_databases(server: RunningServer) -> None:
    names = [f"extension-{number}" for number in range(12)]
    with server.client() as client:
        for name in names:
            register(client, name)
            assert put_value(client, name, name).status_code == 200
        wait_for(lambda: open_databases(client) <= 2)

        for name in reversed(names):
            found = client.get("/instances/i/data", headers={"x-extension-id": name})
            assert found.json() == {"k": name}
        wait_for(lambda: open_databases(client) <= 2)


def test_databases_used_all_at_once_do_not_all_stay_open(server: RunningServer) -> None:
    names = [f"extension-{number}" for number in range(12)]
    for name in names:
        server.register(name)
    together = threading.Barrier(len(names))

    def use(name: str) -> int:
        with server.client(name) as client:
            client.get("/probe")
            together.wait(60)
            return sum(put_value(client, turn).status_code == 200 for turn in range(10))

    with ThreadPoolExecutor(len(names)) as pool:
        assert list(pool.map(use, names)) == [10] * len(names)
    with server.client() as client:
        wait_for(lambda: open_databases(client) <= 2)


def test_first_requests_at_the_same_time_open_one_database(server: RunningServer) -> None:
    server.register("demo")
    together = threading.Barrier(12)

    def use(number: int) -> int:
        with server.client("demo") as client:
            together.wait(60)
            return client.post("/characters", json={"id": f"c{number}"}).status_code

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(use, range(12))) == [200] * 12
    with server.client("demo") as client:
        assert len(client.get("/characters").json()) == 12
        assert open_databases(client) == 1
    recount(server.data_dir / "demo.db")


def test_registering_an_id_at_the_same_time_makes_one_extension(server: RunningServer) -> None:
    together = threading.Barrier(8)

    def use(name: str) -> int:
        with server.client() as client:
            together.wait(60)
            return register(client, name).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(use, ["Demo", "demo"] * 4))

    assert sorted(answers) == [200] * 4 + [409] * 4
    assert len([file for file in server.data_dir.glob("*.db") if file.name[0] != "."]) == 1


def test_closing_and_opening_again_loses_nothing_under_load(server: RunningServer) -> None:
    names = [f"extension-{number}" for number in range(6)]
    for name in names:
        server.register(name)

    def use(name: str) -> list[int]:
        with server.client(name) as client:
            return [
                int(client.post("/characters", json={"id": f"c{n}"}).headers["x-revision"])
                for n in range(40)
            ]

    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(use, names))

    assert found == [list(range(1, 41))] * 6


# Deregistering


@pytest.mark.parametrize("purge", [False, True])
def test_each_write_during_a_deregistration_is_kept_or_refused(
    server: RunningServer, purge: bool
) -> None:
    server.register("demo")
    stop = threading.Event()
    acknowledged: list[tuple[int, str]] = []
    odd: list[tuple[int, str]] = []

    def write_on(number: int) -> None:
        with server.client("demo") as client:
            turn = 0
            while not stop.is_set():
                turn += 1
                id = f"{number}-{turn}"
                answer = client.post("/characters", json={"id": id})
                if answer.status_code == 200:
                    acknowledged.append((int(answer.headers["x-revision"]), id))
                elif answer.json()["code"] != "extension_not_registered":
                    odd.append((answer.status_code, answer.text))

    with ThreadPoolExecutor(16) as pool:
        writers = [pool.submit(write_on, number) for number in range(16)]
        try:
            with server.client() as client:
                for _ in range(8):
                    seen = len(acknowledged)
                    wait_for(lambda seen=seen: len(acknowledged) > seen + 20)  # type: ignore[misc]
                    assert deregister(client, "demo", purge).status_code == 200
                    assert register(client, "demo").status_code == 200
        finally:
            stop.set()
        for writer in writers:
            writer.result()

    assert odd == []
    numbers = [revision for revision, _ in acknowledged]
    assert len(set(numbers)) == len(numbers)
    with server.client() as client:
        deregister(client, "demo")
    files = [server.data_dir / "demo.db", *(server.data_dir / "trash").glob("demo.*.db")]
    assert len(files) == (9 if purge else 1)
    kept = {
        (change.revision, change.id)
        for file in files
        for change in log_of(file)
        if change.space == "character"
    }
    assert kept == set(acknowledged)


def test_registering_again_finds_the_data_and_revisions_continue_after_a_purge(
    server: RunningServer,
) -> None:
    with server.client("demo") as client:
        register(client, "demo")
        assert put_value(client, 1).headers["x-revision"] == "2"

        deregister(client, "demo")
        purged = client.get("/instances/i/data")
        register(client, "demo")
        assert purged.status_code == 404
        assert client.get("/instances/i/data").json() == {"k": 1}
        assert put_value(client, 2).headers["x-revision"] == "3"

        deregister(client, "demo", purge=True)
        register(client, "demo")
        assert client.get("/instances/i/data").json() == {}
        assert put_value(client, 3).headers["x-revision"] == "5"
    assert revisions_of(server.data_dir / "trash" / "demo.1.db") == [1, 2, 3]


def test_a_file_in_another_file_system_can_be_purged(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    other = next(path for path in ("/dev/shm", "/var/tmp") if os.stat(path).st_dev != device)
    elsewhere = Path(tempfile.mkdtemp(dir=other))
    try:
        with running_server(tmp_path / "db", allow_root=(elsewhere,)) as server:
            with server.client("demo") as client:
                register(client, "demo", dbPath=str(elsewhere / "demo.db"))
                put_value(client, 1)

                purged = deregister(client, "demo", purge=True)

                assert purged.status_code == 200, purged.text
            assert (tmp_path / "db" / "trash" / "demo.1.db").exists()
            assert not (elsewhere / "demo.db").exists()
    finally:
        shutil.rmtree(elsewhere)


# An older copy


def test_an_older_copy_is_a_new_incarnation(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    with running_server(tmp_path) as server, server.client("demo") as client:
        register(client, "demo")
        put_value(client, "old")
    older = file.read_bytes()
    with running_server(tmp_path) as server, server.client("demo") as client:
        highest = int(put_value(client, "new").headers["x-revision"])
    file.write_bytes(older)

    with running_server(tmp_path) as server, server.client("demo") as client:
        found = client.get("/instances/i/data")
        written = client.post("/instances/i/data", json={"key": "k", "value": "newer"})
        deregister(client, "demo")
        register(client, "demo")
        again = client.get("/instances/i/data")

    assert (found.json(), found.headers["x-incarnation"]) == ({"k": "old"}, "1")
    assert int(written.headers["x-revision"]) == highest + 1
    assert (again.json(), again.headers["x-incarnation"]) == ({"k": "newer"}, "1")


def test_an_older_copy_that_replaces_an_open_file_is_a_new_incarnation(
    server: RunningServer,
) -> None:
    file = server.data_dir / "demo.db"
    large = "x" * 3_000
    with server.client("demo") as client:
        register(client, "demo")
        for name in ("first", "second"):
            client.post("/instances", json={"id": name, "characterId": "c"})
            values = {f"{name}-{number}": large for number in range(20)}
            client.put(f"/instances/{name}/data/override", json={**values, "state": "old"})
        deregister(client, "demo")
        older = server.data_dir.parent / "older.db"
        shutil.copyfile(file, older)
        register(client, "demo")
        client.put("/instances/first/data", json={"key": "state", "value": "new"})
        deregister(client, "demo")
        register(client, "demo")
        client.put("/instances/second/data", json={"key": "state", "value": "new"})

        older.replace(file)

        # The first request notices it; those after it find the database closed.
        for _ in range(5):
            for name in ("first", "second"):
                answer = client.get(f"/instances/{name}/data/state")
                expected = {"state": "old" if "x-incarnation" in answer.headers else "new"}
                assert answer.status_code == 503 or answer.json() == expected, answer.text
        assert answer.headers["x-incarnation"] == "1"
