"""The rows of chats and of the ids they had before."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.store.rows.row import Row, insert, select, select_numbered, update
from valuetracker.store.rows.spaces import SPACES


@dataclass(slots=True)
class ChatRow(Row, table="chats"):
    """A chat, also an archived or a purged one."""

    number: int
    ordinal: int
    id: str
    # The number of the chat it is a branch of, and as JSON from where in it.
    parent: int | None
    origin: str | None
    created_at: str
    updated_at: str
    archived_at: str | None = None
    deleted: int = 0
    # The oldest revision at which it can still be read.
    readable_from: int = 0
    # The revision of its last change, with all that it holds.
    revision: int = 0
    # The last entry about the chat itself, and the last of all that were made in it.
    last_entry: int = 0
    last_in_chat: int = 0
    # How many instances it has, which spaces (a bit each), and how many of the others.
    instances: int = 0
    spaces: int = 0
    places: int = 0
    checkpoints: int = 0
    operations: int = 0
    # The exclusive or of the sums of the instances it ever had.
    members: int = 0
    checksum: int = 0

    def has_space(self, space: str) -> bool:
        return bool(self.spaces >> SPACES.index(space) & 1)

    def add_space(self, space: str) -> None:
        self.spaces |= 1 << SPACES.index(space)

    def text(self) -> str:
        """Return what the log keeps of it."""
        return orjson.dumps(
            {"id": self.id, "archived": self.archived_at is not None, "createdAt": self.created_at}
        ).decode()


SELECT_CHAT = select(ChatRow, "WHERE id = :id")
SELECT_CHATS = select(ChatRow, "WHERE deleted = 0 ORDER BY ordinal")
SELECT_CHAT_BY_NUMBER = select(ChatRow, "WHERE number = :number")
SELECT_CHATS_NUMBERED = select_numbered(ChatRow)
INSERT_CHAT = insert(ChatRow)
UPDATE_CHAT = update(ChatRow, "number")
# Most updates only follow a change of what it holds; they leave the index by id alone.
TOUCH_CHAT = update(
    ChatRow,
    "number",
    *("revision", "last_entry", "last_in_chat", "instances", "spaces", "places", "members"),
    "checksum",
)


@dataclass(slots=True)
class AliasRow(Row, table="aliases"):
    """An id that a chat had before it was renamed."""

    id: str
    chat: int
    checksum: int = 0


SELECT_ALIAS = select(AliasRow, "WHERE id = :id")
SELECT_ALIASES = select(AliasRow, "")
INSERT_ALIAS = insert(AliasRow)
DELETE_ALIAS = Statement("DELETE FROM {schema}.aliases WHERE id = :id")
