"""Large values that change a little: the log leaves them out, and the past reads as ever."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.integrity.recount import recount
from tests.support.answers import (
    JSON_PATCH,
    MERGE_PATCH,
    REPRESENTATION,
    done,
    make_instance,
    outcome,
    refused,
    set_value,
    values_of,
)
from tests.support.databases import log_of
from valuetracker.large_json import PIECE_BYTES
from valuetracker.store.rows.entries import LARGEST_SHOWN
from valuetracker.store.tx.leaving_out import LARGE_CHARACTERS, LONGEST_WITHOUT_WHOLE

VALUES = "/instances/sword/data"
HISTORY = "/instances/sword/history"
MEBIBYTE = 1024 * 1024
# One value of 227 KB, and changes of 230 bytes each.
LINES = 1_000
LINE = "x" * 222
TEXT = "y" * 200


def by_json_patch(client: httpx.Client, number: int, **headers: str) -> httpx.Response:
    patch = [{"op": "replace", "path": f"/lines/{number}", "value": f"{number} {TEXT}"}]
    return client.patch(VALUES, json=patch, headers={"content-type": JSON_PATCH, **headers})


def by_merge_patch(client: httpx.Client, number: int, **headers: str) -> httpx.Response:
    patch = {"fields": {f"field {number}": f"{number} {TEXT}"}}
    return client.patch(VALUES, json=patch, headers={"content-type": MERGE_PATCH, **headers})


def by_batch(op: str, key: str) -> Callable[..., httpx.Response]:
    def change(client: httpx.Client, number: int, **headers: str) -> httpx.Response:
        value: Any = f"{number} {TEXT}"
        if op == "patch":
            value = [{"op": "add", "path": "/0", "value": value}]
        operation = {"op": op, "instanceId": "sword", "key": key, "value": value}
        return client.post("/batch", json={"operations": [operation]}, headers=headers)

    return change


def size_of(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "change",
    [
        by_json_patch,
        by_merge_patch,
        by_batch("append", "lines"),
        by_batch("addToSet", "lines"),
        by_batch("patch", "lines"),
    ],
    ids=["json patch", "merge patch", "append", "addToSet", "batch patch"],
)
def test_a_hundred_small_changes_of_a_large_value_take_little_room(
    tmp_path: Path, change: Callable[..., httpx.Response]
) -> None:
    value: dict[str, Any] = {
        "lines": [LINE] * LINES,
        "fields": {f"field {number}": LINE for number in range(LINES)},
    }
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client, value)
    before = size_of(tmp_path)

    with running_server(tmp_path) as server, server.client("demo") as client:
        revisions = [
            done(change(client, number, **{"idempotency-key": f"key-{number}"}))
            for number in range(100)
        ]
        present = values_of(client)
        past = [values_of(client, at=revisions[count - 1]) for count in (50, 100)]

    assert size_of(tmp_path) - before <= 2 * MEBIBYTE
    recount(tmp_path / "demo.db")
    # The value is held again in time, so that reading the past stays cheap.
    held = [logged.after is not None for logged in log_of(tmp_path / "demo.db")][-100:]
    runs = [len(list(run)) for whole, run in itertools.groupby(held) if not whole]
    assert (max(runs), sum(held)) == (LONGEST_WITHOUT_WHOLE, 100 // (LONGEST_WITHOUT_WHOLE + 1))
    assert past[1] == present
    assert [past[0].count(TEXT), past[1].count(TEXT)] == [50, 100]


def long_list(length: int) -> list[str]:
    return [f"{number} {'z' * 90}" for number in range(length // 100)]


# Changes of a large list or of a large object, and what they make of it.
STEPS: list[tuple[str, str, Any, Callable[[Any], Any]]] = [
    ("append", "list", "rope", lambda value: [*value, "rope"]),
    ("addToSet", "list", "lamp", lambda value: value if "lamp" in value else [*value, "lamp"]),
    ("addToSet", "list", "lamp", lambda value: value),
    ("pull", "list", "rope", lambda value: [each for each in value if each != "rope"]),
    ("merge", "map", {"hp": {"now": 1}}, lambda value: {**value, "hp": {"now": 1}}),
    ("merge", "map", {"hp": None}, lambda value: {k: v for k, v in value.items() if k != "hp"}),
    (
        "patch",
        "list",
        [{"op": "replace", "path": "/0", "value": "é"}, {"op": "remove", "path": "/1"}],
        lambda value: ["é", *value[2:]],
    ),
    (
        "patch",
        "map",
        [
            {"op": "add", "path": "/new~1", "value": [1]},
            {"op": "add", "path": "/new~1/-", "value": 2},
        ],
        lambda value: {**value, "new/": [1, 2]},
    ),
    ("set", "map", {"short": True}, lambda value: {"short": True}),
    ("increment", "number", 2, lambda value: (value or 0) + 2),
    ("set", "map", {"long": long_list(6_000)}, lambda value: {"long": long_list(6_000)}),
]


def operation(op: str, key: str, operand: Any) -> dict[str, Any]:
    field = "by" if op == "increment" else "value"
    return {"op": op, "instanceId": "sword", "key": key, field: operand}


def change_often(client: httpx.Client, length: int, rounds: int) -> list[dict[str, Any]]:
    """Change large values many times; return the values at every revision."""
    now: dict[str, Any] = {"list": long_list(length), "map": {"long": long_list(length)}}
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"}))
    revision = done(client.put(f"{VALUES}/override", json=now))
    # The first revisions were without any value.
    states: list[dict[str, Any]] = [{}] * revision + [now]
    for number, (op, key, operand, make) in zip(
        range(rounds), itertools.cycle(STEPS), strict=False
    ):
        operations = [operation(op, key, operand)]
        now = {**now, key: make(now.get(key))}
        if number % 5 == 0:
            # Twice in one revision.
            operations.append(operation("append", "list", number))
            now = {**now, "list": [*now["list"], number]}
        assert done(client.post("/batch", json={"operations": operations})) == len(states)
        states.append(now)
    return states


@pytest.mark.parametrize("length", [4 * LARGE_CHARACTERS, 2 * LARGEST_SHOWN])
def test_the_past_of_a_large_value_reads_as_it_was(client: httpx.Client, length: int) -> None:
    states = change_often(client, length, 3 * LONGEST_WITHOUT_WHOLE)
    last = len(states) - 1

    for revision in range(0, last + 1, 3):
        assert json.loads(values_of(client, at=revision)) == states[revision]
    for start, end in ((3, last), (last // 2, last // 2 + 1)):
        found = client.get("/instances/sword/diff", params={"from": start, "to": end}).json()
        for each in found:
            assert each.get("before") == states[start].get(each["key"])
            assert each.get("after") == states[end].get(each["key"])
        assert {each["key"] for each in found} == {
            key for key in states[end] if states[start].get(key) != states[end][key]
        }


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("key", [None, "list"])
def test_the_history_of_a_large_value_has_all_its_values(
    client: httpx.Client, order: str, key: str | None
) -> None:
    states = change_often(client, 4 * LARGE_CHARACTERS, 2 * LONGEST_WITHOUT_WHOLE)
    params: dict[str, Any] = {"order": order, "limit": 1000, **({"key": key} if key else {})}

    items = client.get(HISTORY, params=params).json()["items"]

    if order == "desc":
        items.reverse()
    values: dict[str, Any] = {}
    for item in items:
        if item["key"] is None:
            continue
        assert item.get("before") == values.get(item["key"])
        values[item["key"]] = item["after"]
        after = states[item["revision"]][item["key"]]
        # The list is changed twice by some revisions.
        assert item["after"] == after or [*item["after"], after[-1]] == after
    assert values == {each: states[-1][each] for each in values}
    assert values.keys() == ({key} if key else states[-1].keys())


@pytest.mark.parametrize("length", [4 * LARGE_CHARACTERS, 2 * LARGEST_SHOWN])
@pytest.mark.parametrize("follows", [True, False], ids=["from memory", "from the log"])
def test_the_feed_shows_large_values_as_far_as_it_shows_any(
    client: httpx.Client, length: int, follows: bool
) -> None:
    states = change_often(client, length, 12)
    last = len(states) - 1
    append = operation("append", "list", "the last")
    if follows:
        url = f"/events?since={last}&extensionId={client.headers['x-extension-id']}"
        with client.stream("GET", url) as stream:
            lines = stream.iter_lines()
            next(lines)
            done(client.post("/batch", json={"operations": [append]}))
            data = next(line for line in lines if line.startswith("data: "))
        events = [json.loads(data.removeprefix("data: "))]
    else:
        done(client.post("/batch", json={"operations": [append]}))
        events = client.get(f"/changes?since={last}").json()["items"]

    [change] = events[0]["changes"]

    expected = [*states[-1]["list"], "the last"]
    shown = len(json.dumps(expected, ensure_ascii=False)) <= LARGEST_SHOWN
    assert (change["op"], change.get("after")) == ("append", expected if shown else None)


def test_a_large_value_can_be_restored_branched_and_folded(client: httpx.Client) -> None:
    states = change_often(client, 4 * LARGE_CHARACTERS, LONGEST_WITHOUT_WHOLE)
    last = len(states) - 1
    middle = last // 2

    done(client.post("/instances/sword/restore", json={"revision": middle}))
    assert json.loads(values_of(client)) == states[middle]
    start = {"revision": last - 1}
    branch = client.post("/chats/tale/branches", json={"chatId": "other", "from": start})
    copy = branch.json()["instances"]["sword"]
    assert client.get(f"/instances/{copy}/data").json() == states[last - 1]
    done(client.post("/batch", json={"operations": [operation("append", "list", "after")]}))
    done(client.post("/compact", json={"keep": {"revisions": last - middle}}))

    oldest = refused(client.get(f"{VALUES}?at=1"))[2]["oldest"]
    for revision in range(oldest, last + 1):
        assert json.loads(values_of(client, at=revision)) == states[revision]
    assert json.loads(values_of(client))["list"] == [*states[middle]["list"], "after"]
    items = client.get(HISTORY, params={"order": "asc", "key": "list"}).json()["items"]
    assert items[-1]["before"] == states[middle]["list"]


def test_a_large_value_follows_the_story(client: httpx.Client) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"}))
    begun = long_list(4 * LARGE_CHARACTERS)
    set_value(client, "list", begun)
    at: dict[str, int] = {}
    for message in ("m1", "m2", "m3"):
        body = {"operations": [operation("append", "list", message)]}
        at[message] = done(client.post("/batch", json=body, headers={"x-message-id": message}))

    def show(*messages: str) -> None:
        anchors = [{"messageId": message} for message in messages]
        done(client.post("/chats/tale/reconcile", json={"anchors": anchors}))

    show("m1", "m3")
    assert json.loads(values_of(client)) == {"list": [*begun, "m1", "m3"]}
    body = {"operations": [operation("append", "list", "hidden")]}
    done(client.post("/batch", json=body, headers={"x-message-id": "m2"}))
    done(client.post("/batch", json={"operations": [operation("append", "list", "now")]}))
    assert json.loads(values_of(client)) == {"list": [*begun, "m1", "m3", "now"]}
    show("m1", "m2", "m3")
    assert json.loads(values_of(client, at=at["m2"])) == {"list": [*begun, "m1", "m2"]}
    found = json.loads(values_of(client))["list"]
    assert (found[: len(begun)], sorted(found[len(begun) :])) == (
        begun,
        ["hidden", "m1", "m2", "m3", "now"],
    )


def test_a_value_that_is_parsed_in_pieces_is_changed_exactly(client: httpx.Client) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"}))
    rows: list[dict[str, Any]] = [
        {"n": number, "deep": [[number], {}], 'é"]': "x,{" * 5} for number in range(8_000)
    ]
    value: dict[str, Any] = {"rows": rows, "": -(2**63), "last": 2**64 - 1}
    assert len(json.dumps(value)) > PIECE_BYTES
    revision = set_value(client, "large", value)
    patch = [{"op": "add", "path": "/rows/7999/deep/-", "value": "here"}]
    operations = [operation("merge", "large", {"last": None}), operation("patch", "large", patch)]
    done(client.post("/batch", json={"operations": operations}, headers={"x-message-id": "m1"}))
    done(client.patch(VALUES, json={"large": {"": 1}}))

    def changed(**fields: Any) -> dict[str, Any]:
        left = {name: each for name, each in value.items() if name != "last"}
        row = rows[-1] | {"deep": [*rows[-1]["deep"], "here"]}
        return {**left, "rows": [*rows[:-1], row], **fields}

    assert json.loads(values_of(client)) == {"large": changed(**{"": 1})}
    assert json.loads(values_of(client, at=revision + 1)) == {"large": changed()}
    # It is made again of its changes.
    done(client.post("/chats/tale/reconcile", json={"anchors": []}))
    assert json.loads(values_of(client)) == {"large": value | {"": 1}}


# Remembered answers


def twice(client: httpx.Client, method: str, path: str, between: int = 1, **given: Any) -> Any:
    """Send a request again after others; return both answers, which must be from one write."""
    headers = {"idempotency-key": "key", **given.pop("headers", {})}
    first = client.request(method, path, headers=headers, **given)
    done(first)
    for number in range(between):
        set_value(client, "k", f"since {number}")
    again = client.request(method, path, headers=headers, **given)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.headers["x-revision"] == first.headers["x-revision"]
    return first, again


def test_a_remembered_answer_has_the_values_of_its_revision(client: httpx.Client) -> None:
    make_instance(client, {"k": long_list(3_000), "other": 1})
    operations = [
        operation("append", "k", 1),
        operation("increment", "n", 1),
        operation("increment", "n", 1),
        operation("append", "k", 2),
        {"op": "remove", "instanceId": "sword", "key": "n"},
        operation("set", "n", "again"),
    ]

    first, again = twice(
        client, "POST", "/batch", json={"operations": operations}, headers=REPRESENTATION
    )

    assert again.content == first.content
    results = first.json()["results"]
    assert [len(results[index]["value"]) for index in (0, 3)] == [31, 32]
    assert [results[index]["value"] for index in (1, 2, 5)] == [1, 2, "again"]


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("POST", VALUES, {"json": {"key": "k", "value": "then"}}),
        ("PATCH", VALUES, {"json": {"k": "then"}, "headers": REPRESENTATION}),
        ("POST", "/chats/tale/open", {"json": {"client": "tab"}}),
        ("POST", "/chats/tale/reconcile", {"json": {"anchors": []}}),
    ],
    ids=["set", "patch", "open", "reconcile"],
)
def test_a_value_that_has_been_folded_is_left_out_of_a_remembered_answer(
    client: httpx.Client, method: str, path: str, given: dict[str, Any]
) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"}))
    set_value(client, "k", "at first")
    set_value(client, "k", "shown", **{"x-message-id": "m1"})

    first, again = twice(client, method, path, **given)

    assert again.content == first.content
    done(client.post("/compact", json={"keep": {"revisions": 0}}))
    headers = {"idempotency-key": "key", **given.get("headers", {})}
    folded = client.request(method, path, **{**given, "headers": headers})
    assert folded.headers["idempotency-replayed"] == "true"
    assert outcome(folded) == (200, without_values(first.json()))


def without_values(answer: Any) -> Any:
    """Return an answer without the values of the key `k`, and without those shown beside it."""
    if isinstance(answer, list):
        return [without_values(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    gone = {"k", "before", "after"} | ({"value"} if "key" in answer else set())
    return {name: without_values(each) for name, each in answer.items() if name not in gone}


def test_a_remembered_answer_of_a_purged_chat_has_no_values(client: httpx.Client) -> None:
    def write() -> httpx.Response:
        body, headers = {"key": "k", "value": "then"}, {"idempotency-key": "key"}
        return client.post("/chats/tale/data", json=body, headers=headers)

    done(write())
    done(client.delete("/chats/tale?purge=true"))

    again = write()

    assert outcome(again) == (200, {"success": True, "key": "k"})
