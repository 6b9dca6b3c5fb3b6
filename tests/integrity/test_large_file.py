"""The rows of a large file are verified while it is in use."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from valuetracker.engine import sqlite_database
from valuetracker.engine.sqlite_database import BACKGROUND_BYTES

INSTANCES = [f"instance-{number}" for number in range(10)]
KEYS = [f"key-{number}" for number in range(10)]
LARGE = "x" * 90_000


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a file whose rows are verified in the background."""
    data_dir = tmp_path_factory.mktemp("large") / "db"
    with running_server(data_dir) as server, server.client("demo") as client:
        server.register("demo")
        for instance in INSTANCES:
            client.post("/instances", json={"id": instance, "characterId": "c"})
            values = dict.fromkeys(KEYS, LARGE)
            assert client.put(f"/instances/{instance}/data/merge", json=values).status_code == 200
    assert (data_dir / "demo.db").stat().st_size > BACKGROUND_BYTES
    return data_dir


@pytest.fixture
def data_dir(large: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(large, tmp_path / "db"))


class Slowed:
    """A verification that makes a long pause after each row, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        monkeypatch.setattr(sqlite_database, "SLICE_SECONDS", 0)
        monkeypatch.setattr(sqlite_database, "PAUSE_SECONDS", 1)

    def let_go(self) -> None:
        self._monkeypatch.setattr(sqlite_database, "PAUSE_SECONDS", 0)


@pytest.fixture
def slowed(monkeypatch: pytest.MonkeyPatch) -> Slowed:
    return Slowed(monkeypatch)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def status_of(client: httpx.Client) -> str:
    return str(client.get("/extensions/demo").json()["status"])


WAITING = [
    ("GET", "/instances/instance-1/data/nothing", None),
    ("GET", "/instances/nothing", None),
    ("GET", "/instances/instance-1/data", None),
    ("GET", "/characters", None),
    ("POST", "/characters", {"id": "new"}),
    ("POST", "/instances/instance-2/data", {"key": "new", "value": 1}),
]


def send_all(server: RunningServer, pool: ThreadPoolExecutor) -> list[Future[httpx.Response]]:
    def send(method: str, path: str, body: object) -> httpx.Response:
        with server.client("demo") as client:
            return client.request(method, path, json=body)

    return [pool.submit(send, *request) for request in WAITING]


def test_present_values_are_answered_at_once_and_all_that_depends_on_absence_waits(
    data_dir: Path, slowed: Slowed, pool: ThreadPoolExecutor
) -> None:
    with running_server(data_dir) as server, server.client("demo") as client:
        present = client.get("/instances/instance-1/data/key-3")
        waiting = send_all(server, pool)
        written = client.post("/instances/instance-5/data", json={"key": "key-1", "value": 5})
        again = client.get("/instances/instance-5/data/key-1")
        summary = client.get("/extensions/demo").json()
        answered = [each.done() for each in waiting]

        slowed.let_go()

        statuses = [each.result().status_code for each in waiting]
        wait_for(lambda: status_of(client) == "ok")

    assert present.json() == {"key-3": LARGE}
    assert written.status_code == 200
    assert again.json() == {"key-1": 5}
    assert summary["status"] == "verifying"
    assert (summary["instances"], summary["keys"]) == (len(INSTANCES), 100)
    assert answered == [False] * len(WAITING)
    assert statuses == [200, 404, 200, 200, 200, 200]
    assert waiting[0].result().json() == {}


def test_damage_that_is_found_late_closes_the_extension_until_its_file_is_another_one(
    data_dir: Path, slowed: Slowed, pool: ThreadPoolExecutor
) -> None:
    file = data_dir / "demo.db"
    good = file.read_bytes()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(
            "UPDATE entries SET at = at + 1 WHERE entry = (SELECT max(entry) FROM entries)"
        )

    with running_server(data_dir) as server, server.client("demo") as client:
        server.register("other")
        present = client.get("/instances/instance-1/data/key-3")
        waiting = send_all(server, pool)
        status = status_of(client)

        slowed.let_go()

        refused = [each.result() for each in waiting]
        refused += [client.get("/instances/instance-1/data/key-3") for _ in range(3)]
        listed = {each["id"]: each["status"] for each in client.get("/extensions").json()}
        other = client.get("/characters", headers={"x-extension-id": "other"})
        file.with_name("good").write_bytes(good)
        file.with_name("good").replace(file)
        healed = client.get("/instances/instance-1/data/key-3")

    assert present.json() == {"key-3": LARGE}
    assert status == "verifying"
    assert {(each.status_code, each.json()["code"]) for each in refused} == {
        (503, "database_damaged")
    }
    assert listed == {"demo": "database_damaged", "other": "ok"}
    assert other.status_code == 200
    assert healed.json() == {"key-3": LARGE}


def test_a_row_that_is_damaged_while_the_file_is_open_is_not_answered(data_dir: Path) -> None:
    file = data_dir / "demo.db"
    with running_server(data_dir, cache_mb=0) as server, server.client("demo") as client:
        wait_for(lambda: status_of(client) == "ok")
        # Overwrite all but the first page in the open file, as a bad disk would.
        with file.open("r+b") as handle:
            handle.seek(4096)
            handle.write(b"\xaa" * (file.stat().st_size - 4096))

        answers = [
            client.get(f"/instances/{instance}/data/{key}")
            for instance in INSTANCES
            for key in KEYS
        ]

    # Pages that SQLite still has in memory are right, and may be answered from.
    right = [each for each in answers if each.status_code == 200]
    assert all(list(each.json().values()) == [LARGE] for each in right)
    assert len(right) < len(answers)
    assert {each.json()["code"] for each in answers if each not in right} == {"database_damaged"}
