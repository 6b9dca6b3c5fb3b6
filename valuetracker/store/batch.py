"""
Many operations, one revision: all of them happen, or none.

Operations on the same key see each other's results in their order. Each is logged as what
it was, with what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import ValueTooLarge, ValueTrackerError
from valuetracker.model import BatchAnswer
from valuetracker.store.changes import Anchor, Change, RemoveValue, SetValue
from valuetracker.store.data import get_instance_row
from valuetracker.store.ledger import Ledger
from valuetracker.store.operations import ABSENT, OPERATIONS, Absent, apply_operation, contains
from valuetracker.values import canonical

RESULT_BYTES = 64 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class Operation:
    """One operation of a batch; `operand` is canonical text, `value` what it parses to."""

    op: str
    instance_id: str
    key: str = ""
    operand: str | None = None
    anchor: Anchor | None = None


async def run_batch(tx: Ledger, operations: list[Operation]) -> BatchAnswer:
    batch = _Batch(tx)
    results: list[dict[str, Any]] = []
    for index, operation in enumerate(operations):
        try:
            results.append(await batch.run(operation))
        except ValueTrackerError as refusal:
            refusal.at_index(index)
            raise
    revision = await tx.apply(batch.changes)
    return {"revision": revision, "results": results}


class _Batch:
    """The values as the batch has them so far, and the changes that made them so."""

    def __init__(self, tx: Ledger) -> None:
        self._tx = tx
        self._values: dict[tuple[str, str], str | None] = {}
        self._bytes = 0
        self.changes: list[Change] = []

    async def run(self, operation: Operation) -> dict[str, Any]:
        await get_instance_row(self._tx, operation.instance_id)
        if operation.op == "clear":
            return await self._clear(operation)
        current = await self._current(operation.instance_id, operation.key)
        if operation.op == "remove":
            if current is not None:
                self._remove(operation, operation.key)
            return {"removed": current is not None}
        assert operation.operand is not None
        if operation.op == "set":
            self._set(operation, operation.operand, None)
            return {"value": orjson.Fragment(operation.operand)}
        return self._operate(operation, operation.operand, current)

    def _operate(self, operation: Operation, operand: str, current: str | None) -> dict[str, Any]:
        before: Any = ABSENT if current is None else orjson.loads(current)
        value = orjson.loads(operand)
        after = canonical(apply_operation(operation.op, before, value))
        # Each result is kept in the log: many small operations on one large value add up.
        self._bytes += len(after)
        if self._bytes > RESULT_BYTES:
            raise ValueTooLarge(f"The results of a batch take {RESULT_BYTES} bytes at the most.")
        self._set(operation, after, operand)
        if operation.op == "addToSet":
            return {"added": isinstance(before, Absent) or not contains(before, value)}
        return {"value": orjson.Fragment(after)}

    async def _current(self, instance_id: str, key: str) -> str | None:
        if (instance_id, key) not in self._values:
            row = (await self._tx.load_values(instance_id, [key])).get(key)
            self._values[instance_id, key] = row.value if row is not None else None
        return self._values[instance_id, key]

    async def _clear(self, operation: Operation) -> dict[str, Any]:
        stored = [row.key for row in await self._tx.list_values(operation.instance_id)]
        made = [key for instance, key in self._values if instance == operation.instance_id]
        removed = 0
        for key in dict.fromkeys([*stored, *made]):
            if await self._current(operation.instance_id, key) is not None:
                self._remove(operation, key)
                removed += 1
        return {"removedCount": removed}

    def _set(self, operation: Operation, after: str, operand: str | None) -> None:
        self._values[operation.instance_id, operation.key] = after
        self.changes.append(
            SetValue(
                operation.instance_id,
                operation.key,
                after,
                operation.op,
                operand,
                operation.anchor,
            )
        )

    def _remove(self, operation: Operation, key: str) -> None:
        self._values[operation.instance_id, key] = None
        self.changes.append(RemoveValue(operation.instance_id, key, anchor=operation.anchor))


# What a batch can do, and the field each takes its operand from.
OPERANDS: dict[str, str | None] = {
    "set": "value",
    "remove": None,
    "clear": None,
    **{op: "by" if op == "increment" else "value" for op in OPERATIONS},
}
