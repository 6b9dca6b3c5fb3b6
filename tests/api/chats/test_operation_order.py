"""Operations that depend on others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.chats.points import post_checkpoint, statuses
from tests.api.chats.queue import ENDS, Queue, added, operation
from tests.conftest import RunningServer
from tests.support.answers import head, outcome, refused
from tests.support.chat import Chat
from tests.support.clock import DAY_MS


def states(queue: Queue) -> dict[str, str]:
    return {each["id"]: each["status"] for each in queue.listed()}


def test_an_operation_is_not_claimed_before_those_it_depends_on_are_completed(
    queue: Queue,
) -> None:
    queue.add("a")
    queue.add("b")

    answer = queue.post({"id": "c", "type": "recap", "priority": 9, "dependsOn": ["b", "a", "b"]})

    assert outcome(answer) == (200, added("c", priority=9, dependsOn=["b", "a"]))
    first, second = queue.claim(), queue.claim()
    assert (first["id"], second["id"], queue.claim()) == ("a", "b", None)
    queue.end("a", claim=first["claim"])
    assert queue.claim() is None
    queue.end("b", claim=second["claim"])
    assert queue.claim()["id"] == "c"


@pytest.mark.parametrize("verb", ["fail", "cancel"])
def test_those_that_depend_on_a_failed_or_cancelled_one_end_with_it(
    queue: Queue, verb: str
) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    queue.add("c", dependsOn=["b"])
    queue.add("d")

    queue.end("a", verb)

    ended = ENDS[verb]
    assert states(queue) == {"a": ended, "b": ended, "c": ended, "d": "pending"}
    assert queue.get("c") == operation("c", ended, dependsOn=["b"])


def test_a_failure_that_is_tried_again_ends_nothing(queue: Queue) -> None:
    queue.add("a", maxAttempts=2)
    queue.add("b", dependsOn=["a"])

    queue.end("a", "fail")
    assert states(queue) == {"a": "retrying", "b": "pending"}
    claimed = queue.claim()
    queue.end("a", claim=claimed["claim"])

    assert queue.claim()["id"] == "b"


@pytest.mark.parametrize("verb", ENDS)
def test_what_has_ended_already_decides_at_once(queue: Queue, verb: str) -> None:
    queue.add("a")
    queue.end("a", verb)

    queue.add("b", dependsOn=["a"])

    assert states(queue)["b"] == {"complete": "pending"}.get(verb, ENDS[verb])
    assert (queue.claim() is not None) == (verb == "complete")


def test_a_failed_one_counts_before_a_cancelled_one(queue: Queue) -> None:
    for id, verb in [("a", "cancel"), ("b", "fail"), ("c", "complete")]:
        queue.add(id)
        queue.end(id, verb)
    queue.add("d")

    queue.add("e", dependsOn=["a", "c", "b", "d"])

    assert states(queue)["e"] == "failed"


def test_an_operation_depends_on_the_one_that_had_the_id_when_it_was_added(queue: Queue) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    queue.end("a")
    queue.add("a", dependsOn=["b"])

    assert states(queue) == {"b": "pending", "a": "pending"}
    assert (queue.claim()["id"], queue.claim()) == ("b", None)
    queue.end("a", "cancel")
    assert states(queue) == {"b": "in_progress", "a": "cancelled"}


def test_a_deleted_operation_cancels_those_that_depend_on_it(queue: Queue) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    queue.add("c", dependsOn=["b"])
    assert post_checkpoint(queue.chat, name="here", whenReady=True).status_code == 202

    queue.send("DELETE", "a")

    assert states(queue) == {"b": "cancelled", "c": "cancelled"}
    assert statuses(queue.chat) == [("here", "ready")]


def test_a_deleted_operation_that_was_completed_cancels_nothing(queue: Queue) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    queue.end("a")

    queue.send("DELETE", "a")

    assert queue.claim()["id"] == "b"


def test_an_operation_that_is_cleaned_up_cancels_those_that_depend_on_it(
    queue: Queue, shared_server: RunningServer
) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    shared_server.clock.pass_time(DAY_MS)
    queue.patch("b", stage="touched")

    assert queue.clean_up() == {"removedCount": 1, "ids": ["a"]}

    assert states(queue) == {"b": "cancelled"}


# Retrying.


def test_those_that_failed_with_a_retried_one_stay_failed(queue: Queue) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    queue.end("a", "fail")

    refusal = queue.send("POST", "b", "/retry")
    queue.send("POST", "a", "/retry")

    assert refused(refusal)[:2] == (409, "illegal_move")
    assert states(queue) == {"a": "pending", "b": "failed"}


def test_one_that_is_retried_waits_for_what_it_depends_on(queue: Queue) -> None:
    queue.add("a")
    queue.add("b", dependsOn=["a"])
    queue.end("a", "fail")
    queue.send("POST", "a", "/retry")
    assert queue.send("POST", "b", "/retry").json()["status"] == "pending"

    claimed = queue.claim()
    assert (claimed["id"], queue.claim()) == ("a", None)
    queue.end("a", claim=claimed["claim"])

    assert queue.claim()["id"] == "b"


def test_one_is_retried_alone_once_what_it_depends_on_is_completed_or_deleted(
    queue: Queue,
) -> None:
    for id in ("a", "b"):
        queue.add(id)
        queue.add(f"after {id}", dependsOn=[id])
        queue.end(id, "fail")
    queue.send("POST", "a", "/retry")
    queue.end("a")
    queue.send("DELETE", "b")
    # This one has nothing to do with the deleted one, whatever it is numbered with.
    queue.add("b")

    answers = [queue.send("POST", f"after {id}", "/retry") for id in ("a", "b")]

    assert [each.json()["status"] for each in answers] == ["pending", "pending"]
    assert sorted(queue.claim()["id"] for _ in range(3)) == ["after a", "after b", "b"]


# Refusals.


def test_an_operation_cannot_depend_on_itself(queue: Queue) -> None:
    queue.add("a", "completed")

    answers = [
        queue.post({"id": "a", "type": "recap", "dependsOn": ["a"]}),
        queue.post({"id": "b", "type": "recap", "dependsOn": ["a", "b"]}),
    ]

    assert [refused(each)[:2] for each in answers] == [(400, "invalid_body")] * 2
    assert queue.listed() == [operation("a", "completed")]


def test_what_an_operation_depends_on_must_exist_in_its_chat(queue: Queue) -> None:
    Queue(Chat(queue.chat.client, "other")).add("theirs")
    queue.add("a")
    before = head(queue.chat.client)

    answers = [
        queue.post({"id": "b", "type": "recap", "dependsOn": ["a", each]})
        for each in ("theirs", "unknown")
    ]
    answers.append(
        Queue(Chat(queue.chat.client, "new")).post({"type": "recap", "dependsOn": ["a"]})
    )

    assert [refused(each) for each in answers] == [(404, "operation_not_found", {})] * 3
    assert (queue.ids(), head(queue.chat.client)) == (["a"], before)


def test_an_operation_that_is_there_already_is_not_bound_again(queue: Queue) -> None:
    queue.add("a")
    queue.add("b")

    answer = queue.post({"id": "b", "type": "recap", "dependsOn": ["a"], "ifAbsent": True})

    assert outcome(answer) == (200, {**operation("b"), "created": False})


@pytest.mark.one_engine
@pytest.mark.parametrize("wanted", ["a", None, {}, [5], [None], [""], ["x" * 257], ["a"] * 257])
def test_a_malformed_list_is_refused(queue: Queue, wanted: Any) -> None:
    queue.add("a")

    assert refused(queue.post({"id": "b", "type": "recap", "dependsOn": wanted}))[0] == 400
    assert queue.ids() == ["a"]
