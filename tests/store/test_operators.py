"""Operators applied to values, without a database."""

from __future__ import annotations

import contextlib
import copy
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.values_model import merged
from tests.support.answers import same
from valuetracker.errors import NumberLeftRange, PatchFailed, TypeConflict, ValueTrackerError
from valuetracker.store.log.json_patch import patch_value, patch_values
from valuetracker.store.log.operators import (
    ABSENT,
    OPERATORS,
    apply_operator,
    contains,
    equal,
    name_of,
)

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.0, 1.0, 0.5])
    | st.text("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.text("ab"), JSON, max_size=3)
OPERANDS = {
    "merge": OBJECTS,
    "increment": st.integers(-3, 3) | st.sampled_from([0.5]),
    "append": JSON,
    "addToSet": JSON,
    "pull": JSON,
    "patch": st.lists(
        st.fixed_dictionaries(
            {"op": st.just("add"), "path": st.sampled_from(["/a", "/-", "/a/b"]), "value": JSON}
        ),
        max_size=3,
    ),
}


def test_these_are_all_the_operators() -> None:
    assert set(OPERATORS) == set(OPERANDS)


@pytest.mark.parametrize(
    ("op", "operand", "expected"),
    [
        ("merge", {"a": 1, "b": None}, {"a": 1}),
        ("increment", 3, 3),
        ("increment", -0.5, -0.5),
        ("append", None, [None]),
        ("addToSet", [], [[]]),
        ("pull", 1, []),
    ],
)
def test_an_absent_value_counts_as_empty(op: str, operand: Any, expected: Any) -> None:
    assert same(apply_operator(op, ABSENT, operand), expected)


WRONG: dict[str, list[Any]] = {
    "merge": [None, True, 0, 1.5, "", []],
    "increment": [None, True, False, "1", [], {}],
    "append": [None, True, 0, 1.5, "", {}],
    "addToSet": [None, True, 0, 1.5, "", {}],
    "pull": [None, True, 0, 1.5, "", {}],
}


@pytest.mark.parametrize(
    ("op", "current"), [(op, value) for op, values in WRONG.items() for value in values]
)
def test_a_value_of_the_wrong_type_is_refused_and_its_type_named(op: str, current: Any) -> None:
    operand = {"merge": {}, "increment": 1}.get(op, 1)

    with pytest.raises(TypeConflict, match=name_of(current)):
        apply_operator(op, current, operand)


@pytest.mark.parametrize(
    ("current", "by"),
    [
        (2**64 - 1, 1),
        (-(2**63), -1),
        (2**64 - 1, 2**64 - 1),
        (1.7e308, 1.7e308),
        (-1.7e308, -1.7e308),
    ],
)
def test_a_number_that_leaves_the_range_is_refused(current: Any, by: Any) -> None:
    with pytest.raises(NumberLeftRange):
        apply_operator("increment", current, by)


@given(st.data())
def test_the_current_value_and_the_operand_are_not_changed(data: st.DataObject) -> None:
    op = data.draw(st.sampled_from(sorted(OPERATORS)))
    current, operand = data.draw(JSON), data.draw(OPERANDS[op])
    kept = copy.deepcopy((current, operand))

    with contextlib.suppress(TypeConflict, PatchFailed):
        apply_operator(op, current, operand)

    # A patch works on the value it is given, which its callers have parsed for it.
    assert same(operand, kept[1])
    assert op == "patch" or same(current, kept[0])


@given(OBJECTS, OBJECTS)
def test_a_merge_follows_rfc_7396(current: Any, patch: Any) -> None:
    assert same(apply_operator("merge", current, patch), merged(current, patch))


@given(OBJECTS, OBJECTS)
def test_merging_twice_gives_the_result_of_merging_once(current: Any, patch: Any) -> None:
    once = apply_operator("merge", current, patch)

    assert same(apply_operator("merge", once, patch), once)


@given(st.lists(JSON, max_size=4), JSON)
def test_a_set_has_a_member_once_and_a_pull_removes_it(members: list[Any], value: Any) -> None:
    added = apply_operator("addToSet", members, value)
    pulled = apply_operator("pull", added, value)

    assert contains(added, value)
    assert len(added) == len(members) + (not contains(members, value))
    assert same(apply_operator("addToSet", added, value), added)
    assert not contains(pulled, value)
    assert [each for each in members if not equal(each, value)] == pulled


@given(JSON, JSON)
def test_equality_is_symmetric_and_keeps_booleans_apart(one: Any, other: Any) -> None:
    assert equal(one, one)
    assert equal(one, other) == equal(other, one)
    assert equal([one], [other]) == equal(one, other)
    assert equal({"k": one}, {"k": other}) == equal(one, other)
    if isinstance(one, bool) != isinstance(other, bool):
        assert not equal(one, other)


def test_the_memory_of_a_refused_patch_is_bounded() -> None:
    doubling = {"op": "copy", "from": "/bomb", "path": "/bomb/-"}
    operations = [{"op": "add", "path": "/bomb", "value": [0]}, *[doubling] * 40]
    tracemalloc.start()

    with pytest.raises(ValueTrackerError):
        patch_values({}, operations)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 256 * 1024 * 1024


def test_a_patch_can_be_applied_again() -> None:
    # A group that failed runs each of its verbs once more, with the same arguments.
    operations = [
        {"op": "add", "path": "/list", "value": []},
        {"op": "add", "path": "/list/-", "value": {"a": 1}},
        {"op": "remove", "path": "/list/0/a"},
    ]

    once = patch_values({}, operations)
    twice = patch_values({}, operations)

    assert once == twice == ({"list": [{}]}, {"list": None})


def test_a_value_that_is_absent_cannot_be_patched() -> None:
    with pytest.raises(TypeConflict):
        apply_operator("patch", ABSENT, [{"op": "add", "path": "/a", "value": 1}])


MEMBERS = st.sampled_from(["a", "b", "0", "1", "-", "~0", "~1"])
PATHS = st.lists(MEMBERS, min_size=1, max_size=3).map(lambda parts: "".join(f"/{p}" for p in parts))
PATCHES = st.lists(
    st.fixed_dictionaries({"op": st.sampled_from(["add", "replace"]), "path": PATHS, "value": JSON})
    | st.fixed_dictionaries({"op": st.just("remove"), "path": PATHS})
    | st.fixed_dictionaries(
        {"op": st.sampled_from(["move", "copy"]), "from": PATHS, "path": PATHS}
    ),
    max_size=5,
)
DOCUMENTS = st.dictionaries(
    st.sampled_from(["a", "b", "0", "~", "/"]),
    st.lists(JSON, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), JSON, max_size=2),
    max_size=4,
)


@given(DOCUMENTS, PATCHES)
def test_the_operations_of_each_key_make_the_patched_value(
    document: dict[str, Any], patch: list[Any]
) -> None:
    # Operations that do not fit are left out, so that long patches are tried, too.
    fitting: list[Any] = []
    for operation in patch:
        with contextlib.suppress(ValueTrackerError):
            patch_values(copy.deepcopy(document), [*fitting, operation])
            fitting.append(operation)

    result, named = patch_values(copy.deepcopy(document), fitting)

    for key in {*document, *result} - named.keys():
        assert same(document[key], result[key])
    for key, operations in named.items():
        if operations is not None:
            logged = orjson.loads(orjson.dumps(operations))
            assert same(patch_value(copy.deepcopy(document[key]), logged), result[key])


# A patch of {"a": {"x": [1]}, "b": {}}, and what it does to each key.
TAKEN_APART: list[tuple[list[Any], dict[str, Any]]] = [
    ([{"op": "test", "path": "/a/x", "value": [1]}], {}),
    (
        [
            {"op": "add", "path": "/a/x/-", "value": 2},
            {"op": "test", "path": "/a/x/1", "value": 2},
            {"op": "remove", "path": "/a/x/0"},
        ],
        {"a": [{"op": "add", "path": "/x/-", "value": 2}, {"op": "remove", "path": "/x/0"}]},
    ),
    ([{"op": "replace", "path": "/a", "value": 1}], {"a": None}),
    ([{"op": "add", "path": "/a/y", "value": 1}, {"op": "remove", "path": "/a"}], {"a": None}),
    (
        [{"op": "move", "from": "/a/x", "path": "/a/y"}],
        {"a": [{"op": "move", "from": "/x", "path": "/y"}]},
    ),
    (
        [{"op": "copy", "from": "/a", "path": "/a/y"}],
        {"a": [{"op": "copy", "from": "", "path": "/y"}]},
    ),
    (
        [
            {"op": "move", "from": "/a/x", "path": "/b/y"},
            {"op": "add", "path": "/b/y/-", "value": 2},
        ],
        {
            "a": [{"op": "remove", "path": "/x"}],
            "b": [
                {"op": "add", "path": "/y", "value": [1]},
                {"op": "add", "path": "/y/-", "value": 2},
            ],
        },
    ),
    (
        [{"op": "move", "from": "/a", "path": "/b/y"}],
        {
            "a": None,
            "b": [{"op": "add", "path": "/y", "value": {"x": [1]}}],
        },
    ),
    (
        [{"op": "copy", "from": "", "path": "/b/y"}],
        {"b": [{"op": "add", "path": "/y", "value": {"a": {"x": [1]}, "b": {}}}]},
    ),
    ([{"op": "replace", "path": "", "value": {"c": 1, "b": 2}}], {"a": None, "b": None, "c": None}),
]


@pytest.mark.parametrize(("patch", "expected"), TAKEN_APART)
def test_a_patch_of_all_values_is_taken_apart_by_key(
    patch: list[Any], expected: dict[str, Any]
) -> None:
    _, named = patch_values({"a": {"x": [1]}, "b": {}}, patch)

    assert orjson.loads(orjson.dumps(named)) == expected
    assert list(named) == list(expected)


def test_a_patch_that_carries_much_from_key_to_key_sets_the_key() -> None:
    there_and_back = [
        {"op": "move", "from": "/a/x", "path": "/b/x"},
        {"op": "move", "from": "/b/x", "path": "/a/x"},
    ]

    document, named = patch_values({"a": {"x": "x" * 300_000}, "b": {}}, there_and_back * 2)

    assert (list(document["a"]), document["b"]) == (["x"], {})
    assert named["a"] is None
