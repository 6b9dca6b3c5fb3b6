"""Branches: a chat that begins as another one was at a point, and goes on alone."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    branch_off,
    heir,
    heir_of,
    make_checkpoint,
    origin,
    post_branch,
    rows,
)
from tests.api.chats.queue import Queue
from tests.model.values_model import done, head, outcome
from tests.support.chat import Chat, Values, chat_state, furnish, reconciled, restored


def tell(values: Values) -> None:
    """50 at first; 45, 40 and 35 after the messages."""
    values.set("hp", 50)
    for number in (1, 2, 3):
        values.set("hp", 50 - 5 * number, f"m{number}")


def branch_of(values: Values, chat_id: str = "branch", **point: Any) -> Values:
    """In a new branch of their chat, what took over these values."""
    return heir_of(values, branch_off(values.chat, chat_id, **point))


# Where from.


def test_a_branch_from_now_has_all_there_is(client: httpx.Client) -> None:
    chat = furnish(client)

    answer = post_branch(chat)

    new = answer.json()["instances"]["sword"]
    assert new != "sword"
    assert outcome(answer) == (
        201,
        {
            "chatId": "branch",
            "parent": "chat",
            "parentRevision": 5,
            "rows": rows(data=1, instances=1, values=1, series=1, processed=1),
            "instances": {"sword": new},
        },
    )
    assert (answer.headers["x-revision"], head(client)) == ("6", 6)
    assert Chat(client, "branch").state() == chat_state(
        "branch",
        6,
        parent="chat",
        origin=origin(),
        data={"hp": 50},
        instances=[{"instance": heir(new, "sword"), "data": {"hp": 7}}],
        series={"recap": {"currentVersion": 1, "count": 1}},
        processed={"seen": 1},
    )


def test_a_branch_from_a_message_is_as_of_it(values: Values) -> None:
    tell(values)

    answer = post_branch(values.chat, messageId="m2")

    assert answer.json()["parentRevision"] == 5
    branch = heir_of(values, Chat(values.client, "branch"))
    assert (branch.data(), values.data()) == ({"hp": 40}, {"hp": 35})
    assert branch.chat.state()["origin"] == origin(messageId="m2")


def test_a_branch_from_a_revision_has_the_state_and_the_chain_of_then(values: Values) -> None:
    tell(values)
    values.chat.reconcile("m3")
    assert values.data() == {"hp": 35}

    answer = post_branch(values.chat, revision=4)

    assert answer.json()["parentRevision"] == 4
    branch = heir_of(values, Chat(values.client, "branch"))
    assert branch.data() == {"hp": 40}
    assert branch.chat.state()["origin"] == origin()
    # m1 and m2 were visible, and nobody had heard of m3.
    assert branch.chat.reconcile("m1", "m2") == reconciled(7)
    assert branch.chat.reconcile("m1")["dormant"] == 1
    assert branch.data() == {"hp": 45}
    assert branch.set("hp", 1, "m3") == 9
    assert branch.data() == {"hp": 1}


def test_a_branch_from_a_checkpoint_has_its_state(values: Values) -> None:
    tell(values)
    make_checkpoint(values.chat)
    values.set("hp", 30, "m4")

    answer = post_branch(values.chat, checkpoint="here")

    assert answer.json()["parentRevision"] == 5
    branch = heir_of(values, Chat(values.client, "branch"))
    assert branch.data() == {"hp": 35}
    assert branch.chat.state()["origin"] == origin(checkpoint="here")
    branch.chat.reconcile("m1")
    assert (branch.data(), values.data()) == ({"hp": 45}, {"hp": 30})


def test_a_branch_from_a_checkpoint_of_a_message_is_as_of_it_then(values: Values) -> None:
    tell(values)
    make_checkpoint(values.chat, messageId="m2")
    # What becomes of the message in the parent is nothing to the checkpoint.
    values.set("hp", 41, "m2", "1")
    values.chat.reconcile("m3")

    branch = branch_of(values, checkpoint="here")

    assert branch.data() == {"hp": 40}
    assert branch.chat.state()["origin"] == origin(checkpoint="here", messageId="m2")
    branch.chat.reconcile("m1")
    assert branch.data() == {"hp": 45}


# What it is worth below the branch point.


def test_messages_below_the_point_can_be_deleted_on_either_side(values: Values) -> None:
    tell(values)
    branch = branch_of(values, messageId="m2")

    changed = [branch.difference("hp", before=40, after=45)]
    assert branch.chat.reconcile("m1") == reconciled(7, dormant=1, changed=changed)
    assert (values.data(), branch.data()) == ({"hp": 35}, {"hp": 45})
    changed = [values.difference("hp", before=35, after=50)]
    assert values.chat.reconcile() == reconciled(8, dormant=3, changed=changed)
    assert (values.data(), branch.data()) == ({"hp": 50}, {"hp": 45})
    changed = [branch.difference("hp", before=45, after=40)]
    assert branch.chat.reconcile("m1", "m2") == reconciled(9, revived=1, changed=changed)
    assert (values.data(), branch.data()) == ({"hp": 50}, {"hp": 40})


def test_messages_below_the_point_can_be_swiped_on_either_side(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 47, "m1", "1")
    branch = branch_of(values)

    branch.chat.reconcile("m1")
    assert (values.data(), branch.data()) == ({"hp": 47}, {"hp": 45})
    branch.set("hp", 48, "m1", "2")
    assert (values.data(), branch.data()) == ({"hp": 47}, {"hp": 48})
    values.chat.reconcile("m1")
    assert (values.data(), branch.data()) == ({"hp": 45}, {"hp": 48})
    branch.chat.reconcile(("m1", "1"))
    assert (values.data(), branch.data()) == ({"hp": 45}, {"hp": 47})


def test_operations_are_replayed_on_a_branch_as_what_they_were(values: Values) -> None:
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", 10, x_actor="user")
    branch = branch_of(values)
    branch.increment("gold", 5, "m2")

    branch.chat.reconcile("m2")
    assert (values.data(), branch.data()) == ({"gold": 80}, {"gold": 115})
    branch.chat.reconcile("m1", "m2")
    assert branch.data() == {"gold": 85}


def test_messages_that_are_hidden_are_taken_over_as_dormant(values: Values) -> None:
    tell(values)
    values.chat.reconcile("m1", "m3")

    branch = branch_of(values, messageId="m1")

    # m2 was seen before the story went on with m3, so it is below the point.
    assert branch.data() == {"hp": 45}
    write = branch.send("POST", "/data", {"key": "mp", "value": 1}, "m2")
    assert (done(write), write.headers["x-live"]) == (8, "false")
    branch.chat.reconcile("m1", "m2")
    assert branch.data() == {"hp": 40, "mp": 1}


def test_messages_that_came_after_the_point_and_are_hidden_are_not_taken(values: Values) -> None:
    tell(values)
    values.chat.reconcile("m1", "m2")

    branch = branch_of(values, messageId="m1")

    assert branch.chat.reconcile("m1", "m3")["revived"] == 0
    assert branch.data() == {"hp": 45}


def test_a_removal_below_the_point_holds_on_a_branch(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    done(values.send("DELETE", "/data"))

    branch = branch_of(values)

    branch.chat.reconcile("m1")
    assert branch.data() == {}


def test_a_branch_as_of_a_message_of_its_parent_is_what_the_parent_was(
    client: httpx.Client,
) -> None:
    chat = furnish(client)
    sword = chat.instance("sword")
    chat.set("hp", 45, "m1")
    sword.set("hp", 6, "m1")
    chat.set("hp", 40, "m2")
    chat.instance("late").set("hp", 1, "m2")

    branch = branch_off(chat)

    def told(state: Any) -> Any:
        by = [(each["instance"], each["data"]) for each in state["instances"]]
        members = [(each.get("origin", each["id"]), data) for each, data in by]
        return state["data"], members, state["series"], state["processed"]

    for message in ("m1", "m2"):
        assert told(branch.as_of(message)) == told(chat.as_of(message))
    assert told(branch.as_of("m1"))[:2] == ({"hp": 45}, [("sword", {"hp": 6})])


# Restores.


def test_a_restore_before_the_point_stands_on_the_same_changes_in_the_branch(
    values: Values,
) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    assert values.restore(3) == restored(5, 1)
    branch = branch_of(values)
    assert branch.data() == {"hp": 45}

    branch.chat.reconcile("m2")

    assert (branch.data(), values.data()) == ({"hp": 50}, {"hp": 45})


def test_a_restore_in_the_branch_stands_on_changes_before_the_point(values: Values) -> None:
    tell(values)
    branch = branch_of(values, messageId="m2")
    now = head(values.client)
    branch.set("hp", 30, "m4")
    assert branch.restore(now) == restored(now + 2, 1)
    assert branch.data() == {"hp": 40}

    # 50, 45 and 40 were written in the parent, and made what was restored here.
    branch.chat.reconcile("m1", "m4")
    assert branch.data() == {"hp": 45}
    branch.chat.reconcile("m4")
    assert branch.data() == {"hp": 50}


def test_what_a_restore_brought_back_for_good_is_taken_over(values: Values) -> None:
    values.set("hp", 45, "m2")
    values.chat.reconcile("m1")
    assert values.restore(2) == restored(4, 1)
    # The message is back behind m1, but its old swipe counted as unanchored when restored.
    values.set("mp", 1, "m2", "1")

    assert branch_of(values, messageId="m1").data() == {"hp": 45}


def test_before_the_point_there_is_nothing_to_restore_on_a_branch(chat: Chat) -> None:
    chat.set("hp", 50)
    branch = branch_off(chat)

    assert branch.restore(1)[0] == 404
    assert branch.data() == {"hp": 50}


# Series, processed ids, operations.


def test_a_series_goes_on_from_what_was_taken_over(chat: Chat) -> None:
    for number in range(1, 6):
        assert chat.add_version("recap", f"Scene {number}", f"m{number}") == number
    branch = branch_off(chat)

    here = [chat.add_version("recap", "main", f"m{number}") for number in range(6, 11)]
    there = [branch.add_version("recap", "branch", f"b{number}") for number in range(6, 9)]

    assert (here, there) == ([6, 7, 8, 9, 10], [6, 7, 8])
    assert chat.state()["series"] == {"recap": {"currentVersion": 10, "count": 10}}
    assert branch.state()["series"] == {"recap": {"currentVersion": 8, "count": 8}}
    contents = [each["content"] for each in branch.series("recap")["versions"]]
    assert contents == [f"Scene {number}" for number in range(1, 6)] + ["branch"] * 3


def test_a_series_counts_from_the_highest_version_it_took_over(chat: Chat) -> None:
    for number in (1, 2, 3, 4):
        chat.add_version("recap", number, f"m{number}")
    chat.reconcile("m1", "m2", "m3")

    early, late = branch_off(chat, "early", messageId="m1"), branch_off(chat, "late")

    # The late one took over the fourth, too, which is dormant.
    assert (early.add_version("recap", "new"), late.add_version("recap", "new")) == (2, 5)
    assert [each["version"] for each in late.series("recap")["versions"]] == [1, 2, 3, 5]


def test_processed_ids_are_apart_from_then_on(chat: Chat) -> None:
    chat.claim("seen", "a", message="m1")
    chat.claim("seen", "b", message="m2")
    branch = branch_off(chat, messageId="m1")

    assert branch.claim("seen", "a", "b", "c") == {"new": ["b", "c"], "seen": ["a"]}
    assert chat.processed("seen") == {"ids": ["a", "b"]}
    branch.reconcile()
    assert branch.processed("seen") == {"ids": ["b", "c"]}


@pytest.mark.parametrize("point", [{}, {"messageId": "m1"}, {"revision": 1}])
def test_operations_are_not_taken_over(chat: Chat, point: dict[str, Any]) -> None:
    chat.set("hp", 45, "m1")
    Queue(chat).add("a", "completed")

    branch = branch_off(chat, **point)

    assert (Queue(branch).listed(), Queue(chat).ids()) == ([], ["a"])
    Queue(branch).add("a")
    assert Queue(chat).get("a")["status"] == "completed"


def test_checkpoints_are_not_taken_over(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    make_checkpoint(chat)

    branch = branch_off(chat)

    assert branch.state()["checkpoints"] == []
    assert make_checkpoint(branch)["revision"] == 2


# Beside purged chats.


def test_a_branch_with_the_id_of_a_purged_chat_keeps_what_it_took_over(
    client: httpx.Client,
) -> None:
    gone = Chat(client, "gone")
    gone.set("hp", 0)
    gone.purge()
    parent = Chat(client, "parent")
    parent.set("hp", 1, "m1")
    parent.set("hp", 2, "m2")
    branch_off(parent, "gone")

    # Below the branch, but above the former life of its id.
    assert client.post("/compact", json={"keep": {"revisions": 2}}).json()["oldest"] == 3
    gone.reconcile("m1")

    assert gone.data() == {"hp": 1}
    assert gone.as_of("m1")["data"] == {"hp": 1}


def test_an_instance_of_a_chat_that_was_purged_since_can_be_branched(
    client: httpx.Client,
) -> None:
    sword = Chat(client, "old").instance("sword")
    sword.set("hp", 5, "m1")
    sword = Chat(client, "new").instance("sword")
    Chat(client, "old").purge()
    sword.set("hp", 7, "n1")

    branched = branch_of(sword)
    branched.chat.reconcile()
    again = branch_of(branched, "again")

    assert (sword.data(), branched.data(), again.data()) == ({"hp": 7}, {"hp": 5}, {"hp": 5})
