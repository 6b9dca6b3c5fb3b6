"""The rows of characters, and which instances ever belonged to a character or a chat."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.records import Character
from valuetracker.store.rows.row import Row, insert, select, select_numbered, select_page, update


@dataclass(slots=True)
class CharacterRow(Row, table="characters"):
    """A character, also a deleted one."""

    number: int
    ordinal: int
    id: str
    name: str | None
    created_at: str
    updated_at: str
    deleted: int = 0
    revision: int = 0
    last_entry: int = 0
    checksum: int = 0

    def record(self) -> Character:
        return {
            "id": self.id,
            "name": self.name,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }

    def text(self) -> str:
        """Return what the log keeps of it."""
        return orjson.dumps(self.record()).decode()


SELECT_CHARACTER = select(CharacterRow, "WHERE id = :id")
SELECT_CHARACTERS = select(CharacterRow, "WHERE deleted = 0 ORDER BY ordinal")
SELECT_PAGE_OF_CHARACTERS = select_page(CharacterRow, "deleted = 0")
SELECT_CHARACTERS_NUMBERED = select_numbered(CharacterRow)
INSERT_CHARACTER = insert(CharacterRow)
UPDATE_CHARACTER = update(CharacterRow, "number", besides=("id",))


@dataclass(slots=True)
class MemberRow(Row, table="members"):
    """A holder belongs, or once belonged, to a character or a chat."""

    parent: int
    holder: int
    checksum: int = 0


INSERT_MEMBER = insert(MemberRow)
SELECT_MEMBER = select(MemberRow, "WHERE parent = :parent AND holder = :holder")
