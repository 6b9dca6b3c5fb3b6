"""PATCH: merge patches (RFC 7396) and JSON patches (RFC 6902), done whole or not at all."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.support.answers import (
    JSON_PATCH,
    MERGE_PATCH,
    REPRESENTATION,
    done,
    head,
    make_instance,
    outcome,
    refused,
    values_of,
)

VALUES = "/instances/sword/data"
DEEP = 128


@pytest.fixture
def sword(client: httpx.Client) -> httpx.Client:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur"}))
    return client


def fill(client: httpx.Client, values: dict[str, Any]) -> None:
    done(client.put(f"{VALUES}/override", json=values))


def patch(client: httpx.Client, document: Any, media_type: str = JSON_PATCH) -> httpx.Response:
    content = document if isinstance(document, bytes) else json.dumps(document).encode()
    headers = {"content-type": media_type, **REPRESENTATION}
    return client.patch(VALUES, content=content, headers=headers)


# RFC 7396, appendix A: the original, the patch, the result.
MERGES: list[tuple[Any, Any, Any]] = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    (["a", "b"], ["c", "d"], ["c", "d"]),
    ({"a": "b"}, ["c"], ["c"]),
    ({"a": "foo"}, "bar", "bar"),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
]


@pytest.mark.one_engine
@pytest.mark.parametrize("media_type", [MERGE_PATCH, "application/json"])
@pytest.mark.parametrize(("original", "given", "expected"), MERGES)
def test_the_cases_of_rfc_7396_hold_under_a_key(
    sword: httpx.Client, media_type: str, original: Any, given: Any, expected: Any
) -> None:
    fill(sword, {"before": 1, "key": original, "after": 2})

    answer = patch(sword, {"key": given}, media_type)

    assert outcome(answer) == (200, {"before": 1, "key": expected, "after": 2})
    assert answer.text == values_of(sword)
    assert answer.headers["x-revision"] == "3"


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("original", "given", "expected"), [case for case in MERGES if isinstance(case[1], dict)]
)
def test_the_cases_of_rfc_7396_hold_for_the_values_as_a_whole(
    sword: httpx.Client, original: Any, given: Any, expected: Any
) -> None:
    if isinstance(original, dict):
        fill(sword, original)

    assert outcome(patch(sword, given, MERGE_PATCH)) == (200, expected)


def test_a_null_removes_a_key_and_is_ignored_for_an_absent_key(sword: httpx.Client) -> None:
    fill(sword, {"edge": 1, "hilt": None})

    answer = patch(sword, {"edge": None, "none": None}, MERGE_PATCH)

    assert outcome(answer) == (200, {"hilt": None})


@pytest.mark.parametrize("document", [[], [1], "x", 1, None, True])
def test_a_merge_patch_that_is_no_object_is_refused(sword: httpx.Client, document: Any) -> None:
    fill(sword, {"edge": 1})

    assert refused(patch(sword, document, MERGE_PATCH)) == (400, "invalid_body", {})
    assert values_of(sword) == '{"edge":1}'


# RFC 6902, appendix A: a name, a document, a patch, and the result.
CASES = """
A.1 adding a member
  {"foo":"bar"}
  [{"op":"add","path":"/baz","value":"qux"}]
  {"foo":"bar","baz":"qux"}
A.2 adding an element
  {"foo":["bar","baz"]}
  [{"op":"add","path":"/foo/1","value":"qux"}]
  {"foo":["bar","qux","baz"]}
A.3 removing a member
  {"baz":"qux","foo":"bar"}
  [{"op":"remove","path":"/baz"}]
  {"foo":"bar"}
A.4 removing an element
  {"foo":["bar","qux","baz"]}
  [{"op":"remove","path":"/foo/1"}]
  {"foo":["bar","baz"]}
A.5 replacing a value
  {"baz":"qux","foo":"bar"}
  [{"op":"replace","path":"/baz","value":"boo"}]
  {"baz":"boo","foo":"bar"}
A.6 moving a value
  {"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}
  [{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]
  {"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}
A.7 moving an element
  {"foo":["all","grass","cows","eat"]}
  [{"op":"move","from":"/foo/1","path":"/foo/3"}]
  {"foo":["all","cows","eat","grass"]}
A.8 testing with success
  {"baz":"qux","foo":["a",2,"c"]}
  [{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]
  {"baz":"qux","foo":["a",2,"c"]}
A.9 testing with error
  {"baz":"qux"}
  [{"op":"test","path":"/baz","value":"bar"}]
  fails
A.10 adding a nested member
  {"foo":"bar"}
  [{"op":"add","path":"/child","value":{"grandchild":{}}}]
  {"foo":"bar","child":{"grandchild":{}}}
A.11 ignoring what is not known
  {"foo":"bar"}
  [{"op":"add","path":"/baz","value":"qux","xyz":123}]
  {"foo":"bar","baz":"qux"}
A.12 adding to what is not there
  {"foo":"bar"}
  [{"op":"add","path":"/baz/bat","value":"qux"}]
  fails
A.14 escapes in their order
  {"/":9,"~1":10}
  [{"op":"test","path":"/~01","value":10}]
  {"/":9,"~1":10}
A.15 a string is no number
  {"/":9,"~1":10}
  [{"op":"test","path":"/~01","value":"10"}]
  fails
A.16 adding an array
  {"foo":["bar"]}
  [{"op":"add","path":"/foo/-","value":["abc","def"]}]
  {"foo":["bar",["abc","def"]]}
"""
LINES = CASES.strip().splitlines()
ROWS = list(zip(*[iter(LINES)] * 4, strict=True))


@pytest.mark.one_engine
@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("under", ["", "/key"])
def test_the_cases_of_rfc_6902_hold(
    sword: httpx.Client, row: tuple[str, str, str, str], under: str
) -> None:
    document, operations = json.loads(row[1]), json.loads(row[2])
    fill(sword, {"key": document} if under else document)
    for each in operations:
        each.update({name: under + each[name] for name in ("path", "from") if name in each})

    answer = patch(sword, operations)

    if row[3].strip() == "fails":
        assert answer.status_code == 409
        assert head(sword) == 2
    else:
        expected = json.loads(row[3])
        assert outcome(answer) == (200, {"key": expected} if under else expected)


# The value of `edge`, a path, a value to test it with, and if they are equal.
TESTS: list[tuple[Any, Any, bool]] = [
    (1, 1.0, True),
    (1, True, False),
    (0, False, False),
    (None, False, False),
    ("1", 1, False),
    ([1, [2]], [1, [2.0]], True),
    ([1], [True], False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ({"a": {"b": 0}}, {"a": {"b": False}}, False),
    ([], {}, False),
]


@pytest.mark.parametrize(("value", "tested", "equal"), TESTS)
def test_a_test_compares_as_json_does(
    sword: httpx.Client, value: Any, tested: Any, equal: bool
) -> None:
    fill(sword, {"edge": value})

    answer = patch(
        sword,
        [
            {"op": "add", "path": "/new", "value": 1},
            {"op": "test", "path": "/edge", "value": tested},
        ],
    )

    if equal:
        assert outcome(answer) == (200, {"edge": value, "new": 1})
    else:
        assert refused(answer) == (409, "test_failed", {"index": 1})
        assert outcome(sword.get(VALUES)) == (200, {"edge": value})


def test_a_patch_of_tests_alone_changes_nothing(sword: httpx.Client) -> None:
    fill(sword, {"edge": 1})

    answer = patch(sword, [{"op": "test", "path": "/edge", "value": 1}])

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, {"edge": 1}), "2")


def test_a_pointer_can_name_any_key(sword: httpx.Client) -> None:
    fill(sword, {"a/b": 1, "m~n": 2, "é": 3})

    answer = patch(
        sword,
        [
            {"op": "replace", "path": "/a~1b", "value": 10},
            {"op": "replace", "path": "/m~0n", "value": 20},
            {"op": "move", "from": "/é", "path": "/__proto__"},
            {"op": "add", "path": "/ ", "value": 4},
        ],
    )

    assert outcome(answer) == (200, {"a/b": 10, "m~n": 20, "__proto__": 3, " ": 4})


def test_the_values_as_a_whole_can_be_replaced_copied_and_tested(sword: httpx.Client) -> None:
    fill(sword, {"a": 1, "b": 2})

    assert patch(sword, [{"op": "test", "path": "", "value": {"b": 2, "a": 1}}]).status_code == 200
    copied = patch(sword, [{"op": "copy", "from": "", "path": "/c"}])
    assert outcome(copied) == (200, {"a": 1, "b": 2, "c": {"a": 1, "b": 2}})
    moved = patch(sword, [{"op": "move", "from": "/c", "path": ""}])
    assert outcome(moved) == (200, {"a": 1, "b": 2})
    replaced = patch(sword, [{"op": "replace", "path": "", "value": {"b": 3, "z": 4}}])
    assert outcome(replaced) == (200, {"b": 3, "z": 4})
    items = sword.get("/instances/sword/history?limit=3").json()["items"]
    logged = {(item["revision"], item["key"], item["op"]) for item in items}
    assert logged == {(5, "a", "remove"), (5, "b", "set"), (5, "z", "set")}


REFUSED: list[tuple[Any, int]] = [
    ({"op": "add", "path": "", "value": 1}, 400),
    ({"op": "replace", "path": "", "value": []}, 400),
    ({"op": "remove", "path": ""}, 409),
    ({"op": "move", "from": "", "path": "/x"}, 409),
    ({"op": "move", "from": "/list", "path": "/list/0"}, 409),
    ({"op": "add", "path": "/list/4", "value": 1}, 409),
    ({"op": "add", "path": "/list/-1", "value": 1}, 409),
    ({"op": "add", "path": "/list/01", "value": 1}, 409),
    ({"op": "add", "path": "/list/1e0", "value": 1}, 409),
    ({"op": "add", "path": "/list/x", "value": 1}, 409),
    ({"op": "remove", "path": "/list/3"}, 409),
    ({"op": "remove", "path": "/list/-"}, 409),
    ({"op": "test", "path": "/list/-", "value": 1}, 409),
    ({"op": "copy", "from": "/none", "path": "/x"}, 409),
    ({"op": "move", "from": "/none", "path": "/x"}, 409),
    ({"op": "remove", "path": "/none"}, 409),
    ({"op": "replace", "path": "/none", "value": 1}, 409),
    ({"op": "test", "path": "/none", "value": None}, 409),
    ({"op": "test", "path": "/text/0", "value": "a"}, 409),
    ({"op": "copy", "from": "/text/0", "path": "/x"}, 409),
    ({"op": "add", "path": "/text/0", "value": 1}, 409),
    ({"op": "add", "path": "/number/x", "value": 1}, 409),
    ({"op": "move", "path": "/x"}, 400),
    ({"op": "copy", "path": "/x"}, 400),
    ({"op": "move", "from": 5, "path": "/x"}, 400),
    ({"op": "copy", "from": None, "path": "/x"}, 400),
    ({"op": "add", "path": "/x"}, 400),
    ({"op": "test", "path": "/list"}, 400),
    ({"op": "add", "value": 1}, 400),
    ({"op": "add", "path": 5, "value": 1}, 400),
    ({"op": "add", "path": None, "value": 1}, 400),
    ({"op": "add", "path": "/", "value": 1}, 400),
    ({"op": "add", "path": "/\n", "value": 1}, 400),
    ({"op": "add", "path": "/" + "x" * 1025, "value": 1}, 400),
    ({"op": "spam", "path": "/x"}, 400),
    ({"op": ["add"], "path": "/x", "value": 1}, 400),
    ({"path": "/x", "value": 1}, 400),
    ({}, 400),
    (5, 400),
    (None, 400),
    ("add", 400),
    (["op"], 400),
]


@pytest.mark.parametrize(("operation", "status"), REFUSED)
def test_a_patch_that_fails_changes_nothing(
    sword: httpx.Client, operation: Any, status: int
) -> None:
    fill(sword, {"list": [1, 2, 3], "text": "abc", "number": 5})
    before = values_of(sword)

    answer = patch(sword, [{"op": "add", "path": "/first", "value": 1}, operation])

    assert refused(answer)[0] == status
    assert (values_of(sword), head(sword)) == (before, 2)


@pytest.mark.one_engine
@pytest.mark.parametrize("path", ["list", "x/y", "/a~", "/a~2b", "/list/-/x"])
@pytest.mark.parametrize("op", ["add", "test", "copy", "move"])
def test_a_path_that_is_no_json_pointer_is_refused(sword: httpx.Client, op: str, path: str) -> None:
    fill(sword, {"list": [1]})

    answer = patch(sword, [{"op": op, "path": path, "from": path, "value": 1}])

    assert answer.status_code in (400, 409)
    assert head(sword) == 2


def test_a_json_patch_must_be_an_array(sword: httpx.Client) -> None:
    documents: list[Any] = [{}, "x", 1, None]
    for document in documents:
        assert refused(patch(sword, document)) == (400, "invalid_patch", {})


def test_a_patch_has_a_thousand_operations_at_the_most(sword: httpx.Client) -> None:
    operation = {"op": "add", "path": "/edge", "value": 1}

    assert outcome(patch(sword, [operation] * 1000)) == (200, {"edge": 1})
    assert refused(patch(sword, [operation] * 1001)) == (400, "invalid_patch", {})


def test_an_empty_patch_changes_nothing(sword: httpx.Client) -> None:
    answer = patch(sword, [])

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, {}), "1")


@pytest.mark.parametrize("seed", [[0], ["x" * 10], {"a": 1}, "x" * 100])
def test_a_value_copied_into_itself_forty_times_is_refused(sword: httpx.Client, seed: Any) -> None:
    doubling = {"op": "copy", "from": "/bomb", "path": "/bomb/-"}

    answer = patch(sword, [{"op": "add", "path": "/bomb", "value": [seed]}, *[doubling] * 40])

    assert answer.status_code in (400, 409, 413), answer.text[:200]
    assert (values_of(sword), head(sword)) == ("{}", 1)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = [value]
    return value


def test_a_patch_cannot_nest_deeper_than_a_value_may_be(sword: httpx.Client) -> None:
    fill(sword, {"deep": nested(DEEP), "half": nested(DEEP // 2)})

    add = patch(sword, [{"op": "add", "path": "/new", "value": nested(DEEP + 1)}])
    into = patch(sword, [{"op": "add", "path": "/half" + "/0" * 63, "value": nested(DEEP)}])
    copy = patch(sword, [{"op": "copy", "from": "/deep", "path": "/half/-"}])
    merge = patch(sword, {"half": {"a": nested(DEEP)}}, MERGE_PATCH)
    fits = patch(sword, [{"op": "add", "path": "/half/-", "value": nested(DEEP - 1)}])

    assert [refused(each)[:2] for each in (add, into, copy, merge)] == [(400, "too_deep")] * 4
    assert done(fits) == 3


def test_a_patch_cannot_make_a_value_too_large(sword: httpx.Client) -> None:
    half = "x" * (5 * 1024 * 1024)
    fill(sword, {"big": {"a": half}})

    copied = patch(sword, [{"op": "copy", "from": "/big/a", "path": "/big/b"}])
    merged = patch(sword, {"big": {"b": half}}, MERGE_PATCH)

    assert [refused(each)[:2] for each in (copied, merged)] == [(413, "value_too_large")] * 2
    assert head(sword) == 2


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/vnd.api+json", "text/json"],
)
def test_another_media_type_is_refused(sword: httpx.Client, media_type: str) -> None:
    answer = patch(sword, {"edge": 1}, media_type)

    assert refused(answer) == (415, "unsupported_media_type", {})
    assert head(sword) == 1


@pytest.mark.parametrize("media_type", [MERGE_PATCH, JSON_PATCH])
def test_a_body_that_is_no_json_is_refused(sword: httpx.Client, media_type: str) -> None:
    for content in (b"", b"{", b"[1,]", b'{"a":1e400}', b'{"a":99999999999999999999999}'):
        assert refused(patch(sword, content, media_type))[0] == 400
    assert head(sword) == 1


def test_an_unknown_instance_is_not_found(client: httpx.Client) -> None:
    for document, media_type in (({}, MERGE_PATCH), ([], JSON_PATCH)):
        assert refused(patch(client, document, media_type)) == (404, "instance_not_found", {})


def test_a_merge_patch_may_be_sent_as_json_that_proxies_leave_alone(sword: httpx.Client) -> None:
    done(sword.put(f"{VALUES}/override", json={"edge": "keen", "worn": True}))

    answer = sword.patch(
        VALUES,
        content='{"edge":{"left":9007199254740993},"worn":null}',
        headers={"content-type": "application/vnd.valuetracker+json", **REPRESENTATION},
    )

    assert outcome(answer) == (200, {"edge": {"left": 9007199254740993}})


@pytest.mark.one_engine
@pytest.mark.parametrize("key", ["", "a\nb", "a\0b", "\x85", "k" * 1025])
@pytest.mark.parametrize(
    "operations",
    [
        [{"op": "replace", "path": "", "value": "$"}],
        [{"op": "add", "path": "", "value": "$"}],
        [{"op": "add", "path": "/a", "value": "$"}, {"op": "copy", "from": "/a", "path": ""}],
        [{"op": "add", "path": "/a", "value": "$"}, {"op": "move", "from": "/a", "path": ""}],
    ],
    ids=["replace", "add", "copy", "move"],
)
def test_a_patch_cannot_make_a_key_that_no_route_can_read(
    sword: httpx.Client, operations: list[dict[str, Any]], key: str
) -> None:
    fill(sword, {"edge": "keen"})
    filled = [
        {**each, "value": {"edge": 1, key: 2}} if "value" in each else each for each in operations
    ]

    answer = patch(sword, filled)

    details = {"index": len(operations) - 1}
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_key")
    assert answer.json()["details"] == details
    assert values_of(sword) == '{"edge":"keen"}'
    assert head(sword) == 2


def test_all_values_can_be_replaced_at_once(sword: httpx.Client) -> None:
    fill(sword, {"edge": "keen", "hilt": "gold"})

    answer = patch(sword, [{"op": "replace", "path": "", "value": {"hilt": "iron", "new": 1}}])

    assert outcome(answer) == (200, {"hilt": "iron", "new": 1})


@pytest.mark.parametrize("path", ["edge", "/edge~2", "/edge~"])
def test_an_invalid_pointer_is_refused(sword: httpx.Client, path: str) -> None:
    fill(sword, {"edge": "keen"})

    for operation in (
        {"op": "remove", "path": path},
        {"op": "test", "path": path, "value": 1},
        {"op": "copy", "from": path, "path": "/new"},
        {"op": "move", "from": "/edge", "path": path},
    ):
        assert refused(patch(sword, [operation])) == (400, "invalid_patch", {"index": 0})


def test_a_patch_that_fails_does_not_quote_values(sword: httpx.Client) -> None:
    fill(sword, {"secret": {"of": "the sword"}})

    for operation in (
        {"op": "remove", "path": "/secret/nothing"},
        {"op": "copy", "from": "/nothing/at/all", "path": "/new"},
        {"op": "add", "path": "/secret/of/it", "value": 1},
    ):
        answer = patch(sword, [operation])
        assert (answer.status_code, answer.json()["code"]) == (409, "patch_failed")
        assert "the sword" not in answer.text


def test_a_large_value_may_be_moved_many_times(sword: httpx.Client) -> None:
    numbers = list(range(100_000))
    fill(sword, {"a": numbers})
    there_and_back = [
        {"op": "move", "from": "/a", "path": "/b"},
        {"op": "move", "from": "/b", "path": "/a"},
    ]

    assert outcome(patch(sword, there_and_back * 500)) == (200, {"a": numbers})


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/0", "value": 1},
        {"op": "remove", "path": "/a/0"},
        {"op": "move", "from": "/a/0", "path": "/a/1"},
    ],
    ids=lambda operation: operation["op"],
)
def test_a_patch_that_shifts_a_large_array_too_often_is_refused(
    sword: httpx.Client, operation: dict[str, Any]
) -> None:
    numbers = [0] * 200_000
    fill(sword, {"a": numbers})

    answer = patch(sword, [operation] * 1_000)

    assert (answer.status_code, answer.json()["code"]) == (413, "value_too_large")
    assert json.loads(values_of(sword)) == {"a": numbers}
    # An item added at the end shifts no other.
    appended = patch(sword, [{"op": "add", "path": "/a/-", "value": 1}] * 1_000)
    assert appended.status_code == 200


def test_a_json_patch_is_logged_as_what_it_does_to_each_value(sword: httpx.Client) -> None:
    fill(sword, {"edge": {"left": [1], "right": 2}, "rust": True, "hilt": "gold"})

    done(
        patch(
            sword,
            [
                {"op": "test", "path": "/hilt", "value": "gold"},
                {"op": "add", "path": "/edge/left/-", "value": 9},
                {"op": "remove", "path": "/rust"},
                {"op": "add", "path": "/new", "value": 1},
            ],
        )
    )

    items = sword.get("/instances/sword/history?after=2&order=asc").json()["items"]
    assert [(item["op"], item["key"], item.get("after")) for item in items] == [
        ("patch", "edge", {"left": [1, 9], "right": 2}),
        ("remove", "rust", None),
        ("set", "new", 1),
    ]


@pytest.mark.parametrize(
    ("media_type", "document", "after"),
    [
        (MERGE_PATCH, {"edge": {"left": 2}}, {"edge": {"left": 2}}),
        (MERGE_PATCH, {"none": None}, {"edge": {"left": 1}}),
        (JSON_PATCH, [{"op": "add", "path": "/edge/left", "value": 2}], {"edge": {"left": 2}}),
        (JSON_PATCH, [{"op": "test", "path": "/edge/left", "value": 1}], {"edge": {"left": 1}}),
    ],
)
@pytest.mark.parametrize("anchor", [{}, {"x-message-id": "m1", "x-chat-id": "tale"}])
def test_a_patch_answers_the_values_only_if_the_caller_prefers_that(
    client: httpx.Client, media_type: str, document: Any, after: Any, anchor: dict[str, str]
) -> None:
    for id, preference, expected in (
        ("one", None, {"success": True}),
        ("two", "return=minimal", {"success": True}),
        ("three", 'respond-async, Return = "representation"; x=1', after),
    ):
        make_instance(client, {"edge": {"left": 1}}, id)
        headers = {"content-type": media_type, **anchor}
        if preference is not None:
            headers["prefer"] = preference

        answer = client.patch(f"/instances/{id}/data", json=document, headers=headers)

        assert outcome(answer) == (200, expected)
        assert client.get(f"/instances/{id}/data").json() == after
