"""Operations: work that waits, is being done, or has ended; it is never in the log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.chats.queue import ACTIVE, ENDED, ENDS, Queue, added, operation
from tests.conftest import running_server
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import NO_OPERATIONS, Chat, furnish


def test_an_operation_is_created_and_read(queue: Queue) -> None:
    body = {"id": "a", "type": "merge", "data": {"b": None, "a": [1]}, "priority": 7}

    answer = queue.post(body)

    record = operation("a", type="merge", data={"b": None, "a": [1]}, priority=7)
    assert outcome(answer) == (200, {**record, "created": True})
    assert answer.headers["x-revision"] == "1"
    assert outcome(queue.send("GET", "a")) == (200, record)
    assert queue.listed() == [record]


def test_an_operation_without_an_id_gets_one(queue: Queue) -> None:
    first, second = queue.post({"type": "recap"}).json(), queue.post({"type": "recap"}).json()

    assert first == added(first["id"])
    assert first["id"].startswith("op-")
    assert first["id"] != second["id"]
    assert queue.listed() == [operation(first["id"]), operation(second["id"])]


@pytest.mark.parametrize("status", ACTIVE)
def test_the_id_of_an_active_operation_is_refused(queue: Queue, status: str) -> None:
    queue.add("a", status)

    assert refused(queue.post({"id": "a", "type": "other"}))[:2] == (409, "operation_exists")
    assert queue.listed() == [operation("a", status)]


@pytest.mark.parametrize("status", ENDED)
def test_the_id_of_an_ended_operation_can_be_used_again(queue: Queue, status: str) -> None:
    queue.add("a", status, data={"old": 1}, priority=3)
    queue.add("b")

    answer = queue.post({"id": "a", "type": "other"})

    assert outcome(answer) == (200, added("a", type="other"))
    assert queue.listed() == [operation("b"), operation("a", type="other")]


def test_if_absent_answers_the_active_operation(queue: Queue) -> None:
    body = {"id": "a", "type": "other", "ifAbsent": True, "data": {"x": 1}}
    first = queue.post(body)
    again = queue.post({**body, "type": "recap", "data": {"x": 2}, "priority": 5})
    queue.end("a")
    anew = queue.post(body)

    record = operation("a", type="other", data={"x": 1})
    for answer, created in [(first, True), (again, False), (anew, True)]:
        assert outcome(answer) == (200, {**record, "created": created})
    assert queue.listed() == [record]


def test_a_first_operation_creates_the_chat(chat: Chat) -> None:
    answer = Queue(chat).post({"id": "a", "type": "recap"})

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, added("a")), "1")
    assert [each["chatId"] for each in chat.client.get("/chats").json()] == ["chat"]
    assert Queue(chat).counts() == {**NO_OPERATIONS, "pending": 1}


def test_reads_create_no_chat(chat: Chat) -> None:
    queue = Queue(chat)

    assert (queue.listed(), queue.claim()) == ([], None)
    assert queue.clean_up() == {"removedCount": 0, "ids": []}
    unknown = [queue.send("GET", "a"), queue.patch("a", status="retrying"), queue.end("a")]
    assert [refused(each) for each in unknown] == [(404, "operation_not_found", {})] * 3
    assert (outcome(chat.client.get("/chats")), head(chat.client)) == ((200, []), 0)


def test_an_unknown_operation_is_not_found(queue: Queue) -> None:
    queue.add("a")

    answers = [queue.send("GET", "b"), queue.patch("b", stage="one")]
    answers += [queue.end("b", verb) for verb in ENDS]

    assert [refused(each) for each in answers] == [(404, "operation_not_found", {})] * 5


def test_operations_are_listed_in_the_order_of_their_creation(queue: Queue) -> None:
    for id, status in [("c", "retrying"), ("a", "completed"), ("b", "pending"), ("d", "retrying")]:
        queue.add(id, status)

    assert queue.ids() == ["c", "a", "b", "d"]
    found = {status: queue.ids(status) for status in [*ACTIVE, *ENDED]}
    assert found == {
        "pending": ["b"],
        "in_progress": [],
        "retrying": ["c", "d"],
        "completed": ["a"],
        "failed": [],
        "cancelled": [],
    }


@pytest.mark.parametrize("status", ["active", "", "PENDING", "inProgress"])
def test_an_unknown_status_cannot_be_listed(queue: Queue, status: str) -> None:
    answer = queue.chat.client.get("/chats/chat/operations", params={"status": status})

    assert refused(answer) == (400, "invalid_query", {})


def test_active_operations_are_counted(queue: Queue) -> None:
    assert queue.counts() == NO_OPERATIONS
    for number, status in enumerate(["retrying", "pending", "in_progress", *ACTIVE, *ENDED]):
        queue.add(str(number), status)
    queue.add("one more", "retrying")

    assert queue.counts() == {**NO_OPERATIONS, "pending": 2, "inProgress": 2, "retrying": 3}


# Moves.


@pytest.mark.parametrize("after", [*ACTIVE, *ENDED])
@pytest.mark.parametrize("before", ACTIVE)
def test_any_move_from_an_active_status_is_legal(queue: Queue, before: str, after: str) -> None:
    queue.add("a", before)

    answer = queue.patch("a", status=after)

    record = operation("a", after, attempts=int(after == "failed"))
    assert (outcome(answer), answer.headers["x-revision"]) == ((200, record), "1")
    assert queue.get("a") == record


@pytest.mark.parametrize("after", [*ACTIVE, *ENDED])
@pytest.mark.parametrize("before", ENDED)
def test_an_ended_operation_cannot_be_moved(queue: Queue, before: str, after: str) -> None:
    queue.add("a", before)

    assert refused(queue.patch("a", status=after))[:2] == (409, "illegal_move")
    assert queue.get("a") == operation("a", before, attempts=int(before == "failed"))


@pytest.mark.parametrize("before", ENDED)
def test_an_ended_operation_cannot_be_changed(queue: Queue, before: str) -> None:
    queue.add("a", before)

    answers = [queue.patch("a", data={"late": 1}), queue.patch("a", stage="late")]
    answers += [queue.end("a", verb) for verb in ENDS]

    assert [refused(each)[:2] for each in answers] == [(409, "illegal_move")] * 5
    assert queue.get("a") == operation("a", before, attempts=int(before == "failed"))


@pytest.mark.parametrize(("verb", "status"), ENDS.items())
@pytest.mark.parametrize("before", ACTIVE)
def test_an_active_operation_is_ended(queue: Queue, before: str, verb: str, status: str) -> None:
    queue.add("a", before, data={"kept": 1, "old": [1]})

    answer = queue.end("a", verb, data={"old": 2, "new": 3})

    data = {"kept": 1, "old": 2, "new": 3}
    record = operation("a", status, data=data, attempts=int(status == "failed"))
    assert (outcome(answer), answer.headers["x-revision"]) == ((200, record), "1")
    assert queue.get("a") == record


@pytest.mark.parametrize("verb", ENDS)
def test_an_end_needs_no_body(queue: Queue, verb: str) -> None:
    queue.add("a")
    queue.add("b")

    without, empty = queue.send("POST", "a", f"/{verb}"), queue.end("b", verb)

    attempts = int(verb == "fail")
    assert outcome(without) == (200, operation("a", ENDS[verb], attempts=attempts))
    assert outcome(empty) == (200, operation("b", ENDS[verb], attempts=attempts))


# Data and stages.


def test_data_is_merged_one_level_deep(queue: Queue) -> None:
    queue.add("a", data={"entry": {"name": "Ann", "keys": [1]}, "kept": 1})

    answer = queue.patch("a", data={"entry": {"name": "Bob"}, "none": None})

    merged = {"entry": {"name": "Bob"}, "kept": 1, "none": None}
    assert outcome(answer) == (200, operation("a", data=merged))
    assert list(queue.get("a")["data"]) == ["entry", "kept", "none"]


def test_a_stage_is_set_and_removed(queue: Queue) -> None:
    queue.add("a")

    def stage(**body: Any) -> Any:
        found = queue.patch("a", **body).json()
        assert queue.get("a") == found
        return found["status"], found["stage"]

    assert stage(stage="looking up") == ("pending", "looking up")
    assert stage(status="in_progress") == ("in_progress", "looking up")
    assert stage(status="retrying", stage="merging") == ("retrying", "merging")
    assert stage(data={"x": 1}) == ("retrying", "merging")
    assert stage(stage=None) == ("retrying", None)


# Not in the log.


def test_operations_make_no_revision_and_are_not_in_the_log(client: httpx.Client) -> None:
    chat = furnish(client)
    queue, history = Queue(chat), chat.history()
    etag = chat.etag()

    queue.add("a", data={"x": 1})
    queue.add("b", "retrying")
    claimed = queue.claim()
    queue.patch("a", stage="one", claim=claimed["claim"])
    queue.end("a", claim=claimed["claim"])
    queue.clean_up(maxAgeMs=0)

    assert (head(client), chat.history(), chat.etag()) == (5, history, etag)
    assert outcome(client.get("/changes?since=5")) == (200, {"items": [], "next": 5})
    assert chat.data() == {"hp": 50}


def test_a_restore_and_a_reconcile_leave_operations_alone(queue: Queue) -> None:
    chat = queue.chat
    queue.add("a", "completed")
    chat.set("hp", 45, "m1")
    queue.add("b", "failed")

    chat.reconcile()
    assert chat.restore(1)[0] == 200

    assert queue.ids() == ["a", "b"]


def test_an_operation_registers_no_message(queue: Queue) -> None:
    queue.post({"id": "a", "type": "recap"}, message="m1")

    seen = queue.chat.client.get("/chats/chat/state", params={"at": "message:m1"})

    assert refused(seen) == (404, "message_not_found", {})
    assert head(queue.chat.client) == 1


def test_each_chat_has_its_own_operations(client: httpx.Client) -> None:
    one, two = Queue(Chat(client, "one")), Queue(Chat(client, "two"))
    one.add("a", data={"of": "one"})
    two.add("a", data={"of": "two"})
    two.add("b")

    one.end("a")

    assert (one.ids(), two.ids()) == (["a"], ["a", "b"])
    assert two.get("a") == operation("a", data={"of": "two"})
    assert one.claim() is None


def test_operations_follow_a_rename_and_a_purge_deletes_them(queue: Queue) -> None:
    queue.add("a")
    renamed = queue.chat.rename("renamed")
    assert Queue(renamed).listed() == queue.listed() == [operation("a")]

    renamed.purge()

    assert Queue(renamed).listed() == []
    assert renamed.open()["operations"] == NO_OPERATIONS


def test_operations_are_kept_across_a_restart(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            Queue(Chat(client, "chat")).add("a", "retrying", data={"x": 1}, priority=3)
            Queue(Chat(client, "other")).add("b")
            claimed = Queue(Chat(client, "other")).claim()

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        found = Queue(Chat(client, "chat")).listed()
        assert found == [operation("a", "retrying", data={"x": 1}, priority=3)]
        other = Queue(Chat(client, "other"))
        # On SQLite the whole lease begins again.
        assert other.get("b") == {**claimed, "leaseUntil": MOMENT}
        assert other.get("b")["leaseUntil"] >= claimed["leaseUntil"]
        assert outcome(other.end("b", claim=claimed["claim"]))[0] == 200


# Checks of every write.

WRITES: list[tuple[str, str, Any]] = [
    ("POST", "", {"id": "b", "type": "recap"}),
    ("PATCH", "/a", {"stage": "one"}),
    ("POST", "/claim", {"leaseMs": 1000}),
    ("POST", "/a/complete", {}),
    ("POST", "/a/fail", {}),
    ("POST", "/a/cancel", {}),
    ("POST", "/cleanup", {"maxAgeMs": 0}),
    ("POST", "/pause", {}),
    ("POST", "/resume", {}),
    ("DELETE", "/a", None),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_every_write_checks_session_and_chat(
    queue: Queue, method: str, path: str, body: Any
) -> None:
    chat = queue.chat
    queue.add("a")
    stale = chat.session("tab")
    foreign = Chat(chat.client, "other").session("tab")

    def ask(**headers: str) -> Any:
        return refused(chat.send(method, f"/operations{path}", body, **headers))[:2]

    assert ask(x_session=stale) == (409, "stale_session")
    assert ask(x_session=foreign) == (409, "chat_mismatch")
    assert ask(x_chat_id="other") == (409, "chat_mismatch")
    assert ask(if_match='"1"') == (400, "invalid_header")
    chat.archive()
    assert ask() == (409, "chat_archived")
    assert queue.listed() == [operation("a")]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_every_repeated_write_is_done_once(queue: Queue, method: str, path: str, body: Any) -> None:
    queue.add("a")

    def send() -> httpx.Response:
        return queue.chat.send(method, f"/operations{path}", body, idempotency_key="k")

    first, again = send(), send()

    assert (done(again), again.content) == (1, first.content)
    assert again.headers["idempotency-replayed"] == "true"
