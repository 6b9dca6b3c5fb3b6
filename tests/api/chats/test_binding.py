"""Binding an instance to a chat, moving it to another, unbinding it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import (
    done,
    head,
    instance,
    make_instance,
    outcome,
    refused,
    set_value,
    values_of,
)
from tests.support.chat import Chat, Values, reconciled


def bind(client: httpx.Client, chat_id: str | None, id: str = "sword") -> int:
    body = {"id": id, "characterId": "arthur", "chatId": chat_id}
    return done(client.post("/instances", json=body))


def ids_of(client: httpx.Client, chat_id: str) -> list[str]:
    """Return the instances of a chat; all routes must agree about them."""
    listed = [each["id"] for each in client.get("/instances", params={"chatId": chat_id}).json()]
    state = Chat(client, chat_id).state()
    assert [each["instance"]["id"] for each in state["instances"]] == listed
    return listed


def write_story(client: httpx.Client) -> Values:
    """Make a sword in `chat` with hp 50, then 45 at m1, which is visible; revision 3."""
    sword = Chat(client, "chat").instance("sword")
    sword.set("hp", 50)
    sword.set("hp", 45, "m1")
    return sword


def test_an_unknown_chat_is_made_with_its_instance_in_one_revision(client: httpx.Client) -> None:
    assert bind(client, "chat") == 1

    assert [each["chatId"] for each in client.get("/chats").json()] == ["chat"]
    assert ids_of(client, "chat") == ["sword"]
    ops = [each["op"] for each in client.get("/changes?since=0").json()["items"][0]["changes"]]
    assert sorted(ops) == ["create_character", "create_chat", "create_instance"]


def test_an_instance_is_bound_later(client: httpx.Client) -> None:
    make_instance(client, {"hp": 50})
    Chat(client, "chat").open()

    assert bind(client, "chat") == 4

    assert ids_of(client, "chat") == ["sword"]
    assert Chat(client, "chat").state()["instances"] == [
        {"instance": instance("sword", "arthur", chat_id="chat"), "data": {"hp": 50}}
    ]


def test_an_instance_moves_from_one_chat_to_another(client: httpx.Client) -> None:
    one, two = Chat(client, "one"), Chat(client, "two")
    one.instance("sword").set("hp", 50)
    two.open()
    assert (one.etag(), two.etag()) == ('"2"', '"3"')

    assert bind(client, "two") == 4

    assert (ids_of(client, "one"), ids_of(client, "two")) == ([], ["sword"])
    assert (one.etag(), two.etag()) == ('"4"', '"4"')
    assert values_of(client) == '{"hp":50}'
    # The past is unchanged.
    assert [each["instance"]["id"] for each in one.state(3)["instances"]] == ["sword"]
    assert two.state(3)["instances"] == []


def test_an_instance_is_unbound(client: httpx.Client) -> None:
    write_story(client)

    assert bind(client, None) == 4

    assert ids_of(client, "chat") == []
    assert outcome(client.get("/instances/sword")) == (
        200,
        {"instance": instance("sword", "arthur"), "data": {"hp": 45}},
    )


@pytest.mark.parametrize("body", [{}, {"chatId": "chat"}])
def test_the_chat_is_kept_if_it_is_not_named_or_the_same(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    sword = write_story(client)

    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", **body}))

    assert head(client) == 3
    assert sword.chat.reconcile()["dormant"] == 1
    assert sword.data() == {"hp": 50}


@pytest.mark.parametrize("target", ["other", None])
def test_live_changes_become_unanchored(client: httpx.Client, target: str | None) -> None:
    sword = write_story(client)
    bind(client, target)

    assert sword.chat.reconcile() == reconciled(5)
    assert sword.data() == {"hp": 45}
    if target is not None:
        Chat(client, target).reconcile("m1")
        Chat(client, target).reconcile()
        assert sword.data() == {"hp": 45}


@pytest.mark.parametrize("target", ["other", None])
def test_dormant_changes_are_dropped(client: httpx.Client, target: str | None) -> None:
    sword = write_story(client)
    sword.chat.reconcile()
    bind(client, target)

    assert sword.chat.reconcile("m1") == reconciled(6)
    assert sword.data() == {"hp": 50}
    sword.chat.reconcile()
    bind(client, "chat")
    assert sword.chat.reconcile("m1")["revived"] == 0
    assert sword.data() == {"hp": 50}


def test_increments_made_before_the_move_stay_what_they_were(client: httpx.Client) -> None:
    sword = Chat(client, "chat").instance("sword")
    sword.set("gold", 100)
    sword.increment("gold", -30, "m1")
    sword.increment("gold", -5, "m2")
    sword.chat.reconcile("m1")
    other = Chat(client, "other")
    moved = other.instance("sword")
    moved.increment("gold", 1, "n1")
    assert moved.data() == {"gold": 71}

    other.reconcile()

    assert moved.data() == {"gold": 70}


def test_the_old_chats_own_values_are_untouched(client: httpx.Client) -> None:
    sword = write_story(client)
    sword.chat.set("hp", 1, "m1")
    bind(client, "other")

    changed = [{"instanceId": None, "key": "hp", "before": 1}]
    assert sword.chat.reconcile() == reconciled(6, dormant=1, changed=changed)


def test_writes_after_the_move_are_anchored_in_the_new_chat(client: httpx.Client) -> None:
    write_story(client)
    bind(client, "other")
    set_value(client, "hp", 40, x_message_id="m1")

    Chat(client, "chat").reconcile()
    assert values_of(client) == '{"hp":40}'
    Chat(client, "other").reconcile()
    assert values_of(client) == '{"hp":45}'


def test_a_change_anchored_in_no_chat_never_flips(client: httpx.Client) -> None:
    make_instance(client, {"hp": 50})
    set_value(client, "hp", 45, x_message_id="m1")
    bind(client, "chat")

    Chat(client, "chat").reconcile("m1")
    Chat(client, "chat").reconcile()

    assert values_of(client) == '{"hp":45}'


def test_another_character_or_name_keeps_the_chat(client: httpx.Client) -> None:
    sword = write_story(client)
    body = {"id": "sword", "characterId": "mordred", "name": "Clarent"}
    done(client.post("/instances", json=body))

    sword.chat.reconcile()

    assert sword.data() == {"hp": 50}
    assert ids_of(client, "chat") == ["sword"]


def test_a_write_that_names_the_old_chat_is_refused(client: httpx.Client) -> None:
    write_story(client)
    bind(client, "other")
    body = {"key": "hp", "value": 1}

    answer = client.post("/instances/sword/data", json=body, headers={"x-chat-id": "chat"})

    assert refused(answer)[:2] == (409, "chat_mismatch")
    assert set_value(client, "hp", 1, x_chat_id="other") == 5


def test_an_instance_can_be_bound_by_a_former_id_of_the_chat(client: httpx.Client) -> None:
    Chat(client, "chat").open()
    Chat(client, "chat").rename("renamed")

    answer = client.post(
        "/instances", json={"id": "sword", "characterId": "arthur", "chatId": "chat"}
    )

    assert outcome(answer) == (200, instance("sword", "arthur", chat_id="renamed"))
    assert [each["chatId"] for each in client.get("/chats").json()] == ["renamed"]


def test_deleting_a_character_removes_its_instances_from_the_chat(client: httpx.Client) -> None:
    write_story(client)

    done(client.delete("/characters/arthur"))

    assert ids_of(client, "chat") == []
    assert [each["chatId"] for each in client.get("/chats").json()] == ["chat"]


def test_an_instance_without_a_chat_is_listed_in_none(client: httpx.Client) -> None:
    make_instance(client, {"hp": 50})

    assert outcome(client.get("/chats")) == (200, [])
