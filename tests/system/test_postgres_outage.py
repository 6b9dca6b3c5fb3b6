"""PostgreSQL stops and starts again under load: no acknowledged write is lost or done twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS, wait_for
from tests.support.postgres import PostgresServer
from tests.system.conftest import Program, RunProgram

WRITERS = 8


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL of its own, which a test can stop without harm to others."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.end()


@dataclass
class Writer:
    """Counts up in an instance of its own; repeats each number until it is acknowledged."""

    number: int
    program: Program
    stop: threading.Event
    acknowledged: list[int] = field(default_factory=list)
    revisions: list[int] = field(default_factory=list)
    refusals: list[tuple[int, Any]] = field(default_factory=list)
    replayed: int = 0

    @property
    def instance(self) -> str:
        return f"counter {self.number}"

    def run(self) -> None:
        with self.program.client("demo") as client:
            value = 0
            while not self.stop.is_set():
                value += 1
                self._write(client, value)

    def _write(self, client: httpx.Client, value: int) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        # A refused write may have been committed; a retry with its key finds out.
        headers = {"idempotency-key": f"{self.number}-{value}"}
        body = {"key": "count", "value": value}
        while True:
            answer = client.post(f"/instances/{self.instance}/data", json=body, headers=headers)
            if answer.status_code == 200:
                break
            self.refusals.append((answer.status_code, answer.json()))
            assert time.monotonic() < end, "the server did not recover"
        self.replayed += "idempotency-replayed" in answer.headers
        self.acknowledged.append(value)
        self.revisions.append(int(answer.headers["x-revision"]))
        # Whatever else has happened since, a read returns the acknowledged value.
        found = client.get(f"/instances/{self.instance}/data/count")
        if found.status_code == 200:
            assert found.json() == {"count": value}
        else:
            self.refusals.append((found.status_code, found.json()))


class Load:
    """All writers, each on a thread."""

    def __init__(self, program: Program) -> None:
        self.stop = threading.Event()
        self.writers = [Writer(number, program, self.stop) for number in range(WRITERS)]
        self.failures: list[BaseException] = []
        self.threads = [
            threading.Thread(target=self._run, args=(writer,)) for writer in self.writers
        ]
        with program.client("demo") as client:
            for writer in self.writers:
                body = {"id": writer.instance, "characterId": "c"}
                assert client.post("/instances", json=body).status_code == 200

    def _run(self, writer: Writer) -> None:
        try:
            writer.run()
        except BaseException as failure:
            self.failures.append(failure)

    def __enter__(self) -> Load:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join(2 * PATIENCE_SECONDS)
            assert not thread.is_alive()

    def wait_for_more(self, count: int = 10) -> None:
        """Wait until every writer has written some more."""
        goals = {id(writer): len(writer.acknowledged) + count for writer in self.writers}
        wait_for(
            lambda: (
                self.failures
                or all(len(each.acknowledged) >= goals[id(each)] for each in self.writers)
            )
        )

    def wait_for_refusals(self) -> None:
        wait_for(lambda: self.failures or all(each.refusals for each in self.writers))


def logged_counts(client: httpx.Client, instance: str) -> list[Any]:
    """Return every value of a counter in the log, oldest first."""
    counts: list[Any] = []
    query = {"key": "count", "order": "asc", "limit": "500"}
    while True:
        page = client.get(f"/instances/{instance}/history", params=query).json()
        counts += [item["after"] for item in page["items"]]
        if page["next"] is None:
            return counts
        query["cursor"] = page["next"]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_an_outage_of_postgresql_loses_and_repeats_no_write_and_needs_no_restart(
    run_program: RunProgram, own_postgres: PostgresServer, mode: str
) -> None:
    program = run_program("--database", own_postgres.create_database())
    program.register("demo")
    program.register("idle")
    load = Load(program)

    with load:
        for _ in range(2):
            load.wait_for_more()
            for writer in load.writers:
                writer.refusals.clear()
            own_postgres.stop(mode)
            try:
                load.wait_for_refusals()
                with program.client("idle") as client:
                    away = client.post("/characters", json={"id": "c"})
                    healthy = client.get("/probe")
            finally:
                own_postgres.start()
            load.wait_for_more()

            assert away.status_code == 503
            assert away.json()["code"] == "database_unavailable"
            assert healthy.status_code == 204
    assert load.failures == []

    refusals = [refusal for writer in load.writers for refusal in writer.refusals]
    assert {(status, body["code"]) for status, body in refusals} == {(503, "database_unavailable")}
    with program.client("demo") as client:
        for writer in load.writers:
            counts = logged_counts(client, writer.instance)
            assert counts == writer.acknowledged == list(range(1, len(counts) + 1))
        numbers = [number for writer in load.writers for number in writer.revisions]
        head = int(client.get("/extensions/demo").json()["revision"])
    assert len(set(numbers)) == len(numbers)
    # The creation of the counters made the first revisions; there is no other revision.
    assert sorted(numbers) == list(range(WRITERS + 1, head + 1))
    with program.client("idle") as client:
        assert client.post("/characters", json={"id": "c"}).headers["x-revision"] == "1"
    assert program.stop() == 0


def test_the_server_names_a_missing_postgresql_and_starts_once_it_is_back(
    run_program: RunProgram, own_postgres: PostgresServer
) -> None:
    url = own_postgres.create_database()
    own_postgres.stop()
    try:
        program = run_program("--database", url, ready=False)
    finally:
        own_postgres.start()

    assert program.wait() == 1
    assert [line for line in program.log.splitlines() if line.startswith("error: ")]
    program = run_program("--database", url)
    program.register("demo")
    assert program.stop() == 0


def test_an_outage_does_not_keep_the_program_from_stopping(
    run_program: RunProgram, own_postgres: PostgresServer
) -> None:
    program = run_program("--database", own_postgres.create_database())
    program.register("demo")
    with program.client("demo") as client:
        client.post("/characters", json={"id": "c"})
    own_postgres.stop("immediate")
    try:
        assert program.stop() == 0
    finally:
        own_postgres.start()


def test_a_write_whose_answer_was_lost_is_read_once_its_retry_was_answered(
    run_program: RunProgram, own_postgres: PostgresServer
) -> None:
    url = own_postgres.create_database()
    program = run_program("--database", url)
    program.register("demo")
    with program.client("demo") as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        client.post("/instances/i/data", json={"key": "k", "value": 1})
    assert program.stop() == 0
    program = run_program("--database", url, VALUETRACKER_FAIL="after_commit:raise")
    body, headers = {"key": "k", "value": 2}, {"idempotency-key": "once"}

    with program.client("demo") as client:
        before = [client.get("/instances/i/data/k").json() for _ in range(3)]
        lost = client.post("/instances/i/data", json=body, headers=headers)
        again = client.post("/instances/i/data", json=body, headers=headers)
        after = client.get("/instances/i/data/k").json()

    assert before == [{"k": 1}] * 3
    assert lost.status_code in (500, 503)
    assert again.status_code == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert after == {"k": 2}
