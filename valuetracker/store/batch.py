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

from valuetracker.errors import (
    ChatMismatch,
    InstanceNotFound,
    PatchTestFailed,
    ValueTooLarge,
    ValueTrackerError,
)
from valuetracker.records import BatchAnswer
from valuetracker.store.log.json_patch import check_tests, without_tests
from valuetracker.store.log.operators import ABSENT, OPERATORS, Absent, apply_operator, contains
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.tx.changes import Change, ChangeValue, remove
from valuetracker.store.tx.conflicts import with_conflicts
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.idempotency import ShownValue
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import register_place
from valuetracker.store.tx.write_place import WritePlace, find_place
from valuetracker.store.tx.write_target import check_chat_if_match, find_writable_chat
from valuetracker.values import canonical, load_text

Item = TypeVar("Item")
Done = TypeVar("Done")

# Every operation reads a value as a whole and writes it as a whole: many small operations on one
# large value add up.
RESULT_BYTES = 16 * 1024 * 1024
# A late operation goes through the changes of its key: many of them on one old key add up.
MOST_VISITS = 200_000


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
    batch.place_values()
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
        self._bytes = 0
        # How many changes of each key have taken effect so far, and the values shown, with how many
        # there were then.
        self._counts: dict[tuple[int, str], int] = {}
        self._shown: list[tuple[ShownValue, int]] = []
        self._changes: list[Change] = []

    def place_values(self) -> None:
        """Say of the values shown how many changes of their keys came later."""
        for value, count in self._shown:
            value.later = self._counts.get((value.holder, value.key), 0) - count

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
                # Nearly no operation makes more of a value than it and the operand are.
                size += sizes[place]
                effort += size
            sizes[place] = size
            if effort > RESULT_BYTES:
                refusal = _too_large()
                refusal.at_index(index)
                raise refusal

    async def run(self, item: tuple[BatchOperation, HolderRow | None]) -> dict[str, Any]:
        operation, holder = item
        if self._tx.read_entries.visits > MOST_VISITS:
            raise ValueTooLarge(
                f"The late operations of a batch go through {MOST_VISITS} changes at the most."
            )
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
        change, after, result = self._change(holder, operation, met)
        if change is not None:
            self._values[holder.number, operation.key] = after
            self._changes.append(change)
            self._count(holder, operation.key)
        return result if result is not None else self._result(holder, operation, after)

    def _result(
        self, holder: HolderRow, operation: BatchOperation, value: str | None, always: bool = False
    ) -> dict[str, Any]:
        """
        Return what a key reads after an operation, left out if it is absent.

        Only the caller of an increment cannot know the value. Others are told if they prefer
        it, and if it is another than they expect: `always`.
        """
        told = always or operation.op == "increment" or self._tx.context.representation
        if value is None or not told:
            return {}
        shown = self._tx.shown(holder, operation.key, value)
        if isinstance(shown, ShownValue):
            self._shown.append((shown, self._counts.get((holder.number, operation.key), 0)))
        return {"value": shown}

    def _count(self, holder: HolderRow, key: str) -> None:
        """Count a change that takes effect."""
        self._counts[holder.number, key] = self._counts.get((holder.number, key), 0) + 1

    async def _apply(
        self, holder: HolderRow, rows: dict[str, DataRow | None], *changes: ChangeValue
    ) -> None:
        """Apply changes of keys, whose rows are given; count those that take effect."""
        await self._tx.apply(changes)
        now = await self._tx.load_rows(holder, list(rows))
        for key, before in rows.items():
            row = now[key]
            if row is not None and row is not before and not row.dormant_entry:
                self._count(holder, key)

    def _change(
        self, holder: HolderRow, operation: BatchOperation, met: str | None
    ) -> tuple[ChangeValue | None, str, dict[str, Any] | None]:
        """
        Return the change of a value that it meets, and the value it makes.

        Also its result if that is no value. A patch that only tests changes nothing.
        """
        op, key, operand = operation.op, operation.key, operation.operand
        assert operand is not None
        anchor = operation.anchor or self._tx.context.anchor
        if op == "set":
            return ChangeValue(holder, key, operand, anchor=anchor), operand, None
        before: Any = ABSENT if met is None else load_text(met)
        value = load_text(operand)
        after = canonical(apply_operator(op, before, value))
        # A patch may copy, and a late change meets another value than the present one.
        self._bytes += len(after)
        if self._bytes > RESULT_BYTES:
            raise _too_large()
        result = None
        if op == "addToSet":
            result = {"added": isinstance(before, Absent) or not contains(before, value)}
        logged = _logged_operand(op, operand)
        if logged is None:
            return None, after, result
        change = ChangeValue(holder, key, after, op, logged, anchor, recomputable=True)
        return change, after, result

    async def _run_at_once(self, place: WritePlace, operation: BatchOperation) -> dict[str, Any]:
        """Apply an operation before the next: what comes of it depends on where it stands."""
        await self.flush()
        tx, holder, key = self._tx, place.holder, operation.key
        anchor = operation.anchor or tx.context.anchor
        row = await tx.find_value(holder, key)
        before = row.value if row is not None else None
        result: dict[str, Any] | None = None
        made: str | None = None
        superseded, late = tx.superseded, place.is_late(row)
        if operation.op == "remove":
            if await place.is_removable(row):
                await self._apply(holder, {key: row}, remove(holder, key, anchor))
        elif place.hidden:
            # Its type is not checked: it will meet another value when it is shown again.
            if operation.op == "patch":
                await _check_tests(place, row, operation.operand or "")
            logged = _logged_operand(operation.op, operation.operand or "")
            if logged is not None:
                set_to = None if operation.op == "set" else logged
                change = ChangeValue(holder, key, logged, operation.op, set_to, anchor)
                await self._apply(holder, {key: row}, change)
            result = {"added": False} if operation.op == "addToSet" else None
        else:
            done, made, result = self._change(holder, operation, await place.value(row))
            if done is not None:
                await self._apply(holder, {key: row}, done)
        row = await tx.find_value(holder, key)
        now = row.value if row is not None else None
        if operation.op == "remove":
            result = {"removed": before is not None and now is None}
        if result is not None and not place.hidden and now != made:
            # Changes that stand after it made something else of it.
            result |= self._result(holder, operation, now, always=True)
        if tx.superseded > superseded:
            result = {"added": False} if operation.op == "addToSet" else result or {}
            told = self._result(holder, operation, now, always=True)
            return result | told | {"superseded": True}
        if result is not None:
            return result
        return self._result(holder, operation, now, always=place.hidden or late)

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
        known: dict[str, DataRow | None] = {row.key: row for row in rows}
        await self._apply(holder, known, *(remove(holder, row.key, anchor) for row in rows))
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
        self._count(holder, key)
        self._values[holder.number, key] = None
        return {"removed": True}


def _too_large() -> ValueTooLarge:
    return ValueTooLarge(f"The results of a batch take {RESULT_BYTES} bytes at the most.")


def _logged_operand(op: str, operand: str) -> str | None:
    """Return an operand as the log keeps it; None for a patch that only tests."""
    if op != "patch":
        return operand
    operations = without_tests(load_text(operand))
    return orjson.dumps(operations).decode() if operations else None


async def _check_tests(place: WritePlace, row: DataRow | None, operand: str) -> None:
    """Refuse a patch at a hidden place if a `test` of it fails."""
    patch = load_text(operand)
    tests = [index for index, operation in enumerate(patch) if operation["op"] == "test"]
    if not tests:
        return
    met = await place.value(row)
    if met is None:
        raise PatchTestFailed(index=tests[0])
    check_tests(load_text(met), patch)


# The operators of a batch, and the field each takes its operand from.
OPERANDS: dict[str, str | None] = {
    "set": "value",
    "remove": None,
    "clear": None,
    **{op: "by" if op == "increment" else "value" for op in OPERATORS},
}
