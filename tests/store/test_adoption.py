from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.integrity.recount import recount
from tests.support.databases import log_of, select
from tests.support.original import VALUES, make_original

# Registers `demo` in the data directory named on its command line, as the server does.
REGISTER = """
import asyncio, pathlib, sys
from valuetracker.app import create_engine
from valuetracker.settings import Settings
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity

async def main():
    settings = Settings(data_dir=pathlib.Path(sys.argv[1]))
    extensions = Extensions(create_engine(settings), AnswerCache(0), Capacity(8))
    await extensions.start()
    await extensions.register("demo", None)
    await extensions.stop()

asyncio.run(main())
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "db") as server:
        yield server


def register(client: httpx.Client, **more: Any) -> httpx.Response:
    return client.post("/register", json={"extensionId": "demo", **more})


def test_every_value_reads_as_the_original_would_have_returned_it(server: RunningServer) -> None:
    make_original(server.data_dir / "demo.db")

    with server.client("demo") as client:
        answer = register(client)
        found = client.get("/instances/run/data")

    assert answer.status_code == 200, answer.text
    assert answer.json()["message"] == "Extension demo registered successfully"
    wanted = {key: value for key, (_, value) in VALUES.items()}
    assert {key: found.json()[key] for key in wanted} == wanted
    assert list(found.json()) == list(wanted)
    assert isinstance(found.json()["number"], int)


def test_characters_and_instances_are_adopted_with_their_times(server: RunningServer) -> None:
    make_original(server.data_dir / "demo.db")

    with server.client("demo") as client:
        register(client)
        characters = {each["id"]: each for each in client.get("/characters").json()}
        instances = {each["id"]: each for each in client.get("/instances").json()}

    assert characters["Seraphina.png"] == {
        "id": "Seraphina.png",
        "name": "Seraphina",
        "createdAt": "2024-01-02T03:04:05.000Z",
        "updatedAt": "2024-02-03T04:05:06.000Z",
    }
    assert characters["nameless"] == {
        "id": "nameless",
        "name": None,
        "createdAt": "2024-01-02T03:04:05.678Z",
        "updatedAt": "2024-01-02T03:04:05.678Z",
    }
    assert instances["run"] == {
        "id": "run",
        "characterId": "Seraphina.png",
        "name": "Run",
        "chatId": None,
        "createdAt": "2024-01-02T03:04:05.000Z",
        "updatedAt": "2024-01-02T03:04:06.000Z",
    }
    assert set(characters) == {"Seraphina.png", "nameless", "missing.png", "_orphaned"}
    assert set(instances) == {"run", "empty", "stray", "ghost"}


def test_rows_without_an_owner_get_one(server: RunningServer) -> None:
    make_original(server.data_dir / "demo.db")

    with server.client("demo") as client:
        register(client)
        stray = client.get("/instances/stray").json()
        missing = client.get("/characters/missing.png").json()
        orphaned = client.get("/characters/_orphaned").json()

    assert stray["instance"]["characterId"] == "missing.png"
    assert stray["data"] == {"k": "kept"}
    assert missing["character"]["name"] is None
    assert [each["instance"]["id"] for each in orphaned["instances"]] == ["ghost"]
    assert orphaned["instances"][0]["data"] == {"k": 1, "l": 2}


def test_adoption_is_the_first_revision_and_the_log_is_complete(server: RunningServer) -> None:
    make_original(server.data_dir / "demo.db")

    with server.client("demo") as client:
        register(client)
        summary = client.get("/extensions/demo").json()
        written = client.post("/characters", json={"id": "new"})

    assert summary["revision"] == 1
    assert (summary["characters"], summary["instances"]) == (4, 4)
    assert summary["keys"] == len(VALUES) + 3
    assert written.headers["x-revision"] == "2"
    recount(server.data_dir / "demo.db")
    assert {change.op for change in log_of(server.data_dir / "demo.db") if change.key} == {"adopt"}
    tables = select(server.data_dir / "demo.db", "SELECT name FROM sqlite_schema")
    assert not [name for (name,) in tables if name.startswith(("adopted_", "idx_"))]


@pytest.mark.parametrize("location", [None, "sub/custom.db"])
def test_one_untouched_copy_is_kept(server: RunningServer, location: str | None) -> None:
    file = server.data_dir / (location or "demo.db")
    file.parent.mkdir(exist_ok=True)
    make_original(file)
    file.chmod(0o644)
    before = file.read_bytes()

    with server.client("demo") as client:
        answer = register(client, **({"dbPath": location} if location else {}))
        found = client.get("/instances/run/data/text").json()
        again = register(client)

    copies = [path for path in file.parent.iterdir() if "original" in path.name]
    assert answer.status_code == again.status_code == 200
    assert found == {"text": "words"}
    assert [path.name for path in copies] == [file.name + ".original"]
    assert copies[0].read_bytes() == before
    assert stat.S_IMODE(copies[0].stat().st_mode) == 0o600
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_adopted_file_is_found_again_after_a_restart(tmp_path: Path) -> None:
    make_original(tmp_path / "demo.db")
    with running_server(tmp_path) as server, server.client("demo") as client:
        register(client)
        before = client.get("/instances/run/data").content

    with running_server(tmp_path) as server, server.client("demo") as client:
        assert client.get("/instances/run/data").content == before


def test_a_file_is_adopted_with_the_writes_that_are_still_in_its_wal(
    server: RunningServer,
) -> None:
    file = server.data_dir / "demo.db"
    made = server.data_dir.parent / "made.db"
    make_original(made)
    with closing(sqlite3.connect(made)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("UPDATE data SET value = '\"late\"' WHERE key = 'text'")
        connection.commit()
        # As a killed program leaves them.
        for ending in ("", "-wal"):
            file.with_name(file.name + ending).write_bytes(
                made.with_name(made.name + ending).read_bytes()
            )

    with server.client("demo") as client:
        answer = register(client)

        assert answer.status_code == 200, answer.text
        assert client.get("/instances/run/data/text").json() == {"text": "late"}
    kept = select(file.with_name("demo.db.original"), "SELECT value FROM data WHERE key = 'text'")
    assert kept == [('"late"',)]


def register_in_a_process(data_dir: Path, failpoint: str = "") -> int:
    environment = {**os.environ, "VALUETRACKER_FAIL": failpoint}
    return subprocess.run(
        [sys.executable, "-c", REGISTER, str(data_dir)], env=environment, timeout=60
    ).returncode


@pytest.mark.parametrize(
    "failpoint", ["mid_adoption:kill", "mid_migration:kill:1", "mid_migration:kill:9"]
)
def test_an_adoption_killed_half_way_leaves_the_old_file_and_the_next_start_adopts_it(
    tmp_path: Path, failpoint: str
) -> None:
    file = tmp_path / "demo.db"
    make_original(file)
    before = file.read_bytes()
    # The registry is made first, because this test must not kill its migration.
    with running_server(tmp_path):
        pass

    assert register_in_a_process(tmp_path, failpoint) == -signal.SIGKILL
    with running_server(tmp_path) as server, server.client("demo") as client:
        not_yet = client.get("/instances/run/data")
        answer = register(client)
        found = client.get("/instances/run/data")

    assert not_yet.status_code == 404
    assert answer.status_code == 200, answer.text
    assert found.json()["text"] == "words"
    assert file.with_name("demo.db.original").read_bytes() == before
    recount(file)


def test_a_large_adoption_killed_half_way_leaves_the_old_file_and_the_next_start_adopts_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "demo.db"
    make_original(file)
    rows = [(f"large {number}", '"' + "x" * 50_000 + '"') for number in range(200)]
    with closing(sqlite3.connect(file)) as connection:
        statement = "INSERT INTO data (instance_id, key, value) VALUES ('empty', ?, ?)"
        connection.executemany(statement, rows)
        connection.commit()
    before = file.read_bytes()
    with running_server(tmp_path):
        pass

    assert register_in_a_process(tmp_path, "mid_adoption:kill") == -signal.SIGKILL
    # More than SQLite keeps in memory: half of it was written already.
    assert file.read_bytes() != before
    with running_server(tmp_path) as server, server.client("demo") as client:
        answer = register(client)
        found = client.get("/instances/empty/data")

    assert answer.status_code == 200, answer.text
    assert len(found.json()) == 200
    assert file.with_name("demo.db.original").read_bytes() == before
    recount(file)


def test_the_process_that_these_tests_kill_adopts_if_it_is_not_killed(tmp_path: Path) -> None:
    make_original(tmp_path / "demo.db")

    assert register_in_a_process(tmp_path) == 0

    recount(tmp_path / "demo.db")


@pytest.mark.parametrize(
    "moment",
    ["words", "", None, 1700000000000, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
)
def test_an_invalid_time_does_not_stop_an_adoption(server: RunningServer, moment: Any) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE characters SET created_at = ?1, updated_at = ?1", (moment,))
        connection.commit()

    with server.client("demo") as client:
        answer = register(client)
        found = client.get("/characters/nameless").json()

    assert answer.status_code == 200, answer.text
    assert found["character"]["createdAt"].endswith("Z")


def test_values_that_are_not_stored_as_text_are_adopted(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) VALUES ('empty', ?, ?)",
            [("whole", 7), ("half", 0.5), ("bytes", b'{"a":1}')],
        )
        connection.commit()

    with server.client("demo") as client:
        register(client)

        assert client.get("/instances/empty/data").json() == {
            "whole": 7,
            "half": 0.5,
            "bytes": {"a": 1},
        }


def test_a_file_of_another_program_is_refused_and_not_changed(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE characters (id TEXT)")
        connection.commit()
    before = file.read_bytes()

    with server.client("demo") as client:
        refused = register(client)

    assert refused.status_code == 503
    assert refused.json()["code"] == "database_damaged"
    assert file.read_bytes() == before
    assert not file.with_name("demo.db.original").exists()


def add_rows(file: Path, *rows: tuple[Any, Any, Any]) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(
            "ALTER TABLE data RENAME TO strict; "
            "CREATE TABLE data AS SELECT * FROM strict; DROP TABLE strict"
        )
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) "
            "VALUES (?, CAST(? AS TEXT), CAST(? AS TEXT))",
            rows,
        )
        connection.commit()


def test_rows_without_an_id_or_key_get_one(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    add_rows(
        file, ("run", "", "1"), ("run", None, "2"), ("run", "_empty", "3"), (None, "lost", "4")
    )

    with server.client("demo") as client:
        assert register(client).status_code == 200
        found = client.get("/instances/run/data").json()
        lost = client.get("/instances/_empty/data")
        history = client.get("/instances/run/history")
        events = client.get("/changes?since=0")
        past = client.get("/instances/run?at=1")

    named = {key: value for key, value in found.items() if key.startswith("_empty")}
    assert named == {"_empty": 3, "_empty_": 1, "_empty__": 2}
    assert lost.json() == {"lost": 4}
    assert [each.status_code for each in (history, events, past)] == [200, 200, 200]


def test_an_invalid_text_does_not_lose_any_other_value(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    add_rows(file, ("run", "broken", b"\xffA"))

    with server.client("demo") as client:
        answer = register(client)
        found = client.get("/instances/run/data").json()

    assert answer.status_code == 200, answer.text
    assert (found["broken"], found["text"]) == ("\ufffdA", "words")


def test_the_copy_has_the_content_that_was_adopted(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    copy = file.with_name("demo.db.original")
    # An earlier attempt ended after the copy, and the plugin wrote more.
    copy.write_bytes(file.read_bytes())
    add_rows(file, ("run", "later", "1"))
    before = file.read_bytes()

    with server.client("demo") as client:
        assert register(client).status_code == 200

    assert copy.read_bytes() == before
    assert len(list(file.parent.glob("demo.db.original*"))) == 2
