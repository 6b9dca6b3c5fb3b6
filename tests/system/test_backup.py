"""Backups of a server that is in use: proven to be whole, made at night, kept as long as needed."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import random
import signal
import stat
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.api.test_verify import job_of
from tests.conftest import RunningServer, database_for, running_server
from tests.integrity.recount import recount
from tests.integrity.story import write_story
from tests.support.answers import make_instance, outcome, refused, set_value
from tests.support.clock import SettableClock
from tests.system.conftest import RunProgram
from valuetracker.app import create_app
from valuetracker.errors import StartupError, ValueTrackerError
from valuetracker.http.call import Service
from valuetracker.settings import Settings

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
ROUNDS = 50 if SOAK else 4
KILLS = 100 if SOAK else 6
WRITERS = 16


@pytest.fixture
def own_url(engine_name: str, request: pytest.FixtureRequest) -> str:
    """A backup is of all extensions of a server: this database is the test's alone."""
    return database_for(engine_name, request)


@pytest.fixture
def server(own_url: str, tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path / "db", database=own_url) as server:
        yield server


def back_up(server: RunningServer) -> dict[str, Any]:
    with server.client() as client:
        job = job_of(client, client.post("/backup"))
    assert (job["status"], job["error"]) == ("done", None), job
    backup: dict[str, Any] = job["result"]
    return backup


def folder_of(server: RunningServer, backup: dict[str, Any]) -> Path:
    return server.data_dir / "backups" / str(backup["name"])


def test_a_backup_has_every_extension_and_says_what_it_has(server: RunningServer) -> None:
    for name in ("one", "two"):
        server.register(name)
    with server.client("one") as client:
        write_story(client, "one")
        revision = int(client.get("/changes").json()["next"])

    backup = back_up(server)

    folder = folder_of(server, backup)
    assert json.loads((folder / "manifest.json").read_bytes()) == backup
    assert [each["id"] for each in backup["extensions"]] == ["one", "two"]
    assert backup["extensions"][0]["revision"] == revision
    assert backup["failed"] == []
    for each in backup["extensions"]:
        content = (folder / each["file"]).read_bytes()
        assert len(content) == each["bytes"]
        assert hashlib.sha256(content).hexdigest() == each["sha256"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert len(files) == 3
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_backup_holds_the_state_of_its_revision(server: RunningServer) -> None:
    server.register("one")
    with server.client("one") as client:
        write_story(client, "one")
        file = client.get("/export", params={"operations": "true"}).content
        backup = back_up(server)
        set_value(client, "hp", "later", id="hero")

    path = folder_of(server, backup) / backup["extensions"][0]["file"]
    if path.suffix == ".jsonl":
        assert path.read_bytes() == file
        return
    recount(path)
    other = server.data_dir.parent / "other"
    with running_server(other) as restored:
        # The file itself is a database: it can be put in the place of another.
        (other / "one.db").write_bytes(path.read_bytes())
        restored.register("one")
        with restored.client("one") as client:
            assert client.get("/export", params={"operations": "true"}).content == file


def test_backups_are_listed_verified_and_deleted(server: RunningServer) -> None:
    server.register("one")
    first, second = back_up(server), back_up(server)

    with server.client() as client:
        listed = client.get("/backup").json()
        assert [each["name"] for each in listed] == [second["name"], first["name"]]
        assert client.get("/healthz").json()["backup"]["lastAt"] == second["createdAt"]
        path = f"/backup/{first['name']}"
        assert job_of(client, client.post(f"{path}/verify"))["result"]["sound"] is True
        damaged = folder_of(server, first) / first["extensions"][0]["file"]
        damaged.write_bytes(damaged.read_bytes()[:-1])
        report = job_of(client, client.post(f"{path}/verify"))["result"]
        assert report["findings"] == [
            f"{first['extensions'][0]['file']}: It is not the file that was backed up."
        ]
        assert outcome(client.delete(path)) == (200, {"success": True})
        assert refused(client.delete(path))[:2] == (404, "backup_not_found")
        assert refused(client.delete("/backup/..%2Ftrash"))[:2] == (404, "backup_not_found")
        assert [each["name"] for each in client.get("/backup").json()] == [second["name"]]
    assert not folder_of(server, first).exists()


def test_the_data_of_other_users_is_backed_up(own_url: str, tmp_path: Path) -> None:
    given = {"database": own_url, "bridge_secret": "secret"}
    with running_server(tmp_path / "db", **given) as server:
        bridge = {"x-vt-secret": "secret", "x-vt-user": "alice", "x-vt-admin": "true"}
        with server.client("one") as client:
            client.headers.update(bridge)
            assert client.post("/register", json={"extensionId": "one"}).status_code == 200
            make_instance(client, {"hp": 50})

        backup = back_up(server)

        assert [(each["user"], each["id"]) for each in backup["extensions"]] == [("alice", "one")]
        assert (folder_of(server, backup) / backup["extensions"][0]["file"]).is_file()


# SQLite: what goes wrong, and what goes on meanwhile


def test_a_damaged_extension_does_not_keep_the_others_from_being_backed_up(
    tmp_path: Path,
) -> None:
    with running_server(tmp_path / "db") as server:
        for name in ("good", "bad"):
            server.register(name)
        good = back_up(server)
    with (tmp_path / "db" / "bad.db").open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 4096)

    with running_server(tmp_path / "db") as server, server.client() as client:
        backup = back_up(server)

        assert [each["id"] for each in backup["extensions"]] == ["good"]
        assert [(each["id"], each["code"]) for each in backup["failed"]] == [
            ("bad", "database_damaged")
        ]
        assert client.get("/healthz").json()["backup"]["failed"] == 1
        refusal = client.get("/characters", headers={"x-extension-id": "bad"})
        assert refused(refusal)[:2] == (503, "database_damaged")
        assert refusal.json()["details"] == {"backup": good["name"]}
        assert good["name"] in refusal.json()["hint"]
        shown = {each["id"]: "backupError" in each for each in client.get("/extensions").json()}
        assert shown == {"bad": True, "good": False}
        assert folder_of(server, good).exists()


def test_a_backup_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with (
        running_server(tmp_path / "db", backup_dir=str(tmp_path / "file")) as server,
        server.client("one") as client,
    ):
        server.register("one")

        job = job_of(client, client.post("/backup"))

        assert job["status"] == "failed"
        assert client.get("/healthz").json()["backup"]["error"] == job["error"]["error"]
        assert client.get("/backup").json() == []
        make_instance(client, {"hp": 50})


def test_what_a_killed_server_left_unfinished_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "db" / "backups" / ".new-2026-01-01T00-00-00-000Z-manual"
    left.mkdir(parents=True)
    (left / "manifest.json").write_text("{}")
    strange = left.with_name("notes")
    strange.mkdir()
    (strange / "manifest.json").write_text("{}")

    with running_server(tmp_path / "db") as server, server.client() as client:
        assert client.get("/backup").json() == []
    assert not left.exists()
    assert strange.exists()


def test_a_manifest_that_was_edited_or_is_foreign_does_not_stop_the_start(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server:
        server.register("one")
        backup = back_up(server)
        folder = folder_of(server, backup).parent
    (entry,) = backup.pop("extensions")
    del backup["hook"]
    whole = {**backup, "extensions": [entry]}
    odd: list[Any] = [None, [0], {"words": 0}, -1, True]
    wrong: list[Any] = [
        *({**whole, key: each} for key in whole for each in odd),
        *({**whole, "extensions": [{**entry, key: each}]} for key in entry for each in odd),
        *({each: whole[each] for each in whole if each != key} for key in whole),
        {**whole, "createdAt": "words"},
        {**whole, "failed": [{"id": "one"}]},
        {**whole, "extensions": [{"id": "one"}]},
        [whole],
    ]
    for number, content in enumerate(wrong):
        name = f"2020-01-01T00-00-00-{number:03}Z-manual"
        (folder / name).mkdir()
        text = json.dumps(content).replace(whole["name"], name)
        (folder / name / "manifest.json").write_text(text)

    with running_server(tmp_path / "db") as server, server.client() as client:
        listed = client.get("/backup").json()

        assert [each["name"] for each in listed] == [whole["name"]]
        assert client.get("/extensions").status_code == 200


class Load:
    """Writers that go on until they are told to stop; each counts in a key of its own."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self._ending = threading.Event()
        self.acknowledged: dict[str, list[tuple[int, int]]] = {}
        self.odd: list[str] = []
        self._threads = [
            threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join(60)

    def _write(self, number: int) -> None:
        key = f"key {number}"
        written = self.acknowledged[key] = []
        with self._server.client("demo") as client:
            turn = 0
            while not self._ending.is_set():
                turn += 1
                body = {"key": key, "value": turn}
                answer = client.post("/instances/sword/data", json=body)
                if answer.status_code != 200:
                    self.odd.append(answer.text)
                    return
                written.append((int(answer.headers["x-revision"]), turn))


def test_a_backup_under_writers_is_a_state_that_existed(tmp_path: Path) -> None:
    with running_server(tmp_path / "db") as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client)
        with Load(server) as load:
            backups = [back_up(server) for _ in range(ROUNDS)]

        assert load.odd == []
        for backup in backups:
            (entry,) = backup["extensions"]
            path = folder_of(server, backup) / entry["file"]
            state = recount(path)["data"]["sword"]
            for key, written in load.acknowledged.items():
                expected = [turn for revision, turn in written if revision <= entry["revision"]]
                found = int(state.get(key, "0"))
                # The last write before the backup may have been answered after it.
                assert found == (expected[-1] if expected else 0), key


def test_a_kill_during_a_backup_leaves_a_whole_one_or_none(run_program: RunProgram) -> None:
    chance = random.Random()
    program = run_program()
    program.register("demo")
    with program.client("demo") as client:
        write_story(client, "demo")
    for _ in range(KILLS):
        with program.client() as client:
            assert client.post("/backup").status_code == 202
        time.sleep(chance.uniform(0, 0.15))
        os.kill(program.server_pid, signal.SIGKILL)
        program.wait()
        program = run_program()
        with program.client() as client:
            for backup in client.get("/backup").json():
                verified = job_of(client, client.post(f"/backup/{backup['name']}/verify"))
                assert verified["result"]["sound"] is True
                client.delete(f"/backup/{backup['name']}")
        assert not list((program.data_dir / "backups").glob(".new-*"))
    recount(program.data_dir / "demo.db")


# The hook


@pytest.mark.parametrize("code", [0, 3])
def test_the_hook_gets_the_folder_and_its_exit_code_is_told(tmp_path: Path, code: int) -> None:
    script = f"import os, shutil, sys; shutil.copytree(sys.argv[1], sys.argv[2]); os._exit({code})"
    hook = f"'{sys.executable}' -c '{script}' {{path}} '{tmp_path / 'copy'}'"
    with running_server(tmp_path / "db", backup_hook=hook) as server, server.client() as client:
        server.register("one")

        backup = back_up(server)

        assert backup["hook"] == code
        assert [each["hook"] for each in client.get("/backup").json()] == [code]
        assert client.get("/healthz").json()["backup"]["hook"] == code
    assert (tmp_path / "copy" / "manifest.json").is_file()


def test_a_hook_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    with running_server(tmp_path / "db", backup_hook="/nowhere/at/all {path}") as server:
        server.register("one")

        assert back_up(server)["hook"] == 127


# At night


class Nights:
    """A server whose nights pass as quickly as the test wants."""

    def __init__(self, folder: Path, **given: Any) -> None:
        self._settings = Settings(data_dir=folder, **{"backup_at": "03:00", **given})
        self.clock = SettableClock()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Service]:
        app = create_app(self._settings, self.clock)
        async with app.router.lifespan_context(app):
            yield app.state.dispatcher.service

    def set_to(self, day: int, hour: int, minute: int = 0) -> None:
        """Set the clock to a time of one of the days of a month."""
        at = datetime(2031, 5, day, hour, minute, 30)
        self.clock.set_forward(int(at.timestamp() * 1000) - self.clock.time_of_day())


def names_of(service: Service) -> list[str]:
    return [each["name"][:10] for each in service.backups.list_backups()]


def test_a_backup_is_made_every_night(tmp_path: Path) -> None:
    nights = Nights(tmp_path)

    async def session() -> None:
        nights.set_to(2, 12)
        async with nights.running() as service:
            look = service.nightly.look
            assert await look() is None, "there is nothing to back up"
            await service.users.default.register("one", None)
            first = await look()
            assert first is not None
            assert first["kind"] == "nightly"
            assert await look() is None
            nights.set_to(3, 2, 59)
            assert await look() is None
            nights.set_to(3, 3)
            assert await look() is not None
            nights.set_to(3, 3, 1)
            assert await look() is None
            assert len(names_of(service)) == 2

    asyncio.run(session())


def test_a_missed_backup_is_made_after_the_next_start(tmp_path: Path) -> None:
    nights = Nights(tmp_path)

    async def run_once() -> bool:
        async with nights.running() as service:
            with contextlib.suppress(ValueTrackerError):
                await service.users.default.register("one", None)
            return await service.nightly.look() is not None

    nights.set_to(2, 20)
    assert asyncio.run(run_once())
    nights.set_to(3, 10)
    assert not asyncio.run(run_once()), "the last one is not a day old"
    nights.set_to(3, 21)
    assert asyncio.run(run_once())


def test_no_backup_is_made_if_it_is_off(tmp_path: Path) -> None:
    nights = Nights(tmp_path, backup_at="off")

    async def session() -> None:
        async with nights.running() as service:
            await service.users.default.register("one", None)
            assert await service.nightly.look() is None

    asyncio.run(session())


def test_some_nights_and_some_weeks_are_kept(tmp_path: Path) -> None:
    nights = Nights(tmp_path, backup_keep=3, backup_weeks=2)

    async def session() -> None:
        nights.set_to(1, 12)
        async with nights.running() as service:
            await service.users.default.register("one", None)
            manual = await service.nightly.make()
            for day in range(2, 29):
                nights.set_to(day, 3)
                assert await service.nightly.look() is not None
            assert manual["name"] in [each["name"] for each in service.backups.list_backups()]
            # In May 2031 the 4th, 11th, 18th and 25th are Sundays.
            assert names_of(service) == [
                *("2031-05-28", "2031-05-27", "2031-05-26"),
                *("2031-05-25", "2031-05-18"),
                "2031-05-01",
            ]

    asyncio.run(session())


def test_the_last_backup_of_an_extension_is_kept(tmp_path: Path) -> None:
    nights = Nights(tmp_path, backup_keep=2, backup_weeks=0)

    async def session() -> None:
        nights.set_to(1, 12)
        async with nights.running() as service:
            for name in ("one", "two"):
                await service.users.default.register(name, None)
            await service.nightly.look()
            await service.users.default.deregister("two", purge=True)
            for day in range(2, 6):
                nights.set_to(day, 3)
                await service.nightly.look()
            assert names_of(service) == ["2031-05-05", "2031-05-04", "2031-05-01"]

    asyncio.run(session())


@pytest.mark.parametrize("at", ["25:00", "3", "noon", ""])
def test_a_wrong_time_is_refused(tmp_path: Path, at: str) -> None:
    with pytest.raises(StartupError, match="--backup-at"):
        create_app(Settings(data_dir=tmp_path, backup_at=at))
