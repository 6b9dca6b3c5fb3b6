"""Checkpoints on the feed: `event: checkpoint`, without a revision and not replayed."""

from __future__ import annotations

from unittest.mock import ANY

from tests.api.chats.queue import Queue
from tests.api.chats.test_operation_feed import reading
from tests.support.answers import MOMENT
from tests.support.events import Event, take


def told(op: str, name: str, status: str = "ready", **more: object) -> Event:
    """Return the event of a change of the checkpoints."""
    checkpoint = {
        "name": name,
        "status": status,
        "revision": ANY if status == "ready" else None,
        "messageId": None,
        "createdAt": MOMENT,
    }
    data = {"at": MOMENT, "actor": "extension", "chatId": "chat", "op": op}
    return Event("checkpoint", None, {**data, "checkpoint": checkpoint, **more})


def test_every_change_of_the_checkpoints_is_told(queue: Queue) -> None:
    client = queue.chat.client
    with reading(client, chatId="chat") as events:
        client.put("/chats/chat/data", json={"key": "hp", "value": 50})
        client.post("/chats/chat/checkpoints", json={"name": "a"}, headers={"x-actor": "user"})
        client.post("/chats/chat/checkpoints", json={"name": "a"})
        client.delete("/chats/chat/checkpoints/a")
        client.delete("/chats/chat/checkpoints/a")
        found = take(events, 3)

    assert [each.name for each in found] == ["change", "checkpoint", "checkpoint"]
    assert found[1:] == [told("add", "a", actor="user"), told("remove", "a")]


def test_one_that_waited_is_told_when_it_is_there(queue: Queue) -> None:
    client = queue.chat.client
    client.put("/chats/chat/data", json={"key": "hp", "value": 50})
    queue.add("work")
    with reading(client) as events:
        client.post("/chats/chat/checkpoints", json={"name": "b", "whenReady": True})
        queue.send("POST", "work", "/cancel")
        found = take(events, 3)

    assert [each for each in found if each.name == "checkpoint"] == [
        told("add", "b", "waiting"),
        told("update", "b"),
    ]


def test_a_reader_of_a_key_or_of_another_chat_is_not_told(queue: Queue) -> None:
    client = queue.chat.client
    client.put("/chats/chat/data", json={"key": "hp", "value": 50})
    for query in ({"key": "hp"}, {"chatId": "another"}):
        with reading(client, **query) as events:
            client.post("/chats/chat/checkpoints", json={})
            chat = query.get("chatId", "chat")
            client.put(f"/chats/{chat}/data", json={"key": "hp", "value": query})
            assert [each.name for each in take(events, 1)] == ["change"]
