"""Leases and ages that do not depend on the clock of the server."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.api.chats.queue import LONG, SHORT, Queue
from tests.conftest import RunningServer, running_server, wait_for
from tests.support.chat import Chat
from tests.support.clock import DAY_MS, HOUR_MS, SettableClock


@pytest.fixture
def clock(shared_server: RunningServer) -> SettableClock:
    return shared_server.clock


@pytest.mark.parametrize("by", [HOUR_MS, 400 * DAY_MS])
def test_a_clock_that_is_set_forward_hands_nothing_out_twice(
    queue: Queue, clock: SettableClock, by: int
) -> None:
    chat = queue.chat
    queue.add("a", maxAttempts=2, retryAfterMs=LONG, priority=1)
    queue.end("a", "fail")
    queue.add("b")
    held = queue.claim()
    chat.claim("scenes", "m1", leaseMs=LONG)

    clock.set_forward(by)
    try:
        assert (held["id"], queue.claim()) == ("b", None)
        assert chat.claim("scenes", "m1", leaseMs=LONG) == {"new": [], "seen": ["m1"]}
        assert queue.clean_up() == {"removedCount": 0, "ids": []}
        assert chat.open()["operations"]["inProgress"] == 1
        assert queue.end("b", claim=held["claim"]).json()["status"] == "completed"
        assert queue.ids() == ["a", "b"]
    finally:
        clock.set_forward(-by)


def test_a_clock_that_is_set_back_holds_nothing_longer(queue: Queue, clock: SettableClock) -> None:
    queue.add("a")
    queue.claim(SHORT)
    queue.chat.claim("scenes", "m1", leaseMs=SHORT)

    clock.set_forward(-DAY_MS)
    try:
        assert wait_for(queue.claim)["id"] == "a"
        wait_for(lambda: queue.chat.claim("scenes", "m1", leaseMs=LONG)["new"])
    finally:
        clock.set_forward(DAY_MS)


def test_a_lease_ends_by_the_uptime_or_by_the_clock_of_the_database(
    queue: Queue, clock: SettableClock, engine_name: str
) -> None:
    queue.add("a")
    queue.claim(LONG)
    queue.chat.claim("scenes", "m1", leaseMs=LONG)

    clock.pass_time(LONG)

    # The database has seen no time pass.
    is_over = engine_name == "sqlite"
    assert (queue.claim() is not None) == is_over
    assert queue.chat.claim("scenes", "m1")["new"] == (["m1"] if is_over else [])


def test_after_a_restart_the_granted_lease_begins_again(
    tmp_path: Path, own_database: str, engine_name: str
) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            queue = Queue(Chat(client, "chat"))
            queue.add("a")
            held = queue.claim(LONG)
            queue.chat.claim("scenes", "m1", leaseMs=LONG)
            server.clock.pass_time(LONG - 1000)

    # The server was away for a day.
    clock = SettableClock()
    clock.set_forward(DAY_MS)
    with (
        running_server(tmp_path, database=own_database, clock=clock) as server,
        server.client("demo") as client,
    ):
        queue = Queue(Chat(client, "chat"))
        clock.pass_time(LONG // 2)
        assert queue.get("a")["claim"] == held["claim"]
        assert queue.chat.claim("scenes", "m1") == {"new": [], "seen": ["m1"]}
        if engine_name == "sqlite":
            assert queue.get("a")["leaseUntil"] > held["leaseUntil"]
            clock.pass_time(LONG // 2)
            assert queue.get("a")["status"] == "pending"
            assert queue.chat.claim("scenes", "m1") == {"new": ["m1"], "seen": []}
        else:
            assert queue.get("a") == held


def test_ages_count_the_time_that_the_server_has_run(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            Queue(Chat(client, "chat")).add("a")
            Queue(Chat(client, "chat")).add("b", "completed")
            server.clock.pass_time(DAY_MS // 2)

    clock = SettableClock()
    clock.set_forward(10 * DAY_MS)
    with (
        running_server(tmp_path, database=own_database, clock=clock) as server,
        server.client("demo") as client,
    ):
        queue = Queue(Chat(client, "chat"))
        assert queue.clean_up() == {"removedCount": 0, "ids": []}
        assert queue.ids() == ["a", "b"]
        clock.pass_time(DAY_MS // 2)
        assert queue.clean_up() == {"removedCount": 1, "ids": ["a"]}
        assert queue.ids() == []


def test_a_request_is_remembered_for_a_day_that_the_server_has_run(
    tmp_path: Path, own_database: str
) -> None:
    clock = SettableClock()

    def increment(client: httpx.Client, key: str) -> bool:
        """Send a request with an idempotency key; return True if it was done before."""
        body = {"operations": [{"op": "increment", "key": "n", "by": 1}]}
        headers = {"idempotency-key": key}
        answer = client.post("/chats/chat/batch", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return "idempotency-replayed" in answer.headers

    with (
        running_server(tmp_path, database=own_database, clock=clock) as server,
        server.client("demo") as client,
    ):
        server.register("demo")
        assert not increment(client, "first")
        for by in (4_000 * DAY_MS, -8_000 * DAY_MS, 4_000 * DAY_MS):
            clock.set_forward(by)
            # Requests that are long past are deleted by those that come after them.
            assert not increment(client, f"another-{by}-{clock.time_of_day()}")
            assert increment(client, "first")
        clock.pass_time(DAY_MS)
        assert not increment(client, "after a day")
        assert increment(client, "first")

        clock.pass_time(2 * HOUR_MS)
        assert not increment(client, "after more than a day")
        assert not increment(client, "first")
