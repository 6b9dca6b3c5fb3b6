"""Jobs, as readers of a feed are told of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import MOMENT
from tests.support.events import read_events


def job_events(answer: httpx.Response) -> list[dict[str, Any]]:
    """Return the events about the next job, from its begin to its end."""
    found: list[dict[str, Any]] = []
    for event in read_events(answer):
        if event.name == "job":
            assert event.id is None
            found.append(event.data)
            if found[-1]["status"] != "running":
                return found
    raise AssertionError("the stream has ended")


def test_readers_of_an_extension_are_told_how_far_its_job_is(
    client: httpx.Client, shared_server: RunningServer, extension_id: str
) -> None:
    client.post("/instances", json={"id": "sword", "characterId": "arthur"})
    with shared_server.client(extension_id) as other, client.stream("GET", "/events") as answer:
        job = other.post("/verify").json()["job"]
        told = job_events(answer)
        record = other.get(f"/jobs/{job}").json()

    assert told[0] == {
        "at": MOMENT,
        "job": job,
        "kind": "verify",
        "status": "running",
        "done": 0,
        "total": 0,
    }
    assert told[-1] == {
        "at": record["endedAt"],
        "job": job,
        "kind": "verify",
        "status": "done",
        "done": record["done"],
        "total": record["total"],
    }


@pytest.mark.one_engine
def test_a_backup_is_told_to_all_readers_of_the_user_who_began_it(tmp_path: Path) -> None:
    ada = {"x-vt-secret": "s", "x-vt-user": "ada", "x-vt-admin": "true"}
    bob = {**ada, "x-vt-user": "bob"}
    with running_server(tmp_path, bridge_secret="s") as server:
        for person in (ada, bob):
            with server.client() as client:
                client.headers.update(person)
                for name in ("one", "two"):
                    client.post("/register", json={"extensionId": name})
        with (
            server.client("one") as first,
            server.client("two") as second,
            server.client("one") as other,
            server.client() as admin,
        ):
            for client in (first, second, admin):
                client.headers.update(ada)
            other.headers.update(bob)
            with (
                first.stream("GET", "/events") as one,
                second.stream("GET", "/events?extensions=one,two") as two,
                other.stream("GET", "/events") as foreign,
            ):
                job = admin.post("/backup").json()["job"]
                told = job_events(one)
                joint = job_events(two)
                other.post("/verify")
                his = job_events(foreign)

    assert {each["job"] for each in told} == {job}
    assert "result" not in told[-1]
    assert told[-1]["status"] == "done"
    assert {each["extensionId"] for each in joint} <= {"one", "two"}
    assert {each["kind"] for each in his} == {"verify"}
