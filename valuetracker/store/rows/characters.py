"""The rows of characters, and which instances ever belonged to a character or a chat."""

from __future__ import annotations

from dataclasses import dataclass
from zlib import crc32

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Character
from valuetracker.store.rows.row import Row, insert, select, select_numbered, update


@dataclass(slots=True)
class CharacterRow(Row, table="characters"):
    """A character, also a deleted one."""

    number: int
    ordinal: int
    id: str
    name: str | None
    created_at: str
    updated_at: str
    instances: int = 0
    # The exclusive or of the sums of the instances it ever had.
    members: int = 0
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
SELECT_CHARACTERS_NUMBERED = select_numbered(CharacterRow)
INSERT_CHARACTER = insert(CharacterRow)
UPDATE_CHARACTER = update(CharacterRow, "number", besides=("id",))


@dataclass(slots=True)
class MemberRow:
    """A holder belongs, or once belonged, to a character or a chat."""

    parent: int
    holder: int


INSERT_MEMBER = Statement(
    "INSERT INTO {schema}.members (parent, holder) VALUES (:parent, :holder)",
    postgres="INSERT INTO {schema}.members (parent, holder)"
    " SELECT * FROM unnest(:parent::bigint[], :holder::bigint[])",
)
SELECT_MEMBER = Statement(
    "SELECT holder FROM {schema}.members WHERE parent = :parent AND holder = :holder"
)


def member_sum(holder: int) -> int:
    return crc32(b"%d" % holder)
