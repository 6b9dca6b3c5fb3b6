"""While operations are active, a chat refuses checkpoints, branches and restores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    VALID,
    await_checkpoint,
    diff_checkpoint,
    get_checkpoint,
    make_checkpoint,
    post_branch,
    post_checkpoint,
    restore_checkpoint,
    send_checkpoint,
    validate,
)
from tests.api.chats.queue import ACTIVE, ENDS, SHORT, Queue
from tests.conftest import wait_for
from tests.support.answers import done, head, outcome, refused
from tests.support.chat import Chat, furnish

# The guarded requests, and how the refusal names them.
GUARDED: dict[str, tuple[str, Callable[[Chat], httpx.Response]]] = {
    "checkpoint": ("create checkpoint", lambda chat: post_checkpoint(chat, name="new")),
    "checkpoint of a message": (
        "create checkpoint",
        lambda chat: post_checkpoint(chat, name="new", messageId="m1"),
    ),
    "branch": ("create branch", post_branch),
    "branch from a message": ("create branch", lambda chat: post_branch(chat, messageId="m1")),
    "branch from a revision": ("create branch", lambda chat: post_branch(chat, revision=5)),
    "branch from a checkpoint": (
        "create branch",
        lambda chat: post_branch(chat, checkpoint="here"),
    ),
    "chat restore": ("restore", lambda chat: chat.send("POST", "/restore", {"revision": 5})),
    "checkpoint restore": ("restore", restore_checkpoint),
}
COUNTS = {"pending": "pending", "in_progress": "inProgress", "retrying": "retrying"}


@pytest.fixture
def guarded(client: httpx.Client) -> Chat:
    """A chat at revision 7 with a checkpoint of revision 6, and a later message."""
    chat = furnish(client)
    chat.set("hp", 45, "m1")
    make_checkpoint(chat)
    chat.set("hp", 40, "m2")
    return chat


def refusal(what: str, count: int, **counts: int) -> tuple[int, str, str, dict[str, int]]:
    return (
        409,
        "operations_pending",
        f"Cannot {what}: {count} operations in queue. Please wait for queue to finish.",
        {"pending": 0, "inProgress": 0, "retrying": 0, **counts},
    )


def refusal_of(answer: httpx.Response) -> tuple[int, str, str, Any]:
    status, code, details = refused(answer)
    return status, code, answer.json()["error"], details


@pytest.mark.parametrize("status", ACTIVE)
@pytest.mark.parametrize("name", GUARDED)
def test_one_active_operation_is_enough(guarded: Chat, name: str, status: str) -> None:
    what, ask = GUARDED[name]
    Queue(guarded).add("a", status)
    before = guarded.state()

    answer = ask(guarded)

    assert refusal_of(answer) == refusal(what, 1, **{COUNTS[status]: 1})
    assert (guarded.state(), head(guarded.client)) == (before, 7)
    assert [each["chatId"] for each in guarded.client.get("/chats").json()] == ["chat"]


@pytest.mark.parametrize("name", GUARDED)
def test_several_operations_are_counted_by_their_status(guarded: Chat, name: str) -> None:
    what, ask = GUARDED[name]
    queue = Queue(guarded)
    statuses = ["pending", "in_progress", "retrying", "retrying", "pending", "pending"]
    for number, status in enumerate([*statuses, *ENDS.values()]):
        queue.add(str(number), status)

    assert refusal_of(ask(guarded)) == refusal(what, 6, pending=3, inProgress=1, retrying=2)
    assert head(guarded.client) == 7


@pytest.mark.parametrize("name", GUARDED)
def test_the_request_succeeds_once_all_operations_have_ended(guarded: Chat, name: str) -> None:
    _, ask = GUARDED[name]
    queue = Queue(guarded)
    for verb in ENDS:
        queue.add(verb)
        assert refused(ask(guarded))[1] == "operations_pending"
        queue.end(verb, verb)

    assert ask(guarded).status_code in (200, 201)


@pytest.mark.parametrize("name", GUARDED)
def test_the_queue_of_another_chat_blocks_nothing(guarded: Chat, name: str) -> None:
    _, ask = GUARDED[name]
    Queue(Chat(guarded.client, "other")).add("a")

    assert ask(guarded).status_code in (200, 201)


def test_an_operation_with_a_lapsed_claim_still_blocks(guarded: Chat) -> None:
    queue = Queue(guarded)
    queue.add("a")
    queue.claim(SHORT)
    wait_for(lambda: queue.get("a")["status"] == "pending")

    assert refusal_of(post_checkpoint(guarded)) == refusal("create checkpoint", 1, pending=1)


def test_operations_that_were_cleaned_up_block_nothing(guarded: Chat) -> None:
    queue = Queue(guarded)
    queue.add("a", "in_progress")
    queue.clean_up(maxAgeMs=0)

    assert make_checkpoint(guarded, "new")["revision"] == 7


def test_the_queue_of_a_renamed_chat_blocks_too(guarded: Chat) -> None:
    Queue(guarded).add("a")
    renamed = guarded.rename("renamed")

    for chat in (guarded, renamed):
        assert refusal_of(post_checkpoint(chat)) == refusal("create checkpoint", 1, pending=1)


@pytest.mark.parametrize("path", ["/instances/sword/restore", "/characters/arthur/restore"])
def test_restores_of_instances_and_characters_are_not_guarded(guarded: Chat, path: str) -> None:
    done(guarded.client.post("/instances/sword/data", json={"key": "hp", "value": 1}))
    Queue(guarded).add("a")

    answer = guarded.client.post(path, json={"revision": 7})

    assert outcome(answer) == (200, {"revision": 9, "changed": 1, "warnings": []})
    assert guarded.client.get("/instances/sword/data").json() == {"hp": 7}


def test_reads_and_ordinary_writes_are_not_guarded(guarded: Chat) -> None:
    Queue(guarded).add("a")

    assert validate(guarded) == VALID
    assert diff_checkpoint(guarded) == [guarded.difference("hp", before=45, after=40)]
    assert get_checkpoint(guarded)["status"] == "ready"
    assert guarded.set("hp", 1) == 8
    assert guarded.reconcile("m1")["dormant"] == 1
    await_checkpoint(guarded, "later")
    assert outcome(send_checkpoint(guarded, "DELETE")) == (200, {"success": True})


def test_the_queue_of_a_parent_does_not_block_its_branch(guarded: Chat) -> None:
    done_with = Queue(guarded)
    branch = Chat(guarded.client, post_branch(guarded).json()["chatId"])
    done_with.add("a")

    assert make_checkpoint(branch)["name"] == "here"
    assert branch.restore(head(guarded.client))[0] == 200
    Queue(branch).add("b")
    done_with.end("a")
    assert make_checkpoint(guarded, "new")["name"] == "new"
    assert refusal_of(post_checkpoint(branch)) == refusal("create checkpoint", 1, pending=1)
