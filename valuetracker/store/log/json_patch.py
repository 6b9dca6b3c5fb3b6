"""
JSON Patch (RFC 6902) on an object of keys and values, with its work bounded.

jsonpatch does the patching. What it does not bound is `copy`: a dozen that copy a value
into itself double it each time, so what they copy is counted. Nor does it bound how much a
small patch of a large value goes through: that is counted as well.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer
import orjson

from valuetracker.errors import (
    InvalidBody,
    InvalidPatch,
    PatchFailed,
    PatchTestFailed,
    TooDeep,
    ValueTooLarge,
    ValueTrackerError,
)
from valuetracker.names import check_key
from valuetracker.values import KEYS_PER_REQUEST, VALUE_DEPTH, depth_exceeds

Parts = list[str]

PATCH_OPERATIONS = 1_000
# A value copied into itself doubles each time; twenty such copies make a million of it.
COPIED_BYTES = 1024 * 1024
# Operations after which members of an array may stand elsewhere.
SHIFTING = frozenset({"add", "remove", "move", "copy"})
# How many of them may, and how many bytes of what is copied or moved deeper are looked at.
PATCH_EFFORT = 64 * 1024 * 1024


# What a patch does to each key: the operations inside of its value, with paths that begin there;
# None if it sets or removes the key as a whole.
Inside = dict[str, list[Any] | None]


def patched(
    document: dict[str, Any], patch: list[Any], inside: Inside | None = None
) -> tuple[dict[str, Any], list[str]]:
    """
    Return the patched document, and the keys the patch changes, in the order it names them.

    Also put what it does to each of them into `inside`, so that it can be applied to another value.
    A value that comes from another key is written out. `test` counts only now.
    """
    if len(patch) > PATCH_OPERATIONS:
        raise InvalidPatch(f"A patch has {PATCH_OPERATIONS} operations at the most.")
    named: dict[str, None] = {}
    copied = effort = 0
    for index, operation in enumerate(patch):
        try:
            places = _places(operation)
            looked_at = _check_source(document, operation, *places)
            if operation["op"] == "copy":
                copied += looked_at
            if operation["op"] in SHIFTING:
                effort += looked_at + sum(_shifted(document, place) for place in places)
            if copied > COPIED_BYTES:
                raise ValueTooLarge(f"A patch copies {COPIED_BYTES} bytes at the most.")
            if effort > PATCH_EFFORT:
                raise ValueTooLarge("The patch goes through too much of large values.")
            parts: Inside = {}
            if inside is not None:
                parts, written = _parts_inside(document, operation, *places)
                effort += written
            document = _apply(document, operation, *places, named)
            if inside is not None:
                whole = not places[1] and operation["op"] != "test"
                _add_parts(inside, parts, whole, named)
        except ValueTrackerError as refusal:
            refusal.at_index(index)
            raise
        except jsonpatch.JsonPatchTestFailed:
            raise PatchTestFailed(index=index) from None
        except (jsonpatch.InvalidJsonPatch, TypeError, RecursionError) as error:
            message = f"Operation {index} is not valid: {error}"[:300]
            raise InvalidPatch(message, index=index) from None
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
            # The message of the library quotes the values.
            message = f"Operation {index} does not fit the values as they are."
            raise PatchFailed(message, index=index) from None
    return document, list(named)


def _parts_inside(
    document: dict[str, Any], operation: Any, source: Parts, path: Parts
) -> tuple[Inside, int]:
    """Return what an operation does inside of the keys it names, and the bytes written out."""
    op = operation["op"]
    if op == "test" or not path:
        return {}, 0
    key, inner = path[0], jsonpointer.JsonPointer.from_parts(path[1:]).path
    if op in ("copy", "move") and source and source[0] == key and len(path) > 1:
        begin = jsonpointer.JsonPointer.from_parts(source[1:]).path
        return {key: [{"op": op, "from": begin, "path": inner}]}, 0
    parts: Inside = {}
    written = 0
    if op == "move" and source:
        rest = jsonpointer.JsonPointer.from_parts(source[1:]).path
        parts[source[0]] = [{"op": "remove", "path": rest}] if rest else None
    if len(path) == 1:
        parts[key] = None
    elif op == "remove":
        parts[key] = [{"op": op, "path": inner}]
    else:
        value = operation.get("value")
        if op in ("copy", "move"):
            value = jsonpointer.resolve_pointer(document, operation["from"], None)
            op = "add"
        # As text: the operations that follow may change it.
        text = orjson.dumps(value)
        written = len(text) if operation["op"] == "move" else 0
        parts[key] = [{"op": op, "path": inner, "value": orjson.Fragment(text)}]
    return parts, written


def _add_parts(inside: Inside, parts: Inside, whole: bool, named: dict[str, None]) -> None:
    """Add what one operation does to what those before it do."""
    if whole:
        inside.update(dict.fromkeys(named))
    for key, operations in parts.items():
        before = inside.setdefault(key, [])
        inside[key] = None if before is None or operations is None else before + operations


def _places(operation: Any) -> tuple[Parts, Parts]:
    """Where an operation takes from, and where it puts to; empty is the whole, or nowhere."""
    # A malformed patch is refused before anything is looked up.
    if not isinstance(operation, dict):
        raise InvalidPatch("An operation must be an object.")
    path = _parts(operation.get("path"))
    source = _parts(operation.get("from")) if operation.get("op") in ("copy", "move") else []
    jsonpatch.JsonPatch([operation])
    return source, path


def _parts(path: Any) -> Parts:
    if not isinstance(path, str):
        raise InvalidPatch("`path` and `from` must be strings.")
    try:
        parts: Parts = jsonpointer.JsonPointer(path).parts
    except jsonpointer.JsonPointerException as error:
        raise InvalidPatch(f"This is no JSON Pointer: {error}"[:300]) from None
    return parts


def _apply(
    document: dict[str, Any], operation: Any, source: Parts, path: Parts, named: dict[str, None]
) -> dict[str, Any]:
    changed = {"test": [], "move": [source, path]}.get(operation["op"], [path])
    keys = [place[0] for place in changed if place]
    whole = [] in changed
    before = dict.fromkeys(document) if whole else {}
    result = jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    if not isinstance(result, dict):
        raise InvalidBody("The values as a whole must stay an object.")
    if whole:
        keys += [key for key in result if key not in before]
        named.update(before)
        named.update(dict.fromkeys(key for key in result if key in before))
    for key in keys:
        named[check_key(key)] = None
    if len(named) > KEYS_PER_REQUEST:
        raise InvalidPatch(f"A patch names {KEYS_PER_REQUEST} keys at the most.")
    return result


def _check_source(document: dict[str, Any], operation: Any, source: Parts, path: Parts) -> int:
    """Look at what is about to be copied or moved; how many bytes that was."""
    op = operation["op"]
    # A value that is moved no deeper than it is cannot become too deep.
    if op not in ("copy", "move") or (op == "move" and len(path) <= len(source)):
        return 0
    value = jsonpointer.resolve_pointer(document, operation["from"], None)
    if isinstance(value, jsonpointer.EndOfList):
        raise jsonpointer.JsonPointerException("There is nothing after the last one.")
    # Nesting is checked before it grows: what comes after recurses through all of it.
    if depth_exceeds(value, VALUE_DEPTH + 1 - len(path)):
        raise TooDeep(f"A value is nested more than {VALUE_DEPTH} levels deep.")
    return len(orjson.dumps(value))


def _shifted(document: dict[str, Any], place: Parts) -> int:
    """Return how many members of an array move if one is inserted or removed there."""
    if len(place) < 2 or not place[-1].isdecimal():
        return 0
    array = jsonpointer.JsonPointer.from_parts(place[:-1]).resolve(document, None)
    return max(0, len(array) - int(place[-1][:20])) if isinstance(array, list) else 0
