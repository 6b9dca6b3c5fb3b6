"""Branches: a chat that begins as another one was at a point, and goes on alone."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    branch_off,
    copied_instance,
    make_checkpoint,
    origin,
    post_branch,
    rows,
    values_in,
)
from tests.api.chats.queue import Queue
from tests.support.answers import done, head, outcome
from tests.support.chat import Chat, Values, chat_state, furnish, reconciled, restored


def write_story(values: Values) -> None:
    """Set 50 at first; 45, 40 and 35 at the messages."""
    values.set("hp", 50)
    for number in (1, 2, 3):
        values.set("hp", 50 - 5 * number, f"m{number}")


def branch_of(values: Values, chat_id: str = "branch", **point: Any) -> Values:
    """Make a branch of their chat, and return the same values there."""
    return values_in(values, branch_off(values.chat, chat_id, **point))


# The point a branch begins at.


def test_a_branch_from_now_has_the_whole_present_state(client: httpx.Client) -> None:
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
        instances=[{"instance": copied_instance(new, "sword"), "data": {"hp": 7}}],
        series={"recap": {"currentVersion": 1, "count": 1}},
        processed={"seen": 1},
    )


def test_a_branch_from_a_message_has_the_state_as_of_it(values: Values) -> None:
    write_story(values)

    answer = post_branch(values.chat, messageId="m2")

    assert answer.json()["parentRevision"] == 5
    branch = values_in(values, Chat(values.client, "branch"))
    assert (branch.data(), values.data()) == ({"hp": 40}, {"hp": 35})
    assert branch.chat.state()["origin"] == origin(messageId="m2")


def test_a_branch_from_a_revision_has_the_state_and_the_chain_of_then(values: Values) -> None:
    write_story(values)
    values.chat.reconcile("m3")
    assert values.data() == {"hp": 35}

    answer = post_branch(values.chat, revision=4)

    assert answer.json()["parentRevision"] == 4
    branch = values_in(values, Chat(values.client, "branch"))
    assert branch.data() == {"hp": 40}
    assert branch.chat.state()["origin"] == origin()
    # m1 and m2 were visible, and m3 was not registered.
    assert branch.chat.reconcile("m1", "m2") == reconciled(7)
    assert branch.chat.reconcile("m1")["dormant"] == 1
    assert branch.data() == {"hp": 45}
    assert branch.set("hp", 1, "m3") == 9
    assert branch.data() == {"hp": 1}


def test_a_branch_from_a_checkpoint_has_its_state(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat)
    values.set("hp", 30, "m4")

    answer = post_branch(values.chat, checkpoint="here")

    assert answer.json()["parentRevision"] == 5
    branch = values_in(values, Chat(values.client, "branch"))
    assert branch.data() == {"hp": 35}
    assert branch.chat.state()["origin"] == origin(checkpoint="here")
    branch.chat.reconcile("m1")
    assert (branch.data(), values.data()) == ({"hp": 45}, {"hp": 30})


def test_a_branch_from_a_checkpoint_of_a_message_has_the_state_as_of_it_at_that_revision(
    values: Values,
) -> None:
    write_story(values)
    make_checkpoint(values.chat, messageId="m2")
    # Later changes to the message in the parent do not change the checkpoint.
    values.set("hp", 41, "m2", "1")
    values.chat.reconcile("m3")

    branch = branch_of(values, checkpoint="here")

    assert branch.data() == {"hp": 40}
    assert branch.chat.state()["origin"] == origin(checkpoint="here", messageId="m2")
    branch.chat.reconcile("m1")
    assert branch.data() == {"hp": 45}


# Changes below the branch point.


def test_messages_below_the_point_can_be_deleted_in_parent_and_branch_alone(values: Values) -> None:
    write_story(values)
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


def test_messages_below_the_point_can_be_swiped_in_parent_and_branch_alone(values: Values) -> None:
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


def test_operators_are_replayed_on_a_branch(values: Values) -> None:
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", 10, x_actor="user")
    branch = branch_of(values)
    branch.increment("gold", 5, "m2")

    branch.chat.reconcile("m2")
    assert (values.data(), branch.data()) == ({"gold": 80}, {"gold": 115})
    branch.chat.reconcile("m1", "m2")
    assert branch.data() == {"gold": 85}


def test_changes_at_hidden_messages_are_taken_over_as_dormant(values: Values) -> None:
    write_story(values)
    values.chat.reconcile("m1", "m3")

    branch = branch_of(values, messageId="m1")

    # m2 was registered before m3, so it is below the point.
    assert branch.data() == {"hp": 45}
    write = branch.send("POST", "/data", {"key": "mp", "value": 1}, "m2")
    assert (done(write), write.headers["x-live"]) == (8, "false")
    branch.chat.reconcile("m1", "m2")
    assert branch.data() == {"hp": 40, "mp": 1}


def test_hidden_messages_registered_after_the_point_are_not_taken_over(values: Values) -> None:
    write_story(values)
    values.chat.reconcile("m1", "m2")

    branch = branch_of(values, messageId="m1")

    assert branch.chat.reconcile("m1", "m3")["revived"] == 0
    assert branch.data() == {"hp": 45}


def test_a_removal_below_the_point_counts_on_a_branch(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    done(values.send("DELETE", "/data"))

    branch = branch_of(values)

    branch.chat.reconcile("m1")
    assert branch.data() == {}


def test_a_branch_as_of_a_message_of_its_parent_has_the_state_of_the_parent(
    client: httpx.Client,
) -> None:
    chat = furnish(client)
    sword = chat.instance("sword")
    chat.set("hp", 45, "m1")
    sword.set("hp", 6, "m1")
    chat.set("hp", 40, "m2")
    chat.instance("late").set("hp", 1, "m2")

    branch = branch_off(chat)

    def content_of(state: Any) -> Any:
        by = [(each["instance"], each["data"]) for each in state["instances"]]
        members = [(each.get("origin", each["id"]), data) for each, data in by]
        return state["data"], members, state["series"], state["processed"]

    for message in ("m1", "m2"):
        assert content_of(branch.as_of(message)) == content_of(chat.as_of(message))
    assert content_of(branch.as_of("m1"))[:2] == ({"hp": 45}, [("sword", {"hp": 6})])


# Restores.


def test_a_restore_before_the_point_names_the_same_changes_in_the_branch(
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


def test_a_restore_in_the_branch_names_changes_before_the_point(values: Values) -> None:
    write_story(values)
    branch = branch_of(values, messageId="m2")
    now = head(values.client)
    branch.set("hp", 30, "m4")
    assert branch.restore(now) == restored(now + 2, 1)
    assert branch.data() == {"hp": 40}

    # 50, 45 and 40 were written in the parent, and the restore here names them.
    branch.chat.reconcile("m1", "m4")
    assert branch.data() == {"hp": 45}
    branch.chat.reconcile("m4")
    assert branch.data() == {"hp": 50}


def test_a_change_pinned_by_a_restore_is_taken_over(values: Values) -> None:
    values.set("hp", 45, "m2")
    values.chat.reconcile("m1")
    assert values.restore(2) == restored(4, 1)
    # The message is back behind m1, but its old swipe counted as unanchored when restored.
    values.set("mp", 1, "m2", "1")

    assert branch_of(values, messageId="m1").data() == {"hp": 45}


def test_a_branch_cannot_be_restored_to_a_revision_before_its_creation(chat: Chat) -> None:
    chat.set("hp", 50)
    branch = branch_off(chat)

    assert branch.restore(1)[0] == 404
    assert branch.data() == {"hp": 50}


# Series, processed ids, operations.


def test_a_series_continues_from_the_versions_taken_over(chat: Chat) -> None:
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

    # The later branch took over the fourth version, too, which is dormant.
    assert (early.add_version("recap", "new"), late.add_version("recap", "new")) == (2, 5)
    assert [each["version"] for each in late.series("recap")["versions"]] == [1, 2, 3, 5]


def test_parent_and_branch_have_their_own_processed_ids_from_then_on(chat: Chat) -> None:
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
    purged = Chat(client, "purged")
    purged.set("hp", 0)
    purged.purge()
    parent = Chat(client, "parent")
    parent.set("hp", 1, "m1")
    parent.set("hp", 2, "m2")
    branch_off(parent, "purged")

    # Below the branch, but above the purge of the chat that had its id.
    assert client.post("/compact", json={"keep": {"revisions": 2}}).json()["oldest"] == 3
    purged.reconcile("m1")

    assert purged.data() == {"hp": 1}
    assert purged.as_of("m1")["data"] == {"hp": 1}


def test_an_instance_that_was_in_a_chat_purged_since_can_be_branched(
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
