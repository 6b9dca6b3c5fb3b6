"""An older file that is put back, a lost log, and a lost registry are noticed at the next start."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.support.answers import delete_register, make_instance, outcome, refused, set_value
from tests.support.databases import select
from tests.system.conftest import RunProgram
from valuetracker.runtime.provisioning import SKIPPED


def kept(path: Path, folder: Path) -> None:
    """Copy a database as it lies there, with its log."""
    folder.mkdir()
    for each in path.parent.glob(f"{path.name}*"):
        if not each.name.endswith("-shm"):
            shutil.copy(each, folder)


def put_back(folder: Path, path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    for each in folder.iterdir():
        shutil.copy(each, path.parent)


def is_new_incarnation(
    client: httpx.Client, known: int | str, revision: int, incarnation: int
) -> None:
    """Check that nothing of what was known is taken for the state that is there now."""
    read = client.get("/instances/sword/data")
    assert read.headers["x-incarnation"] == str(incarnation)
    refusal = client.put(
        "/instances/sword/data",
        json={"key": "hp", "value": 1},
        headers={"if-match": f'"{known}"'},
    )
    assert refused(refusal)[:2] == (412, "revision_conflict")
    assert refused(client.get(f"/changes?since={known}"))[:2] == (410, "incarnation_ended")
    assert set_value(client, "hp", 2) > revision


def test_a_file_of_a_server_that_was_killed_is_the_same_incarnation(
    run_program: RunProgram,
) -> None:
    program = run_program()
    program.register("demo")
    with program.client("demo") as client:
        revision = make_instance(client, {"hp": 50})
    for turn in range(3):
        program.stop(signal.SIGKILL)
        program = run_program()
        with program.client("demo") as client:
            read = client.get("/instances/sword/data/hp")
            assert read.headers["etag"] == f'"{revision}"', turn
            assert "x-incarnation" not in read.headers
            assert set_value(client, "hp", turn) == revision + 1
            revision += 1


def test_an_older_file_after_a_crash_is_noticed(run_program: RunProgram, tmp_path: Path) -> None:
    program = run_program()
    file = program.data_dir / "demo.db"
    program.register("demo")
    with program.client("demo") as client:
        make_instance(client, {"hp": 50})
    program.stop()
    kept(file, tmp_path / "older")
    program = run_program()
    with program.client("demo") as client:
        known = [set_value(client, "hp", value) for value in (60, 70)][-1]
    program.stop(signal.SIGKILL)
    put_back(tmp_path / "older", file)

    program = run_program()
    with program.client("demo") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": 50})
        is_new_incarnation(client, known, known + SKIPPED - 3, SKIPPED + 1)


def test_no_incarnation_is_given_out_twice(run_program: RunProgram, tmp_path: Path) -> None:
    program = run_program()
    file = program.data_dir / "demo.db"
    program.register("demo")
    with program.client("demo") as client:
        make_instance(client, {"hp": 50})
    program.stop()
    kept(file, tmp_path / "older")
    program = run_program()
    with program.client("demo") as client:
        content = client.get("/export").content
        assert client.post("/import?mode=replace", content=content).status_code == 200
        known = set_value(client, "hp", 60)
        assert client.get("/instances/sword/data").headers["x-incarnation"] == "1"
        numbers = "SELECT incarnation FROM extensions"
        wait_for(lambda: select(program.data_dir / ".registry.db", numbers) == [(1,)])
    program.stop(signal.SIGKILL)
    put_back(tmp_path / "older", file)

    program = run_program()
    with program.client("demo") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": 50})
        is_new_incarnation(client, f"{known}.1", known, SKIPPED + 2)


def test_a_lost_log_after_a_crash_is_noticed(run_program: RunProgram) -> None:
    program = run_program()
    program.register("demo")
    with program.client("demo") as client:
        make_instance(client, {"hp": 50})
    program.stop()
    program = run_program()
    with program.client("demo") as client:
        known = set_value(client, "hp", 60)
    program.stop(signal.SIGKILL)
    (program.data_dir / "demo.db-wal").unlink()

    program = run_program()
    with program.client("demo") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": 50})
        is_new_incarnation(client, known, known + SKIPPED - 3, SKIPPED + 1)


def test_an_older_file_after_a_clean_stop_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "db" / "demo.db"
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        server.register("demo")
        make_instance(client, {"hp": 50})
    kept(file, tmp_path / "older")
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        known = set_value(client, "hp", 60)
    put_back(tmp_path / "older", file)

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": 50})
        is_new_incarnation(client, known, known, 1)
    # The file of the line that was left is older, too, whatever its numbers are.
    put_back(tmp_path / "older", file)
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        assert client.get("/instances/sword/data").headers["x-incarnation"] == "2"


def test_reading_marks_nothing(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        server.register("demo")
        make_instance(client, {"hp": 50})
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        client.get("/instances/sword/data")
        assert openings(tmp_path / "db") == [None]
        set_value(client, "hp", 60)
        (first,) = openings(tmp_path / "db")
        set_value(client, "hp", 70)
        assert openings(tmp_path / "db") == [first]
        assert first is not None
    assert openings(tmp_path / "db") == [None]


def openings(data_dir: Path) -> list[str | None]:
    with closing(sqlite3.connect(data_dir / ".registry.db")) as registry:
        return [opening for (opening,) in registry.execute("SELECT opening FROM extensions")]


# A lost registry


def lose_registry(folder: Path) -> None:
    for each in folder.glob(".registry.db*"):
        each.unlink()


def fill(server: RunningServer, name: str, path: str | None = None) -> int:
    body = {"extensionId": name} | ({"dbPath": path} if path else {})
    with server.client(name) as client:
        assert client.post("/register", json=body).status_code == 200
        return make_instance(client, {"hp": name})


def test_a_lost_registry_is_rebuilt_of_the_files(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    given = {"allow_root": (outside,), "bridge_secret": "secret"}
    alice = {"x-vt-secret": "secret", "x-vt-user": "alice", "x-vt-admin": "true"}
    with running_server(tmp_path / "db", **given) as server:
        revisions = {
            "plain": fill(server, "plain"),
            "own": fill(server, "own", "deep/er/data.sqlite"),
            "far": fill(server, "far", str(outside / "far")),
        }
        with server.client("hers") as client:
            client.headers.update(alice)
            client.post("/register", json={"extensionId": "hers"})
            make_instance(client, {"hp": "hers"})
    (outside / "notes.txt").write_text("words")
    # A backup that lies where databases may lie, too.
    (outside / "backup" / "default-user").mkdir(parents=True)
    manifest = {"createdAt": "", "extensions": [{"sha256": ""}]}
    (outside / "backup" / "manifest.json").write_text(json.dumps(manifest))
    (outside / "manifest.json").write_text('{"display_name": "An extension"}')
    shutil.copy(tmp_path / "db" / "plain.db", outside / "backup" / "default-user")
    lose_registry(tmp_path / "db")
    lose_registry(tmp_path / "db" / ".users" / "alice")

    with running_server(tmp_path / "db", **given) as server, server.client() as client:
        listed = {each["id"]: each["revision"] for each in client.get("/extensions").json()}
        assert listed == revisions
        for name in revisions:
            data = client.get("/instances/sword/data", headers={"x-extension-id": name})
            assert outcome(data) == (200, {"hp": name})
            assert "x-incarnation" not in data.headers
        refusal = client.post("/register", json={"extensionId": "own", "dbPath": "own.db"})
        assert refused(refusal)[:2] == (409, "path_differs")
        server.register("own")
        hers = client.get("/instances/sword/data", headers={"x-extension-id": "hers", **alice})
        assert outcome(hers) == (200, {"hp": "hers"})


def test_the_newest_of_several_files_counts_and_a_damaged_one_is_not_replaced(
    tmp_path: Path,
) -> None:
    with running_server(tmp_path / "db") as server:
        for name in ("one", "bad"):
            fill(server, name)
    shutil.copy(tmp_path / "db" / "one.db", tmp_path / "db" / "another.db")
    with running_server(tmp_path / "db") as server, server.client("one") as client:
        set_value(client, "hp", "newer")
    lose_registry(tmp_path / "db")
    with (tmp_path / "db" / "bad.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 40_960)

    with running_server(tmp_path / "db") as server, server.client("one") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": "newer"})
        server.register("bad")
        refusal = client.get("/instances/sword/data", headers={"x-extension-id": "bad"})
        assert refused(refusal)[:2] == (503, "database_damaged")


def test_a_file_that_can_be_read_again_is_used_again(tmp_path: Path) -> None:
    file = tmp_path / "db" / "demo.db"
    with running_server(tmp_path / "db") as server:
        fill(server, "demo")
    content = file.read_bytes()
    file.write_bytes(content[:4096] + b"\xff" * 40_960)
    lose_registry(tmp_path / "db")
    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        refusal = client.get("/instances/sword/data")
        assert refused(refusal)[:2] == (503, "database_damaged")
        file.write_bytes(content)

        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": "demo"})
        assert "" not in identities(tmp_path / "db")
        assert delete_register(client, extensionId="demo").status_code == 200
        server.register("demo")
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": "demo"})


def identities(data_dir: Path) -> list[str]:
    return [
        each for (each,) in select(data_dir / ".registry.db", "SELECT identity FROM extensions")
    ]


@pytest.mark.parametrize("damage", [b"words", b""])
async def test_a_damaged_registry_stops_the_start_and_a_command_rebuilds_it(
    tmp_path: Path, damage: bytes
) -> None:
    from valuetracker.app import open_stopped, rebuild_registry
    from valuetracker.errors import RegistryUnusable
    from valuetracker.settings import Settings

    with running_server(tmp_path / "db") as server:
        fill(server, "one")
    lose_registry(tmp_path / "db")
    (tmp_path / "db" / ".registry.db").write_bytes(damage)
    settings = Settings(data_dir=tmp_path / "db")
    with pytest.raises(RegistryUnusable) as failure:
        async with open_stopped(settings):
            raise AssertionError
    assert "Move it away" in (failure.value.hint or "")

    assert await rebuild_registry(settings) == ["one"]
    assert await rebuild_registry(settings) == ["one"]

    assert (tmp_path / "db" / "trash" / "registry.1.db").read_bytes() == damage
    with running_server(tmp_path / "db") as server, server.client("one") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": "one"})
