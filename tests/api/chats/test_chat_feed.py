"""The feed of chats: which chat and place a change belongs to, and reading one chat only."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.answers import MOMENT, done
from tests.support.chat import Chat, furnish


def change(op: str, instance_id: str | None = None, **more: Any) -> dict[str, Any]:
    """Return one change of the key `hp` in `chat`, as the feed should show it."""
    common = {"key": "hp", "live": True, "chatId": "chat", "anchor": None}
    return {"instanceId": instance_id, "op": op, **common, **more}


def event(revision: int, *changes: Any, **more: Any) -> dict[str, Any]:
    common = {"at": MOMENT, "actor": "extension", "chatId": "chat", "anchor": None}
    return {"revision": revision, **common, "changes": list(changes), **more}


def events(client: httpx.Client, **params: Any) -> list[Any]:
    answer = client.get("/changes", params={"since": 0, **params})
    assert answer.status_code == 200, answer.text
    items: list[Any] = answer.json()["items"]
    return items


def test_each_change_has_its_chat_and_anchor(client: httpx.Client) -> None:
    chat = furnish(client)
    place = {"messageId": "m1", "swipe": "2"}
    chat.set("hp", 45, "m1", "2", x_actor="user")
    chat.reconcile()

    found = events(client)

    assert found[1] == event(2, change("set", after=50))
    assert found[2] == event(3, change("set", "sword", after=7))
    assert found[5:] == [
        event(6, change("set", after=45, anchor=place), actor="user", anchor=place),
        event(7, change("reconcile", after=50)),
    ]


def test_a_removed_key_has_no_after(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.reconcile()

    assert events(chat.client)[1] == event(2, change("reconcile"))


def test_a_new_chain_that_changes_no_value_is_an_event_without_changes(chat: Chat) -> None:
    chat.set("hp", 45)
    chat.reconcile("m1", "m2")

    found = events(chat.client)[1]

    assert (found["revision"], found["changes"], found["anchor"]) == (2, [], None)


def test_readers_of_a_chat_get_events_of_its_chain_and_of_no_other(chat: Chat) -> None:
    chat.set("hp", 45)
    Chat(chat.client, "other").set("hp", 1)
    chat.reconcile("m1", "m2")

    mine, theirs = events(chat.client, chatId="chat"), events(chat.client, chatId="other")

    assert [(each["revision"], len(each["changes"])) for each in mine] == [(1, 2), (3, 0)]
    assert [each["revision"] for each in theirs] == [2]
    assert [each["revision"] for each in events(chat.client, chatId="chat", key="hp")] == [1]


def test_a_reconcile_that_changed_nothing_is_no_event(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.reconcile("m1")
    chat.reconcile({"messageId": "m1", "hash": "h"})

    assert [each["revision"] for each in events(chat.client)] == [1]


def test_an_event_whose_changes_differ_in_chat_or_anchor_has_none(client: httpx.Client) -> None:
    Chat(client, "one").instance("sword")
    Chat(client, "two").instance("shield")
    operations = [
        {"op": "set", "instanceId": id, "key": "hp", "value": 1, "anchor": {"messageId": message}}
        for id, message in (("sword", "m1"), ("shield", "m2"))
    ]
    done(client.post("/batch", json={"operations": operations}))

    found = events(client)[2]

    assert (found["chatId"], found["anchor"]) == (None, None)
    assert [(each["chatId"], each["anchor"]["messageId"]) for each in found["changes"]] == [
        ("one", "m1"),
        ("two", "m2"),
    ]


def test_a_reader_can_filter_by_chat(client: httpx.Client) -> None:
    chat, other = furnish(client), Chat(client, "other")
    other.set("hp", 1)
    shield = other.instance("shield")
    both = [{"op": "set", "instanceId": id, "key": "mp", "value": 1} for id in ("sword", "shield")]
    done(client.post("/batch", json={"operations": both}))
    chat.set("hp", 2)
    shield.set("hp", 3)

    mine, theirs = events(client, chatId="chat"), events(client, chatId="other")

    assert [each["revision"] for each in mine] == [1, 2, 3, 4, 5, 8, 9]
    assert [each["revision"] for each in theirs] == [6, 7, 8, 10]
    assert [one["instanceId"] for one in mine[5]["changes"]] == ["sword"]
    assert [one["instanceId"] for one in theirs[2]["changes"]] == ["shield"]
    assert {one["chatId"] for each in mine for one in each["changes"]} == {"chat"}
    assert events(client, chatId="unknown") == []
    assert [each["revision"] for each in events(client, chatId="chat", key="hp")] == [2, 3, 9]


def test_series_and_processed_ids_are_in_the_feed(client: httpx.Client) -> None:
    furnish(client)

    found = [
        (each["revision"], one["space"], one["key"])
        for each in events(client)[3:]
        for one in each["changes"]
    ]

    assert sorted(found) == [
        (4, "series", "recap/1"),
        (4, "series", "recap/current"),
        (5, "processed", "seen/a"),
    ]
