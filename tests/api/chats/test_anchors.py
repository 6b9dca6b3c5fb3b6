"""Anchors: how a write changes the chain, and how the chain decides if the write is live."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import MOMENT, done, head, make_instance, outcome, set_value, values_of
from tests.support.chat import Chat, Values, reconciled


def hide_a_place(values: Values) -> None:
    """Set hp to 50, to 45 at m1, and hide m1: it reads 50, at revision 4."""
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    assert values.data() == {"hp": 50}


def steps(values: Values, key: str) -> list[tuple[Any, ...]]:
    """Return the history of a key: revision, operator, before, after, and if it is live."""
    return [
        (each["revision"], each["op"], each.get("before"), each.get("after"), each["live"])
        for each in values.history(key=key)
    ]


def test_a_new_message_is_appended_to_the_chain(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")

    # The chain is the same already, so this changes nothing.
    assert values.chat.reconcile("m1", "m2") == reconciled(3)


def test_until_a_reconcile_messages_are_in_the_order_of_their_first_write(values: Values) -> None:
    values.set("hp", 1, "m2")
    values.set("hp", 2, "m1")
    values.set("hp", 3, "m2")

    assert values.chat.reconcile("m2", "m1") == reconciled(4)


def test_messages_of_one_batch_are_appended_in_its_order(values: Values) -> None:
    done(
        values.run(
            {"op": "set", "key": "a", "value": 1, "anchor": {"messageId": "m2"}},
            {"op": "set", "key": "b", "value": 1, "anchor": {"messageId": "m1", "swipe": 3}},
            {"op": "set", "key": "c", "value": 1, "anchor": {"messageId": "m2", "swipe": "0"}},
        )
    )

    assert values.chat.reconcile("m2", ("m1", "3")) == reconciled(2)


def test_a_new_swipe_replaces_the_visible_one(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("mp", 1, "m2")

    assert values.set("hp", 47, "m1", "1") == 5

    assert values.data() == {"hp": 47, "mp": 1}
    # In the same position: before m2.
    assert values.chat.reconcile(("m1", "1"), "m2") == reconciled(5)


def test_changes_at_the_old_swipe_are_hidden_before_the_write_is_applied(values: Values) -> None:
    done(values.send("PUT", "/data/override", {"hp": 50, "gold": 100}))
    values.increment("gold", -30, "m1")
    values.set("hp", 45, "m1")

    done(values.run({"op": "increment", "key": "hp", "by": 1}, message="m1", x_swipe_id="1"))

    assert values.data() == {"hp": 51, "gold": 100}
    assert steps(values, "hp") == [
        (2, "set", None, 50, True),
        (4, "set", 50, 45, False),
        (5, "reconcile", 45, 50, True),
        (5, "increment", 50, 51, True),
    ]
    assert steps(values, "gold")[2:] == [(5, "reconcile", 70, 100, True)]


def test_a_new_swipe_of_a_hidden_message_shows_it_again_at_the_end(values: Values) -> None:
    values.set("a", 1, "m1")
    values.set("b", 1, "m2")
    values.chat.reconcile("m2")

    assert values.set("c", 1, "m1", "1") == 5

    assert values.data() == {"b": 1, "c": 1}
    assert values.chat.reconcile("m2", ("m1", "1")) == reconciled(5)


def test_a_write_to_a_hidden_place_is_stored_dormant(values: Values) -> None:
    hide_a_place(values)

    answer = values.send("POST", "/data", {"key": "hp", "value": 40}, "m1")

    assert (answer.status_code, answer.headers["x-live"]) == (200, "false")
    assert answer.headers["x-revision"] == "5"
    assert values.data() == {"hp": 50}
    changed = [values.difference("hp", before=50, after=40)]
    assert values.chat.reconcile("m1") == reconciled(6, revived=2, changed=changed)
    assert values.data() == {"hp": 40}


def test_a_hidden_swipe_of_a_visible_message_is_a_hidden_place(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 47, "m1", "1")

    answer = values.send("POST", "/data", {"key": "hp", "value": 44}, "m1", "0")

    assert answer.headers["x-live"] == "false"
    assert values.data() == {"hp": 47}
    values.chat.reconcile("m1")
    assert values.data() == {"hp": 44}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/data", {"key": "hp", "value": 1}),
        ("PUT", "/data", {"key": "hp", "value": 1}),
        ("PUT", "/data/merge", {"hp": 1, "mp": 1}),
        ("PUT", "/data/override", {"mp": 1}),
        ("PUT", "/data/remove", {"keys": ["hp"]}),
        ("PATCH", "/data", {"hp": 1}),
        ("PATCH", "/data", {"hp": None}),
        ("DELETE", "/data", None),
        ("DELETE", "/data/hp", None),
    ],
)
def test_no_kind_of_write_to_a_hidden_place_changes_a_value(
    values: Values, method: str, path: str, body: Any
) -> None:
    hide_a_place(values)

    answer = values.send(method, path, body, "m1")

    assert (answer.status_code, answer.headers["x-live"]) == (200, "false")
    assert answer.headers["x-revision"] == "5"
    assert values.text() == '{"hp":50}'


def test_a_removal_at_a_hidden_place_takes_effect_when_the_place_is_shown(values: Values) -> None:
    hide_a_place(values)
    done(values.send("DELETE", "/data/hp", message="m1"))

    values.chat.reconcile("m1")

    assert values.data() == {}
    values.chat.reconcile()
    assert values.data() == {"hp": 50}


@pytest.mark.parametrize(("message", "swipe"), [(None, None), ("m1", None), ("m2", "7")])
def test_the_answer_to_a_live_write_has_no_header_x_live(
    values: Values, message: str | None, swipe: str | None
) -> None:
    values.set("hp", 45, "m1")

    answer = values.send("POST", "/data", {"key": "hp", "value": 1}, message, swipe)

    assert "x-live" not in answer.headers


def test_the_type_is_not_checked_at_a_hidden_place_and_the_result_is_unchanged(
    values: Values,
) -> None:
    values.set("name", "Arthur")
    values.set("hp", 45, "m1")
    values.chat.reconcile()

    answer = values.run({"op": "increment", "key": "name", "by": 1}, message="m1")

    assert outcome(answer) == (200, {"revision": 5, "results": [{"value": "Arthur"}]})
    assert answer.headers["x-live"] == "false"
    assert values.chat.reconcile("m1") == reconciled(
        6,
        revived=2,
        changed=[values.difference("hp", after=45)],
        conflicts=[values.conflict("name", "increment", 5)],
    )
    assert values.data() == {"name": "Arthur", "hp": 45}


def test_one_hidden_place_of_many_is_enough_for_x_live_false(values: Values) -> None:
    values.set("a", 1)
    values.set("hp", 45, "m1")
    values.chat.reconcile("m2")

    answer = values.run(
        {"op": "set", "key": "a", "value": 9, "anchor": {"messageId": "m1"}},
        {"op": "set", "key": "b", "value": 2, "anchor": {"messageId": "m2"}},
        {"op": "set", "key": "c", "value": 3},
    )

    results = [{"value": 1}, {"value": 2}, {"value": 3}]
    assert outcome(answer) == (200, {"revision": 5, "results": results})
    assert answer.headers["x-live"] == "false"
    assert values.data() == {"a": 1, "b": 2, "c": 3}


def test_history_and_feed_show_a_dormant_change_by_its_operand(values: Values) -> None:
    hide_a_place(values)
    done(values.run({"op": "increment", "key": "hp", "by": -30}, message="m1", x_actor="user"))

    item = values.history(after=4)[0]
    item.pop("chatId", None)
    place = {"messageId": "m1", "swipe": "0"}
    common = {"instanceId": values.instance_id, "key": "hp", "op": "increment", "value": -30}
    assert item == {
        **common,
        "revision": 5,
        "at": MOMENT,
        "actor": "user",
        "anchor": place,
        "live": False,
    }
    event = values.client.get("/changes?since=4").json()["items"][0]
    change = {**common, "live": False, "chatId": "chat", "anchor": place}
    assert event == {
        "revision": 5,
        "at": MOMENT,
        "actor": "user",
        "chatId": "chat",
        "anchor": place,
        "changes": [change],
    }


def test_history_says_which_changes_are_live_now(values: Values) -> None:
    hide_a_place(values)
    assert steps(values, "hp") == [
        (2, "set", None, 50, True),
        (3, "set", 50, 45, False),
        (4, "reconcile", 45, 50, True),
    ]

    values.chat.reconcile("m1")

    assert steps(values, "hp") == [
        (2, "set", None, 50, True),
        (3, "set", 50, 45, True),
        (4, "reconcile", 45, 50, True),
        (5, "reconcile", 50, 45, True),
    ]


def test_a_dormant_change_has_no_effect_in_the_past_either(values: Values) -> None:
    hide_a_place(values)
    values.send("POST", "/data", {"key": "hp", "value": 40}, "m1")
    before = [values.data(at) for at in range(1, 6)]

    values.chat.reconcile("m1")

    assert before == [{}, {"hp": 50}, {"hp": 45}, {"hp": 50}, {"hp": 50}]
    assert [values.data(at) for at in range(1, 7)] == [*before, {"hp": 40}]


def test_an_unanchored_write_is_always_live(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()

    values.set("hp", 50)

    assert values.chat.reconcile("m1")["changed"] == []
    assert values.chat.reconcile()["changed"] == []
    assert values.data() == {"hp": 50}


# Which chat an anchor is in.


def test_the_anchor_of_an_unbound_instance_is_in_the_chat_named_by_x_chat_id(
    client: httpx.Client,
) -> None:
    chat = Chat(client, "chat")
    chat.open()
    make_instance(client, {"hp": 50})
    set_value(client, "hp", 45, x_message_id="m1", x_chat_id="chat")

    changed = [{"instanceId": "sword", "key": "hp", "before": 45, "after": 50}]
    assert chat.reconcile() == reconciled(5, dormant=1, changed=changed)
    assert values_of(client) == '{"hp":50}'


def test_without_any_chat_an_anchor_is_recorded_and_never_flips(client: httpx.Client) -> None:
    chat = Chat(client, "chat")
    chat.open()
    make_instance(client, {"hp": 50})
    set_value(client, "hp", 45, x_message_id="m1")

    assert chat.reconcile() == reconciled(4)
    chat.reconcile("m1")
    chat.reconcile()
    assert values_of(client) == '{"hp":45}'
    item = client.get("/instances/sword/history?limit=1").json()["items"][0]
    assert (item["anchor"], item["live"]) == ({"messageId": "m1", "swipe": "0"}, True)


def test_the_anchor_of_a_bound_instance_is_in_its_chat_without_x_chat_id(
    client: httpx.Client,
) -> None:
    chat = Chat(client, "chat")
    sword = chat.instance("sword")
    sword.set("hp", 45, "m1")

    assert chat.reconcile()["dormant"] == 1
    assert sword.data() == {}


def test_a_batch_over_two_chats_anchors_each_in_its_own(client: httpx.Client) -> None:
    one, two = Chat(client, "one"), Chat(client, "two")
    sword, shield = one.instance("sword"), two.instance("shield")
    operations = [
        {"op": "set", "instanceId": id, "key": "hp", "value": 1} for id in ("sword", "shield")
    ]
    done(client.post("/batch", json={"operations": operations}, headers={"x-message-id": "m1"}))

    one.reconcile()

    assert (sword.data(), shield.data()) == ({}, {"hp": 1})
    two.reconcile()
    assert (sword.data(), shield.data()) == ({}, {})
    assert head(client) == 5
