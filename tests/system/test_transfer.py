"""Moving a story from one server to another, and imports that are interrupted."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import httpx
import pytest

from tests.conftest import SharedServers
from tests.integrity.recount import recount
from tests.integrity.story import reads_of_story, write_story
from tests.support.answers import make_instance, outcome, values_of
from tests.system.conftest import RunProgram

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
ROUNDS = 100 if SOAK else 6


def export(client: httpx.Client) -> bytes:
    answer = client.get("/export")
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_story_goes_from_one_engine_to_the_other_and_back(
    sqlite_servers: SharedServers, postgresql_servers: SharedServers
) -> None:
    here, there = sqlite_servers.lend("fast"), postgresql_servers.lend("fast")
    # The file names its extension, so it has the same name everywhere.
    for server, name in ((here, "moved"), (there, "moved"), (here, "MOVED-back")):
        server.register(name)
    with here.client("moved") as source, there.client("moved") as target:
        write_story(source, "demo")
        file = export(source)
        assert target.post("/import", content=file).status_code == 200
        assert export(target) == file
        for path in reads_of_story():
            if "operations" not in path and "/branch/state" not in path:
                assert outcome(target.get(path)) == outcome(source.get(path)), path
        with here.client("MOVED-back") as back:
            assert back.post("/import", content=export(target)).status_code == 200
            assert values_of(back, "hero") == values_of(source, "hero")


@pytest.mark.parametrize(
    ("failpoint", "is_new"), [("before_commit:kill", False), ("after_commit:kill", True)]
)
def test_an_import_is_there_after_a_kill_exactly_if_it_was_committed(
    run_program: RunProgram, failpoint: str, is_new: bool
) -> None:
    program = run_program()
    for name in ("demo", "target"):
        program.register(name)
    with program.client("demo") as demo, program.client("target") as target:
        make_instance(demo, {"hp": 50})
        make_instance(target, {"hp": 1})
        file = export(demo)
    assert program.stop() == 0

    program = run_program(VALUETRACKER_FAIL=failpoint)
    with program.client("target") as target, pytest.raises(httpx.TransportError):
        target.post("/import", content=file, params={"mode": "replace"})
    assert program.wait() == -signal.SIGKILL
    program = run_program()

    with program.client("target") as target:
        assert values_of(target) == ('{"hp":50}' if is_new else '{"hp":1}')
    assert program.stop() == 0
    recount(program.data_dir / "target.db")


def test_an_import_that_is_killed_leaves_the_old_or_the_new(run_program: RunProgram) -> None:
    chance = random.Random()
    program = run_program()
    for name in ("demo", "target"):
        program.register(name)
    with program.client("demo") as demo, program.client("target") as target:
        write_story(demo, "demo")
        make_instance(target, {"hp": 1})
        new, file = values_of(demo, "hero"), export(demo)
    states = {"old": 0, "new": 0}

    for _ in range(ROUNDS):
        client = program.client("target")
        sending = threading.Thread(target=_send, args=(client, file))
        sending.start()
        time.sleep(chance.uniform(0, 0.3))
        os.kill(program.server_pid, signal.SIGKILL)
        sending.join(60)
        client.close()
        program = run_program()
        with program.client("target") as target:
            if values_of(target, "hero") == "{}":
                assert values_of(target) == '{"hp":1}'
                states["old"] += 1
            else:
                assert values_of(target, "hero") == new
                states["new"] += 1
                make_old_again(target)
        recount(program.data_dir / "target.db")

    assert sum(states.values()) == ROUNDS


def make_old_again(target: httpx.Client) -> None:
    body = {"extensionId": "target", "purge": True}
    assert target.request("DELETE", "/register", json=body).status_code == 200
    assert target.post("/register", json={"extensionId": "target"}).status_code == 200
    make_instance(target, {"hp": 1})


def _send(client: httpx.Client, file: bytes) -> None:
    try:
        client.post("/import", content=file, params={"mode": "replace"})
    except httpx.TransportError:
        return
