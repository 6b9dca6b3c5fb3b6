"""Malformed requests about operations, and ids of every kind."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.chats.queue import Queue, operation
from tests.conftest import RunningServer
from tests.support.answers import head, outcome, refused
from tests.support.chat import Chat


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"type": None},
        {"type": 5},
        {"type": ""},
        {"type": "x" * 257},
        {"type": "recap", "id": ""},
        {"type": "recap", "id": 5},
        {"type": "recap", "id": "x" * 257},
        {"type": "recap", "data": []},
        {"type": "recap", "data": "x"},
        {"type": "recap", "data": {"n": 10**30}},
        {"type": "recap", "priority": "1"},
        {"type": "recap", "priority": 1.5},
        {"type": "recap", "priority": True},
    ],
)
def test_a_malformed_operation_is_refused(chat: Chat, body: Any) -> None:
    assert refused(Queue(chat).post(body))[0] == 400
    assert (outcome(chat.client.get("/chats")), head(chat.client)) == ((200, []), 0)


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        [],
        {"stage": ""},
        {"stage": 5},
        {"stage": "x" * 257},
        {"data": []},
        {"data": "x"},
        {"claim": 5},
    ],
)
def test_a_malformed_move_is_refused(queue: Queue, body: Any) -> None:
    queue.add("a")

    assert refused(queue.send("PATCH", "a", body=body))[0] == 400
    assert queue.get("a") == operation("a")


@pytest.mark.parametrize("status", ["done", "", "PENDING", 5])
def test_an_unknown_status_is_refused(queue: Queue, status: Any) -> None:
    queue.add("a")

    assert refused(queue.patch("a", status=status)) == (400, "invalid_body", {})
    assert queue.get("a") == operation("a")


@pytest.mark.parametrize("id", ["x" * 256, "日" * 256, "a/b", "100%", "é 🗡️", "claim", "cleanup"])
def test_an_id_may_be_any_text(queue: Queue, id: str) -> None:
    queue.add(id)

    assert queue.get(id) == operation(id)
    assert queue.patch(id, status="retrying").json() == operation(id, "retrying")
    assert queue.end(id).json() == operation(id, "completed")


def test_an_operation_of_another_extension_is_not_found(
    queue: Queue, shared_server: RunningServer
) -> None:
    queue.add("a")
    shared_server.register("somebody-else")

    with shared_server.client("somebody-else") as theirs:
        answer = Queue(Chat(theirs, "chat")).send("GET", "a")

    assert refused(answer) == (404, "operation_not_found", {})
