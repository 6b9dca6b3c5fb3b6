"""Reconciling: values follow the story. Every example of the specification is here by name."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import done, head, refused
from tests.support.chat import Chat, Values, reconciled, restored


def test_hit_points_follow_a_swipe_a_regeneration_and_a_swipe_back(values: Values) -> None:
    chat = values.chat
    values.set("hp", 50)
    values.set("hp", 45, "m1", "0")

    # Regenerating: the chain is without m1.
    changed = [values.difference("hp", before=45, after=50)]
    assert chat.reconcile() == reconciled(4, dormant=1, changed=changed)
    assert values.data() == {"hp": 50}
    assert values.set("hp", 47, "m1", "1") == 5
    assert values.data() == {"hp": 47}
    changed = [values.difference("hp", before=47, after=45)]
    assert chat.reconcile(("m1", "0")) == reconciled(6, dormant=1, revived=1, changed=changed)
    assert values.data() == {"hp": 45}


def test_gold_spent_at_a_swiped_message_comes_back_and_a_persons_gift_stays(
    values: Values,
) -> None:
    chat = values.chat
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", 10, x_actor="user")
    assert values.data() == {"gold": 80}

    changed = [values.difference("gold", before=80, after=110)]
    assert chat.reconcile() == reconciled(5, dormant=1, changed=changed)
    assert values.data() == {"gold": 110}
    changed = [values.difference("gold", before=110, after=80)]
    assert chat.reconcile("m1") == reconciled(6, revived=1, changed=changed)
    assert values.data() == {"gold": 80}


def test_deleting_the_last_three_messages_gives_the_state_as_of_the_message_before(
    values: Values,
) -> None:
    chat = values.chat
    states: list[Any] = []
    for number in range(1, 6):
        message = f"m{number}"
        values.set("hp", 50 - number, message)
        values.set(f"key {number}", number, message)
        values.increment("gold", 10, message)
        assert chat.add_version("recap", f"Chapter {number}", message) == number
        assert chat.claim("seen", f"id {number}", message=message)["new"] == [f"id {number}"]
        states.append((values.data(), chat.series("recap"), chat.processed("seen"), chat.state()))

    chat.reconcile("m1", "m2")

    data, series, processed, state = states[1]
    assert values.data() == data
    assert chat.series("recap") == series
    assert series["currentVersion"] == 2
    assert chat.processed("seen") == processed == {"ids": ["id 1", "id 2"]}
    assert {**chat.state(), "revision": 0} == {**state, "revision": 0}
    # The counter of a series never rolls back.
    assert chat.add_version("recap", "Another third", "m6") == 6


def test_a_persons_unanchored_edit_survives(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 60, x_actor="user")

    assert values.chat.reconcile() == reconciled(5, dormant=1)
    assert values.data() == {"hp": 60}


def test_a_restored_value_changes_again_when_its_message_is_deleted(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    assert values.restore(3) == restored(5, 1)
    assert values.data() == {"hp": 45}

    values.chat.reconcile()

    assert values.data() == {"hp": 50}


def test_the_same_reconcile_twice_changes_nothing(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.chat.reconcile("m2")

    assert values.chat.reconcile("m2") == reconciled(4)
    assert head(values.client) == 4


def test_the_last_change_is_decided_by_place_and_then_by_revision(values: Values) -> None:
    chat = values.chat
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    values.set("hp", 44, "m1")
    assert values.data() == {"hp": 40}

    chat.reconcile("m1")
    assert values.data() == {"hp": 44}
    chat.reconcile("m2")
    assert values.data() == {"hp": 40}


def test_a_key_that_only_a_hidden_message_set_is_absent(values: Values) -> None:
    values.set("hp", 45, "m1")

    changed = [values.difference("hp", before=45)]
    assert values.chat.reconcile() == reconciled(3, dormant=1, changed=changed)
    assert values.data() == {}
    changed = [values.difference("hp", after=45)]
    assert values.chat.reconcile("m1") == reconciled(4, revived=1, changed=changed)
    assert values.data() == {"hp": 45}


def test_a_removal_at_a_hidden_message_is_undone(values: Values) -> None:
    values.set("hp", 50)
    done(values.send("DELETE", "/data/hp", message="m1"))

    changed = [values.difference("hp", after=50)]
    assert values.chat.reconcile() == reconciled(4, dormant=1, changed=changed)
    assert values.data() == {"hp": 50}


def test_null_is_a_value_and_not_an_absent_key(values: Values) -> None:
    values.set("hp", None)
    values.set("hp", 45, "m1")

    changed = [values.difference("hp", before=45, after=None)]
    assert values.chat.reconcile() == reconciled(4, dormant=1, changed=changed)


REPLAYED: list[tuple[Any, dict[str, Any], Any]] = [
    # The value m1 set, the operator applied since, and its result on the base without m1.
    (1, {"op": "increment", "by": 5}, 105),
    ({"x": 1}, {"op": "merge", "value": {"y": None, "z": 2}}, {"a": 1, "z": 2}),
    ([], {"op": "append", "value": "new"}, ["a", "b", "new"]),
    ([], {"op": "addToSet", "value": "a"}, ["a", "b"]),
    (["a"], {"op": "pull", "value": "a"}, ["b"]),
]
BASES: dict[str, Any] = {"increment": 100, "merge": {"a": 1, "y": 9}}


@pytest.mark.parametrize(("instead", "operation", "expected"), REPLAYED)
def test_operators_are_replayed_instead_of_their_former_results(
    values: Values, instead: Any, operation: dict[str, Any], expected: Any
) -> None:
    values.set("k", BASES.get(operation["op"], ["a", "b"]))
    values.set("k", instead, "m1")
    done(values.run({**operation, "key": "k"}))
    with_m1 = values.data()

    values.chat.reconcile()
    assert values.data() == {"k": expected}
    values.chat.reconcile("m1")
    assert values.data() == with_m1


def test_a_merge_patch_is_replayed_as_a_merge(values: Values) -> None:
    values.set("edge", {"left": 1})
    values.set("edge", {"right": 1}, "m1")
    done(values.send("PATCH", "/data", {"edge": {"top": 2}}))
    assert values.data() == {"edge": {"right": 1, "top": 2}}

    values.chat.reconcile()

    assert values.data() == {"edge": {"left": 1, "top": 2}}


def test_a_derived_change_of_a_reconcile_is_never_a_base(values: Values) -> None:
    chat = values.chat
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    chat.reconcile()
    values.increment("gold", 10)
    assert values.data() == {"gold": 110}

    for _ in range(3):
        chat.reconcile("m1")
        assert values.data() == {"gold": 80}
        chat.reconcile()
        assert values.data() == {"gold": 110}


def test_a_change_that_no_longer_applies_is_skipped_and_listed(values: Values) -> None:
    values.set("tags", "text")
    values.set("tags", [], "m1")
    done(values.run({"op": "append", "key": "tags", "value": "a"}))
    done(values.run({"op": "set", "key": "tags", "value": 1}, message="m2"))

    found = values.chat.reconcile()

    assert found == reconciled(
        6,
        dormant=2,
        changed=[values.difference("tags", before=1, after="text")],
        conflicts=[values.conflict("tags", "append", 4)],
    )
    assert values.data() == {"tags": "text"}
    changed = [values.difference("tags", before="text", after=["a"])]
    assert values.chat.reconcile("m1") == reconciled(7, revived=1, changed=changed)


def test_an_increment_that_leaves_the_range_is_refused_and_in_a_replay_a_conflict(
    values: Values,
) -> None:
    largest = 2**64 - 1
    values.set("n", largest)
    beyond = values.run({"op": "increment", "key": "n", "by": 5})
    assert refused(beyond) == (409, "number_out_of_range", {"index": 0})
    values.increment("n", -10, "m1")
    values.increment("n", 5)

    found = values.chat.reconcile()

    assert found["conflicts"] == [values.conflict("n", "increment", 4)]
    assert values.data() == {"n": largest}


def test_only_changes_of_the_reconciled_chat_flip(client: httpx.Client) -> None:
    one, two = Chat(client, "one"), Chat(client, "two")
    shield = two.instance("shield")
    for each in (one, two, shield):
        each.set("hp", 45, "m1")

    changed = [one.difference("hp", before=45)]
    assert one.reconcile() == reconciled(5, dormant=1, changed=changed)
    assert (one.data(), two.data(), shield.data()) == ({}, {"hp": 45}, {"hp": 45})


def test_a_chat_and_its_instances_flip_together(chat: Chat) -> None:
    sword, shield = chat.instance("sword"), chat.instance("shield")
    for values in (chat, sword, shield):
        values.set("hp", 45, "m1")

    changed = [values.difference("hp", before=45) for values in (chat, shield, sword)]
    assert chat.reconcile() == reconciled(6, dormant=3, changed=changed)


def test_a_dry_run_answers_what_would_change_and_changes_nothing(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    changed = [values.difference("hp", before=45, after=50)]

    assert values.chat.reconcile("m2", dryRun=True) == reconciled(3, dormant=1, changed=changed)

    assert (values.data(), head(values.client)) == ({"hp": 45}, 3)
    # The chain is unchanged, too: m2 is not registered, and m1 is visible.
    assert values.chat.reconcile("m1") == reconciled(3)
    assert values.chat.reconcile("m2", dryRun=False) == reconciled(4, dormant=1, changed=changed)


@pytest.mark.parametrize(
    "places",
    [("m2", "m1"), ("m1", "m2", "m3"), ("m0", "m1", "m2"), ("m1", "m2", ("m3", "4"))],
    ids=["another order", "one more", "one before", "one more, another swipe"],
)
def test_another_chain_makes_a_revision_even_if_nothing_flips(
    values: Values, places: tuple[Any, ...]
) -> None:
    values.set("hp", 45, "m1")
    values.set("mp", 40, "m2")

    assert values.chat.reconcile(*places) == reconciled(4)
    assert values.chat.reconcile(*places) == reconciled(4)
    assert values.data() == {"hp": 45, "mp": 40}


def test_the_first_chain_of_a_chat_makes_a_revision(values: Values) -> None:
    assert values.chat.reconcile() == reconciled(1)
    assert values.chat.reconcile("m1", "m2") == reconciled(2)
    # The messages are registered, so a write there does not change the chain.
    assert values.set("hp", 45, "m1") == 3
    assert values.chat.reconcile("m1", "m2") == reconciled(3)


def test_a_swipe_registered_by_a_reconcile_hides_the_one_before(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")

    values.chat.reconcile(("m1", "1"))

    assert values.data() == {"hp": 50}
    assert values.set("hp", 47, "m1", "1") == 5
    assert values.data() == {"hp": 47}


def test_a_number_as_swipe_is_read_as_its_text(values: Values) -> None:
    values.set("hp", 45, "m1", "2")

    assert values.chat.reconcile(("m1", 2)) == reconciled(2)
    assert values.chat.reconcile({"messageId": "m1"})["dormant"] == 1
    assert values.chat.reconcile(("m1", "02"))["revived"] == 0
    assert values.chat.reconcile(("m1", "2"))["revived"] == 1


def test_a_reconcile_does_not_change_the_past(values: Values) -> None:
    chat = values.chat
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    before = [values.data(at) for at in range(1, 5)]

    chat.reconcile("m2")
    chat.reconcile()
    chat.reconcile("m1")

    assert [values.data(at) for at in range(1, 5)] == before
    assert [values.data(at)["hp"] for at in (5, 6, 7)] == [40, 50, 45]


def test_a_stale_tab_is_refused(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")

    stale = values.chat.post_reconcile("m1", if_match='"2"')

    assert refused(stale) == (412, "revision_conflict", {"expected": 2, "current": 3})
    assert values.data() == {"hp": 40}
    assert done(values.chat.post_reconcile("m1", if_match='"3"')) == 4
    # A reconcile is a change of the chat as well, so the tab that did not see it is stale.
    again = values.chat.post_reconcile("m1", "m2", if_match='"3"')
    assert refused(again) == (412, "revision_conflict", {"expected": 3, "current": 4})


def test_a_repeated_reconcile_is_done_once(values: Values) -> None:
    values.set("hp", 45, "m1")
    first = values.chat.post_reconcile(idempotency_key="k")
    values.chat.reconcile("m1")

    again = values.chat.post_reconcile(idempotency_key="k")

    assert (again.content, again.headers["idempotency-replayed"]) == (first.content, "true")
    assert values.data() == {"hp": 45}


def test_a_patch_of_a_message_does_not_bake_in_what_another_message_changed(values: Values) -> None:
    chat = values.chat
    values.set("outfit", {"top": "coat", "bag": []})
    done(values.run({"op": "merge", "key": "outfit", "value": {"top": "cape"}}, message="m1"))
    values.client.patch(
        f"{values.path}/data",
        json=[
            {"op": "test", "path": "/outfit/top", "value": "cape"},
            {"op": "add", "path": "/outfit/bag/-", "value": "rope"},
        ],
        headers={"content-type": "application/json-patch+json", "x-message-id": "m2"},
    )
    assert values.data() == {"outfit": {"top": "cape", "bag": ["rope"]}}

    chat.reconcile("m2")

    assert values.data() == {"outfit": {"top": "coat", "bag": ["rope"]}}


def test_a_patch_that_does_not_fit_any_more_is_skipped_and_reported(values: Values) -> None:
    chat = values.chat
    values.set("outfit", {"top": "coat"})
    values.set("outfit", {"top": "coat", "bag": []}, "m1")
    add = [{"op": "add", "path": "/bag/-", "value": "rope"}]
    revision = done(values.run({"op": "patch", "key": "outfit", "value": add}, message="m2"))

    found = chat.reconcile("m2")

    conflict = found["conflicts"][0]
    assert {**conflict, "reason": ""} == {
        **values.conflict("outfit", "patch", revision),
        "reason": "",
    }
    assert values.data() == {"outfit": {"top": "coat"}}
