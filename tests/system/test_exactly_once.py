"""Writes are done exactly once when the program is killed, and with many clients at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS
from tests.support.answers import done, head, make_instance, outcome
from valuetracker.settings import PREFIX

READY = "Value Tracker listening on "


class Program:
    """The running program, and clients for it."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url

    def client(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url + PREFIX,
            headers={"x-extension-id": "demo"},
            timeout=PATIENCE_SECONDS,
        )


@contextmanager
def run_program(data_dir: Path, fail: str = "") -> Iterator[Program]:
    environment = {**os.environ, "VALUETRACKER_FAIL": fail}
    command = [sys.executable, "-m", "valuetracker", "serve", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(data_dir)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    with process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(READY), line
            yield Program(process, line.removeprefix(READY).strip())
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(PATIENCE_SECONDS)


def prepare(data_dir: Path) -> None:
    """Make an extension with an instance, as an earlier run of the program would leave them."""
    with run_program(data_dir) as program, program.client() as client:
        assert client.post("/register", json={"extensionId": "demo"}).status_code == 200
        make_instance(client, {"hits": 0})


def increment(client: httpx.Client, key: str) -> httpx.Response:
    operation = {"op": "increment", "instanceId": "sword", "key": "hits", "by": 1}
    headers = {"idempotency-key": key}
    return client.post("/batch", json={"operations": [operation]}, headers=headers)


def log_of(client: httpx.Client) -> list[Any]:
    events = client.get("/changes?since=2").json()["items"]
    return [[change["after"] for change in event["changes"]] for event in events]


@pytest.mark.parametrize(
    ("point", "happened"),
    [("before_commit", False), ("after_commit", True), ("before_reply", True)],
)
def test_a_retry_after_a_kill_has_one_effect(tmp_path: Path, point: str, happened: bool) -> None:
    prepare(tmp_path)
    with run_program(tmp_path, f"{point}:kill") as program, program.client() as client:
        with pytest.raises(httpx.TransportError):
            increment(client, "once")
        assert program.process.wait(PATIENCE_SECONDS) == -9

    with run_program(tmp_path) as program, program.client() as client:
        found = outcome(client.get("/instances/sword/data"))
        first = increment(client, "once")
        again = increment(client, "once")

        assert found == (200, {"hits": 1 if happened else 0})
        assert ("idempotency-replayed" in first.headers) is happened
        assert outcome(first) == (200, {"revision": 3, "results": [{"value": 1}]})
        assert (again.content, done(again)) == (first.content, 3)
        assert again.headers["idempotency-replayed"] == "true"
        assert outcome(client.get("/instances/sword/data")) == (200, {"hits": 1})
        assert log_of(client) == [[1]]


@pytest.mark.parametrize("point", ["before_commit", "after_commit", "before_reply"])
def test_many_clients_that_retry_while_the_server_is_killed_lose_and_repeat_nothing(
    tmp_path: Path, point: str
) -> None:
    prepare(tmp_path)
    waiting = [f"{client} {number}".replace(" ", "-") for client in range(8) for number in range(5)]
    values: list[int] = []
    for round in range(3):
        # In the last but one run the failpoint comes later; the last run has none.
        fail = f"{point}:kill:{1 + 3 * round}" if round < 2 else ""
        with run_program(tmp_path, fail) as program:

            def attempt(key: str, program: Program = program) -> tuple[str, int | None]:
                with program.client() as client:
                    try:
                        answer = increment(client, key)
                    except httpx.TransportError:
                        return key, None
                    assert answer.status_code == 200, answer.text
                    return key, answer.json()["results"][0]["value"]

            with ThreadPoolExecutor(8) as pool:
                results = list(pool.map(attempt, waiting))
            waiting = [key for key, value in results if value is None]
            values += [value for _, value in results if value is not None]

    assert waiting == []
    assert sorted(values) == list(range(1, 41))
    with run_program(tmp_path) as program, program.client() as client:
        assert outcome(client.get("/instances/sword/data")) == (200, {"hits": 40})
        assert log_of(client) == [[number] for number in range(1, 41)]


def test_many_clients_at_once_lose_nothing(tmp_path: Path) -> None:
    prepare(tmp_path)
    clients, each_sends = 8, 50

    with run_program(tmp_path) as program:

        def send(number: int) -> list[int]:
            with program.client() as client:
                answers = [increment(client, f"{number}-{each}") for each in range(each_sends)]
            return [answer.json()["results"][0]["value"] for answer in answers]

        with ThreadPoolExecutor(clients) as pool:
            values = [value for each in pool.map(send, range(clients)) for value in each]

        with program.client() as client:
            total = clients * each_sends
            assert sorted(values) == list(range(1, total + 1))
            assert outcome(client.get("/instances/sword/data")) == (200, {"hits": total})
            assert head(client) == 2 + total
