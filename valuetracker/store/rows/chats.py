"""The rows of chats, of the ids they had before, and of the sessions in them."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.store.rows.row import Row, insert, select, select_numbered, select_page, update


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
    # The revision at which messages of it were last put into another order.
    reordered: int = 0
    # The revision of its last change, with all that it holds.
    revision: int = 0
    # The last entry about the chat itself.
    last_entry: int = 0
    # 1 while none of its operations can be claimed.
    paused: int = 0
    checksum: int = 0

    def text(self) -> str:
        """Return what the log keeps of it."""
        return orjson.dumps(
            {"id": self.id, "archived": self.archived_at is not None, "createdAt": self.created_at}
        ).decode()


SELECT_CHAT = select(ChatRow, "WHERE id = :id")
SELECT_CHATS = select(ChatRow, "WHERE deleted = 0 ORDER BY ordinal")
SELECT_PAGE_OF_CHATS = select_page(ChatRow, "deleted = 0", "archived_at IS NULL")
SELECT_CHAT_BY_NUMBER = select(ChatRow, "WHERE number = :number")
SELECT_CHATS_NUMBERED = select_numbered(ChatRow)
INSERT_CHAT = insert(ChatRow)
UPDATE_CHAT = update(ChatRow, "number")
# Most updates only follow a change of what it holds; they leave the index by id alone.
TOUCH_CHAT = update(ChatRow, "number", "revision", "last_entry", "checksum")


@dataclass(slots=True)
class AliasRow(Row, table="aliases"):
    """An id that a chat had before it was renamed."""

    id: str
    chat: int
    checksum: int = 0


SELECT_ALIAS = select(AliasRow, "WHERE id = :id")
INSERT_ALIAS = insert(AliasRow)
DELETE_ALIAS = Statement("DELETE FROM {schema}.aliases WHERE id = :id")


@dataclass(slots=True)
class SessionRow(Row, table="sessions"):
    """One tab that has a chat open."""

    session: str
    chat: int
    client: str
    at: str
    checksum: int = 0


SELECT_SESSION = select(SessionRow, "WHERE session = :session")
DELETE_SESSION_OF_CLIENT = Statement("DELETE FROM {schema}.sessions WHERE client = :client")
INSERT_SESSION = insert(SessionRow)
