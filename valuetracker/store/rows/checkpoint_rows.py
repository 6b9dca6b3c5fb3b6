"""The rows of checkpoints, and how they are listed."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.records import Checkpoint, CheckpointListed, CheckpointSummary
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.listing import present_chats
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import ChatRow, Row, checksum

READY, WAITING, FAILED = "ready", "waiting", "failed"
# What is left of a deleted one: its number, so that no other is given it.
DELETED = "deleted"


@dataclass(slots=True)
class CheckpointRow(Row):
    """A name for a revision of a chat; `state` is what it recorded, as JSON."""

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

    def _sum(self) -> int:
        return checksum(
            self.chat, self.name, self.number, self.status, self.revision, self.message_id,
            self.digest, self.expect, self.meta, self.warnings, self.state, self.created_at,
        )  # fmt: skip

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


CHECKPOINTS = {
    "chat": "bigint",
    "name": "text",
    "number": "bigint",
    "status": "text",
    "revision": "bigint",
    "message_id": "text",
    "digest": "text",
    "expect": "text",
    "meta": "text",
    "warnings": "text",
    "state": "text",
    "created_at": "text",
    "checksum": "bigint",
}
SELECT_CHECKPOINTS = Statement(
    f"SELECT {sql.names(CHECKPOINTS)} FROM {{schema}}.checkpoints"
    " WHERE chat = :chat ORDER BY number"
)
SELECT_CHECKPOINT = Statement(
    f"SELECT {sql.names(CHECKPOINTS)} FROM {{schema}}.checkpoints"
    " WHERE chat = :chat AND name = :name"
)
INSERT_CHECKPOINT = sql.insert("checkpoints", CHECKPOINTS)
DELETE_CHECKPOINT = Statement(
    "DELETE FROM {schema}.checkpoints WHERE chat = :chat AND name = :name"
)


async def list_checkpoint_rows(tx: Reader, chat: ChatRow) -> list[CheckpointRow]:
    rows = await tx.fetch_all(SELECT_CHECKPOINTS, chat=chat.number)
    found = [CheckpointRow(*row).verify() for row in rows]
    # Of a deleted one its number stays.
    if [row.number for row in found] != list(range(1, chat.checkpoints + 1)):
        raise DatabaseDamaged()
    return [row for row in found if row.status != DELETED]


async def oldest_needed(tx: Reader) -> int | None:
    """How far the log may be folded, if any checkpoint says so."""
    needed: list[int] = []
    for chat in await present_chats(tx):
        for row in await list_checkpoint_rows(tx, chat) if chat.checkpoints else ():
            if row.status == READY and row.message_id is None:
                needed.append(row.revision)
            elif row.status == READY:
                # As of a message, every anchored change of the chat matters: one that were
                # folded would count for all messages.
                written = [place.written for place in await tx.list_places(chat) if place.written]
                needed.append(min(written) - 1 if written else row.revision)
    return min(needed, default=None)


async def find_checkpoint_row(tx: Reader, chat: ChatRow, name: str) -> CheckpointRow | None:
    row = await tx.fetch_one(SELECT_CHECKPOINT, chat=chat.number, name=name)
    if row is not None:
        return CheckpointRow(*row).verify()
    # Whether that is so: its name is all that finds it.
    await list_checkpoint_rows(tx, chat)
    return None
