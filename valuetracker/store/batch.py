"""
Many batch operations, one revision: all of them happen, or none.

Operations on the same key see each other's results in their order. Each is logged with its
operator, its operand and its result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from valuetracker.errors import ChatMismatch, InstanceNotFound, ValueTooLarge, ValueTrackerError
from valuetracker.records import BatchAnswer
from valuetracker.store.log.operators import ABSENT, OPERATORS, Absent, apply_operator, contains
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.tx.changes import Change, ChangeValue, remove
from valuetracker.store.tx.conflicts import with_conflicts
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import register_place
from valuetracker.store.tx.write_place import WritePlace, find_place
from valuetracker.store.tx.write_target import check_chat_if_match, find_writable_chat
from valuetracker.values import canonical

Item = TypeVar("Item")
Done = TypeVar("Done")

# Every operation reads a value as a whole, writes it as a whole, and has it kept in the log: many
# small operations on one large value add up.
RESULT_BYTES = 16 * 1024 * 1024


@dataclass(slots=True, frozen=True)
class BatchOperation:
    """
    One operation of a batch; `operand` is canonical JSON text.

    Without an instance it changes the chat's own data.
    """

    op: str
    instance_id: str | None
    key: str = ""
    operand: str | None = None
    anchor: Anchor | None = None


async def run_batch(tx: Ledger, operations: list[BatchOperation]) -> BatchAnswer:
    return await _run(tx, operations, None)


async def run_chat_batch(tx: Ledger, chat_id: str, operations: list[BatchOperation]) -> BatchAnswer:
    """Run a batch that is confined to a chat and its instances."""
    await find_writable_chat(tx, chat_id)
    await check_chat_if_match(tx, chat_id)
    return await _run(tx, operations, chat_id)


async def _run(tx: Ledger, operations: list[BatchOperation], chat_id: str | None) -> BatchAnswer:
    anchors = {operation.anchor or tx.context.anchor for operation in operations}
    batch = _Batch(tx, chat_id, mixed=len(anchors) > 1)
    holders = await _each(operations, batch.holder)
    for operation, holder in zip(operations, holders, strict=True):
        if holder is not None:
            await register_place(tx, holder, operation.anchor or tx.context.anchor)
    pairs = list(zip(operations, holders, strict=True))
    await batch.check_effort(pairs)
    results = await _each(pairs, batch.run)
    await batch.flush()
    answer: BatchAnswer = {"revision": await tx.final_revision(), "results": results}
    return with_conflicts(tx, answer)


async def _each(items: list[Item], do: Callable[[Item], Awaitable[Done]]) -> list[Done]:
    """Call `do` for each item; a refusal names the index of the item."""
    done: list[Done] = []
    for index, item in enumerate(items):
        try:
            done.append(await do(item))
        except ValueTrackerError as refusal:
            refusal.at_index(index)
            raise
    return done


class _Batch:
    """The values as the batch has them so far, and the changes that made them."""

    def __init__(self, tx: Ledger, chat_id: str | None, mixed: bool) -> None:
        self._tx = tx
        # True if its operations are made at several places.
        self._mixed = mixed
        # The chat it is confined to.
        self._chat_id = chat_id
        self._values: dict[tuple[int, str], str | None] = {}
        self._changes: list[Change] = []

    async def check_effort(self, items: list[tuple[BatchOperation, HolderRow | None]]) -> None:
        """Refuse a batch whose results would take too much, before any of them is made."""
        sizes: dict[tuple[int, str], int] = {}
        effort = 0
        for index, (operation, holder) in enumerate(items):
            if holder is None or operation.operand is None:
                continue
            place = (holder.number, operation.key)
            size = len(operation.operand)
            if operation.op != "set":
                if place not in sizes:
                    sizes[place] = len(await self._current(holder, operation.key) or "")
                # No operator makes more of a value than it and the operand are.
                size += sizes[place]
                effort += size
            sizes[place] = size
            if effort > RESULT_BYTES:
                refusal = ValueTooLarge(
                    f"The results of a batch take {RESULT_BYTES} bytes at the most."
                )
                refusal.at_index(index)
                raise refusal

    async def run(self, item: tuple[BatchOperation, HolderRow | None]) -> dict[str, Any]:
        operation, holder = item
        if holder is None:
            return {"removedCount": 0} if operation.op == "clear" else {"removed": False}
        place = await find_place(self._tx, holder, operation.anchor or self._tx.context.anchor)
        if operation.op == "clear":
            return await self._clear(place, operation)
        row = await self._tx.find_value(holder, operation.key)
        if self._mixed or place.hidden or place.is_late(row):
            return await self._run_at_once(place, operation)
        current = await self._current(holder, operation.key)
        if operation.op == "remove":
            return await self._remove(place, operation, current)
        return self._operate(holder, operation, current)

    async def flush(self) -> None:
        """Apply the changes so far."""
        changes, self._changes = self._changes, []
        self._values.clear()
        await self._tx.apply(changes)

    async def holder(self, operation: BatchOperation) -> HolderRow | None:
        """Return the holder of an operation; None if it removes from an unknown chat."""
        tx = self._tx
        chat = await tx.find_chat(self._chat_id) if self._chat_id is not None else None
        if operation.instance_id is None:
            assert self._chat_id is not None
            if chat is None and operation.op in ("remove", "clear"):
                return None
            chat = chat or await tx.get_or_create_chat(self._chat_id)
            return await tx.get_or_create_space(chat, "chat")
        holder = await tx.find_instance(operation.instance_id)
        await tx.authorize_holder(holder)
        if holder is None:
            raise InstanceNotFound()
        if self._chat_id is not None and (chat is None or holder.chat != chat.number):
            raise ChatMismatch("The instance is not in this chat.")
        return holder

    def _operate(
        self, holder: HolderRow, operation: BatchOperation, met: str | None
    ) -> dict[str, Any]:
        """Change a value that no other change stands behind."""
        change, result = self._change(holder, operation, met)
        self._values[holder.number, operation.key] = change.after
        self._changes.append(change)
        assert change.after is not None
        return result or {"value": orjson.Fragment(change.after)}

    def _change(
        self, holder: HolderRow, operation: BatchOperation, met: str | None
    ) -> tuple[ChangeValue, dict[str, Any] | None]:
        """Return the change of a value that it meets, and its result if that is no value."""
        op, key, operand = operation.op, operation.key, operation.operand
        assert operand is not None
        anchor = operation.anchor or self._tx.context.anchor
        if op == "set":
            return ChangeValue(holder, key, operand, anchor=anchor), None
        before: Any = ABSENT if met is None else orjson.loads(met)
        value = orjson.loads(operand)
        after = canonical(apply_operator(op, before, value))
        result = None
        if op == "addToSet":
            result = {"added": isinstance(before, Absent) or not contains(before, value)}
        return ChangeValue(holder, key, after, op, operand, anchor), result

    async def _run_at_once(self, place: WritePlace, operation: BatchOperation) -> dict[str, Any]:
        """Apply an operation before the next: what comes of it depends on where it stands."""
        await self.flush()
        tx, holder, key = self._tx, place.holder, operation.key
        anchor = operation.anchor or tx.context.anchor
        row = await tx.find_value(holder, key)
        before = row.value if row is not None else None
        result: dict[str, Any] | None = None
        made: str | None = None
        superseded = tx.superseded
        if operation.op == "remove":
            if await place.is_removable(row):
                await tx.apply([remove(holder, key, anchor)])
        elif place.hidden:
            # Its type is not checked: it will meet another value when it is shown again.
            set_to = None if operation.op == "set" else operation.operand
            change = ChangeValue(holder, key, operation.operand, operation.op, set_to, anchor)
            await tx.apply([change])
            result = {"added": False} if operation.op == "addToSet" else None
        else:
            change, result = self._change(holder, operation, await place.value(row))
            await tx.apply([change])
            made = change.after
        row = await tx.find_value(holder, key)
        now = row.value if row is not None else None
        if operation.op == "remove":
            result = {"removed": before is not None and now is None}
        if result is not None and not place.hidden and now != made:
            # Changes that stand after it made something else of it.
            result |= _value(now)
        if tx.superseded > superseded:
            result = {"added": False} if operation.op == "addToSet" else result or {}
            return result | _value(now) | {"superseded": True}
        return result if result is not None else _value(now)

    async def _current(self, holder: HolderRow, key: str) -> str | None:
        if (holder.number, key) not in self._values:
            row = await self._tx.find_value(holder, key)
            self._values[holder.number, key] = row.value if row is not None else None
        return self._values[holder.number, key]

    async def _clear(self, place: WritePlace, operation: BatchOperation) -> dict[str, Any]:
        await self.flush()
        tx, holder = self._tx, place.holder
        anchor = operation.anchor or tx.context.anchor
        rows = await place.removable_rows()
        superseded = tx.superseded
        await tx.apply([remove(holder, row.key, anchor) for row in rows])
        left = await tx.load_rows(holder, [row.key for row in rows])
        removed = [
            row.key
            for row in rows
            if row.value is not None and ((now := left[row.key]) is None or now.value is None)
        ]
        result: dict[str, Any] = {"removedCount": len(removed)}
        return result | {"superseded": True} if tx.superseded > superseded else result

    async def _remove(
        self, place: WritePlace, operation: BatchOperation, current: str | None
    ) -> dict[str, Any]:
        if current is None:
            # Also if the batch itself has just removed its value: a flip may bring it back.
            return await self._run_at_once(place, operation)
        holder, key = place.holder, operation.key
        self._changes.append(remove(holder, key, operation.anchor or self._tx.context.anchor))
        self._values[holder.number, key] = None
        return {"removed": True}


def _value(text: str | None) -> dict[str, Any]:
    """Return what a key reads, left out if it is absent."""
    return {} if text is None else {"value": orjson.Fragment(text)}


# The operators of a batch, and the field each takes its operand from.
OPERANDS: dict[str, str | None] = {
    "set": "value",
    "remove": None,
    "clear": None,
    **{op: "by" if op == "increment" else "value" for op in OPERATORS},
}
