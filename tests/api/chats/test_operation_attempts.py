"""Operations that are claimed by type, renewed, tried again, paused and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.chats.points import post_checkpoint, statuses
from tests.api.chats.queue import ACTIVE, ENDED, LONG, SHORT, Queue, added, operation
from tests.conftest import running_server, wait_for
from tests.support.answers import MOMENT, head, outcome, refused
from tests.support.chat import NO_OPERATIONS, Chat

# Types.


def test_a_claim_takes_only_the_types_it_names(queue: Queue) -> None:
    for id, type in [("a", "recap"), ("b", "portrait"), ("c", "voice"), ("d", "portrait")]:
        queue.add(id, type=type)

    found = [queue.claim(types=["portrait", "voice", "nobody's"])["id"] for _ in range(3)]

    assert found == ["b", "c", "d"]
    assert queue.claim(types=["portrait"]) is None
    assert queue.claim(types=["nobody's"]) is None
    assert queue.claim()["id"] == "a"


@pytest.mark.one_engine
@pytest.mark.parametrize("types", [[], "recap", None, [5], [None], [""], {}, ["x" * 257]])
def test_malformed_types_claim_nothing(queue: Queue, types: Any) -> None:
    queue.add("a")

    assert refused(queue.post_claim(types=types))[0] == 400
    assert queue.get("a") == operation("a")


# Renewing.


def test_a_renewed_lease_ends_later(queue: Queue) -> None:
    queue.add("a")
    claimed = queue.claim(LONG)

    answer = queue.renew("a", claimed["claim"], 2 * LONG)

    assert outcome(answer) == (200, {**claimed, "leaseUntil": MOMENT, "updatedAt": MOMENT})
    assert answer.json()["leaseUntil"] > claimed["leaseUntil"]
    assert queue.get("a") == answer.json()
    assert head(queue.chat.client) == 1


def test_a_lease_can_be_renewed_to_a_shorter_one(queue: Queue) -> None:
    queue.add("a")
    claimed = queue.claim(LONG)

    assert queue.renew("a", claimed["claim"], SHORT).status_code == 200

    wait_for(lambda: queue.get("a")["status"] == "pending")
    assert refused(queue.renew("a", claimed["claim"]))[:2] == (409, "stale_claim")


def test_only_the_holder_of_a_lease_renews_it(queue: Queue) -> None:
    queue.add("a")
    held = queue.claim()

    answers = [queue.renew("a", claim) for claim in ("another's", None, ...)]

    assert [refused(each)[:2] for each in answers] == [(409, "stale_claim")] * 3
    assert queue.get("a") == held
    assert refused(queue.renew("unknown", held["claim"])) == (404, "operation_not_found", {})


@pytest.mark.parametrize("status", [*ACTIVE, *ENDED])
def test_an_operation_that_nobody_has_claimed_is_not_renewed(queue: Queue, status: str) -> None:
    queue.add("a")
    claim = queue.claim()["claim"]
    queue.patch("a", status="pending", claim=claim)
    queue.patch("a", status=status)
    before = queue.get("a")

    answers = [queue.renew("a", claim), queue.renew("a")]

    assert [refused(each)[:2] for each in answers] == [(409, "stale_claim")] * 2
    assert queue.get("a") == before


@pytest.mark.one_engine
@pytest.mark.parametrize("lease", [0, -1, 1.5, "1", True, None, 7 * 24 * 3600 * 1000 + 1])
def test_a_malformed_lease_is_not_renewed(queue: Queue, lease: Any) -> None:
    queue.add("a")
    held = queue.claim()

    assert refused(queue.renew("a", held["claim"], lease)) == (400, "invalid_body", {})
    assert queue.get("a") == held


# Attempts.


def fail(queue: Queue, id: str = "a") -> Any:
    """Claim the operation, fail it, and return the record."""
    claimed = queue.claim()
    assert claimed["id"] == id
    return queue.end(id, "fail", claim=claimed["claim"]).json()


def test_a_failure_below_the_most_attempts_is_tried_again(queue: Queue) -> None:
    queue.add("a", maxAttempts=3)

    first, second, third = fail(queue), fail(queue), fail(queue)

    assert first == operation("a", "retrying", attempts=1, maxAttempts=3)
    assert second == operation("a", "retrying", attempts=2, maxAttempts=3)
    assert third == operation("a", "failed", attempts=3, maxAttempts=3)
    assert queue.claim() is None


def test_a_lease_that_ran_out_counts_as_an_attempt(queue: Queue) -> None:
    queue.add("a", maxAttempts=2)
    queue.claim(SHORT)
    wait_for(lambda: queue.get("a")["status"] == "pending")

    assert fail(queue) == operation("a", "failed", attempts=2, maxAttempts=2)


def test_a_failure_without_a_claim_counts_as_an_attempt(queue: Queue) -> None:
    queue.add("a", maxAttempts=2)

    found = [queue.end("a", "fail").json()["status"], queue.patch("a", status="failed").json()]

    assert found == ["retrying", operation("a", "failed", attempts=2, maxAttempts=2)]


def test_an_operation_that_failed_waits_before_the_next_attempt(queue: Queue) -> None:
    queue.add("long", maxAttempts=2, retryAfterMs=LONG, priority=1)
    queue.add("short", maxAttempts=2, retryAfterMs=SHORT)

    assert fail(queue, "long")["status"] == "retrying"
    assert fail(queue, "short")["status"] == "retrying"

    claimed = wait_for(queue.claim)
    assert (claimed["id"], claimed["attempts"]) == ("short", 2)
    assert queue.claim() is None
    assert queue.counts() == {**NO_OPERATIONS, "inProgress": 1, "retrying": 1}


def test_an_operation_moved_to_retrying_waits_too(queue: Queue) -> None:
    queue.add("a", "retrying", retryAfterMs=LONG)
    queue.add("b", "retrying", retryAfterMs=SHORT)

    assert wait_for(queue.claim)["id"] == "b"
    assert queue.claim() is None
    queue.patch("a", status="pending")
    assert queue.claim()["id"] == "a"


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "more",
    [
        {"maxAttempts": 0},
        {"maxAttempts": -1},
        {"maxAttempts": 1.5},
        {"maxAttempts": True},
        {"maxAttempts": None},
        {"maxAttempts": 10**9},
        {"retryAfterMs": -1},
        {"retryAfterMs": "1"},
        {"retryAfterMs": 10**12},
        {"ifAbsent": 1},
        {"ifAbsent": None},
    ],
)
def test_malformed_attempts_are_refused(queue: Queue, more: Any) -> None:
    assert refused(queue.post({"id": "a", "type": "recap", **more}))[0] == 400
    assert queue.listed() == []


# Retrying.


def test_a_failed_operation_is_retried_once_more(queue: Queue) -> None:
    queue.add("a", maxAttempts=2, retryAfterMs=LONG)
    queue.end("a", "fail")
    queue.end("a", "fail", data={"why": "no answer"})

    answer = queue.send("POST", "a", "/retry", {})

    more: dict[str, Any] = {"data": {"why": "no answer"}, "retryAfterMs": LONG}
    assert outcome(answer) == (200, operation("a", attempts=2, maxAttempts=3, **more))
    assert fail(queue) == operation("a", "failed", attempts=3, maxAttempts=3, **more)
    assert queue.send("POST", "a", "/retry").json()["maxAttempts"] == 4


def test_a_retried_operation_has_its_place_in_the_queue(queue: Queue) -> None:
    queue.add("a", "failed")
    queue.add("b")
    queue.send("POST", "a", "/retry")

    assert [queue.claim()["id"], queue.claim()["id"]] == ["a", "b"]


@pytest.mark.parametrize("status", [*ACTIVE, "completed", "cancelled"])
def test_only_a_failed_operation_is_retried(queue: Queue, status: str) -> None:
    queue.add("a", status)

    assert refused(queue.send("POST", "a", "/retry"))[:2] == (409, "illegal_move")
    assert queue.get("a") == operation("a", status)
    assert refused(queue.send("POST", "b", "/retry")) == (404, "operation_not_found", {})


# Deleting.


@pytest.mark.parametrize("status", [*ACTIVE, *ENDED])
def test_an_operation_is_deleted(queue: Queue, status: str) -> None:
    queue.add("a", status)
    queue.add("b")

    answer = queue.send("DELETE", "a")

    assert outcome(answer) == (200, {"success": True})
    assert queue.ids() == ["b"]
    assert refused(queue.send("DELETE", "a")) == (404, "operation_not_found", {})
    assert outcome(queue.post({"id": "a", "type": "recap"})) == (200, added("a"))


def test_a_claimed_operation_is_deleted_by_anybody(queue: Queue) -> None:
    queue.add("a")
    claim = queue.claim()["claim"]

    assert queue.send("DELETE", "a").status_code == 200
    assert refused(queue.end("a", claim=claim)) == (404, "operation_not_found", {})


def test_deleting_the_last_active_operation_makes_the_checkpoints_that_wait(queue: Queue) -> None:
    chat = queue.chat
    queue.add("a", "completed")
    queue.add("b", "in_progress")
    assert post_checkpoint(chat, name="here", whenReady=True).status_code == 202

    queue.send("DELETE", "a")
    assert statuses(chat) == [("here", "waiting")]
    queue.send("DELETE", "b")

    assert statuses(chat) == [("here", "ready")]


# Pausing.


def test_a_paused_queue_hands_nothing_out(queue: Queue) -> None:
    for id in ("a", "b"):
        queue.add(id)
    held = queue.claim()

    assert queue.pause() == queue.pause() == {"paused": True}

    assert queue.claim() is None
    assert queue.counts() == {"pending": 1, "inProgress": 1, "retrying": 0, "paused": True}
    assert queue.renew("a", held["claim"]).status_code == 200
    assert queue.end("a", claim=held["claim"]).json()["status"] == "completed"
    queue.add("c", priority=1)
    assert queue.pause("resume") == queue.pause("resume") == {"paused": False}
    assert [queue.claim()["id"], queue.claim()["id"]] == ["c", "b"]
    assert head(queue.chat.client) == 1


def test_a_chat_can_be_paused_before_it_has_operations(chat: Chat) -> None:
    queue = Queue(chat)

    assert queue.pause("resume") == {"paused": False}
    assert outcome(chat.client.get("/chats")) == (200, [])
    assert queue.pause() == {"paused": True}
    queue.add("a")

    assert queue.claim() is None
    assert Chat(chat.client, "other").open()["operations"] == NO_OPERATIONS


def test_a_purged_chat_is_not_paused_any_more(queue: Queue) -> None:
    queue.pause()
    queue.chat.purge()

    assert queue.chat.open()["operations"] == NO_OPERATIONS


def test_a_pause_outlives_the_server(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            Queue(Chat(client, "chat")).add("a")
            Queue(Chat(client, "chat")).pause()

    with running_server(tmp_path, database=own_database) as server, server.client("demo") as client:
        queue = Queue(Chat(client, "chat"))
        assert queue.counts() == {**NO_OPERATIONS, "pending": 1, "paused": True}
        assert queue.claim() is None
        queue.pause("resume")
        assert queue.claim()["id"] == "a"


def test_a_pause_is_seen_at_once_by_readers_of_the_chat(client: httpx.Client) -> None:
    chat = Chat(client, "chat")
    chat.set("hp", 50)
    assert chat.state()["operations"]["paused"] is False

    Queue(chat).pause()

    assert chat.state()["operations"]["paused"] is True
    assert chat.data() == {"hp": 50}
