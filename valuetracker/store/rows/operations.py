"""The rows of operations: work in progress of a chat."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Operation, OperationAnchor
from valuetracker.store.rows.leases import LeaseTime
from valuetracker.store.rows.places import PlaceName
from valuetracker.store.rows.row import Row, insert, select

ACTIVE = ("pending", "in_progress", "retrying")
ENDED = ("completed", "failed", "cancelled")
STATUSES = (*ACTIVE, *ENDED)
# The text of an empty list.
NONE = "[]"


@dataclass(slots=True)
class OperationRow(Row, table="operations"):
    """An operation; `since` is a time of `LeaseTime`, `touched` one of the server's uptime."""

    chat: int
    id: str
    number: int
    type: str
    status: str
    stage: str | None
    data: str
    priority: int
    # Who has claimed it, and for how many milliseconds.
    claim: str | None
    lease: int | None
    # When it was claimed, or when it began to wait for the next attempt.
    since: int | None
    attempts: int
    max_attempts: int
    retry_after: int | None
    # As JSON: the ids it depends on, and the numbers of those that have not been completed.
    depends_on: str
    waiting: str
    # The place it works on, if it was made at one.
    message_id: str | None
    swipe: str | None
    created_at: str
    updated_at: str
    touched: int
    checksum: int = 0

    def lapse(self, time: LeaseTime) -> OperationRow:
        """Return it to the queue if its lease has run out."""
        if self.since is None or self.lease is None:
            return self
        if self.status == "in_progress" and not time.holds(self.since, self.lease):
            self.move("pending")
        return self

    def move(self, status: str) -> None:
        """Give it another status; only one that is in progress stays claimed."""
        self.status = status
        if status != "in_progress" or self.claim is None:
            self.claim = self.lease = self.since = None

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def is_claimable(self, time: LeaseTime) -> bool:
        if self.waiting != NONE:
            return False
        if self.status == "retrying" and self.since is not None:
            return not time.holds(self.since, self.retry_after or 0)
        return self.status == "pending"

    @property
    def place(self) -> PlaceName | None:
        return None if self.message_id is None else (self.message_id, self.swipe or "0")

    @property
    def waits_for(self) -> list[int]:
        """The numbers of the operations that must be completed before it."""
        numbers: list[int] = orjson.loads(self.waiting)
        return numbers

    @waits_for.setter
    def waits_for(self, numbers: list[int]) -> None:
        self.waiting = orjson.dumps(numbers).decode()

    def record(self, time: LeaseTime) -> Operation:
        ends = None
        if self.since is not None and self.lease is not None:
            ends = time.end_text(self.since, self.lease)
        anchor: OperationAnchor | None = None
        if self.place is not None:
            anchor = {"messageId": self.place[0], "swipe": self.place[1]}
        return {
            "id": self.id,
            "type": self.type,
            "status": self.status,
            "stage": self.stage,
            "data": orjson.Fragment(self.data),
            "priority": self.priority,
            "claim": self.claim,
            "leaseUntil": ends,
            "attempts": self.attempts,
            "maxAttempts": self.max_attempts,
            "retryAfterMs": self.retry_after,
            "dependsOn": orjson.loads(self.depends_on),
            "anchor": anchor,
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
