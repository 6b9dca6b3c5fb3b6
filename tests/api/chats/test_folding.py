"""
Folding the log of a chat: no present value changes, and the story goes on from there.

After any compaction the last message reads as the present does, and hiding messages and showing
the same chain again gives the same values.
"""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.test_verify import verified
from tests.support.answers import done, refused
from tests.support.chat import Chat, Values


def compact(client: httpx.Client, keep: int) -> None:
    answer = client.post("/compact", json={"keep": {"revisions": keep}})
    assert answer.status_code == 200, answer.text


def as_of(values: Values, message: str) -> Any:
    state = values.chat.as_of(message)
    if values.instance_id is None:
        return state["data"]
    return {each["instance"]["id"]: each["data"] for each in state["instances"]}["sword"]


def check(values: Values, wanted: Any, *chain: str) -> None:
    """Check what holds after any compaction, for the chain that is visible."""
    assert (values.data(), as_of(values, chain[-1])) == (wanted, wanted)
    values.chat.reconcile()
    values.chat.reconcile(*chain)
    assert (values.data(), as_of(values, chain[-1])) == (wanted, wanted)
    assert verified(values.client)["findings"] == []


def restore(values: Values, how: str, revision: int) -> None:
    paths = {
        "key": f"{values.path}/data/hp/restore",
        "chat": "/chats/chat/restore",
        "instance": "/instances/sword/restore",
        "character": "/characters/arthur/restore",
    }
    done(values.client.post(paths[how], json={"revision": revision}))


def restored(values: Values, how: str) -> None:
    """Restore 45, which m1 set, and hide m1."""
    values.set("hp", 50)
    revision = values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    restore(values, how, revision)
    assert values.data() == {"hp": 45}
    values.chat.reconcile("m2")
    assert values.data() == {"hp": 50}


@pytest.mark.parametrize("keep", [1, 2, 3, 4])
@pytest.mark.parametrize("how", ["key", "chat"])
def test_a_restored_value_whose_message_was_hidden_since(
    values: Values, how: str, keep: int
) -> None:
    restored(values, how)
    compact(values.client, keep)

    check(values, {"hp": 50}, "m2")
    checkpoint = values.chat.send("POST", "/checkpoints", {"name": "here", "messageId": "m2"})
    assert checkpoint.status_code == 201, checkpoint.text


@pytest.mark.parametrize("keep", [1, 3])
@pytest.mark.parametrize("how", ["instance", "character"])
def test_a_restored_instance_whose_message_was_hidden_since(
    chat: Chat, how: str, keep: int
) -> None:
    sword = chat.instance("sword")
    restored(sword, how)
    compact(chat.client, keep)

    check(sword, {"hp": 50}, "m2")


@pytest.mark.parametrize("keep", [1, 3, 6])
def test_a_message_that_was_hidden_at_the_cutoff_and_when_the_log_is_folded(
    values: Values, keep: int
) -> None:
    values.set("hp", 50)
    values.chat.reconcile("m1", "m2")
    values.set("hp", 45, "m1")
    values.chat.reconcile("m2")
    shown = values.chat.reconcile("m1", "m2")["revision"]
    values.set("hp", 40, "m2")
    restore(values, "key", shown)
    values.chat.reconcile("m2")
    assert values.data() == {"hp": 50}
    compact(values.client, keep)

    check(values, {"hp": 50}, "m2")


@pytest.mark.parametrize("keep", [3])
def test_a_restore_of_a_change_that_was_superseded(values: Values, keep: int) -> None:
    values.chat.reconcile("m1", "m2")
    values.set("hp", 40, "m2")
    values.set("hp", 90, "m1")
    then = values.chat.reconcile("m1")["revision"]
    values.chat.reconcile("m1", "m2")
    restore(values, "key", then)
    assert values.data() == {"hp": 90}
    compact(values.client, keep)

    check(values, {"hp": 90}, "m1", "m2")


@pytest.mark.parametrize("keeps", [(2, 1), (3, 2)])
def test_a_removal_that_is_hidden_after_both_cutoffs(
    values: Values, keeps: tuple[int, int]
) -> None:
    values.chat.reconcile("m1", "m2", "m3")
    values.set("d", 1, "m1")
    done(values.send("DELETE", "/data/d", None, "m2"))
    values.set("other", 0)
    values.set("other", 1)
    values.chat.reconcile("m1", "m3")
    assert values.data() == {"d": 1, "other": 1}
    for keep in keeps:
        compact(values.client, keep)

    check(values, {"d": 1, "other": 1}, "m1", "m3")


@pytest.mark.parametrize("keep", [1, 2])
def test_messages_that_were_put_into_another_order_since(values: Values, keep: int) -> None:
    values.chat.reconcile("m1", "m2")
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    values.chat.reconcile("m2", "m1")
    values.set("other", 0)
    assert values.data() == {"hp": 45, "other": 0}
    compact(values.client, keep)

    check(values, {"hp": 45, "other": 0}, "m2", "m1")


def test_a_key_is_kept_although_the_one_before_it_is_folded(values: Values) -> None:
    values.chat.reconcile("m1", "m2", "m3")
    done(values.send("PUT", "/data/merge", {"hp": 50, "gold": 10}, "m2"))
    values.set("gold", 5, "m1")
    compact(values.client, 1)

    values.chat.reconcile("m1")
    assert values.data() == {"hp": 50, "gold": 5}
    values.chat.reconcile("m1", "m2", "m3")
    check(values, {"hp": 50, "gold": 10}, "m1", "m2", "m3")


@pytest.mark.parametrize("keep", [1, 4])
def test_a_restore_that_a_branch_has_taken_over(chat: Chat, keep: int) -> None:
    chat.set("hp", 50)
    chat.set("hp", 45, "m1")
    revision = chat.set("hp", 44, "m2")
    chat.reconcile("m1")
    chat.set("hp", 40, "m1")
    restore(chat, "key", revision)
    assert chat.data() == {"hp": 44}
    body = {"chatId": "branch", "from": {"messageId": "m1"}}
    assert chat.send("POST", "/branches", body).status_code == 201
    branch = Chat(chat.client, "branch")
    branch.reconcile()
    wanted = branch.data()
    branch.reconcile("m1")
    branch.set("other", 1)
    branch.reconcile()
    branch.reconcile("m1", "m9")
    compact(chat.client, keep)

    check(branch, {"hp": 44, "other": 1}, "m1", "m9")
    branch.reconcile()
    assert keep < 4 or branch.data() == {**wanted, "other": 1}


def test_a_message_that_was_hidden_for_a_while_between_two_cutoffs(values: Values) -> None:
    values.chat.reconcile("m1", "m2")
    values.set("hp", 45, "m1")
    values.chat.reconcile("m2")
    values.chat.reconcile("m1", "m2")
    compact(values.client, 2)
    compact(values.client, 1)

    check(values, {"hp": 45}, "m1", "m2")


def test_a_removal_is_remembered_when_the_log_is_folded_again(values: Values) -> None:
    values.set("hp", 50)
    values.chat.reconcile("m1", "m2")
    done(values.send("DELETE", "/data/hp"))
    for _ in range(2):
        compact(values.client, 0)
        state = values.client.get("/chats/chat/state", params={"at": "message:m1"})
        assert refused(state)[:2] == (410, "compacted")
        # There is more to fold, elsewhere.
        Chat(values.client, "other").set("hp", 1)
    check(values, {}, "m1", "m2")


def test_as_of_a_message_a_folded_deletion_is_not_forgotten(chat: Chat) -> None:
    """As of m1 the sword is there, as of m2 not; a folded deletion cannot tell them apart."""
    chat.open()
    chat.reconcile("m1")
    chat.instance("sword")
    chat.reconcile("m1", "m2")
    done(chat.client.delete("/instances/sword"))
    for name in ("Arthur", "King Arthur"):
        done(chat.client.post("/characters", json={"id": "arthur", "name": name}))

    def listed(message: str) -> list[str]:
        return [each["instance"]["id"] for each in chat.as_of(message)["instances"]]

    assert (listed("m1"), listed("m2")) == (["sword"], [])
    compact(chat.client, 1)

    refusal = chat.client.get("/chats/chat/state", params={"at": "message:m1"})
    assert refused(refusal)[:2] == (410, "compacted")
    assert listed("m2") == []
    # A message that came after the deletion is not concerned.
    chat.reconcile("m1", "m2", "m3")
    assert listed("m2") == []
