"""The rows of checkpoints."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Checkpoint, CheckpointListed, CheckpointSummary
from valuetracker.store.rows.row import Row, insert, select

READY, WAITING, FAILED = "ready", "waiting", "failed"
# A deleted one leaves its number, so that no other is given it.
DELETED = "deleted"
# The one that says what a branch began with; no request can name it.
BEGINNING, BEGINNING_NAME = "beginning", "\x7fbeginning"


@dataclass(slots=True)
class CheckpointRow(Row, table="checkpoints"):
    """
    A name for a revision of a chat; `state` is the record it is checked by, as JSON.

    While it waits, `state` says what is to be recorded: `capture`, and a copied `lorebook`.
    """

    chat: int
    name: str
    number: int
    status: str
    revision: int
    message_id: str | None
    digest: str
    expect: str | None
    meta: str | None
    warnings: str
    state: str
    created_at: str
    checksum: int = 0

    def summary(self) -> CheckpointSummary:
        return {
            "name": self.name,
            "status": self.status,
            "revision": self.revision if self.status == READY else None,
            "messageId": self.message_id,
            "createdAt": self.created_at,
        }

    def listed(self) -> CheckpointListed:
        ready = self.status == READY
        return {
            **self.summary(),
            "digest": self.digest if ready else None,
            "rows": orjson.loads(self.state)["rows"] if ready else None,
            "expect": orjson.loads(self.expect) if self.expect is not None else None,
            "meta": orjson.loads(self.meta) if self.meta is not None else None,
            "warnings": orjson.loads(self.warnings),
        }

    def record(self) -> Checkpoint:
        return {
            **self.listed(),
            "state": orjson.Fragment(self.state) if self.status == READY else None,
        }


SELECT_CHECKPOINTS = select(CheckpointRow, "WHERE chat = :chat ORDER BY number")
SELECT_CHECKPOINT = select(CheckpointRow, "WHERE chat = :chat AND name = :name")
SELECT_LAST_CHECKPOINT = Statement(
    "SELECT COALESCE(max(number), 0) FROM {schema}.checkpoints WHERE chat = :chat"
)
INSERT_CHECKPOINT = insert(CheckpointRow)
DELETE_CHECKPOINT = Statement(
    "DELETE FROM {schema}.checkpoints WHERE chat = :chat AND name = :name"
)
