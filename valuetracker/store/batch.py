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
from valuetracker.store.story.visibility import has_dormant_change, removable_keys
from valuetracker.store.tx.changes import Change, ChangeValue, remove
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import is_hidden, register_place
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
    batch = _Batch(tx, chat_id)
    holders = await _each(operations, batch.holder)
    for operation, holder in zip(operations, holders, strict=True):
        if holder is not None:
            await register_place(tx, holder, operation.anchor or tx.context.anchor)
    pairs = list(zip(operations, holders, strict=True))
    await batch.check_effort(pairs)
    results = await _each(pairs, batch.run)
    await tx.apply(batch.changes)
    return {"revision": await tx.final_revision(), "results": results}


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

    def __init__(self, tx: Ledger, chat_id: str | None) -> None:
        self._tx = tx
        # The chat it is confined to.
        self._chat_id = chat_id
        self._values: dict[tuple[int, str], str | None] = {}
        self.changes: list[Change] = []

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
        anchor = operation.anchor or self._tx.context.anchor
        hidden = await is_hidden(self._tx, holder, anchor)
        result = await self._run(operation, holder, anchor, hidden)
        if hidden:
            # A later operation must find it in the log: it may be its removal.
            await self._tx.apply(self.changes)
            self.changes = []
        return result

    async def _run(
        self, operation: BatchOperation, holder: HolderRow, anchor: Anchor | None, hidden: bool
    ) -> dict[str, Any]:
        if operation.op == "clear":
            return await self._clear(holder, anchor, hidden)
        current = await self._current(holder, operation.key)
        if operation.op == "remove":
            return await self._remove(holder, operation.key, anchor, current, hidden)
        operand = operation.operand
        assert operand is not None
        if hidden:
            after, before = operand, current
            if operation.op == "set":
                operand = None
            self.changes.append(
                ChangeValue(holder, operation.key, after, operation.op, operand, anchor)
            )
            if operation.op == "addToSet":
                return {"added": False}
            return {"value": orjson.Fragment(before if before is not None else "null")}
        if operation.op == "set":
            self._set(holder, operation, operand, None, anchor)
            return {"value": orjson.Fragment(operand)}
        return self._operate(holder, operation, operand, current, anchor)

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
        self,
        holder: HolderRow,
        operation: BatchOperation,
        operand: str,
        current: str | None,
        anchor: Anchor | None,
    ) -> dict[str, Any]:
        before: Any = ABSENT if current is None else orjson.loads(current)
        value = orjson.loads(operand)
        after = canonical(apply_operator(operation.op, before, value))
        self._set(holder, operation, after, operand, anchor)
        if operation.op == "addToSet":
            return {"added": isinstance(before, Absent) or not contains(before, value)}
        return {"value": orjson.Fragment(after)}

    async def _current(self, holder: HolderRow, key: str) -> str | None:
        if (holder.number, key) not in self._values:
            row = await self._tx.find_value(holder, key)
            self._values[holder.number, key] = row.value if row is not None else None
        return self._values[holder.number, key]

    async def _clear(
        self, holder: HolderRow, anchor: Anchor | None, hidden: bool
    ) -> dict[str, Any]:
        stored = await removable_keys(self._tx, holder)
        made = [key for number, key in self._values if number == holder.number]
        removed = 0
        for key in dict.fromkeys([*stored, *made]):
            current = await self._current(holder, key)
            result = await self._remove(holder, key, anchor, current, hidden)
            removed += result["removed"]
        return {"removedCount": removed}

    async def _remove(
        self,
        holder: HolderRow,
        key: str,
        anchor: Anchor | None,
        current: str | None,
        hidden: bool,
    ) -> dict[str, Any]:
        row = await self._tx.find_value(holder, key)
        if current is not None or (
            # Also if the batch itself has just removed its value.
            row is not None and await has_dormant_change(self._tx, row)
        ):
            self.changes.append(remove(holder, key, anchor))
        if not hidden:
            self._values[holder.number, key] = None
        return {"removed": current is not None and not hidden}

    def _set(
        self,
        holder: HolderRow,
        operation: BatchOperation,
        after: str,
        operand: str | None,
        anchor: Anchor | None,
    ) -> None:
        self._values[holder.number, operation.key] = after
        self.changes.append(
            ChangeValue(holder, operation.key, after, operation.op, operand, anchor)
        )


# The operators of a batch, and the field each takes its operand from.
OPERANDS: dict[str, str | None] = {
    "set": "value",
    "remove": None,
    "clear": None,
    **{op: "by" if op == "increment" else "value" for op in OPERATORS},
}
