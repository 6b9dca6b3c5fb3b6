"""
Operations: work in progress of a chat, such as entries that are still being written.

An operation that ends takes those along that depend on it. A request that ends the last active
one also makes the checkpoints that waited for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import (
    IllegalMove,
    MessageHidden,
    OperationExists,
    StaleClaim,
)
from valuetracker.records import AddedOperation, Cleanup, Operation, Paused, Success
from valuetracker.store.checkpoint_making import make_waiting_checkpoints
from valuetracker.store.rows.chat_rows import (
    find_operation_row,
    get_operation_row,
    list_operation_rows,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.leases import lease_time
from valuetracker.store.rows.operations import (
    DELETE_OPERATION,
    INSERT_OPERATION,
    OperationRow,
)
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.tx.changes import UpdateQuietly
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.jobs import Answer, Notice
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import find_writable_chat
from valuetracker.values import canonical

DAY_MS = 24 * 60 * 60 * 1000
# Larger data is left out of the events of the feed.
LARGEST_DATA = 8 * 1024

SELECT_CHATS_WITH_OPERATIONS = Statement("SELECT DISTINCT chat FROM {schema}.operations")
SELECT_LAST_NUMBER = Statement("SELECT COALESCE(max(number), 0) FROM {schema}.operations")


async def list_operations(tx: Snapshot, chat_id: str, status: str | None) -> list[Operation]:
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    rows = await list_operation_rows(tx, chat) if chat is not None else []
    time = await lease_time(tx)
    return [row.record(time) for row in rows if status in (None, row.status)]


async def get_operation(tx: Snapshot, chat_id: str, id: str) -> Operation:
    tx.takes_no_revision()
    chat = await tx.find_chat(chat_id)
    return (await get_operation_row(tx, chat, id)).record(await lease_time(tx))


# Adding


@dataclass(slots=True, frozen=True)
class NewOperation:
    """An operation to add; `if_absent` accepts one that is there already."""

    id: str | None
    type: str
    data: str = "{}"
    priority: int = 0
    max_attempts: int = 1
    retry_after: int | None = None
    depends_on: tuple[str, ...] = ()
    if_absent: bool = False


async def add_operation(tx: Ledger, chat_id: str, new: NewOperation) -> AddedOperation:
    """Add an operation; the id of one that has ended can be used again."""
    chat = await find_writable_chat(tx, chat_id)
    id = new.id or f"op-{secrets.token_hex(8)}"
    former = await find_operation_row(tx, chat, id) if chat is not None else None
    if former is not None and former.is_active:
        if not new.if_absent:
            raise OperationExists()
        return {**former.record(await lease_time(tx)), "created": False}
    before = [await get_operation_row(tx, chat, each) for each in new.depends_on]
    anchor = tx.context.anchor
    if chat is not None:
        await _check_visible(tx, chat, anchor)
    chat = await tx.get_or_create_chat(chat_id)
    if former is not None:
        await _remove(tx, chat, [former])
    last = await tx.fetch_one(SELECT_LAST_NUMBER)
    row = OperationRow(
        chat.number, id, (last[0] if last is not None else 0) + 1, new.type, _first_status(before),
        None, new.data, new.priority, None, None, None, 0, new.max_attempts, new.retry_after,
        orjson.dumps(new.depends_on).decode(), "", anchor.message_id if anchor else None,
        anchor.swipe if anchor else None, tx.now, tx.now, tx.clock.uptime,
    )  # fmt: skip
    row.waits_for = [each.number for each in before if each.status != "completed"]
    await _put(tx, chat, row, "add")
    return {**row.record(await lease_time(tx)), "created": True}


def _first_status(before: list[OperationRow]) -> str:
    """Return the status of a new operation that depends on these."""
    statuses = [row.status for row in before]
    return next((each for each in ("failed", "cancelled") if each in statuses), "pending")


async def _check_visible(tx: Ledger, chat: ChatRow, anchor: Anchor | None) -> None:
    """Refuse work on a message or swipe that is known to be hidden."""
    if anchor is not None:
        place = (await tx.load_chain(chat.number)).places.get((anchor.message_id, anchor.swipe))
        if place is not None and not place.visible:
            raise MessageHidden()


# Changing


@dataclass(slots=True, frozen=True)
class Update:
    """The fields to change; `stage` is a tuple so that null can be told from absent."""

    status: str | None = None
    stage: tuple[str | None, ...] = ()
    data: str | None = None
    claim: str | None = None
    # True if it does not matter who has claimed the operation.
    by_anybody: bool = False


async def update_operation(tx: Ledger, chat_id: str, id: str, update: Update) -> Operation:
    chat, row = await _get_row(tx, chat_id, id)
    if not row.is_active:
        raise IllegalMove(f"The operation has {_ended(row.status)}.")
    if not update.by_anybody:
        _check_claim(row, update.claim)
    if update.data is not None:
        merged = {**orjson.loads(row.data), **orjson.loads(update.data)}
        # Also the check that the merged data is not too large.
        row.data = canonical(merged)
    if update.stage:
        row.stage = update.stage[0]
    time = await lease_time(tx)
    if update.status == "failed":
        # Work without a claim has not been counted yet.
        row.attempts += row.claim is None
        row.move("failed" if row.attempts >= row.max_attempts else "retrying")
        row.since = time.now if row.status == "retrying" else None
    elif update.status is not None:
        row.move(update.status)
        if row.status == "retrying" and row.retry_after is not None:
            row.since = time.now
    await _put(tx, chat, row)
    if not row.is_active:
        await _follow_end(tx, chat, [row])
    return row.record(time)


def _ended(status: str) -> str:
    return "been cancelled" if status == "cancelled" else status


def _check_claim(row: OperationRow, claim: str | None) -> None:
    if claim is None and row.claim is not None:
        raise StaleClaim("Another client has claimed the operation.")
    if claim != row.claim:
        raise StaleClaim()


async def _get_row(tx: Ledger, chat_id: str, id: str) -> tuple[ChatRow, OperationRow]:
    chat = await find_writable_chat(tx, chat_id)
    row = await get_operation_row(tx, chat, id)
    assert chat is not None
    return chat, row


async def claim_operation(
    tx: Ledger, chat_id: str, lease: int, types: list[str] | None
) -> Operation | Answer:
    """Claim the waiting operation of the highest priority, and of those the oldest."""
    chat = await find_writable_chat(tx, chat_id)
    rows = await list_operation_rows(tx, chat) if chat is not None and not chat.paused else []
    time = await lease_time(tx)
    wanted = [row for row in rows if types is None or row.type in types]
    waiting = [row for row in wanted if row.is_claimable(time)]
    if chat is None or not waiting:
        return Answer(204, None)
    row = min(waiting, key=lambda row: (-row.priority, row.number))
    row.status, row.claim = "in_progress", secrets.token_urlsafe(12)
    row.since, row.lease = time.now, lease
    row.attempts += 1
    await _put(tx, chat, row)
    return row.record(time)


async def renew_operation(
    tx: Ledger, chat_id: str, id: str, lease: int, claim: str | None
) -> Operation:
    """Have the lease of a claim begin again, with another length."""
    chat, row = await _get_row(tx, chat_id, id)
    if claim is None or claim != row.claim:
        raise StaleClaim()
    time = await lease_time(tx)
    row.since, row.lease = time.now, lease
    await _put(tx, chat, row)
    return row.record(time)


async def retry_operation(tx: Ledger, chat_id: str, id: str) -> Operation:
    """Return a failed operation to the queue, for one more attempt at least."""
    chat, row = await _get_row(tx, chat_id, id)
    if row.status != "failed":
        raise IllegalMove("The operation has not failed.", hint="Only a failed one is retried.")
    rows = await list_operation_rows(tx, chat)
    for each in rows:
        if each.number in row.waits_for and not each.is_active:
            raise IllegalMove(
                f"The operation depends on {each.id}, which has {_ended(each.status)}.",
                hint="Retry the one that it depends on first, or delete it.",
            )
    await _check_visible(tx, chat, Anchor(*row.place) if row.place is not None else None)
    row.move("pending")
    row.max_attempts = max(row.max_attempts, row.attempts + 1)
    await _put(tx, chat, row)
    return row.record(await lease_time(tx))


# Removing


async def delete_operation(tx: Ledger, chat_id: str, id: str) -> Success:
    """Delete an operation; this ends an active one, and cancels those that depend on it."""
    chat, row = await _get_row(tx, chat_id, id)
    await _remove(tx, chat, [row])
    return {"success": True}


async def clean_up(tx: Ledger, chat_id: str, age: int) -> Cleanup:
    chat = await find_writable_chat(tx, chat_id)
    removed = await sweep(tx, chat, age) if chat is not None else []
    return {"removedCount": len(removed), "ids": removed}


async def sweep(tx: Ledger, chat: ChatRow, age: int = DAY_MS) -> list[str]:
    """Remove active operations that were not touched for so long, and ended ones of a day."""
    now = tx.clock.uptime
    rows = await list_operation_rows(tx, chat)
    stale = [row for row in rows if row.is_active and max(now - row.touched, 0) >= age]
    ended = [row for row in rows if not row.is_active and now - row.touched >= DAY_MS]
    await _remove(tx, chat, [*stale, *ended])
    return [row.id for row in stale]


async def sweep_all(tx: Ledger) -> None:
    """Sweep the operations of all chats."""
    for (number,) in await tx.fetch_all(SELECT_CHATS_WITH_OPERATIONS):
        await sweep(tx, await tx.get_chat(number))


# Pausing


async def pause_operations(tx: Ledger, chat_id: str) -> Paused:
    """Have none of the operations of a chat claimed."""
    await find_writable_chat(tx, chat_id)
    return await _set_paused(tx, await tx.get_or_create_chat(chat_id), True)


async def resume_operations(tx: Ledger, chat_id: str) -> Paused:
    chat = await find_writable_chat(tx, chat_id)
    return {"paused": False} if chat is None else await _set_paused(tx, chat, False)


async def _set_paused(tx: Ledger, chat: ChatRow, paused: bool) -> Paused:
    if bool(chat.paused) != paused:
        chat.paused = int(paused)
        await tx.apply([UpdateQuietly(chat)])
        _tell(tx, chat, "pause" if paused else "resume", None)
    return {"paused": paused}


# What follows a change


async def cancel_dormant(tx: Ledger, flipped: list[PlaceRow]) -> None:
    """
    Cancel the operations of messages and swipes that have just been hidden.

    An operation does not register its message, so it may be of a swipe that was never seen: that
    one goes when its message is hidden, or when another swipe of its message is shown.
    """
    for number in dict.fromkeys(place.chat for place in flipped):
        places = [place for place in flipped if place.chat == number]
        hidden = {(each.message_id, each.swipe) for each in places if not each.visible}
        messages = {each.message_id for each in places}
        chat, chain = await tx.get_chat(number), await tx.load_chain(number)
        dormant = [
            row
            for row in await list_operation_rows(tx, chat)
            if row.is_active
            and row.place is not None
            and (
                row.place in hidden or (row.place not in chain.places and row.place[0] in messages)
            )
        ]
        for row in dormant:
            row.move("cancelled")
            await _put(tx, chat, row)
        if dormant:
            await _follow_end(tx, chat, dormant)


async def _put(tx: Ledger, chat: ChatRow, row: OperationRow, op: str = "update") -> None:
    row.updated_at, row.touched = tx.now, tx.clock.uptime
    await _store(tx, row)
    _tell(tx, chat, op, row.record(await lease_time(tx)))


async def _store(tx: Ledger, row: OperationRow) -> None:
    row.seal()
    await tx.execute_many(DELETE_OPERATION, [row])
    await tx.execute_many(INSERT_OPERATION, [row])


async def _remove(tx: Ledger, chat: ChatRow, rows: list[OperationRow]) -> None:
    if not rows:
        return
    await tx.execute_many(DELETE_OPERATION, rows)
    time = await lease_time(tx)
    for row in rows:
        _tell(tx, chat, "remove", row.record(time))
    await _follow_end(tx, chat, rows, removed=True)


async def _follow_end(
    tx: Ledger, chat: ChatRow, ended: Iterable[OperationRow], removed: bool = False
) -> None:
    """
    Do what follows the end or the removal of operations that are stored already.

    Those that depend on a failed or cancelled one end like it, and on a removed one that was active
    they are cancelled. Then the checkpoints are made that waited for the last active one.
    """
    rows = await list_operation_rows(tx, chat)
    following = [(each, removed) for each in ended]
    for end, is_removed in following:
        status = "cancelled" if end.is_active else end.status
        for row in rows:
            if end.number not in row.waits_for:
                continue
            if is_removed or status == "completed":
                # It may be retried although that one is gone.
                row.waits_for = [number for number in row.waits_for if number != end.number]
            if row.is_active and status != "completed":
                row.move(status)
                await _put(tx, chat, row)
                following.append((row, False))
            else:
                await _store(tx, row)
    if not any(row.is_active for row in rows):
        await make_waiting_checkpoints(tx, chat)


def _tell(tx: Ledger, chat: ChatRow, op: str, operation: Operation | None) -> None:
    """Tell the readers of the feed of a change of the queue."""
    shown = None
    if operation is not None:
        # Whoever may read the feed need not be the one who does the work.
        left_out = {"claim"}
        if len(orjson.dumps(operation["data"])) > LARGEST_DATA:
            left_out.add("data")
        shown = {name: each for name, each in operation.items() if name not in left_out}
    tx.tell(
        Notice(
            "operation",
            chat.number,
            chat.id,
            {
                "at": tx.now,
                "actor": tx.context.actor,
                "chatId": chat.id,
                "op": op,
                "operation": shown,
            },
        )
    )
