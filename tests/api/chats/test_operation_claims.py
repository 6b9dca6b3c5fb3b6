"""Operations claimed with a lease, and operations cleaned up by their age."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.api.chats.queue import ACTIVE, ENDED, LONG, SHORT, Queue, operation
from tests.conftest import RunningServer, wait_for
from tests.support.answers import MOMENT, outcome, refused
from tests.support.chat import NO_OPERATIONS, Chat
from tests.support.clock import DAY_MS

WEEK = 7 * 24 * 60 * 60 * 1000


def lapsed(queue: Queue, id: str = "a") -> str:
    """Claim an operation with the shortest lease, wait until it has ended, and return the token."""
    claimed = queue.claim(SHORT)
    assert claimed["id"] == id
    wait_for(lambda: queue.get(id)["status"] == "pending")
    return str(claimed["claim"])


# Claiming.


def test_a_claim_returns_the_operation_and_a_token(queue: Queue) -> None:
    queue.add("a", data={"x": 1}, priority=2)

    answer = queue.post_claim()

    found = answer.json()
    claim = found["claim"]
    record = operation(
        "a",
        "in_progress",
        data={"x": 1},
        priority=2,
        claim=claim,
        leaseUntil=MOMENT,
        attempts=1,
    )
    assert (outcome(answer), answer.headers["x-revision"]) == ((200, record), "1")
    assert queue.get("a") == found
    assert found["leaseUntil"] > found["createdAt"]
    assert queue.counts() == {**NO_OPERATIONS, "inProgress": 1}


def test_the_highest_priority_comes_first_then_the_oldest(queue: Queue) -> None:
    for id, priority in [("z", 0), ("y", 5), ("x", 5), ("w", -1), ("v", 0), ("u", 9)]:
        queue.add(id, priority=priority)

    claimed = [queue.claim()["id"] for _ in range(6)]

    assert claimed == ["u", "y", "x", "z", "v", "w"]
    assert queue.claim() is None


def test_the_oldest_operation_is_the_one_created_first_whatever_was_changed_since(
    queue: Queue,
) -> None:
    for id in ("a", "b"):
        queue.add(id)
    queue.patch("a", stage="touched")
    claimed = queue.claim()
    assert claimed["id"] == "a"
    queue.patch("a", status="pending", claim=claimed["claim"])

    assert [queue.claim()["id"], queue.claim()["id"]] == ["a", "b"]


@pytest.mark.parametrize("status", ["in_progress", "retrying", *ENDED])
def test_only_pending_operations_are_claimed(queue: Queue, status: str) -> None:
    queue.add("a", status)

    answer = queue.post_claim()

    assert (answer.status_code, answer.content) == (204, b"")
    assert queue.get("a") == operation("a", status, attempts=int(status == "failed"))


def test_of_many_claims_at_once_each_gets_another_operation(
    queue: Queue, extension_id: str, shared_server: RunningServer
) -> None:
    for number in range(8):
        queue.add(str(number))

    def claim(_: int) -> Any:
        with shared_server.client(extension_id) as mine:
            return Queue(Chat(mine, "chat")).claim()

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(claim, range(12)))

    claimed = [each for each in found if each is not None]
    assert sorted(each["id"] for each in claimed) == [str(number) for number in range(8)]
    assert len({each["claim"] for each in claimed}) == 8


# Tokens.


def test_the_claimant_moves_and_ends_the_operation(queue: Queue) -> None:
    queue.add("a")
    token = queue.claim()["claim"]

    moved = queue.patch("a", stage="merging", claim=token)
    ended = queue.end("a", claim=token, data={"merged": True})

    assert outcome(moved) == (
        200,
        operation("a", "in_progress", stage="merging", claim=token, leaseUntil=MOMENT, attempts=1),
    )
    found = ended.json()
    assert (ended.status_code, found["status"], found["stage"], found["data"]) == (
        200,
        "completed",
        "merging",
        {"merged": True},
    )


@pytest.mark.parametrize("verb", ["complete", "fail"])
@pytest.mark.parametrize("token", ["another's", "its former one"])
def test_a_stale_token_moves_and_ends_nothing(queue: Queue, verb: str, token: str) -> None:
    queue.add("a")
    if token == "its former one":
        token = queue.claim()["claim"]
        queue.patch("a", status="pending", claim=token)
    present = queue.claim()

    answers = [queue.patch("a", stage="late", claim=token), queue.end("a", verb, claim=token)]

    assert [refused(each)[:2] for each in answers] == [(409, "stale_claim")] * 2
    assert queue.get("a") == present


@pytest.mark.parametrize("verb", ["complete", "fail"])
def test_a_token_for_an_operation_that_is_not_claimed_is_stale(queue: Queue, verb: str) -> None:
    queue.add("a")

    assert refused(queue.end("a", verb, claim="made up"))[:2] == (409, "stale_claim")
    assert queue.get("a") == operation("a")


def test_without_the_token_nobody_else_moves_or_ends_the_operation(queue: Queue) -> None:
    queue.add("a")
    held = queue.claim()

    answers = [
        queue.patch("a", stage="one"),
        queue.patch("a", status="pending"),
        queue.patch("a", status="cancelled", claim=None),
        queue.patch("a", data={"x": 1}),
        queue.end("a"),
        queue.end("a", "fail"),
    ]

    assert [refused(each)[:2] for each in answers] == [(409, "stale_claim")] * 6
    assert queue.get("a") == held


def test_once_the_lease_has_run_out_no_token_is_needed(queue: Queue) -> None:
    queue.add("a")
    lapsed(queue)

    assert queue.end("a").json()["status"] == "completed"


def test_cancelling_needs_no_token(queue: Queue) -> None:
    queue.add("a")
    queue.claim()

    answer = queue.end("a", "cancel", claim="stale")

    assert (answer.status_code, answer.json()["status"]) == (200, "cancelled")


def test_moving_back_to_pending_ends_the_claim(queue: Queue) -> None:
    queue.add("a")
    token = queue.claim()["claim"]

    answer = queue.patch("a", status="pending", claim=token)

    assert outcome(answer) == (200, operation("a", attempts=1))
    assert refused(queue.end("a", claim=token))[:2] == (409, "stale_claim")


# Leases.


def test_a_lease_that_runs_out_returns_the_operation(queue: Queue) -> None:
    queue.add("a", data={"x": 1})

    lapsed(queue)

    assert queue.listed("pending") == queue.listed() == [operation("a", data={"x": 1}, attempts=1)]
    assert queue.listed("in_progress") == []
    assert queue.counts() == {**NO_OPERATIONS, "pending": 1}


def test_the_token_of_a_lapsed_claim_is_stale_once_another_has_claimed(queue: Queue) -> None:
    queue.add("a")
    old = lapsed(queue)
    assert refused(queue.end("a", claim=old))[:2] == (409, "stale_claim")

    new = queue.claim()

    assert (new["id"], new["claim"] == old) == ("a", False)
    for answer in (queue.patch("a", stage="late", claim=old), queue.end("a", claim=old)):
        assert refused(answer)[:2] == (409, "stale_claim")
    assert queue.get("a") == new
    assert queue.end("a", claim=new["claim"]).json()["status"] == "completed"


def test_a_lapsed_operation_keeps_its_position_in_the_queue(queue: Queue) -> None:
    queue.add("a")
    lapsed(queue)
    queue.add("b")

    assert [queue.claim()["id"], queue.claim()["id"]] == ["a", "b"]


def test_an_ended_operation_does_not_lapse(queue: Queue) -> None:
    queue.add("a")
    queue.add("b")
    token = queue.claim(LONG)["claim"]
    queue.end("a", claim=token)

    lapsed(queue, "b")

    assert queue.get("a")["status"] == "completed"


@pytest.mark.parametrize("lease", [1, WEEK - 1, WEEK])
def test_a_lease_may_last_a_week(queue: Queue, lease: int) -> None:
    queue.add("a")

    assert queue.claim(lease)["id"] == "a"


@pytest.mark.one_engine
@pytest.mark.parametrize("lease", [0, -1, WEEK + 1, 1.5, "1", True, None])
def test_a_malformed_lease_claims_nothing(queue: Queue, lease: Any) -> None:
    queue.add("a")

    assert refused(queue.post_claim(lease)) == (400, "invalid_body", {})
    assert refused(queue.chat.send("POST", "/operations/claim", {}))[0] == 400
    assert queue.get("a") == operation("a")


# Cleaning up.


def test_an_age_of_zero_removes_all_active_operations(queue: Queue) -> None:
    for status in [*ACTIVE, *ENDED]:
        queue.add(status, status)

    assert queue.clean_up(maxAgeMs=0) == {"removedCount": 3, "ids": ACTIVE}

    assert (queue.ids(), queue.counts()) == (ENDED, NO_OPERATIONS)
    assert queue.clean_up(maxAgeMs=0) == {"removedCount": 0, "ids": []}


def test_the_default_age_is_a_day(queue: Queue) -> None:
    queue.add("a")

    assert queue.clean_up() == {"removedCount": 0, "ids": []}
    assert queue.ids() == ["a"]


@pytest.mark.parametrize("touch", ["stage", "claim", "status"])
def test_the_age_counts_from_the_last_change(
    queue: Queue, shared_server: RunningServer, touch: str
) -> None:
    queue.add("touched", priority=1)
    queue.add("left")
    shared_server.clock.pass_time(DAY_MS)
    if touch == "claim":
        assert queue.claim()["id"] == "touched"
    elif touch == "stage":
        queue.patch("touched", stage="one")
    else:
        queue.patch("touched", status="retrying")

    assert queue.clean_up() == {"removedCount": 1, "ids": ["left"]}
    assert queue.ids() == ["touched"]


def test_operations_that_ended_a_day_ago_are_removed_but_not_counted(
    queue: Queue, shared_server: RunningServer
) -> None:
    for status in ENDED:
        queue.add(status, status)
    shared_server.clock.pass_time(DAY_MS)
    queue.add("new", "completed")

    assert queue.clean_up() == {"removedCount": 0, "ids": []}
    assert queue.ids() == ["new"]


def test_an_open_cleans_up(queue: Queue, shared_server: RunningServer) -> None:
    queue.add("old")
    shared_server.clock.pass_time(DAY_MS)
    queue.add("new", "retrying")

    found = queue.chat.open()

    assert found["operations"] == {**NO_OPERATIONS, "retrying": 1}
    assert queue.ids() == ["new"]


@pytest.mark.one_engine
@pytest.mark.parametrize("age", [-1, 1.5, "1", True])
def test_a_malformed_age_removes_nothing(queue: Queue, age: Any) -> None:
    queue.add("a")

    answer = queue.chat.send("POST", "/operations/cleanup", {"maxAgeMs": age})

    assert refused(answer)[0] == 400
    assert queue.ids() == ["a"]
