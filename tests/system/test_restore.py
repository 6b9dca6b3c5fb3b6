"""Backups are restored, whole or in part: as a new incarnation, old or new whenever killed."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.test_transfer import sealed
from tests.api.test_verify import job_of
from tests.conftest import RunningServer, database_for, running_server, wait_for
from tests.integrity.story import write_story
from tests.support.answers import make_instance, outcome, refused, set_value
from tests.system.conftest import Program, RunProgram
from tests.system.test_backup import WRITERS, Load, back_up, folder_of
from valuetracker.app import open_stopped
from valuetracker.errors import DataDirectoryInUse, NotInBackup, RestoreOverwrites
from valuetracker.settings import Settings

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
ROUNDS = 50 if SOAK else 2
KILLS = 100 if SOAK else 5


@pytest.fixture
def own_url(engine_name: str, request: pytest.FixtureRequest) -> str:
    """A backup is of all extensions of a server: this database is the test's alone."""
    return database_for(engine_name, request)


@pytest.fixture
def server(own_url: str, tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "db", database=own_url) as server:
        yield server


def restore(client: httpx.Client, name: str, **body: Any) -> dict[str, Any]:
    job = job_of(client, client.post(f"/backup/{name}/restore", json=body))
    assert (job["status"], job["error"]) == ("done", None), job
    result: dict[str, Any] = job["result"]
    return result


def export(client: httpx.Client) -> bytes:
    answer = client.get("/export", params={"operations": "true"})
    assert answer.status_code == 200
    return answer.content


def records(content: bytes) -> list[Any]:
    """The records of an export without what names revisions of the extension as a whole."""
    return [json.loads(line) for line in content.splitlines()[1:-1]]


def test_an_extension_is_as_it_was_and_what_it_replaced_is_kept(server: RunningServer) -> None:
    server.register("one")
    server.register("other")
    with server.client("one") as client, server.client("other") as other:
        write_story(client, "one")
        make_instance(other, {"hp": 1})
        before = export(client)
        values = client.get("/instances/hero/data").json()
        name = back_up(server)["name"]
        highest = set_value(client, "hp", "later", id="hero")
        kept = other.get("/instances/sword/data")

        refusal = client.post(f"/backup/{name}/restore", json={"extensionId": "one"})
        assert refused(refusal)[:2] == (409, "restore_overwrites")
        assert refusal.json()["details"]["extensions"] == [{"id": "one", "user": "default-user"}]
        result = restore(client, name, extensionId="one", force=True)

        assert [each["id"] for each in result["extensions"]] == ["one"]
        assert result["extensions"][0]["incarnation"] == 1
        assert result["extensions"][0]["replaced"] is True
        assert result["extensions"][0]["revision"] >= highest
        assert client.get("/instances/hero/data").json() == values
        if server.settings.database:
            assert len(records(export(client))) == len(records(before))
        else:
            assert records(export(client)) == records(before)
        assert other.get("/instances/sword/data").headers["etag"] == kept.headers["etag"]
        assert len(list((server.data_dir / "trash").glob("one.1.*"))) == 1
        assert job_of(client, client.post("/verify"))["result"]["sound"] is True


def test_nothing_of_the_old_line_is_taken_for_the_new(server: RunningServer) -> None:
    server.register("one")
    with server.client("one") as client:
        make_instance(client, {"hp": 50})
        tag = client.get("/instances/sword/data/hp").headers["etag"]
        lists = client.get("/instances").headers["etag"]
        cursor = client.get("/changes").json()["next"]
        assert (tag, cursor) == (f'"{cursor}"', cursor)
        name = back_up(server)["name"]
        set_value(client, "hp", 60)

        restore(client, name, force=True)

        read = client.get("/instances/sword/data/hp", headers={"if-none-match": tag})
        assert outcome(read) == (200, {"hp": 50})
        assert read.headers["x-incarnation"] == "1"
        assert read.headers["etag"].endswith('.1"')
        assert client.get("/instances", headers={"if-none-match": lists}).status_code == 200
        for old in (tag, '"1"', tag.replace('"', "").join(['"', '.2"'])):
            refusal = client.put(
                "/instances/sword/data", json={"key": "hp", "value": 1}, headers={"if-match": old}
            )
            assert refused(refusal)[:2] == (412, "revision_conflict"), old
        assert refusal.json()["details"]["current"] == read.headers["etag"].strip('"')
        for since in (cursor, f"{cursor}.2"):
            refusal = client.get("/changes", params={"since": since})
            assert refused(refusal)[:2] == (410, "incarnation_ended")
            refusal = client.get("/events", headers={"last-event-id": str(since)})
            assert refused(refusal)[:2] == (410, "incarnation_ended")
        now = client.get("/changes").json()["next"]
        assert str(now).endswith(".1")
        written = client.put(
            "/instances/sword/data",
            json={"key": "hp", "value": 1},
            headers={"if-match": read.headers["etag"]},
        )
        assert written.status_code == 200
        assert written.headers["x-incarnation"] == "1"
        page = client.get("/changes", params={"since": now}).json()
        assert [each["revision"] for each in page["items"]] == [int(written.headers["x-revision"])]
        assert page["next"] == f"{written.headers['x-revision']}.1"
        # The kept answer is brought up to date with the mark of the incarnation.
        again = client.get("/instances/sword/data/hp")
        assert again.headers["etag"] == f'"{page["next"]}"'
        first = client.get("/instances/sword/history", params={"limit": 1}).json()
        rest = client.get("/instances/sword/history", params={"cursor": first["next"]})
        assert rest.status_code == 200
        bare = first["next"].partition(".")[0]
        refusal = client.get("/instances/sword/history", params={"cursor": bare})
        assert refused(refusal)[:2] == (410, "incarnation_ended")


def test_readers_of_a_feed_are_told(server: RunningServer) -> None:
    for name in ("one", "two"):
        server.register(name)
    with server.client("one") as client, server.client() as other:
        make_instance(client, {"hp": 50})
        name = back_up(server)["name"]
        set_value(client, "hp", 60)
        joint = "/cross-extension/events?extensions=one,two"
        with client.stream("GET", "/events") as feed, other.stream("GET", joint) as several:
            lines, joined = feed.iter_lines(), several.iter_lines()
            assert next(lines).startswith(":")
            assert next(joined).startswith(":")

            restore(client, name, extensionId="one", force=True)

            assert "event: overflow" in list(lines)
            assert "event: compacted" in joined
            assert json.loads(next(joined).removeprefix("data: "))["extensionId"] == "one"
            revision = set_value(client, "hp", 70)
            cursor = next(line for line in joined if line.startswith("id: "))[4:]
        assert cursor == f"one:{revision}.1,two:0"
        follow = "/cross-extension/changes"
        several_ids = {"extensions": "one,two"}
        page = other.get(follow, params={**several_ids, "since": cursor}).json()
        assert (page["items"], page["compacted"], page["next"]) == ([], [], cursor)
        page = other.get(follow, params={**several_ids, "since": f"one:{revision},two:0"}).json()
        assert (page["compacted"], page["next"]) == (["one"], cursor)


def test_a_whole_backup_is_restored_on_another_server(
    server: RunningServer, engine_name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for name in ("one", "two"):
        server.register(name)
        with server.client(name) as client:
            make_instance(client, {"hp": name})
    backup = back_up(server)
    shutil.copytree(folder_of(server, backup), tmp_path / "new" / "backups" / backup["name"])
    url = database_for(engine_name, request)

    with running_server(tmp_path / "new", database=url) as new, new.client("two") as client:
        result = restore(client, backup["name"])

        assert [(each["id"], each["replaced"]) for each in result["extensions"]] == [
            ("one", False),
            ("two", False),
        ]
        assert client.get("/instances/sword/data").json() == {"hp": "two"}
        # Clients may know revisions that the backup does not have.
        assert client.get("/instances/sword/data").headers["etag"].endswith('.1"')
        assert set_value(client, "hp", 1) == backup["extensions"][1]["revision"] + 1


def test_a_backup_that_was_changed_is_refused_and_nothing_is_changed(
    server: RunningServer,
) -> None:
    for name in ("one", "two"):
        server.register(name)
    with server.client("one") as client:
        make_instance(client, {"hp": 50})
        backup = back_up(server)
        set_value(client, "hp", 60)
        tag = client.get("/instances/sword/data").headers["etag"]
        path = folder_of(server, backup) / backup["extensions"][1]["file"]
        content = path.read_bytes()
        manifest = folder_of(server, backup) / "manifest.json"
        whole = manifest.read_bytes()
        url = f"/backup/{backup['name']}/restore"

        for damaged in (content[:-1], content + b"\n", b"", b"words"):
            path.write_bytes(damaged)
            job = job_of(client, client.post(url, json={"force": True}))
            assert job["error"]["code"] == "backup_unusable"
            assert job["error"]["details"]["findings"] == [
                f"{backup['extensions'][1]['file']}: It is not the file that was backed up."
            ]
        path.unlink()
        job = job_of(client, client.post(url, json={"force": True}))
        assert job["error"]["details"]["findings"] == [
            f"{backup['extensions'][1]['file']}: It cannot be read."
        ]
        path.write_bytes(content)
        for file in ("../../../one.db", "/etc/passwd", "default-user/other.db"):
            backup["extensions"][1]["file"] = file
            manifest.write_text(json.dumps(backup))
            refusal = client.post(url, json={"force": True})
            assert refused(refusal)[:2] == (404, "backup_not_found")
        manifest.write_text(json.dumps({**json.loads(whole), "format": 2}))
        refusal = client.post(url, json={"force": True})
        assert refused(refusal)[:2] == (409, "backup_unusable")
        manifest.write_bytes(whole)
        assert refused(client.post("/backup/..%2Fone/restore"))[:2] == (404, "backup_not_found")
        refusal = client.post(url, json={"extensionId": "three"})
        assert refused(refusal)[:2] == (404, "not_in_backup")
        refusal = client.post(url, json={"user": "alice"})
        assert refused(refusal)[:2] == (404, "not_in_backup")
        assert refused(client.post(url, json={"force": "yes"}))[0] == 400

        assert client.get("/instances/sword/data").headers["etag"] == tag


def test_a_file_that_is_damaged_or_missing_is_restored(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server:
        for name in ("one", "two"):
            server.register(name)
            with server.client(name) as client:
                make_instance(client, {"hp": name})
        backup = back_up(server)
        with server.client("one") as client:
            set_value(client, "hp", "later")
    (tmp_path / "db" / "one.db").write_bytes(b"words")
    (tmp_path / "db" / "two.db").unlink()

    with running_server(tmp_path / "db") as server, server.client("one") as client:
        refusal = client.get("/instances/sword/data")
        assert refused(refusal)[:2] == (503, "database_damaged")
        assert backup["name"] in refusal.json()["hint"]
        restore(client, backup["name"], force=True)

        assert "valuetracker_damaged_extensions 0.0" in client.get("/metrics").text
        for name in ("one", "two"):
            data = client.get("/instances/sword/data", headers={"x-extension-id": name})
            assert outcome(data) == (200, {"hp": name})
        # The registry may have missed some of what was given out.
        assert set_value(client, "hp", 1) > backup["extensions"][0]["revision"] + 1000
        assert job_of(client, client.post("/verify"))["result"]["sound"] is True
    assert (tmp_path / "db" / "trash" / "one.1.db").read_bytes() == b"words"


# Exports


def write_backup(server: RunningServer, extension_id: str, content: bytes) -> str:
    """Write a backup that has one extension as an export; return its name."""
    name = "2026-01-01T00-00-00-000Z-manual"
    folder = server.data_dir / "backups" / name / "default-user"
    folder.mkdir(parents=True)
    file = folder / f"{extension_id}.jsonl"
    file.write_bytes(content)
    entry = {
        "id": extension_id,
        "user": "default-user",
        "file": f"default-user/{file.name}",
        "location": "",
        "incarnation": 0,
        "revision": json.loads(content.splitlines()[0])["revision"],
        "bytes": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    manifest = {
        "name": name,
        "kind": "manual",
        "createdAt": "2026-01-01T00:00:00.000Z",
        "engine": "postgresql",
        "version": "0",
        "format": 1,
        "bytes": len(content),
        "extensions": [entry],
        "failed": [],
    }
    (folder.parent / "manifest.json").write_text(json.dumps(manifest))
    return name


def test_all_that_an_export_replaces_is_kept_while_others_write(server: RunningServer) -> None:
    server.register("demo")
    with server.client("demo") as client:
        make_instance(client)
        name = write_backup(server, "demo", export(client))
        revision = int(client.get("/changes").json()["next"])
        with Load(server) as load:
            wait_for(lambda: len(load.acknowledged) == WRITERS and all(load.acknowledged.values()))
            restored = restore(client, name, force=True)["extensions"][0]
        kept = (server.data_dir / "trash" / "demo.1.jsonl").read_bytes()

    assert load.odd == []
    # One number is left out, and then come those of the export.
    assert restored["revision"] == json.loads(kept.splitlines()[0])["revision"] + 1 + revision


def test_an_export_that_is_refused_leaves_nothing_behind(server: RunningServer) -> None:
    server.register("demo")
    with server.client("demo") as client:
        make_instance(client, {"hp": 50})
        lines = [json.loads(line) for line in export(client).splitlines()[:-1]]
        lines = [line for line in lines if line["type"] != "entry"]
        name = write_backup(server, "other", sealed(lines))

        job = job_of(client, client.post(f"/backup/{name}/restore", json={}))

        assert job["error"]["code"] == "import_invalid"
        assert [each["id"] for each in client.get("/extensions").json()] == ["demo"]
        # It can be tried again.
        again = job_of(client, client.post(f"/backup/{name}/restore", json={}))
        assert again["error"]["code"] == "import_invalid"


# Killed


def prepare_kill(program: Program) -> str:
    """Back an instance up with one value, give it another, and return the name of the backup."""
    program.register("demo")
    with program.client("demo") as client:
        make_instance(client, {"hp": "backed up"})
        job = job_of(client, client.post("/backup"))
        set_value(client, "hp", "later")
    name: str = job["result"]["name"]
    return name


def begin_restore(program: Program, name: str) -> None:
    with program.client() as client:
        body = {"extensionId": "demo", "force": True}
        begun = client.post(f"/backup/{name}/restore", json=body)
        assert begun.status_code == 202, begun.text


@pytest.mark.parametrize(
    ("failpoint", "value"),
    [
        ("restore_prepared", "later"),
        ("restore_announced", "backed up"),
        ("restore_discarded", "backed up"),
        ("restore_renamed", "backed up"),
    ],
)
def test_a_restore_that_is_killed_has_happened_once_it_is_announced(
    run_program: RunProgram, failpoint: str, value: str
) -> None:
    program = run_program(VALUETRACKER_FAIL=f"{failpoint}:kill")
    name = prepare_kill(program)
    begin_restore(program, name)
    assert program.wait() == -signal.SIGKILL

    program = run_program()
    with program.client("demo") as client:
        data = client.get("/instances/sword/data")
        assert outcome(data) == (200, {"hp": value})
        assert data.headers.get("x-incarnation") == (None if value == "later" else "1")
        assert job_of(client, client.post("/verify"))["result"]["sound"] is True
        restore(client, name, extensionId="demo", force=True)
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": "backed up"})
    assert not list(program.data_dir.glob(".new-*")) + list(program.data_dir.glob(".restored-*"))


def test_a_restore_that_is_killed_at_any_time_leaves_the_old_or_the_new(
    run_program: RunProgram,
) -> None:
    chance = random.Random()
    program = run_program()
    name = prepare_kill(program)
    for turn in range(KILLS):
        with program.client("demo") as client:
            highest = set_value(client, "hp", f"later {turn}")
        begin_restore(program, name)
        time.sleep(chance.uniform(0, 0.1))
        os.kill(program.server_pid, signal.SIGKILL)
        program.wait()
        program = run_program()
        with program.client("demo") as client:
            found = client.get("/instances/sword/data").json()["hp"]
            assert found in ("backed up", f"later {turn}")
            assert set_value(client, "hp", "again") > highest
            assert job_of(client, client.post("/verify"))["result"]["sound"] is True


# Under load


def test_a_backup_under_writers_is_restored_to_a_state_that_existed(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client)
        with Load(server) as load:
            backups = [back_up(server) for _ in range(ROUNDS)]
            # Writers go on while it is restored; what they write meanwhile is not compared.
            with server.client() as client:
                restore(client, backups[0]["name"], force=True)
        assert load.odd == []
        for backup in backups:
            with server.client("demo") as client:
                restored = restore(client, backup["name"], force=True)["extensions"][0]
                state = client.get("/instances/sword/data").json()
            revision = backup["extensions"][0]["revision"]
            for key, written in load.acknowledged.items():
                expected = [turn for number, turn in written if number <= revision]
                assert state.get(key, 0) == (expected[-1] if expected else 0), key
                assert restored["revision"] >= written[-1][0]


# A data directory that no server uses


async def test_a_stopped_data_directory_is_restored(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server:
        for name in ("one", "two"):
            server.register(name)
            with server.client(name) as client:
                make_instance(client, {"hp": name})
        backup = back_up(server)
        with server.client("one") as client:
            set_value(client, "hp", "later")
        settings = Settings(data_dir=tmp_path / "db")
        with pytest.raises(DataDirectoryInUse):
            async with open_stopped(settings):
                raise AssertionError
    elsewhere = tmp_path / "elsewhere"
    shutil.move(tmp_path / "db" / "backups" / backup["name"], elsewhere)

    async with open_stopped(settings) as stopped:
        restoring = stopped.restoring
        with pytest.raises(RestoreOverwrites):
            await restoring.plan(str(elsewhere), "one", None, force=False)
        with pytest.raises(NotInBackup):
            await restoring.plan(str(elsewhere), "three", None, force=True)
        plan = await restoring.plan(str(elsewhere), "one", None, force=True)
        result = await restoring.restore(plan)

    assert [each["id"] for each in result["extensions"]] == ["one"]
    with running_server(tmp_path / "db") as server, server.client("one") as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hp": "one"})
        assert client.get("/instances/sword/data").headers["x-incarnation"] == "1"
