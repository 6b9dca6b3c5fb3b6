from __future__ import annotations

import errno
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import RunningServer, running_server
from tests.integrity.recount import recount
from tests.support.databases import log_of, select
from tests.support.original import (
    STATES,
    VALUES,
    add_rows,
    leave,
    make_large_original,
    make_original,
    register,
)


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


@pytest.mark.parametrize("state", STATES)
def test_all_that_was_committed_is_adopted_however_the_file_was_left(
    server: RunningServer, tmp_path: Path, state: str
) -> None:
    original, file = tmp_path / "original.db", server.data_dir / "demo.db"
    make_large_original(original, instances=40, keys=5)
    leave(original, file, state)

    with server.client("demo") as client:
        answer = register(client)
        found = client.get("/instances/i7/data").json()

    assert answer.status_code == 200, answer.text
    assert found == {f"k{key}": f"7 {key} {'x' * 200}" for key in range(5)}
    statement = "SELECT instance_id, key, value FROM data ORDER BY rowid"
    kept = file.with_name("demo.db.original")
    assert select(kept, statement) == select(original, statement)
    assert not [path.name for path in file.parent.glob("demo.db-journal")]
    assert not [path.name for path in file.parent.glob("demo.db.original-*")]


def test_a_file_that_another_program_has_open_is_adopted_when_it_has_closed_it(
    server: RunningServer,
) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    with server.client("demo") as client:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("UPDATE data SET value = '\"late\"' WHERE key = 'text'")
            connection.commit()
            refused = register(client)
            connection.execute("UPDATE data SET value = '\"later\"' WHERE key = 'text'")
            connection.commit()
        answer = register(client)
        found = client.get("/instances/run/data/text").json()

    assert (refused.status_code, refused.json()["code"]) == (503, "database_unavailable")
    assert answer.status_code == 200, answer.text
    assert found == {"text": "later"}


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


# The original that is kept


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


def test_the_copy_of_an_earlier_try_is_kept_if_nobody_wrote_since(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    copy = file.with_name("demo.db.original")
    copy.write_bytes(file.read_bytes())
    inode = copy.stat().st_ino

    with server.client("demo") as client:
        assert register(client).status_code == 200

    assert copy.stat().st_ino == inode
    assert len(list(file.parent.glob("demo.db.original*"))) == 1


def test_the_original_is_copied_where_a_file_cannot_have_two_names(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(*names: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    file = server.data_dir / "demo.db"
    make_original(file)
    before = file.read_bytes()
    monkeypatch.setattr(os, "link", link)

    with server.client("demo") as client:
        assert register(client).status_code == 200

    copy = file.with_name("demo.db.original")
    assert copy.read_bytes() == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not list(file.parent.glob(".new-*"))


def test_a_link_to_a_file_stays_a_link(server: RunningServer, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.db"
    make_original(file)
    before = file.read_bytes()
    link = server.data_dir / "demo.db"
    link.symlink_to(file)

    with server.client("demo") as client:
        assert register(client).status_code == 200
        assert client.get("/instances/run/data/text").json() == {"text": "words"}

    assert link.is_symlink()
    assert file.read_bytes() != before
    assert file.with_name("elsewhere.db.original").read_bytes() == before


def test_what_is_left_of_an_unfinished_adoption_is_replaced(server: RunningServer) -> None:
    file = server.data_dir / "sub" / "custom.db"
    file.parent.mkdir()
    make_original(file)
    for ending in ("", "-wal", "-shm", "-journal"):
        file.with_name(f".new-custom.db{ending}").write_bytes(b"half a database")

    with server.client("demo") as client:
        assert register(client, dbPath="sub/custom.db").status_code == 200
        assert client.get("/instances/run/data/text").json() == {"text": "words"}

    assert not list(file.parent.glob(".new-*"))
