"""Operators applied to values, without a database."""

from __future__ import annotations

import contextlib
import copy
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.model.values_model import merged
from tests.support.answers import same
from valuetracker.errors import NumberLeftRange, TypeConflict, ValueTrackerError
from valuetracker.store.log.json_patch import patched
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

    with contextlib.suppress(TypeConflict):
        apply_operator(op, current, operand)

    assert same((current, operand), kept)


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
        patched({}, operations)

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

    once = patched({}, operations)
    twice = patched({}, operations)

    assert once == twice == ({"list": [{}]}, ["list"])
