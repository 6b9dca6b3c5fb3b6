"""The rows of operations: work in progress of a chat."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Operation, time_text
from valuetracker.store.rows.row import Row, insert, select

ACTIVE = ("pending", "in_progress", "retrying")
ENDED = ("completed", "failed", "cancelled")
STATUSES = (*ACTIVE, *ENDED)


@dataclass(slots=True)
class OperationRow(Row, table="operations"):
    """An operation; `lease` and `touched` are milliseconds since 1970."""

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

    def lapse(self, now: int) -> OperationRow:
        """Return it to the queue if its lease has run out."""
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
            "leaseUntil": time_text(self.lease) if self.lease is not None else None,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }


SELECT_OPERATIONS = select(OperationRow, "WHERE chat = :chat ORDER BY number")
SELECT_OPERATION = select(OperationRow, "WHERE chat = :chat AND id = :id")
INSERT_OPERATION = insert(OperationRow)
DELETE_OPERATION = Statement(
    "DELETE FROM {schema}.operations WHERE chat = :chat AND id = :id",
    postgres="""
    DELETE FROM {schema}.operations
    USING unnest(:chat::bigint[], :id::text[]) AS old (chat, id)
    WHERE operations.chat = old.chat AND operations.id = old.id
    """,
)
