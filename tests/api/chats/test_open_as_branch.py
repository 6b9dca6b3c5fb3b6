"""A first open that names a parent: the new chat begins as its parent was at a message."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.chats.points import copied_instance, origin, values_in
from tests.api.chats.queue import Queue
from tests.support.answers import done, head, refused
from tests.support.chat import (
    NO_OPERATIONS,
    Chat,
    Values,
    chat_state,
    furnish,
    reconciled,
)


def open_branch(parent: Chat, chat_id: str = "branch", **body: Any) -> Any:
    """Open a chat as a branch without a warning; return the answer without its session."""
    found = Chat(parent.client, chat_id).open(parent=parent.chat_id, **body)
    assert isinstance(found.pop("session"), str)
    assert found["warnings"] == []
    return found


def write_story(values: Values) -> None:
    """Set 50 at first; 45, 40 and 35 at the messages."""
    values.set("hp", 50)
    for number in (1, 2, 3):
        values.set("hp", 50 - 5 * number, f"m{number}")


def test_one_open_returns_everything_the_parent_had(client: httpx.Client) -> None:
    chat = furnish(client)
    sword = chat.instance("sword")
    chat.set("hp", 45, "m1")
    sword.set("hp", 6, "m1")
    chat.set("hp", 40, "m2")
    chat.add_version("recap", "Twice", "m2")
    chat.claim("seen", "b", message="m2")

    found = open_branch(chat, messageId="m1")

    new = found["instances"][0]["instance"]["id"]
    assert new != "sword"
    state = chat_state(
        "branch",
        11,
        parent="chat",
        origin=origin(messageId="m1"),
        data={"hp": 45},
        instances=[{"instance": copied_instance(new, "sword"), "data": {"hp": 6}}],
        series={"recap": {"currentVersion": 1, "count": 1}},
        processed={"seen": 1},
    )
    assert found == {"created": True, **state}
    assert Chat(client, "branch").state() == state
    assert head(client) == 11


def test_the_branch_begins_as_of_the_message(values: Values) -> None:
    write_story(values)

    for number, hp in ((1, 45), (2, 40), (3, 35)):
        chat_id = f"branch {number}"
        open_branch(values.chat, chat_id, messageId=f"m{number}")
        branch = values_in(values, Chat(values.client, chat_id))
        assert branch.data() == {"hp": hp}
    assert values.data() == {"hp": 35}


def test_without_a_message_the_branch_begins_with_the_present_state_of_the_parent(
    values: Values,
) -> None:
    write_story(values)

    found = open_branch(values.chat)

    assert (found["parent"], found["origin"]) == ("chat", origin())
    assert values_in(values, Chat(values.client, "branch")).data() == {"hp": 35}


def test_an_unknown_message_is_a_warning_and_the_present_state(values: Values) -> None:
    write_story(values)
    branch = Chat(values.client, "branch")

    found = branch.open(parent="chat", messageId="nobody knows")

    assert len(found["warnings"]) == 1
    assert "nobody knows" in found["warnings"][0]
    assert (found["created"], found["parent"], found["origin"]) == (True, "chat", origin())
    assert values_in(values, branch).data() == {"hp": 35}


def test_a_hidden_message_is_a_warning_and_the_present_state(values: Values) -> None:
    write_story(values)
    values.chat.reconcile("m1")
    branch = Chat(values.client, "branch")

    found = branch.open(parent="chat", messageId="m2")

    assert len(found["warnings"]) == 1
    assert values_in(values, branch).data() == {"hp": 45}


@pytest.mark.parametrize("parent", ["unknown", "purged"])
def test_an_unknown_parent_is_a_warning_and_an_empty_chat(chat: Chat, parent: str) -> None:
    if parent == "purged":
        chat.set("hp", 50, "m1")
        chat.purge()
    branch = Chat(chat.client, "branch")

    found = branch.open(parent="chat", messageId="m1")

    assert len(found["warnings"]) == 1
    assert "chat" in found["warnings"][0]
    assert (found["created"], found["data"]) == (True, {})
    assert (found["parent"], found["origin"]) == (None, None)


def test_a_second_open_makes_no_branch(chat: Chat) -> None:
    chat.set("hp", 50, "m1")
    branch = Chat(chat.client, "branch")
    branch.open()
    before = head(chat.client)

    found = branch.open(parent="chat", messageId="m1")

    assert (found["created"], found["data"], found["warnings"]) == (False, {}, [])
    assert (found["parent"], found["origin"], head(chat.client)) == (None, None, before)


def test_a_second_open_of_a_branch_takes_nothing_over_again(chat: Chat) -> None:
    chat.set("hp", 50, "m1")
    open_branch(chat, messageId="m1")
    chat.set("hp", 45, "m1")
    chat.set("mp", 1)
    before = head(chat.client)

    found = open_branch(chat, messageId="m1")

    assert (found["created"], found["data"], head(chat.client)) == (False, {"hp": 50}, before)
    assert (found["parent"], found["origin"]) == ("chat", origin(messageId="m1"))


def test_defaults_are_set_for_keys_that_were_not_taken_over(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.set("mp", 1, "m2")

    found = open_branch(chat, messageId="m1", defaults={"hp": 50, "mp": 9})

    assert (found["data"], found["revision"], head(chat.client)) == ({"hp": 45, "mp": 9}, 3, 3)


def test_a_default_stays_when_the_messages_are_deleted(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    branch = Chat(chat.client, "branch")
    open_branch(chat, defaults={"mp": 9})

    branch.reconcile()

    assert branch.data() == {"mp": 9}


def test_the_parent_may_be_named_by_a_former_id(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.rename("renamed")

    found = open_branch(chat, messageId="m1")

    assert (found["parent"], found["data"]) == ("renamed", {"hp": 45})
    assert found["origin"] == origin("renamed", messageId="m1")


def test_a_fresh_open_of_a_former_id_can_be_a_branch(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    renamed = chat.rename("renamed")

    found = open_branch(renamed, "chat", fresh=True, messageId="m1")

    assert (found["chatId"], found["created"], found["data"]) == ("chat", True, {"hp": 45})
    assert (found["parent"], renamed.data()) == ("renamed", {"hp": 45})


def test_a_branch_of_an_archived_parent_can_be_opened(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.archive()

    assert open_branch(chat, messageId="m1")["data"] == {"hp": 45}
    assert chat.send("GET", "").json()["archived"] is True


def test_a_chat_is_not_its_own_parent(chat: Chat) -> None:
    found = chat.open(parent="chat", messageId="m1")

    assert (len(found["warnings"]), found["parent"], found["data"]) == (1, None, {})


def test_a_repeated_open_branches_once(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.instance("sword")
    branch = Chat(chat.client, "branch")
    body = {"client": "tab", "parent": "chat", "messageId": "m1"}

    first = branch.send("POST", "/open", body, idempotency_key="k")
    again = branch.send("POST", "/open", body, idempotency_key="k")

    assert (done(first), done(again), again.content) == (3, 3, first.content)
    assert len(chat.client.get("/instances").json()) == 2


def test_the_session_is_that_of_the_branch(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    branch = Chat(chat.client, "branch")
    session = branch.open(parent="chat")["session"]

    assert branch.set("hp", 1, x_session=session) == 3
    answer = chat.send("POST", "/data", {"key": "hp", "value": 1}, x_session=session)
    assert refused(answer)[:2] == (409, "chat_mismatch")


def test_parent_and_branch_change_separately(values: Values) -> None:
    write_story(values)
    open_branch(values.chat, messageId="m2")
    branch = values_in(values, Chat(values.client, "branch"))
    now = head(values.client)

    changed = [branch.difference("hp", before=40, after=45)]
    found = branch.chat.reconcile("m1")
    assert found == reconciled(now + 1, dormant=1, changed=changed)
    assert (values.data(), branch.data()) == ({"hp": 35}, {"hp": 45})
    values.chat.reconcile()
    assert (values.data(), branch.data()) == ({"hp": 50}, {"hp": 45})
    branch.chat.reconcile("m1", "m2")
    assert (values.data(), branch.data()) == ({"hp": 50}, {"hp": 40})


def test_the_history_of_the_branch_has_one_change_per_key(values: Values) -> None:
    write_story(values)
    open_branch(values.chat, messageId="m1")
    branch = values_in(values, Chat(values.client, "branch"))
    now = head(values.client)

    items = branch.history(key="hp")

    assert [(each["op"], each["revision"], each["after"]) for each in items] == [
        ("branch", now, 45)
    ]
    assert "before" not in items[0]
    assert branch.data(at=now - 1) == {}
    assert branch.chat.state(at=now - 1) is None


def test_as_of_a_message_of_the_parent_the_branch_has_its_instances(values: Values) -> None:
    write_story(values)
    open_branch(values.chat)
    branch = values_in(values, Chat(values.client, "branch"))

    state = branch.chat.as_of("m1")

    if branch.instance_id is None:
        assert state["data"] == {"hp": 45}
    else:
        found = [(each["instance"]["id"], each["data"]) for each in state["instances"]]
        assert found == [(branch.instance_id, {"hp": 45})]


def test_a_branch_of_a_branch_below_the_first_point_has_all_values(values: Values) -> None:
    write_story(values)
    open_branch(values.chat)
    branch = values_in(values, Chat(values.client, "branch"))

    found = open_branch(branch.chat, "deeper", messageId="m1")

    assert (found["parent"], found["origin"]) == ("branch", origin("branch", messageId="m1"))
    assert values_in(branch, Chat(values.client, "deeper")).data() == {"hp": 45}


# With the queue.


def test_a_queue_that_is_not_empty_is_a_warning_only(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    queue = Queue(chat)
    queue.add("a")
    queue.add("b", "in_progress")
    branch = Chat(chat.client, "branch")

    found = branch.open(parent="chat", messageId="m1")

    assert len(found["warnings"]) == 1
    assert "2 operations" in found["warnings"][0]
    assert (found["data"], found["parent"]) == ({"hp": 45}, "chat")
    assert (found["operations"], Queue(branch).listed()) == (NO_OPERATIONS, [])
    assert queue.ids() == ["a", "b"]


def test_a_queue_whose_operations_have_ended_is_no_warning(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    Queue(chat).add("a", "completed")

    assert open_branch(chat, messageId="m1")["operations"] == NO_OPERATIONS
