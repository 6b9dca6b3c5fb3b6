"""
The finders of checkpoints and operations, which a chat has beside its values.

Operations are no state: they take no revision, and are in no history and no checkpoint. While
any is active, a checkpoint would record a chat half-way, so it is refused or waits.
"""

from __future__ import annotations

from valuetracker.errors import (
    CheckpointFailed,
    CheckpointNotFound,
    CheckpointWaiting,
    OperationNotFound,
    OperationsPending,
)
from valuetracker.records import OperationCounts
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.checkpoints import (
    BEGINNING,
    DELETED,
    FAILED,
    SELECT_CHECKPOINT,
    SELECT_CHECKPOINTS,
    WAITING,
    CheckpointRow,
)
from valuetracker.store.rows.leases import lease_time
from valuetracker.store.rows.operations import (
    SELECT_OPERATION,
    SELECT_OPERATIONS,
    OperationRow,
)
from valuetracker.store.rows.reader import RowReader

# Checkpoints


async def list_checkpoint_rows(tx: RowReader, chat: ChatRow) -> list[CheckpointRow]:
    rows = await tx.fetch_all(SELECT_CHECKPOINTS, chat=chat.number)
    found = [CheckpointRow(*row).verify() for row in rows]
    # The number of a deleted one stays, and a branch has one that is no checkpoint for others.
    return [row for row in found if row.status not in (DELETED, BEGINNING)]


async def find_checkpoint_row(tx: RowReader, chat: ChatRow, name: str) -> CheckpointRow | None:
    row = await tx.fetch_one(SELECT_CHECKPOINT, chat=chat.number, name=name)
    return CheckpointRow(*row).verify() if row is not None else None


async def get_checkpoint_row(tx: RowReader, chat: ChatRow | None, name: str) -> CheckpointRow:
    row = await find_checkpoint_row(tx, chat, name) if chat is not None else None
    if row is None:
        raise CheckpointNotFound()
    return row


async def get_ready_checkpoint(tx: RowReader, chat: ChatRow, name: str) -> CheckpointRow:
    row = await get_checkpoint_row(tx, chat, name)
    if row.status == WAITING:
        raise CheckpointWaiting()
    if row.status == FAILED:
        raise CheckpointFailed()
    return row


# Operations


async def list_operation_rows(tx: RowReader, chat: ChatRow) -> list[OperationRow]:
    found = await tx.fetch_all(SELECT_OPERATIONS, chat=chat.number)
    if not found:
        return []
    time = await lease_time(tx)
    return [OperationRow(*row).verify().lapse(time) for row in found]


async def find_operation_row(tx: RowReader, chat: ChatRow, id: str) -> OperationRow | None:
    row = await tx.fetch_one(SELECT_OPERATION, chat=chat.number, id=id)
    if row is None:
        return None
    return OperationRow(*row).verify().lapse(await lease_time(tx))


async def get_operation_row(tx: RowReader, chat: ChatRow | None, id: str) -> OperationRow:
    row = await find_operation_row(tx, chat, id) if chat is not None else None
    if row is None:
        raise OperationNotFound()
    return row


async def count_operations(tx: RowReader, chat: ChatRow) -> OperationCounts:
    statuses = [row.status for row in await list_operation_rows(tx, chat)]
    return {
        "pending": statuses.count("pending"),
        "inProgress": statuses.count("in_progress"),
        "retrying": statuses.count("retrying"),
        "paused": bool(chat.paused),
    }


async def check_no_operations(tx: RowReader, chat: ChatRow, what: str) -> None:
    """Refuse what would catch a chat half-way through an operation."""
    counts = await count_operations(tx, chat)
    active = count_active(counts)
    if active:
        raise OperationsPending(
            f"Cannot {what}: {active} operations in queue. Please wait for queue to finish.",
            pending=counts["pending"],
            inProgress=counts["inProgress"],
            retrying=counts["retrying"],
        )


def count_active(counts: OperationCounts) -> int:
    return counts["pending"] + counts["inProgress"] + counts["retrying"]
