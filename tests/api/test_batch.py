"""Batches: many operations, any instances, one revision, all or nothing."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.answers import (
    REPRESENTATION,
    done,
    head,
    make_instance,
    outcome,
    refused,
    set_value,
    values_of,
)


def op(name: str, key: str | None = "k", instance_id: str = "sword", **more: Any) -> dict[str, Any]:
    named = {} if key is None else {"key": key}
    return {"op": name, "instanceId": instance_id, **named, **more}


def batch(client: httpx.Client, *operations: Any) -> httpx.Response:
    """Run a batch, and ask for the values."""
    return client.post("/batch", json={"operations": list(operations)}, headers=REPRESENTATION)


def test_each_operation_answers_in_its_own_shape_and_order(client: httpx.Client) -> None:
    make_instance(client)

    answer = batch(
        client,
        op("set", "s", value={"b": 1, "a": None}),
        op("increment", "n", by=-2.5),
        op("append", "l", value=[1]),
        op("addToSet", "u", value="x"),
        op("addToSet", "u", value="x"),
        op("pull", "l", value=[1]),
        op("merge", "s", value={"a": {"x": 1, "y": None}, "b": None}),
        op("remove", "u"),
        op("remove", "u"),
        op("clear", None),
        op("clear", None),
    )

    assert outcome(answer) == (
        200,
        {
            "revision": 2,
            "results": [
                {"value": {"b": 1, "a": None}},
                {"value": -2.5},
                {"value": [[1]]},
                {"added": True},
                {"added": False},
                {"value": []},
                {"value": {"a": {"x": 1}}},
                {"removed": True},
                {"removed": False},
                {"removedCount": 3},
                {"removedCount": 0},
            ],
        },
    )
    assert answer.headers["x-revision"] == "2"
    assert values_of(client) == "{}"


def test_values_that_the_caller_knows_are_answered_only_if_it_prefers_that(
    client: httpx.Client,
) -> None:
    make_instance(client)
    operations = [
        op("set", "s", value={"a": 1}),
        op("increment", "n", by=2),
        op("append", "l", value=1),
        op("addToSet", "l", value=1),
        op("pull", "l", value=1),
        op("merge", "s", value={"b": 2}),
        op("patch", "s", value=[{"op": "remove", "path": "/a"}]),
        op("remove", "l"),
        op("clear", None),
    ]

    answer = client.post("/batch", json={"operations": operations})

    assert outcome(answer)[1]["results"] == [
        {},
        {"value": 2},
        {},
        {"added": False},
        {},
        {},
        {},
        {"removed": True},
        {"removedCount": 2},
    ]


def test_operations_on_one_key_see_each_other(client: httpx.Client) -> None:
    make_instance(client, {"k": 1, "other": 0})

    answer = batch(
        client,
        op("increment", by=1),
        op("remove"),
        op("increment", by=5),
        op("set", value=[]),
        op("append", value=1),
        op("append", value=2),
    )

    values = [{"value": 2}, {"removed": True}, {"value": 5}]
    values += [{"value": []}, {"value": [1]}, {"value": [1, 2]}]
    assert outcome(answer) == (200, {"revision": 4, "results": values})
    # It was removed and set again, so it is last.
    assert values_of(client) == '{"other":0,"k":[1,2]}'
    history = client.get("/instances/sword/history?key=k&after=3&order=asc").json()["items"]
    steps = [(item["op"], item.get("before"), item.get("after")) for item in history]
    assert steps == [
        ("increment", 1, 2),
        ("remove", 2, None),
        ("increment", None, 5),
        ("set", 5, []),
        ("append", [], [1]),
        ("append", [1], [1, 2]),
    ]


def test_a_clear_removes_keys_that_the_batch_itself_has_set(client: httpx.Client) -> None:
    make_instance(client, {"old": 1, "removed": 1})

    answer = batch(
        client,
        op("set", "new", value=1),
        op("remove", "removed"),
        op("clear", None),
        op("set", "last", value=1),
    )

    assert outcome(answer)[1]["results"][2] == {"removedCount": 2}
    assert values_of(client) == '{"last":1}'


def test_a_batch_across_instances_is_one_revision(client: httpx.Client) -> None:
    make_instance(client, {"gold": 10})
    make_instance(client, {"gold": 0}, id="shield")

    answer = batch(client, op("increment", "gold", by=-3), op("increment", "gold", "shield", by=3))

    results = [{"value": 7}, {"value": 3}]
    assert outcome(answer) == (200, {"revision": 5, "results": results})
    event = client.get("/changes?since=4").json()["items"]
    assert [[change["instanceId"] for change in each["changes"]] for each in event] == [
        ["sword", "shield"]
    ]
    assert (values_of(client, at=4), values_of(client, at=5)) == ('{"gold":10}', '{"gold":7}')


LAST_FAILS: list[tuple[dict[str, Any], int, str]] = [
    (op("increment", "text", by=1), 409, "type_conflict"),
    (op("increment", "flag", by=1), 409, "type_conflict"),
    (op("increment", "nothing", by=1), 409, "type_conflict"),
    (op("increment", "list", by=1), 409, "type_conflict"),
    (op("append", "text", value=1), 409, "type_conflict"),
    (op("append", "object", value=1), 409, "type_conflict"),
    (op("addToSet", "number", value=1), 409, "type_conflict"),
    (op("pull", "object", value=1), 409, "type_conflict"),
    (op("merge", "list", value={}), 409, "type_conflict"),
    (op("merge", "nothing", value={}), 409, "type_conflict"),
    (op("increment", "largest", by=1), 409, "number_out_of_range"),
    (op("increment", "smallest", by=-1), 409, "number_out_of_range"),
    (op("increment", "huge", by=1.7e308), 409, "number_out_of_range"),
    (op("set", "k", "none", value=1), 404, "instance_not_found"),
    (op("remove", "k", "none"), 404, "instance_not_found"),
    (op("clear", None, "none"), 404, "instance_not_found"),
]


@pytest.mark.parametrize(("last", "status", "code"), LAST_FAILS)
def test_if_one_operation_fails_nothing_changes_and_the_error_names_it(
    client: httpx.Client, last: dict[str, Any], status: int, code: str
) -> None:
    make_instance(client, id="shield")
    make_instance(client)
    values = {
        "text": "1",
        "flag": True,
        "nothing": None,
        "list": [1],
        "object": {},
        "number": 1,
        "largest": 2**64 - 1,
        "smallest": -(2**63),
        "huge": 1.7e308,
    }
    done(client.put("/instances/sword/data/override", json=values))
    before = values_of(client)

    answer = batch(client, op("set", value=1), op("set", "k", "shield", value=1), last)

    assert refused(answer) == (status, code, {"index": 2})
    assert (values_of(client), values_of(client, "shield"), head(client)) == (before, "{}", 3)


NUMBERS: list[tuple[Any, Any, str]] = [
    (1, 2, "3"),
    (1, 0.5, "1.5"),
    (0.5, 0.5, "1.0"),
    (1.0, 1, "2.0"),
    (0.1, 0.2, "0.30000000000000004"),
    (2**64 - 2, 1, "18446744073709551615"),
    (-(2**63) + 1, -1, "-9223372036854775808"),
    (2**53, 1, "9007199254740993"),
    (5, -5, "0"),
    (1, 0, "1"),
]


@pytest.mark.parametrize(("start", "by", "text"), NUMBERS)
def test_numbers_are_added_exactly_where_they_can_be(
    client: httpx.Client, start: Any, by: Any, text: str
) -> None:
    make_instance(client, {"k": start})

    answer = batch(client, op("increment", by=by))

    assert answer.text == f'{{"revision":3,"results":[{{"value":{text}}}]}}'
    assert values_of(client) == f'{{"k":{text}}}'


# Two members, and if they are equal: numbers by value, `true` is no number.
MEMBERS: list[tuple[Any, Any, bool]] = [
    (1, 1.0, True),
    (1, True, False),
    (0, False, False),
    (True, True, True),
    (None, False, False),
    (None, None, True),
    ("1", 1, False),
    ({"a": 1, "b": [1]}, {"b": [1.0], "a": 1}, True),
    ({"a": 1}, {"a": True}, False),
    ({"a": 1}, {"a": 1, "b": None}, False),
    ([1, 2], [2, 1], False),
    ([], {}, False),
    (2**53 + 1, float(2**53), False),
]


@pytest.mark.parametrize(("member", "other", "same"), MEMBERS)
def test_members_are_compared_as_json(
    client: httpx.Client, member: Any, other: Any, same: bool
) -> None:
    make_instance(client, {"set": [member], "list": [other, member, "end"]})

    answer = batch(client, op("addToSet", "set", value=other), op("pull", "list", value=member))

    rest = ["end"] if same else [other, "end"]
    results = [{"added": not same}, {"value": rest}]
    assert outcome(answer) == (200, {"revision": 4, "results": results})
    expected = {"set": [member] if same else [member, other], "list": rest}
    assert values_of(client) == json.dumps(expected, separators=(",", ":"))


def test_absent_keys_count_as_zero_or_empty(client: httpx.Client) -> None:
    make_instance(client)

    answer = batch(
        client,
        op("increment", "a", by=2),
        op("append", "b", value=None),
        op("addToSet", "c", value=None),
        op("pull", "d", value=None),
        op("merge", "e", value={"x": None, "y": 1}),
    )

    assert answer.status_code == 200
    assert values_of(client) == '{"a":2,"b":[null],"c":[null],"d":[],"e":{"y":1}}'


def test_an_operation_can_have_an_anchor_of_its_own(client: httpx.Client) -> None:
    make_instance(client)
    body = {
        "operations": [
            op("set", "a", value=1),
            op("set", "b", value=1, anchor={"messageId": "m 2", "swipe": "x"}),
            op("set", "c", value=1, anchor={"messageId": "m3", "swipe": 4}),
            op("set", "d", value=1, anchor={"messageId": "m4"}),
            op("set", "e", value=1, anchor=None),
        ]
    }

    done(client.post("/batch", json=body, headers={"x-message-id": "m1"}))

    items = client.get("/instances/sword/history?after=1&order=asc").json()["items"]
    anchors = [tuple(item["anchor"].values()) for item in items]
    assert anchors == [("m1", "0"), ("m 2", "x"), ("m3", "4"), ("m4", "0"), ("m1", "0")]


MALFORMED: list[tuple[Any, str]] = [
    (5, "invalid_operation"),
    (None, "invalid_operation"),
    ([], "invalid_operation"),
    ({}, "invalid_operation"),
    ({"instanceId": "sword", "key": "k"}, "invalid_operation"),
    (op("spam"), "invalid_operation"),
    (op("SET", value=1), "invalid_operation"),
    ({**op("set", value=1), "op": ["set"]}, "invalid_operation"),
    ({**op("set", value=1), "op": None}, "invalid_operation"),
    (op("set"), "invalid_operation"),
    (op("increment"), "invalid_operation"),
    (op("increment", value=1), "invalid_operation"),
    (op("increment", by="1"), "invalid_operation"),
    (op("increment", by=True), "invalid_operation"),
    (op("increment", by=None), "invalid_operation"),
    (op("merge", value=[1]), "invalid_operation"),
    (op("merge", value=None), "invalid_operation"),
    (op("append"), "invalid_operation"),
    (op("set", None, value=1), "invalid_operation"),
    ({"op": "set", "key": "k", "value": 1}, "invalid_operation"),
    (op("set", "", value=1), "invalid_key"),
    (op("set", "\u0000", value=1), "invalid_key"),
    ({**op("set", value=1), "key": 5}, "invalid_key"),
    (op("set", "k", "", value=1), "invalid_id"),
    (op("set", "k", " x", value=1), "invalid_id"),
    ({**op("set", value=1), "instanceId": 5}, "invalid_id"),
    (op("set", value=1, anchor="m1"), "invalid_operation"),
    (op("set", value=1, anchor={}), "invalid_operation"),
    (op("set", value=1, anchor={"messageId": 5}), "invalid_operation"),
    (op("set", value=1, anchor={"messageId": ""}), "invalid_id"),
    (op("set", value=1, anchor={"messageId": "m", "swipe": True}), "invalid_operation"),
    (op("set", value=1, anchor={"messageId": "m", "swipe": 1.5}), "invalid_operation"),
]


@pytest.mark.one_engine
@pytest.mark.parametrize(("malformed", "code"), MALFORMED)
def test_a_malformed_operation_is_refused_and_named(
    client: httpx.Client, malformed: Any, code: str
) -> None:
    make_instance(client)

    answer = batch(client, op("set", value=1), malformed)

    assert refused(answer) == (400, code, {"index": 1})
    assert head(client) == 1


@pytest.mark.parametrize(
    "body", [{}, {"operations": {}}, {"operations": None}, {"operations": []}, [], None]
)
def test_a_malformed_batch_is_refused(client: httpx.Client, body: Any) -> None:
    make_instance(client)

    assert refused(client.post("/batch", json=body)) == (400, "invalid_body", {})


def test_a_batch_has_a_thousand_operations_at_the_most(client: httpx.Client) -> None:
    make_instance(client)

    assert refused(batch(client, *[op("increment", by=1)] * 1001)) == (400, "invalid_body", {})
    answer = batch(client, *[op("increment", by=1)] * 1000)

    assert answer.json()["results"][-1] == {"value": 1000}
    assert (done(answer), values_of(client)) == (2, '{"k":1000}')


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_a_result_that_is_too_deep_is_refused(client: httpx.Client) -> None:
    make_instance(client, {"list": [], "object": {}})

    for bad in (
        op("set", value=nested(129)),
        op("append", "list", value=nested(128)),
        op("addToSet", "list", value=nested(128)),
        op("merge", "object", value={"x": nested(128)}),
    ):
        assert refused(batch(client, op("clear", None), bad)) == (400, "too_deep", {"index": 1})
    assert done(batch(client, op("append", "list", value=nested(127)))) == 4


def test_a_result_that_is_too_large_is_refused(client: httpx.Client) -> None:
    half = "x" * (5 * 1024 * 1024)
    make_instance(client)
    set_value(client, "list", [half])
    set_value(client, "object", {"a": half})

    for bad in (op("append", "list", value=half), op("merge", "object", value={"b": half})):
        answer = batch(client, op("set", value=1), bad)
        assert refused(answer) == (413, "value_too_large", {"index": 1})
    assert head(client) == 3


def patch_of(*operations: dict[str, Any]) -> dict[str, Any]:
    return op("patch", value=list(operations))


def test_a_patch_changes_parts_of_one_value(client: httpx.Client) -> None:
    make_instance(client)

    answer = batch(
        client,
        op("set", value={"list": [1, 2], "a": 1}),
        patch_of(
            {"op": "test", "path": "/a", "value": 1},
            {"op": "remove", "path": "/list/0"},
            {"op": "move", "from": "/a", "path": "/b"},
        ),
        patch_of({"op": "test", "path": "/b", "value": 1}),
    )

    after = {"list": [2], "b": 1}
    assert outcome(answer)[1]["results"][1:] == [{"value": after}] * 2
    items = client.get("/instances/sword/history?key=k").json()["items"]
    # A patch that only tests changes nothing.
    assert [item["op"] for item in items] == ["patch", "set"]


@pytest.mark.parametrize(
    ("operation", "refusal"),
    [
        (patch_of({"op": "remove", "path": "/none"}), (409, "patch_failed")),
        (patch_of({"op": "test", "path": "", "value": []}), (409, "test_failed")),
        (
            op("patch", "none", value=[{"op": "add", "path": "/a", "value": 1}]),
            (409, "type_conflict"),
        ),
        (patch_of({"op": "spam", "path": "/a"}), (400, "invalid_patch")),
        (patch_of({"op": "add", "path": "a", "value": 1}), (400, "invalid_patch")),
        (patch_of(*[{"op": "add", "path": "/a", "value": 1}] * 1001), (400, "invalid_patch")),
        (op("patch", value={"op": "remove", "path": "/a"}), (400, "invalid_operation")),
        (op("patch"), (400, "invalid_operation")),
    ],
)
def test_a_patch_that_does_not_fit_is_refused(
    client: httpx.Client, operation: dict[str, Any], refusal: tuple[int, str]
) -> None:
    make_instance(client)
    set_value(client, "k", {"a": 1})

    answer = batch(client, op("set", "other", value=1), operation)

    assert refused(answer) == (*refusal, {"index": 1})
    assert values_of(client) == '{"k":{"a":1}}'


def test_patches_that_copy_much_are_refused(client: httpx.Client) -> None:
    make_instance(client)
    set_value(client, "k", {"a": "x" * 900_000})
    copies = [patch_of({"op": "copy", "from": "/a", "path": f"/{number}"}) for number in range(100)]

    assert refused(batch(client, *copies))[:2] == (413, "value_too_large")
    assert head(client) == 2


def test_a_batch_goes_through_large_values_a_few_times_only(client: httpx.Client) -> None:
    make_instance(client)
    set_value(client, "many", [0] * 1_000_000)
    add = op("addToSet", "many", value=0)

    # Each goes through two million bytes, and all of them may go through sixteen.
    assert refused(batch(client, *[add] * 1_000)) == (413, "value_too_large", {"index": 8})
    assert head(client) == 2
    assert batch(client, add, add).json()["results"] == [{"added": False}] * 2
    # A value that the batch itself has replaced counts with its new size.
    results = batch(client, op("set", "many", value=[]), *[add] * 999).json()["results"]
    assert results[1:] == [{"added": True}, *[{"added": False}] * 998]
    assert values_of(client) == '{"many":[0]}'
