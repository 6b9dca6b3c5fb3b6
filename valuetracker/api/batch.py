"""Routes of batches."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import (
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidKey,
    InvalidOperation,
    InvalidPatch,
    NumberLeftRange,
    NumberOutOfRange,
    PatchFailed,
    PatchTestFailed,
    TooDeep,
    TypeConflict,
    ValueTooLarge,
    ValueTrackerError,
)
from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint, Field
from valuetracker.http.kinds import INSTANCE_ID, KEY, VALUE, Kind
from valuetracker.names import CHAT_ID_LENGTH, check_id
from valuetracker.records import BatchAnswer
from valuetracker.store import batch
from valuetracker.store.log.json_patch import check_patch
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.jobs import Written
from valuetracker.values import VALUE_DEPTH, canonical

OPERATIONS_PER_BATCH = 1_000


async def run_batch(call: Call) -> Written:
    """
    Run up to 1,000 operations on any instances as one revision, completely or not at all.

    Each operation is an object with `op`, `instanceId` and, except for `clear`, `key`. An
    `anchor` (`{messageId, swipe}`) replaces the anchor of the request for this operation. An
    absent key counts as 0, `[]` or `{}`. The operations and their results:

    - `set` with `value` → `{}`
    - `remove` → `{removed}`
    - `merge` with an object as `value`; merges deeply, and null removes a field → `{}`
    - `increment` with a number as `by` → `{value}`
    - `append` or `pull` with `value`, on an array → `{}`
    - `addToSet` with `value`, on an array → `{added}`
    - `patch` with a JSON Patch (RFC 6902) as `value`; its paths begin in the value of the key,
      as in `/top`, and the key must exist → `{}`
    - `clear`, without a key → `{removedCount}`

    A result `{}` is `{value}` with `Prefer: return=representation`, and where the change is dormant
    or late: then it is what the key reads now, left out if the key is absent.

    If one operation is refused, nothing changes, and `details.index` names the operation.
    """
    return await call.write(batch.run_batch, call.body["operations"])


def _parse_operations(value: Any, in_chat: bool = False) -> list[batch.BatchOperation]:
    if not isinstance(value, list):
        raise InvalidBody("`operations` must be an array.")
    if not 1 <= len(value) <= OPERATIONS_PER_BATCH:
        raise InvalidBody(f"A batch has 1 to {OPERATIONS_PER_BATCH} operations.")
    operations: list[batch.BatchOperation] = []
    for index, each in enumerate(value):
        try:
            operations.append(_parse_operation(each, in_chat))
        except ValueTrackerError as refusal:
            refusal.at_index(index)
            raise
    return operations


def _parse_operation(given: Any, in_chat: bool) -> batch.BatchOperation:
    if not isinstance(given, dict):
        raise InvalidOperation("An operation must be an object.")
    op = given.get("op")
    if not isinstance(op, str) or op not in batch.OPERANDS:
        raise InvalidOperation(f"`op` must be one of {', '.join(batch.OPERANDS)}.")
    instance_id = None
    # In a chat, no instance means the chat itself.
    if given.get("instanceId") is not None or not in_chat:
        if "instanceId" not in given:
            raise InvalidOperation("`instanceId` is required.")
        instance_id = INSTANCE_ID.parse(given["instanceId"])
    anchor = _parse_anchor(given.get("anchor"))
    if op == "clear":
        if "key" in given:
            raise InvalidOperation("`clear` takes no key: it clears the whole instance.")
        return batch.BatchOperation(op, instance_id, anchor=anchor)
    if "key" not in given:
        raise InvalidOperation("`key` is required.")
    key = KEY.parse(given["key"])
    return batch.BatchOperation(op, instance_id, key, _parse_operand(op, given), anchor)


def _parse_operand(op: str, given: dict[str, Any]) -> str | None:
    field = batch.OPERANDS[op]
    if field is None:
        return None
    if field not in given:
        raise InvalidOperation(f"`{field}` is required for {op}.")
    value = given[field]
    if op == "increment" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise InvalidOperation("`by` must be a number.")
    if op == "merge" and not isinstance(value, dict):
        raise InvalidOperation("Only an object can be merged.")
    if op == "patch":
        if not isinstance(value, list):
            raise InvalidOperation("`value` must be a list of JSON Patch operations.")
        check_patch(value)
        # Two levels deeper than what it holds.
        return canonical(value, depth=VALUE_DEPTH + 2)
    text: str = VALUE.parse(value)
    return text


def _parse_anchor(given: Any) -> Anchor | None:
    if given is None:
        return None
    if not isinstance(given, dict) or not isinstance(given.get("messageId"), str):
        raise InvalidOperation("`anchor` must be an object with a `messageId`.")
    message_id = check_id(given["messageId"], "message", CHAT_ID_LENGTH)
    swipe = given.get("swipe", "0")
    # SillyTavern counts swipes; a number is read as its text.
    if isinstance(swipe, int) and not isinstance(swipe, bool):
        swipe = str(swipe)
    if not isinstance(swipe, str):
        raise InvalidOperation("`swipe` must be a string or a number.")
    return Anchor(message_id, check_id(swipe, "swipe", CHAT_ID_LENGTH))


def _schema(required: list[str]) -> dict[str, Any]:
    return {
        "type": "array",
        "minItems": 1,
        "maxItems": OPERATIONS_PER_BATCH,
        "items": {
            "type": "object",
            "properties": {
                "op": {"enum": list(batch.OPERANDS)},
                "instanceId": INSTANCE_ID.schema,
                "key": KEY.schema,
                "value": VALUE.schema,
                "by": {"type": "number"},
                "anchor": {
                    "type": "object",
                    "properties": {
                        "messageId": {"type": "string"},
                        "swipe": {"type": ["string", "integer"]},
                    },
                    "required": ["messageId"],
                },
            },
            "required": required,
        },
    }


OPERATIONS = Kind(_schema(["op", "instanceId"]), _parse_operations)
CHAT_OPERATIONS = Kind(_schema(["op"]), lambda value: _parse_operations(value, in_chat=True))

REFUSALS = (
    InvalidBody,
    InvalidOperation,
    InvalidId,
    InvalidKey,
    NumberOutOfRange,
    TooDeep,
    InstanceNotFound,
    TypeConflict,
    NumberLeftRange,
    InvalidPatch,
    PatchFailed,
    PatchTestFailed,
    ValueTooLarge,
)

ENDPOINTS = [
    Endpoint(
        ("POST",),
        "/batch",
        run_batch,
        returns=BatchAnswer,
        body=(Field("operations", OPERATIONS, "The operations, in order."),),
        raises=REFUSALS,
        conditional=False,
    ),
]
