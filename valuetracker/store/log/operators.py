"""
Operators: what a change does to a value, as pure functions over parsed JSON.

The log keeps the operator of a change, so that it can be replayed on another value than the one
it first met. An absent value counts as 0, `[]` or `{}`; a value of the wrong type is a
`TypeConflict`. A `patch` needs a value, and fails where that has not the paths it names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from valuetracker.errors import NumberLeftRange, TypeConflict
from valuetracker.integers import LARGEST_INTEGER, SMALLEST_INTEGER
from valuetracker.store.log.json_patch import patch_value


class Absent:
    """Stands for a value that is not there, which is not the JSON null."""


ABSENT = Absent()


def apply_operator(op: str, current: Any, operand: Any) -> Any:
    """Return the value after `op`; a `patch` may change the current one, the others do not."""
    return OPERATORS[op](current, operand)


def merge(current: Any, patch: Any) -> Any:
    """RFC 7396: objects are merged deeply, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(current) if isinstance(current, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _merge(current: Any, operand: Any) -> Any:
    if not isinstance(current, dict | Absent):
        raise TypeConflict(f"Only an object can be merged into, and this is {name_of(current)}.")
    return merge({} if isinstance(current, Absent) else current, operand)


def _increment(current: Any, by: Any) -> Any:
    if isinstance(current, Absent):
        current = 0
    if isinstance(current, bool) or not isinstance(current, int | float):
        raise TypeConflict(f"Only a number can be incremented, and this is {name_of(current)}.")
    total = current + by
    # Integers are exact within 64 bits; beyond them nothing is, so nothing is stored.
    if isinstance(total, int):
        if not SMALLEST_INTEGER <= total <= LARGEST_INTEGER:
            raise NumberLeftRange()
    elif not math.isfinite(total):
        raise NumberLeftRange()
    return total


def _append(current: Any, value: Any) -> Any:
    return [*_list(current), value]


def _add_to_set(current: Any, value: Any) -> Any:
    members = _list(current)
    return members if contains(members, value) else [*members, value]


def _pull(current: Any, value: Any) -> Any:
    members = _list(current)
    if not contains(members, value):
        return members
    return [member for member in members if not equal(member, value)]


def _patch(current: Any, operations: Any) -> Any:
    if isinstance(current, Absent):
        raise TypeConflict("Only a value can be patched, and there is none.")
    return patch_value(current, operations)


def _list(current: Any) -> list[Any]:
    if isinstance(current, Absent):
        return []
    if not isinstance(current, list):
        raise TypeConflict(f"This works on an array, and this is {name_of(current)}.")
    return current


# Those of batch operations.
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "merge": _merge,
    "increment": _increment,
    "append": _append,
    "addToSet": _add_to_set,
    "pull": _pull,
    "patch": _patch,
}


def contains(members: list[Any], value: Any) -> bool:
    # Python calls more things equal than JSON does (`true` and 1), but none fewer, and is much
    # quicker at it.
    at = -1
    while True:
        try:
            at = members.index(value, at + 1)
        except ValueError:
            return False
        if equal(members[at], value):
            return True


def equal(one: Any, other: Any) -> bool:
    """Equal as JSON: numbers by value, objects regardless of order, `true` is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(equal(value, other[key]) for key, value in one.items())
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(equal, one, other))
    return bool(one == other)


def name_of(value: Any) -> str:
    """Return the JSON type of a value, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"
