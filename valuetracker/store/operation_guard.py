"""
Operations: work in progress of a chat, such as entries that are still being written.

They are no state: they take no revision, are in no history and no checkpoint. While any is
active, a checkpoint would catch a chat half-way, so it is refused or waits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, OperationsPending
from valuetracker.records import Operation, OperationCounts
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import ChatRow, Row, checksum
from valuetracker.store.tx.ledger import Ledger

ACTIVE = ("pending", "in_progress", "retrying")
ENDED = ("completed", "failed", "cancelled")
STATUSES = (*ACTIVE, *ENDED)
DAY_MS = 24 * 60 * 60 * 1000


@dataclass(slots=True)
class OperationRow(Row):
    chat: int
    id: str
    number: int
    type: str
    status: str
    stage: str | None
    data: str
    priority: int
    claim: str | None
    lease: int | None
    created_at: str
    updated_at: str
    touched: int
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(
            self.chat, self.id, self.number, self.type, self.status, self.stage, self.data,
            self.priority, self.claim, self.lease, self.created_at, self.updated_at, self.touched,
        )  # fmt: skip

    def lapse(self, now: int) -> OperationRow:
        """As it is by now: a lease that has run out returns it to the queue."""
        if self.status == "in_progress" and self.lease is not None and self.lease <= now:
            self.status, self.claim, self.lease = "pending", None, None
        return self

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def record(self) -> Operation:
        return {
            "id": self.id,
            "type": self.type,
            "status": self.status,
            "stage": self.stage,
            "data": orjson.Fragment(self.data),
            "priority": self.priority,
            "claim": self.claim,
            "leaseUntil": _moment(self.lease) if self.lease is not None else None,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }


OPERATIONS = {
    **dict.fromkeys(("chat",), "bigint"),
    "id": "text",
    "number": "bigint",
    "type": "text",
    "status": "text",
    "stage": "text",
    "data": "text",
    "priority": "bigint",
    "claim": "text",
    "lease": "bigint",
    "created_at": "text",
    "updated_at": "text",
    "touched": "bigint",
    "checksum": "bigint",
}
SELECT_OPERATIONS = Statement(
    f"SELECT {sql.names(OPERATIONS)} FROM {{schema}}.operations WHERE chat = :chat ORDER BY number"
)
SELECT_OPERATION = Statement(
    f"SELECT {sql.names(OPERATIONS)} FROM {{schema}}.operations WHERE chat = :chat AND id = :id"
)
INSERT_OPERATION = sql.insert("operations", OPERATIONS)
DELETE_OPERATION = Statement(
    "DELETE FROM {schema}.operations WHERE chat = :chat AND id = :id",
    postgres="""
    DELETE FROM {schema}.operations
    USING unnest(:chat::bigint[], :id::text[]) AS old (chat, id)
    WHERE operations.chat = old.chat AND operations.id = old.id
    """,
)


def milliseconds() -> int:
    return time.time_ns() // 1_000_000


def since_epoch(at: str) -> int:
    """A moment as the API writes it, in milliseconds."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)


def _moment(milliseconds: int) -> str:
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


async def list_rows(tx: Reader, chat: ChatRow) -> list[OperationRow]:
    now = milliseconds()
    rows = [
        OperationRow(*row).verify()
        for row in await tx.fetch_all(SELECT_OPERATIONS, chat=chat.number)
    ]
    if len(rows) != chat.operations:
        raise DatabaseDamaged()
    return [row.lapse(now) for row in rows]


async def find_row(tx: Reader, chat: ChatRow, id: str) -> OperationRow | None:
    row = await tx.fetch_one(SELECT_OPERATION, chat=chat.number, id=id)
    if row is None:
        # Whether that is so: its id is all that finds it.
        await list_rows(tx, chat)
        return None
    return OperationRow(*row).verify().lapse(milliseconds())


async def count_operations(tx: Reader, chat: ChatRow) -> OperationCounts:
    statuses = [row.status for row in await list_rows(tx, chat)]
    return {
        "pending": statuses.count("pending"),
        "inProgress": statuses.count("in_progress"),
        "retrying": statuses.count("retrying"),
    }


async def guard(tx: Ledger, chat: ChatRow, what: str) -> None:
    """Refuse what must not happen half-way through something."""
    counts = await count_operations(tx, chat)
    active = sum(counts[name] for name in ("pending", "inProgress", "retrying"))
    if active:
        raise OperationsPending(
            f"Cannot {what}: {active} operations in queue. Please wait for queue to finish.",
            **counts,
        )
