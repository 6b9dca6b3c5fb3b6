"""Operations on the feed: `event: operation`, without a revision and not replayed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.api.chats.queue import Queue, operation
from tests.conftest import RunningServer
from tests.support.answers import MOMENT
from tests.support.chat import Chat
from tests.support.events import Event, read_events, take


def told(op: str, record: dict[str, Any] | None, chat_id: str = "chat", **more: Any) -> Event:
    """Return the event of a change of the queue."""
    shown = None
    if record is not None:
        shown = {name: each for name, each in record.items() if name not in ("claim", "created")}
        shown |= {"updatedAt": MOMENT}
    data = {"at": MOMENT, "actor": "extension", "chatId": chat_id, "op": op, "operation": shown}
    return Event("operation", None, {**data, **more})


@contextmanager
def reading(client: httpx.Client, **query: str) -> Iterator[Iterator[Event]]:
    """Follow the feed; the reader is there when this begins."""
    with client.stream("GET", "/events", params=query) as answer:
        assert answer.status_code == 200, answer.read()
        events = read_events(answer)
        assert next(events).name == ":"
        yield events


def test_every_change_of_the_queue_is_told(queue: Queue) -> None:
    client = queue.chat.client
    with reading(client) as events:
        queue.add("a", data={"x": 1}, maxAttempts=2)
        claimed = queue.claim()
        renewed = queue.renew("a", claimed["claim"]).json()
        staged = queue.patch("a", stage="half", claim=claimed["claim"]).json()
        failed = queue.end("a", "fail", claim=claimed["claim"]).json()
        queue.end("a", "fail")
        retried = queue.send("POST", "a", "/retry").json()
        queue.pause()
        queue.pause("resume")
        cancelled = queue.send("POST", "a", "/cancel", None, x_actor="user").json()
        queue.send("DELETE", "a")
        found = take(events, 11)

    added = operation("a", data={"x": 1}, maxAttempts=2)
    assert found == [
        told("add", added),
        told("update", claimed),
        told("update", renewed),
        told("update", staged),
        told("update", failed),
        told("update", {**failed, "status": "failed", "attempts": 2}),
        told("update", retried),
        told("pause", None),
        told("resume", None),
        told("update", cancelled, actor="user"),
        told("remove", cancelled),
    ]


def test_what_follows_a_change_is_told_too(queue: Queue) -> None:
    queue.chat.reconcile("m1")
    queue.post({"id": "a", "type": "recap"}, "m1")
    queue.add("b", dependsOn=["a"])
    with reading(queue.chat.client) as events:
        queue.chat.reconcile()
        found = take(events, 3)

    assert [each.name for each in found] == ["change", "operation", "operation"]
    told_of = [each.data["operation"] for each in found[1:]]
    assert [(each["id"], each["status"]) for each in told_of] == [
        ("a", "cancelled"),
        ("b", "cancelled"),
    ]


def test_cursors_stay_right(queue: Queue) -> None:
    chat = queue.chat
    with reading(chat.client) as events:
        chat.set("hp", 1)
        first = take(events, 1)
        queue.add("a")
        second = take(events, 1)
        chat.set("hp", 2)
        third = take(events, 1)

    assert [each[0][:2] for each in (first, second, third)] == [
        ("change", 2),
        ("operation", None),
        ("change", 3),
    ]
    with reading(chat.client, since="2") as events:
        assert [each[:2] for each in take(events, 1)] == [("change", 3)]


def test_events_of_the_queue_are_not_replayed_and_not_in_pages(queue: Queue) -> None:
    chat = queue.chat
    queue.add("a")
    with reading(chat.client, since="0") as events:
        chat.set("hp", 1)
        found = take(events, 2)
        page = chat.client.get("/changes", params={"since": 0}).json()

    assert [each[:2] for each in found] == [("change", 1), ("change", 2)]
    assert [each["revision"] for each in page["items"]] == [1, 2]


def test_a_reader_of_one_chat_is_told_of_its_queue_alone(client: httpx.Client) -> None:
    chat, other = Chat(client, "chat"), Chat(client, "other")
    for each in (chat, other):
        each.open(f"tab of {each.chat_id}")
    with reading(client, chatId="chat") as events:
        Queue(other).add("theirs")
        Queue(chat.rename("renamed")).add("ours")
        found = take(events, 2)

    assert found[1] == told("add", operation("ours"), "renamed")


def test_a_reader_of_an_instance_or_a_key_is_told_of_no_queue(queue: Queue) -> None:
    for query in ({"instanceId": "sword"}, {"key": "hp"}):
        chat, sword = queue.chat, queue.chat.instance("sword")
        with reading(chat.client, **query) as events:
            queue.add(str(query))
            (sword if "instanceId" in query else chat).set("hp", 1)
            assert [each.name for each in take(events, 1)] == ["change"]


def test_large_data_is_left_out(queue: Queue) -> None:
    with reading(queue.chat.client) as events:
        queue.add("small", data={"text": "x" * 4000})
        queue.add("large", data={"text": "x" * 9000})
        small, large = take(events, 2)

    assert small.data["operation"]["data"] == {"text": "x" * 4000}
    assert "data" not in large.data["operation"]


def test_a_reader_of_several_extensions_is_told_whose_queue_it_is(
    queue: Queue, extension_id: str, shared_server: RunningServer
) -> None:
    other_id = f"{extension_id}-other"
    shared_server.register(other_id)
    with shared_server.client(other_id) as theirs, shared_server.client() as reader:
        other = Queue(Chat(theirs, "chat"))
        other.chat.open("another tab")
        with reading(reader, extensions=f"{extension_id},{other_id}") as events:
            queue.add("ours")
            first = take(events, 1)
            other.add("theirs")
            second = take(events, 1)
            queue.chat.set("hp", 1)
            third = take(events, 1)

    assert first == [told("add", operation("ours"), extensionId=extension_id)]
    assert second == [told("add", operation("theirs"), extensionId=other_id)]
    assert (third[0].name, third[0].id) == ("change", f"{extension_id}:2,{other_id}:1")
