"""Checkpoints that wait for the queue, and requests for checkpoints that are refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.chats.points import (
    VALID,
    await_checkpoint,
    diff_checkpoint,
    get_checkpoint,
    list_checkpoints,
    make_checkpoint,
    post_branch,
    post_checkpoint,
    restore_checkpoint,
    rows,
    send_checkpoint,
    statuses,
    validate,
)
from tests.api.chats.queue import ACTIVE, ENDS, Queue
from tests.support.answers import done, head, outcome, refused
from tests.support.chat import Chat


def uses(chat: Chat) -> list[tuple[int, str]]:
    """Return the refusals of every use of the checkpoint."""
    answers = [
        send_checkpoint(chat, "POST", verb="/validate", body={}),
        restore_checkpoint(chat),
        restore_checkpoint(chat, dryRun=True),
        send_checkpoint(chat, "GET", verb="/diff"),
        send_checkpoint(chat, "GET", verb="/state"),
        post_branch(chat, checkpoint="here"),
    ]
    return [refused(each)[:2] for each in answers]


def made(checkpoint: Any) -> Any:
    """Return the fields that a checkpoint has only once it is made."""
    return {key: checkpoint[key] for key in ("revision", "digest", "rows", "state")}


NOT_MADE = {"revision": None, "digest": None, "rows": None, "state": None}


@pytest.mark.parametrize("status", ACTIVE)
def test_a_checkpoint_waits_for_any_active_operation(queue: Queue, status: str) -> None:
    chat = queue.chat
    queue.add("a", status)

    answer = post_checkpoint(chat, name="here", whenReady=True)

    assert outcome(answer) == (202, {"name": "here", "status": "waiting"})
    assert answer.headers["x-revision"] == "1"
    assert statuses(chat) == [("here", "waiting")]
    found = get_checkpoint(chat)
    assert (found["name"], found["status"], made(found)) == ("here", "waiting", NOT_MADE)
    assert head(chat.client) == 1


def test_without_active_operations_a_checkpoint_is_made_at_once(queue: Queue) -> None:
    queue.add("a", "completed")

    answer = post_checkpoint(queue.chat, name="here", whenReady=True)

    assert (answer.status_code, answer.json()["status"]) == (201, "ready")
    assert statuses(queue.chat) == [("here", "ready")]


def test_a_request_that_does_not_wait_is_refused(queue: Queue) -> None:
    queue.add("a")

    answer = post_checkpoint(queue.chat, name="here", whenReady=False)

    assert refused(answer)[:2] == (409, "operations_pending")
    assert statuses(queue.chat) == []


@pytest.mark.parametrize("end", [*ENDS, "patch", "clean up"])
def test_a_waiting_checkpoint_is_made_when_the_last_operation_ends(queue: Queue, end: str) -> None:
    chat = queue.chat
    chat.set("hp", 50)
    queue.add("a")
    expect, meta = {"keys": ["hp", "no key"]}, {"by": "me"}
    await_checkpoint(chat, expect=expect, meta=meta)
    chat.set("hp", 45)
    chat.set("mp", 1)

    if end == "patch":
        queue.patch("a", status="failed")
    elif end == "clean up":
        queue.clean_up(maxAgeMs=0)
    else:
        queue.end("a", end)

    found = get_checkpoint(chat)
    assert (found["status"], found["revision"], found["rows"]) == ("ready", 4, rows(data=2))
    assert (found["expect"], found["meta"], len(found["warnings"])) == (expect, meta, 1)
    assert statuses(chat) == [("here", "ready")]
    assert head(chat.client) == 4
    # Later changes do not belong to the checkpoint.
    chat.set("hp", 40)
    [difference] = diff_checkpoint(chat)
    assert (difference["before"], difference["after"]) == (45, 40)


def test_a_checkpoint_waits_for_all_operations(queue: Queue) -> None:
    for number, status in enumerate(ACTIVE):
        queue.add(str(number), status)
    await_checkpoint(queue.chat)

    for number in (1, 0):
        queue.end(str(number))
        assert statuses(queue.chat) == [("here", "waiting")]
    queue.add("one more")
    queue.end("2", "fail")
    assert statuses(queue.chat) == [("here", "waiting")]
    queue.end("one more", "cancel")

    assert statuses(queue.chat) == [("here", "ready")]
    assert validate(queue.chat) == VALID


def test_several_waiting_checkpoints_are_made_together(queue: Queue) -> None:
    chat = queue.chat
    chat.set("hp", 45, "m1")
    chat.set("mp", 1, "m2")
    queue.add("a")
    await_checkpoint(chat, "now")
    await_checkpoint(chat, "then", messageId="m1")

    queue.end("a")

    assert statuses(chat) == [("now", "ready"), ("then", "ready")]
    found = [get_checkpoint(chat, name) for name in ("now", "then")]
    assert [(each["messageId"], each["rows"]["data"]) for each in found] == [(None, 2), ("m1", 1)]


def test_a_checkpoint_does_not_wait_for_the_queue_of_another_chat(queue: Queue) -> None:
    other = Queue(Chat(queue.chat.client, "other"))
    queue.add("a")
    other.add("a")
    await_checkpoint(queue.chat)

    other.end("a")
    assert statuses(queue.chat) == [("here", "waiting")]
    queue.end("a")

    assert statuses(queue.chat) == [("here", "ready")]


def test_an_operation_that_is_refused_to_end_makes_no_checkpoint(queue: Queue) -> None:
    queue.add("a")
    queue.claim()
    await_checkpoint(queue.chat)

    assert refused(queue.end("a", claim="stale"))[:2] == (409, "stale_claim")

    assert statuses(queue.chat) == [("here", "waiting")]


def test_the_name_of_a_waiting_checkpoint_is_taken(queue: Queue) -> None:
    queue.add("a")
    first = post_checkpoint(queue.chat, whenReady=True)
    assert outcome(first) == (202, {"name": "checkpoint-1", "status": "waiting"})

    second = post_checkpoint(queue.chat, name="checkpoint-1", whenReady=True)

    assert refused(second)[:2] == (409, "checkpoint_exists")


def test_a_waiting_checkpoint_cannot_be_used(queue: Queue) -> None:
    queue.add("a")
    await_checkpoint(queue.chat)
    # The reason is not the queue: the checkpoint is not made yet.
    expected = (409, "checkpoint_waiting")

    found = uses(queue.chat)

    assert (found[0], found[3]) == (expected, expected)
    assert all(each in (expected, (409, "operations_pending")) for each in found)
    assert (statuses(queue.chat), head(queue.chat.client)) == ([("here", "waiting")], 1)


def test_a_waiting_checkpoint_that_is_deleted_is_never_made(queue: Queue) -> None:
    queue.add("a")
    await_checkpoint(queue.chat)

    assert outcome(send_checkpoint(queue.chat, "DELETE")) == (200, {"success": True})
    queue.end("a")

    assert list_checkpoints(queue.chat) == []


def test_a_waiting_checkpoint_does_not_keep_the_log(queue: Queue) -> None:
    chat = queue.chat
    queue.add("a")
    await_checkpoint(chat)
    chat.set("hp", 50)
    chat.set("hp", 45)

    folded = chat.client.post("/compact", json={"keep": {"revisions": 0}})

    assert folded.json()["oldest"] == 3


def test_a_waiting_checkpoint_fails_if_its_message_is_hidden(queue: Queue) -> None:
    chat = queue.chat
    chat.set("hp", 45, "m1")
    chat.set("hp", 40, "m2")
    queue.add("a")
    await_checkpoint(chat, messageId="m2")
    await_checkpoint(chat, "other", messageId="m1")
    chat.reconcile("m1")

    ended = queue.end("a")

    assert (ended.status_code, ended.json()["status"]) == (200, "completed")
    assert statuses(chat) == [("here", "failed"), ("other", "ready")]
    found = get_checkpoint(chat)
    assert (found["status"], made(found)) == ("failed", NOT_MADE)
    assert uses(chat) == [(409, "checkpoint_failed")] * 6
    # The server does not try again, and the name is free once the checkpoint is deleted.
    chat.reconcile("m1", "m2")
    queue.add("b", "completed")
    assert statuses(chat)[0] == ("here", "failed")
    done(send_checkpoint(chat, "DELETE"))
    assert make_checkpoint(chat, messageId="m2")["status"] == "ready"


def test_a_waiting_checkpoint_is_made_if_its_message_is_shown_again_in_time(queue: Queue) -> None:
    chat = queue.chat
    chat.set("hp", 45, "m1")
    queue.add("a")
    await_checkpoint(chat, messageId="m1")
    chat.reconcile()
    chat.reconcile("m1")

    queue.end("a")

    assert statuses(chat) == [("here", "ready")]


# Refusals.


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        [],
        {"name": ""},
        {"name": 5},
        {"name": "x" * 257},
        {"messageId": 5},
        {"messageId": ""},
        {"expect": []},
        {"expect": "x"},
        {"meta": []},
        {"meta": 5},
        {"meta": {"n": 10**30}},
        {"whenReady": "yes"},
    ],
)
def test_a_malformed_checkpoint_is_refused(chat: Chat, body: Any) -> None:
    chat.set("hp", 45, "m1")

    assert refused(chat.send("POST", "/checkpoints", body))[0] == 400
    assert list_checkpoints(chat) == []


@pytest.mark.parametrize("message", ["m2", "unknown"])
def test_a_message_that_is_not_visible_is_refused(chat: Chat, message: str) -> None:
    chat.set("hp", 45, "m1")
    chat.set("hp", 40, "m2")
    chat.reconcile("m1")

    answer = post_checkpoint(chat, name="here", messageId=message)

    assert refused(answer) == (404, "message_not_found", {})
    assert list_checkpoints(chat) == []


def test_an_unknown_chat_has_no_checkpoints(chat: Chat) -> None:
    assert refused(post_checkpoint(chat)) == (404, "chat_not_found", {})
    assert list_checkpoints(chat) == []
    answers = [send_checkpoint(chat, "GET"), send_checkpoint(chat, "DELETE")]
    assert [refused(each) for each in answers] == [(404, "checkpoint_not_found", {})] * 2
    assert outcome(chat.client.get("/chats")) == (200, [])


def test_an_unknown_checkpoint_is_not_found(chat: Chat) -> None:
    chat.set("hp", 50)

    answers = [send_checkpoint(chat, "GET"), send_checkpoint(chat, "DELETE")]

    assert [refused(each)[:2] for each in answers] == [(404, "checkpoint_not_found")] * 2
    assert uses(chat) == [(404, "checkpoint_not_found")] * 6


def test_a_checkpoint_checks_session_chat_and_archive(chat: Chat) -> None:
    chat.set("hp", 50)
    stale = chat.session("tab")
    foreign = Chat(chat.client, "other").session("tab")

    def ask(**headers: str) -> Any:
        return refused(post_checkpoint(chat, headers, name="here"))[:2]

    assert ask(x_session=stale) == (409, "stale_session")
    assert ask(x_session=foreign) == (409, "chat_mismatch")
    assert ask(x_chat_id="other") == (409, "chat_mismatch")
    chat.archive()
    assert ask() == (409, "chat_archived")
    assert list_checkpoints(chat) == []


def test_a_repeated_request_makes_one_checkpoint(chat: Chat) -> None:
    chat.set("hp", 50)

    first, again = (post_checkpoint(chat, {"idempotency_key": "k"}) for _ in range(2))

    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert statuses(chat) == [("checkpoint-1", "ready")]
