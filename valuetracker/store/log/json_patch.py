"""
JSON Patch (RFC 6902), with its work bounded.

A patch of all values of a holder is taken apart, so that each key is logged with the operations
on its own value. At a hidden place operations need not fit the values, because they will meet
others when the place is shown again: they are logged as they are.

jsonpatch does the patching. What it does not bound is `copy`: a dozen that copy a value into
itself double it each time, so what they copy is counted. Nor does it bound how much a small patch
of a large value goes through: that is counted as well.
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
# The keys a patch changes, in the order it names them, each with the operations on its value;
# None stands for a value that is set or removed as a whole.
Named = dict[str, list[dict[str, Any]] | None]

PATCH_OPERATIONS = 1_000
# A value copied into itself doubles each time; twenty such copies make a million of it.
COPIED_BYTES = 1024 * 1024
# Operations after which members of an array may stand elsewhere.
SHIFTING = frozenset({"add", "remove", "move", "copy"})
# How many of them may, and how many bytes of what is copied or moved deeper are looked at.
PATCH_EFFORT = 64 * 1024 * 1024


def patch_values(
    document: dict[str, Any], patch: list[Any], hidden: bool = False
) -> tuple[dict[str, Any], Named]:
    """Return values by key, patched, and what the patch does to each; it may change the given."""
    patching = _PatchingValues(document, hidden)
    patching.run(patch)
    return patching.document, patching.named


def named_keys(patch: list[Any]) -> list[str] | None:
    """Return the keys that a patch of all values looks at; None if it looks at all of them."""
    _check_length(patch)
    places: list[Parts] = []
    for operation in patch:
        try:
            source, path = _places(operation)
        except (jsonpatch.InvalidJsonPatch, TypeError, ValueTrackerError):
            # It is refused where it is applied.
            continue
        places += [source, path] if operation["op"] in ("copy", "move") else [path]
    if any(not place for place in places):
        return None
    return [key for key in dict.fromkeys(place[0] for place in places) if _may_be_key(key)]


def _may_be_key(text: str) -> bool:
    try:
        check_key(text)
    except ValueTrackerError:
        return False
    return True


def patch_value(value: Any, patch: list[Any]) -> Any:
    """Return one value, patched; paths begin in it. It may change the one given."""
    patching = _Patching(value)
    patching.run(patch)
    return patching.document


def check_tests(value: Any, patch: list[Any]) -> None:
    """Refuse a patch at a hidden place if a `test` of it fails; it may change the value."""
    _Patching(value, hidden=True).run(patch)


def check_patch(patch: list[Any]) -> None:
    """Refuse a list that is no JSON Patch, whatever it is applied to."""
    _check_length(patch)
    for operation in patch:
        try:
            _places(operation)
        except (jsonpatch.InvalidJsonPatch, TypeError) as error:
            raise InvalidPatch(f"An operation is not valid: {error}"[:300]) from None


def without_tests(patch: list[Any]) -> list[Any]:
    """Return the operations that the log keeps: a `test` counts only when it is written."""
    return [operation for operation in patch if operation["op"] != "test"]


def _check_length(patch: list[Any]) -> None:
    if len(patch) > PATCH_OPERATIONS:
        raise InvalidPatch(f"A patch has {PATCH_OPERATIONS} operations at the most.")


class _Patching:
    """A document that is being patched, and the work that has gone into it."""

    def __init__(self, document: Any, hidden: bool = False) -> None:
        self.document = document
        # True if operations that do not fit are passed over; a `test` counts all the same.
        self._hidden = hidden
        self._copied = self._effort = 0

    def run(self, patch: list[Any]) -> None:
        _check_length(patch)
        for index, operation in enumerate(patch):
            try:
                source, path = _places(operation)
                self._count(operation, source, path)
                self._apply(operation, source, path)
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

    def _apply(self, operation: Any, source: Parts, path: Parts) -> None:
        if self._hidden and operation["op"] != "test":
            self._try(operation, source, path)
        else:
            self._change(operation)

    def _change(self, operation: Any) -> None:
        self.document = jsonpatch.JsonPatch([operation]).apply(self.document, in_place=True)

    def _try(self, operation: Any, source: Parts, path: Parts) -> bool:
        """Apply an operation; return False if it does not fit, and leave the document as it was."""
        moved: list[Any] = []
        try:
            if operation["op"] == "move" and path[: len(source)] != source:
                moved = [_find(self.document, operation["from"])]
            self._change(operation)
        except jsonpatch.InvalidJsonPatch:
            raise
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
            for value in moved:
                # It was taken away before it was found that it does not fit.
                self._change({"op": "add", "path": operation["from"], "value": value})
            return False
        return True

    def _count(self, operation: Any, source: Parts, path: Parts) -> None:
        """Refuse an operation that goes through too much."""
        looked_at = _check_source(self.document, operation, source, path)
        if operation["op"] == "copy":
            self._copied += looked_at
        if operation["op"] in SHIFTING:
            self._effort += looked_at + sum(
                _shifted(self.document, each) for each in (source, path)
            )
        if self._copied > COPIED_BYTES:
            raise ValueTooLarge(f"A patch copies {COPIED_BYTES} bytes at the most.")
        if self._effort > PATCH_EFFORT:
            raise ValueTooLarge("The patch goes through too much of large values.")


class _PatchingValues(_Patching):
    """All values of a holder, and what the patch has done to each key."""

    def __init__(self, document: dict[str, Any], hidden: bool = False) -> None:
        super().__init__(document, hidden)
        self.named: Named = {}
        # The bytes of values that operations took from other keys.
        self._carried = 0

    def _apply(self, operation: Any, source: Parts, path: Parts) -> None:
        op = operation["op"]
        changed = {"test": [], "move": [source, path]}.get(op, [path])
        keys = [place[0] for place in changed if place]
        whole = [] in changed
        before = dict.fromkeys(self.document) if whole else {}
        relative = None
        if len(path) > 1 and op != "test" and self.named.get(path[0], []) is not None:
            relative = self._relative(operation, source, path)
        if not self._hidden or op == "test":
            self._change(operation)
        elif not self._try(operation, source, path):
            self._pass_over(operation, source, path)
        result = self.document
        if not isinstance(result, dict):
            raise InvalidBody("The values as a whole must stay an object.")
        if whole:
            keys += [key for key in result if key not in before]
            keys = [*before, *keys]
        for key in keys:
            self.named.setdefault(key if whole and key in before else check_key(key), [])
        if whole:
            self.named.update(dict.fromkeys(keys))
        elif op == "move" and source[0] != path[0]:
            self._note(source, {"op": "remove", "path": _pointer(source[1:])})
        if keys and not whole:
            self._note(path, relative)
        if len(self.named) > KEYS_PER_REQUEST:
            raise InvalidPatch(f"A patch names {KEYS_PER_REQUEST} keys at the most.")

    def _pass_over(self, operation: Any, source: Parts, path: Parts) -> None:
        """Refuse an operation that does not fit the values, unless it may fit others."""
        if operation["op"] in ("copy", "move") and (len(path) < 2 or source[:1] != path[:1]):
            # The log holds what it takes.
            _find(self.document, operation["from"])
            if operation["op"] == "move":
                self._change({"op": "remove", "path": operation["from"]})
        if not path or self.named.get(path[0], []) is None:
            # The patch itself has made what it does not fit.
            raise jsonpatch.JsonPatchConflict()
        if operation["op"] == "replace" and len(path) == 1:
            self.document[path[0]] = operation["value"]

    def _note(self, place: Parts, operation: dict[str, Any] | None) -> None:
        """Add an operation to those of its key; a key that is changed as a whole has none."""
        operations = self.named[place[0]]
        if len(place) == 1 or operation is None:
            self.named[place[0]] = None
        elif operations is not None:
            operations.append(operation)

    def _relative(self, operation: Any, source: Parts, path: Parts) -> dict[str, Any] | None:
        """
        Return an operation as one on the value of its key.

        What it takes from another key it then holds itself; None if that would be too much.
        """
        found: dict[str, Any] = {"op": operation["op"], "path": _pointer(path[1:])}
        if "value" in operation and operation["op"] in ("add", "replace"):
            if depth_exceeds(operation["value"], VALUE_DEPTH):
                raise TooDeep(f"A value is nested more than {VALUE_DEPTH} levels deep.")
            found["value"] = operation["value"]
        elif operation["op"] in ("move", "copy"):
            if source and source[0] == path[0]:
                return {**found, "from": _pointer(source[1:])}
            text = orjson.dumps(_resolve(self.document, operation["from"]))
            self._carried += len(text)
            if self._carried > COPIED_BYTES:
                return None
            found["op"], found["value"] = "add", orjson.Fragment(text)
        return found


def _pointer(parts: Parts) -> str:
    pointer: str = jsonpointer.JsonPointer.from_parts(parts).path
    return pointer


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


def _resolve(document: Any, pointer: str) -> Any:
    """Return what is there, or None."""
    return _find(document, pointer, None)


def _find(document: Any, pointer: str, *default: Any) -> Any:
    value = jsonpointer.resolve_pointer(document, pointer, *default)
    if isinstance(value, jsonpointer.EndOfList):
        raise jsonpointer.JsonPointerException("There is nothing after the last one.")
    return value


def _check_source(document: Any, operation: Any, source: Parts, path: Parts) -> int:
    """Look at what is about to be copied or moved; how many bytes that was."""
    op = operation["op"]
    # A value that is moved no deeper than it is cannot become too deep.
    if op not in ("copy", "move") or (op == "move" and len(path) <= len(source)):
        return 0
    value = _resolve(document, operation["from"])
    # Nesting is checked before it grows: what comes after recurses through all of it.
    if depth_exceeds(value, VALUE_DEPTH + 1 - len(path)):
        raise TooDeep(f"A value is nested more than {VALUE_DEPTH} levels deep.")
    return len(orjson.dumps(value))


def _shifted(document: Any, place: Parts) -> int:
    """Return how many members of an array move if one is inserted or removed there."""
    if not place or not place[-1].isdecimal():
        return 0
    array = jsonpointer.JsonPointer.from_parts(place[:-1]).resolve(document, None)
    return max(0, len(array) - int(place[-1][:20])) if isinstance(array, list) else 0
