"""Failures at moments too short to hit by chance, in the real program."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from tests.integrity.recount import recount
from tests.system.conftest import RunProgram

BODY = {"key": "k", "value": 2}


def prepare(run_program: RunProgram) -> None:
    program = run_program()
    program.register("demo")
    with program.client("demo") as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        client.post("/instances/i/data", json={"key": "k", "value": 1})
    assert program.stop() == 0


@pytest.mark.parametrize(
    ("failpoint", "value", "revision"),
    [
        ("before_commit:kill", 1, 2),
        ("after_commit:kill", 2, 3),
        ("before_reply:kill", 2, 3),
    ],
)
def test_a_write_exists_after_a_kill_exactly_if_it_was_committed(
    run_program: RunProgram, failpoint: str, value: int, revision: int
) -> None:
    prepare(run_program)
    program = run_program(VALUETRACKER_FAIL=failpoint)
    with program.client("demo") as client, pytest.raises(httpx.TransportError):
        client.post("/instances/i/data", json=BODY)
    assert program.wait() == -signal.SIGKILL

    program = run_program()
    with program.client("demo") as client:
        found = client.get("/instances/i/data").json()
        written = client.post("/instances/i/data", json=BODY)

    assert found == {"k": value}
    assert written.headers["x-revision"] == str(revision + 1)
    recount(program.data_dir / "demo.db")


@pytest.mark.parametrize(
    ("failpoint", "answers"),
    [
        ("before_commit:raise", ({"k": 1},)),
        # The write is in the file but was not acknowledged, so both answers are right.
        ("after_commit:raise", ({"k": 1}, {"k": 2})),
        ("before_reply:raise", ({"k": 2},)),
    ],
)
def test_a_failure_around_a_commit_is_answered_and_the_server_keeps_working(
    run_program: RunProgram, failpoint: str, answers: tuple[Any, ...]
) -> None:
    prepare(run_program)
    program = run_program(VALUETRACKER_FAIL=failpoint)

    with program.client("demo") as client:
        failed = client.post("/instances/i/data", json=BODY)
        found = client.get("/instances/i/data")
        written = client.post("/instances/i/data", json={"key": "k", "value": 3})
        after = client.get("/instances/i/data")

    assert failed.status_code == 500
    assert failed.json()["code"] == "internal_error"
    assert found.json() in answers
    assert written.status_code == 200
    assert after.json() == {"k": 3}
    assert program.stop() == 0
    recount(program.data_dir / "demo.db")


def test_an_extension_can_be_registered_after_a_kill_during_its_registration(
    run_program: RunProgram,
) -> None:
    prepare(run_program)
    program = run_program(VALUETRACKER_FAIL="mid_migration:kill:3")
    with program.client() as client, pytest.raises(httpx.TransportError):
        client.post("/register", json={"extensionId": "other"})
    assert program.wait() == -signal.SIGKILL

    program = run_program()
    program.register("other")

    with program.client("other") as client:
        assert client.get("/characters").json() == []
    assert not list(program.data_dir.glob(".new-*"))
