"""
Operations: work in progress of a chat, such as entries that are still being written.

A request that ends the last active one also makes the checkpoints that waited for it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import IllegalMove, OperationExists, StaleClaim
from valuetracker.records import Cleanup, Operation, milliseconds, milliseconds_of
from valuetracker.store.checkpoint_making import make_waiting_checkpoints
from valuetracker.store.rows.chat_rows import (
    find_operation_row,
    get_operation_row,
    list_operation_rows,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.operations import (
    DELETE_OPERATION,
    INSERT_OPERATION,
    OperationRow,
)
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.tx.jobs import Answer
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import find_writable_chat
from valuetracker.values import canonical

DAY_MS = 24 * 60 * 60 * 1000

SELECT_CHATS_WITH_OPERATIONS = Statement("SELECT DISTINCT chat FROM {schema}.operations")
SELECT_LAST_NUMBER = Statement("SELECT COALESCE(max(number), 0) FROM {schema}.operations")


async def list_operations(tx: Snapshot, chat_id: str, status: str | None) -> list[Operation]:
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    rows = await list_operation_rows(tx, chat) if chat is not None else []
    return [row.record() for row in rows if status in (None, row.status)]


async def get_operation(tx: Snapshot, chat_id: str, id: str) -> Operation:
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    return (await get_operation_row(tx, chat, id)).record()


# Writing


async def add_operation(
    tx: Ledger, chat_id: str, id: str | None, type: str, data: str, priority: int
) -> Operation:
    await find_writable_chat(tx, chat_id)
    chat = await tx.get_or_create_chat(chat_id)
    id = id or f"op-{secrets.token_hex(8)}"
    if await find_operation_row(tx, chat, id) is not None:
        raise OperationExists()
    last = await tx.fetch_one(SELECT_LAST_NUMBER)
    row = OperationRow(
        chat.number, id, (last[0] if last is not None else 0) + 1, type, "pending", None, data,
        priority, None, None, tx.now, tx.now, milliseconds_of(tx.now),
    )  # fmt: skip
    row.seal()
    await tx.execute_many(INSERT_OPERATION, [row])
    return row.record()


@dataclass(slots=True, frozen=True)
class Update:
    """The fields to change; `stage` is a tuple so that null can be told from absent."""

    status: str | None = None
    stage: tuple[str | None, ...] = ()
    data: str | None = None
    claim: str | None = None


async def update_operation(tx: Ledger, chat_id: str, id: str, update: Update) -> Operation:
    chat = await find_writable_chat(tx, chat_id)
    row = await get_operation_row(tx, chat, id)
    assert chat is not None
    if not row.is_active:
        raise IllegalMove(f"The operation has {_ended(row.status)}.")
    if update.claim is not None and update.claim != row.claim:
        raise StaleClaim()
    if update.status is not None:
        row.status = update.status
        if row.status != "in_progress":
            row.claim = row.lease = None
    if update.stage:
        row.stage = update.stage[0]
    if update.data is not None:
        merged = {**orjson.loads(row.data), **orjson.loads(update.data)}
        # Also the check that the merged data is not too large.
        row.data = canonical(merged)
    await _put(tx, row)
    if not row.is_active:
        await _finished(tx, chat)
    return row.record()


def _ended(status: str) -> str:
    return "been cancelled" if status == "cancelled" else status


async def claim_operation(tx: Ledger, chat_id: str, lease: int) -> Operation | Answer:
    """Claim the pending operation of the highest priority, and of those the oldest."""
    chat = await find_writable_chat(tx, chat_id)
    rows = await list_operation_rows(tx, chat) if chat is not None else []
    waiting = [row for row in rows if row.status == "pending"]
    if not waiting:
        return Answer(204, None)
    row = min(waiting, key=lambda row: (-row.priority, row.number))
    row.status, row.claim = "in_progress", secrets.token_urlsafe(12)
    row.lease = milliseconds() + lease
    await _put(tx, row)
    return row.record()


async def clean_up(tx: Ledger, chat_id: str, age: int) -> Cleanup:
    chat = await find_writable_chat(tx, chat_id)
    removed = await sweep(tx, chat, age) if chat is not None else []
    return {"removedCount": len(removed), "ids": removed}


async def sweep(tx: Ledger, chat: ChatRow, age: int = DAY_MS) -> list[str]:
    """Remove active operations that were not touched for so long, and ended ones of a day."""
    now = milliseconds_of(tx.now)
    rows = await list_operation_rows(tx, chat)
    stale = [row for row in rows if row.is_active and now - row.touched >= age]
    ended = [row for row in rows if not row.is_active and now - row.touched >= DAY_MS]
    if stale or ended:
        await tx.execute_many(DELETE_OPERATION, [*stale, *ended])
    if stale:
        await _finished(tx, chat)
    return [row.id for row in stale]


async def sweep_all(tx: Ledger) -> None:
    """Sweep the operations of all chats."""
    for (number,) in await tx.fetch_all(SELECT_CHATS_WITH_OPERATIONS):
        await sweep(tx, await tx.get_chat(number))


async def _put(tx: Ledger, row: OperationRow) -> None:
    row.updated_at, row.touched = tx.now, milliseconds_of(tx.now)
    row.seal()
    await tx.execute_many(DELETE_OPERATION, [row])
    await tx.execute_many(INSERT_OPERATION, [row])


async def _finished(tx: Ledger, chat: ChatRow) -> None:
    if not any(row.is_active for row in await list_operation_rows(tx, chat)):
        await make_waiting_checkpoints(tx, chat)
