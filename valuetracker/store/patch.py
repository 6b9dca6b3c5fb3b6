"""
JSON Patch (RFC 6902) on an object of keys and values, with its work bounded.

jsonpatch does the patching. What it does not bound is `copy`: a dozen that copy a value
into itself double it each time, so what they copy is counted.
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
)
from valuetracker.names import check_key
from valuetracker.values import BODY_BYTES, KEYS_PER_REQUEST, VALUE_DEPTH, depth_exceeds

PATCH_OPERATIONS = 1_000


def patched(document: dict[str, Any], patch: list[Any]) -> tuple[dict[str, Any], list[str]]:
    """The patched document, and the keys the patch changes, in the order it names them."""
    if len(patch) > PATCH_OPERATIONS:
        raise InvalidPatch(f"A patch has {PATCH_OPERATIONS} operations at the most.")
    named: dict[str, None] = {}
    copied = 0
    for index, operation in enumerate(patch):
        try:
            copied += _copied_bytes(document, operation)
            if copied > BODY_BYTES:
                raise ValueTooLarge("The patch copies too much.")
            document = _apply(document, operation, named)
        except jsonpatch.JsonPatchTestFailed:
            raise PatchTestFailed(index=index) from None
        except (jsonpatch.InvalidJsonPatch, TypeError, RecursionError) as error:
            raise InvalidPatch(
                f"Operation {index} is not valid: {error}"[:300], index=index
            ) from None
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise PatchFailed(f"Operation {index} failed: {error}"[:300], index=index) from None
    return document, list(named)


def _apply(document: dict[str, Any], operation: Any, named: dict[str, None]) -> dict[str, Any]:
    patch = jsonpatch.JsonPatch([operation])
    paths = [operation["path"]] if operation["op"] != "test" else []
    if operation["op"] == "move":
        paths.insert(0, operation["from"])
    keys = [_top_key(path) for path in paths]
    if "" in paths:
        named.update(dict.fromkeys(document))
    result = patch.apply(document, in_place=True)
    if not isinstance(result, dict):
        raise InvalidBody("The values as a whole must stay an object.")
    if "" in paths:
        named.update(dict.fromkeys(result))
    for key in keys:
        if key is not None:
            named[check_key(key)] = None
    # Nesting is checked as it grows: what comes after recurses through all of it.
    if operation["op"] in ("copy", "move") and depth_exceeds(result, VALUE_DEPTH + 1):
        raise TooDeep(f"A value is nested more than {VALUE_DEPTH} levels deep.")
    if len(named) > KEYS_PER_REQUEST:
        raise InvalidPatch(f"A patch names {KEYS_PER_REQUEST} keys at the most.")
    return result


def _top_key(path: str) -> str | None:
    parts: list[str] = jsonpointer.JsonPointer(path).parts
    return parts[0] if parts else None


def _copied_bytes(document: dict[str, Any], operation: Any) -> int:
    if not isinstance(operation, dict) or operation.get("op") != "copy":
        return 0
    source = operation.get("from")
    if not isinstance(source, str):
        raise InvalidPatch("`from` must be a string.")
    return len(orjson.dumps(jsonpointer.resolve_pointer(document, source, None)))
