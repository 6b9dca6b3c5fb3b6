"""Operations that work on a message, and are cancelled when it is hidden."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.chats.points import VALID, post_checkpoint, statuses, validate
from tests.api.chats.queue import Queue, operation
from tests.support.answers import refused
from tests.support.chat import Chat


def add(queue: Queue, id: str, message: str, swipe: str = "0", **more: Any) -> Any:
    answer = queue.chat.send(
        "POST", "/operations", {"id": id, "type": "recap", **more}, message, swipe
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def states(queue: Queue) -> dict[str, str]:
    return {each["id"]: each["status"] for each in queue.listed()}


@pytest.fixture
def story(chat: Chat) -> Queue:
    """The queue of a chat with three messages."""
    chat.open("the fixture's tab")
    chat.reconcile("m1", "m2", "m3")
    return Queue(chat)


def test_an_operation_shows_the_place_it_works_on(story: Queue) -> None:
    answer = add(story, "a", "m2", "1")

    anchor = {"messageId": "m2", "swipe": "1"}
    assert answer == {**operation("a", anchor=anchor), "created": True}
    assert story.get("a") == operation("a", anchor=anchor)


def test_an_operation_is_cancelled_when_its_message_is_hidden(story: Queue) -> None:
    for number in (1, 2, 3):
        add(story, f"of m{number}", f"m{number}")
    story.add("of none")
    claim = story.claim(types=["recap"])["claim"]

    story.chat.reconcile("m2")

    cancelled = {"of m1": "cancelled", "of m3": "cancelled"}
    assert states(story) == {**cancelled, "of m2": "pending", "of none": "pending"}
    assert refused(story.end("of m1", claim=claim))[:2] == (409, "illegal_move")
    story.chat.reconcile("m1", "m2", "m3")
    assert states(story) == {**cancelled, "of m2": "pending", "of none": "pending"}


def test_a_dry_run_cancels_nothing(story: Queue) -> None:
    add(story, "a", "m2")

    story.chat.reconcile("m1", dryRun=True)

    assert states(story) == {"a": "pending"}


def test_a_new_swipe_cancels_the_operations_of_the_old_one(story: Queue) -> None:
    chat = story.chat
    add(story, "recap", "m3")
    add(story, "other", "m2")

    chat.set("hp", 1, "m3", "1")

    assert states(story) == {"recap": "cancelled", "other": "pending"}


@pytest.mark.parametrize("how", ["by a write", "by a reconcile"])
def test_after_a_swipe_the_same_id_is_claimed_and_added_again(story: Queue, how: str) -> None:
    chat = story.chat
    add(story, "recap m3", "m3")

    if how == "by a write":
        chat.set("hp", 1, "m3", "1")
    else:
        chat.reconcile("m1", "m2", {"messageId": "m3", "swipe": "1"})
    again = add(story, "recap m3", "m3", "1")

    assert again["created"] is True
    assert story.claim()["anchor"] == {"messageId": "m3", "swipe": "1"}


def test_an_operation_of_an_unseen_message_does_not_register_it(story: Queue) -> None:
    add(story, "a", "m4")

    story.chat.reconcile("m1", "m2", "m3")
    story.chat.reconcile("m1", "m2")

    assert states(story) == {"a": "pending"}
    seen = story.chat.client.get("/chats/chat/state", params={"at": "message:m4"})
    assert refused(seen) == (404, "message_not_found", {})


def test_an_operation_of_an_unseen_swipe_is_cancelled_when_another_one_is_shown(
    story: Queue,
) -> None:
    add(story, "of the first", "m4", "0")
    add(story, "of the second", "m4", "1")

    story.chat.reconcile("m1", "m2", "m3", {"messageId": "m4", "swipe": "1"})

    assert states(story) == {"of the first": "cancelled", "of the second": "pending"}


def test_an_operation_of_an_unseen_swipe_is_cancelled_with_its_message(story: Queue) -> None:
    add(story, "a", "m3", "5")
    add(story, "b", "m2", "5")

    story.chat.reconcile("m1", "m2")

    assert states(story) == {"a": "cancelled", "b": "pending"}


def test_at_a_hidden_place_no_operation_is_added(story: Queue) -> None:
    chat = story.chat
    chat.reconcile("m1", {"messageId": "m2", "swipe": "1"})

    answers = [
        chat.send("POST", "/operations", {"id": "a", "type": "recap"}, message, "0")
        for message in ("m2", "m3")
    ]

    assert [refused(each) for each in answers] == [(409, "message_hidden", {})] * 2
    assert story.listed() == []
    assert add(story, "a", "m2", "1")["status"] == "pending"
    assert add(story, "b", "m2", "2")["status"] == "pending"


def test_an_operation_of_a_hidden_message_is_not_retried(story: Queue) -> None:
    add(story, "a", "m3")
    story.end("a", "fail")
    story.chat.reconcile("m1", "m2")

    assert refused(story.send("POST", "a", "/retry")) == (409, "message_hidden", {})
    story.chat.reconcile("m1", "m2", "m3")
    assert story.send("POST", "a", "/retry").json()["status"] == "pending"


def test_those_that_depend_on_a_cancelled_one_are_cancelled(story: Queue) -> None:
    add(story, "a", "m3")
    story.add("b", dependsOn=["a"])

    story.chat.reconcile("m1", "m2")

    assert states(story) == {"a": "cancelled", "b": "cancelled"}


@pytest.mark.parametrize("how", ["by a write", "by a reconcile"])
def test_a_checkpoint_that_waited_has_all_that_the_swipe_changed(story: Queue, how: str) -> None:
    chat = story.chat
    chat.set("hp", 50)
    chat.set("hp", 40, "m3")
    add(story, "a", "m3")
    assert post_checkpoint(chat, name="here", whenReady=True).status_code == 202

    if how == "by a write":
        chat.set("hp", 30, "m3", "1")
    else:
        chat.reconcile("m1", "m2")

    assert statuses(chat) == [("here", "ready")]
    assert validate(chat) == VALID
    assert chat.data() == {"hp": 30 if how == "by a write" else 50}


def test_a_write_that_changes_nothing_cancels_nothing(story: Queue) -> None:
    add(story, "a", "m3")

    answer = story.chat.send("DELETE", "/data/absent", None, "m3", "1")

    assert answer.status_code in (200, 404)
    assert states(story) == {"a": "pending"}


def test_each_chat_cancels_its_own(story: Queue) -> None:
    other = Queue(Chat(story.chat.client, "other"))
    other.chat.open("another tab")
    other.chat.reconcile("m1", "m3")
    add(story, "a", "m3")
    add(other, "a", "m3")

    story.chat.reconcile("m1")

    assert (states(story), states(other)) == ({"a": "cancelled"}, {"a": "pending"})
