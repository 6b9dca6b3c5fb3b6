"""Of a damaged file is made anew what follows from the rest; what is intact can be taken out."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_verify import job_of
from tests.conftest import RunningServer, running_server
from tests.integrity.story import write_story
from tests.support.answers import done, make_instance, outcome, refused, set_value
from valuetracker.app import open_stopped
from valuetracker.runtime.provisioning import SKIPPED
from valuetracker.runtime.repairing import salvage
from valuetracker.settings import Settings

PAGE = 4096


def root_of(path: Path, name: str) -> int:
    """The number of the first page of a table or an index."""
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,))
        number: int = row.fetchone()[0]
        return number


def wipe(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)


def told(tmp_path: Path) -> tuple[Path, bytes]:
    """A server has told a story and stopped; return the file, and an export of it."""
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        server.register("demo")
        write_story(client, "demo")
        return tmp_path / "db" / "demo.db", export(client)


def export(client: httpx.Client) -> bytes:
    return client.get("/export", params={"operations": "true"}).content


def verified(client: httpx.Client) -> dict[str, Any]:
    result: dict[str, Any] = job_of(client, client.post("/verify"))["result"]
    return result


@pytest.mark.parametrize(
    "index", ["places_by_name", "entries_of_place", "sqlite_autoindex_chats_1"]
)
def test_a_damaged_index_is_made_anew(tmp_path: Path, index: str) -> None:
    path, before = told(tmp_path)
    wipe(path, root_of(path, index))

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        assert refused(client.get("/characters"))[:2] == (503, "database_damaged")
        report = verified(client)

        assert (report["sound"], report["repaired"], report["findings"]) == (True, True, [])
        assert export(client) == before
        assert "x-incarnation" not in client.get("/characters").headers
        assert verified(client)["repaired"] is False
    assert (tmp_path / "db" / "trash" / "demo.1.db").exists()


def test_damaged_keyframes_are_made_anew(tmp_path: Path) -> None:
    path, before = told(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        changed = connection.execute("UPDATE keyframes SET checksum = checksum + 1").rowcount
        assert changed > 3

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        assert refused(client.get("/characters"))[:2] == (503, "database_damaged")
        report = verified(client)

        assert (report["sound"], report["repaired"], report["findings"]) == (True, True, [])
        # Keyframes may name another of the entries that were folded together.
        assert besides_keyframes(export(client)) == besides_keyframes(before)


def besides_keyframes(content: bytes) -> list[bytes]:
    return [line for line in content.splitlines()[:-1] if b'"keyframe"' not in line[:24]]


def test_a_damaged_value_is_not_guessed(tmp_path: Path) -> None:
    path, _ = told(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE data SET value = '1' WHERE key = 'hp'")
    content = path.read_bytes()

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        report = verified(client)
        assert (report["sound"], report["repaired"]) == (False, False)
        assert refused(client.get("/characters"))[:2] == (503, "database_damaged")
    assert path.read_bytes() == content
    assert not (tmp_path / "db" / "trash").exists()


def test_a_repair_does_not_hide_that_a_log_was_lost(tmp_path: Path) -> None:
    told(tmp_path)
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        known = done(client.post("/characters", json={"id": "lost"}))
        # The files as a crash leaves them, without the log.
        ignored = shutil.ignore_patterns(".lock", ".pid", "*-shm", "demo.db-wal")
        shutil.copytree(tmp_path / "db", tmp_path / "crashed", ignore=ignored)
    path = tmp_path / "crashed" / "demo.db"
    wipe(path, root_of(path, "places_by_name"))

    with running_server(tmp_path / "crashed") as server, server.client("demo") as client:
        report = verified(client)
        assert (report["sound"], report["repaired"]) == (True, True)
        read = client.get("/characters")
        assert "lost" not in [each["id"] for each in read.json()]
        assert int(read.headers["x-incarnation"]) > SKIPPED
        assert done(client.post("/characters", json={"id": "new"})) > known


def test_rows_of_the_same_key_cannot_be_repaired(tmp_path: Path) -> None:
    path, _ = told(tmp_path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("DROP INDEX places_by_name")
        columns = [row[1] for row in connection.execute("PRAGMA table_info(places)")]
        others = ", ".join(columns[1:])
        connection.execute(
            f"INSERT INTO places (place, {others}) SELECT place + 999, {others} FROM places"
        )

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        report = verified(client)
        assert (report["sound"], report["repaired"]) == (False, False)
    assert not (tmp_path / "db" / "trash").exists()


def test_the_file_of_another_extension_is_not_repaired(tmp_path: Path) -> None:
    path, _ = told(tmp_path)
    with running_server(tmp_path / "db") as server:
        server.register("twin")
    shutil.copy(tmp_path / "db" / "twin.db", path)
    content = path.read_bytes()

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        report = verified(client)
        assert (report["sound"], report["repaired"]) == (False, False)
        assert report["findings"] == ["The file is not the one that was registered."]
    assert path.read_bytes() == content
    assert not (tmp_path / "db" / "trash").exists()


async def test_what_is_intact_is_salvaged(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        server.register("demo")
        for number in range(300):
            make_instance(client, {"hp": number, "bag": "x" * 200}, id=f"i{number:03}")
        set_value(client, "hp", "last", id="i299")
    path = tmp_path / "db" / "demo.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE data SET value = '9' WHERE key = 'hp' AND holder = 5")
        (leaf,) = connection.execute(
            "SELECT pageno FROM dbstat WHERE name = 'data' AND pagetype = 'leaf'"
            " ORDER BY pageno LIMIT 1 OFFSET 3"
        ).fetchone()
    wipe(path, leaf)
    content = path.read_bytes()
    out = tmp_path / "salvaged.jsonl"

    async with open_stopped(Settings(data_dir=tmp_path / "db")) as stopped:
        report = await salvage(stopped.users.default, "demo", out)

    assert any(each.startswith("data: rows on pages") for each in report["lost"])
    assert "data: (5, 'hp')" in report["lost"]
    assert 500 < report["values"] < 600
    assert path.read_bytes() == content
    with running_server(tmp_path / "other") as server, server.client("demo") as client:
        server.register("demo")
        answer = client.post("/import?mode=merge", content=out.read_bytes())
        assert answer.status_code == 200, answer.text
        assert answer.json()["values"] == report["values"]
        assert outcome(client.get("/instances/i299/data/hp")) == (200, {"hp": "last"})
        found = values(client)
        assert len(found) == 300
        for number, data in found.items():
            assert data.get("bag", "x" * 200) == "x" * 200
            assert number == 299 or data.get("hp", number) == number


def values(client: httpx.Client) -> dict[int, dict[str, Any]]:
    ids = [each["id"] for each in client.get("/instances").json()]
    return {int(id[1:]): client.get(f"/instances/{id}/data").json() for id in ids}


async def test_a_sound_database_is_salvaged_with_its_history(tmp_path: Path) -> None:
    _, before = told(tmp_path)
    out = tmp_path / "salvaged.jsonl"

    async with open_stopped(Settings(data_dir=tmp_path / "db")) as stopped:
        report = await salvage(stopped.users.default, "demo", out)

    assert report["lost"] == []
    with running_server(tmp_path / "other") as server:
        check_same(server, out.read_bytes(), before)


def check_same(server: RunningServer, salvaged: bytes, before: bytes) -> None:
    server.register("demo")
    with server.client("demo") as client:
        answer = client.post("/import", content=salvaged)
        assert answer.status_code == 200, answer.text
        records = [line for line in before.splitlines()[1:-1] if b'"operation"' not in line[:24]]
        found = export(client).splitlines()[1:-1]
        assert [line for line in found if b'"operation"' not in line[:24]] == records
