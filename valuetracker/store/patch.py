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
    ValueTrackerError,
)
from valuetracker.names import check_key
from valuetracker.values import KEYS_PER_REQUEST, VALUE_DEPTH, depth_exceeds

PATCH_OPERATIONS = 1_000
# A value copied into itself doubles each time; twenty such copies make a million of it.
COPIED_BYTES = 1024 * 1024


def patched(document: dict[str, Any], patch: list[Any]) -> tuple[dict[str, Any], list[str]]:
    """The patched document, and the keys the patch changes, in the order it names them."""
    if len(patch) > PATCH_OPERATIONS:
        raise InvalidPatch(f"A patch has {PATCH_OPERATIONS} operations at the most.")
    named: dict[str, None] = {}
    copied = 0
    for index, operation in enumerate(patch):
        try:
            copied += _check_source(document, operation)
            if copied > COPIED_BYTES:
                raise ValueTooLarge(f"A patch copies {COPIED_BYTES} bytes at the most.")
            document = _apply(document, operation, named)
        except ValueTrackerError as refusal:
            refusal.at_index(index)
            raise
        except jsonpatch.JsonPatchTestFailed:
            raise PatchTestFailed(index=index) from None
        except (jsonpatch.InvalidJsonPatch, TypeError, RecursionError) as error:
            message = f"Operation {index} is not valid: {error}"[:300]
            raise InvalidPatch(message, index=index) from None
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException) as error:
            raise PatchFailed(f"Operation {index} failed: {error}"[:300], index=index) from None
    return document, list(named)


def _apply(document: dict[str, Any], operation: Any, named: dict[str, None]) -> dict[str, Any]:
    patch = jsonpatch.JsonPatch([operation])
    paths = [operation["path"]] if operation["op"] != "test" else []
    if operation["op"] == "move":
        paths.insert(0, operation["from"])
    keys = [parts[0] for parts in map(_parts, paths) if parts]
    if "" in paths:
        named.update(dict.fromkeys(document))
    result = patch.apply(document, in_place=True)
    if not isinstance(result, dict):
        raise InvalidBody("The values as a whole must stay an object.")
    if "" in paths:
        named.update(dict.fromkeys(result))
    for key in keys:
        named[check_key(key)] = None
    if len(named) > KEYS_PER_REQUEST:
        raise InvalidPatch(f"A patch names {KEYS_PER_REQUEST} keys at the most.")
    return result


def _parts(path: Any) -> list[str]:
    if not isinstance(path, str):
        raise InvalidPatch("`path` and `from` must be strings.")
    try:
        parts: list[str] = jsonpointer.JsonPointer(path).parts
    except jsonpointer.JsonPointerException as error:
        raise InvalidPatch(f"This is no JSON Pointer: {error}"[:300]) from None
    return parts


def _check_source(document: dict[str, Any], operation: Any) -> int:
    """Look at what is about to be copied or moved; how many bytes will be copied."""
    if not isinstance(operation, dict) or operation.get("op") not in ("copy", "move"):
        return 0
    depth = len(_parts(operation.get("path")))
    _parts(operation.get("from"))
    source = jsonpointer.resolve_pointer(document, operation["from"], None)
    # Nesting is checked before it grows: what comes after recurses through all of it.
    if depth_exceeds(source, VALUE_DEPTH + 1 - depth):
        raise TooDeep(f"A value is nested more than {VALUE_DEPTH} levels deep.")
    return len(orjson.dumps(source)) if operation["op"] == "copy" else 0
