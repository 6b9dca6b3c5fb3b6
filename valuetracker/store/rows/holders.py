"""
The rows of holders and of their values: the tables `instances` and `data`.

A holder is what holds values: an instance, or one of the three spaces of a chat. It keeps
the number of its values and the exclusive or of their checksums, so a missing value is
noticed as well as a wrong one, and a checkpoint costs the same for ten values as for a million.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.records import Instance
from valuetracker.store.rows.row import Row, arrays, insert, names, select, select_numbered, update


@dataclass(slots=True)
class HolderRow(Row, table="instances"):
    """An instance by its id, or a space of a chat by the chat's number; also a deleted one."""

    number: int
    ordinal: int
    space: str
    id: str
    character_id: str | None
    chat: int | None
    name: str | None
    # The id of the instance it was branched from.
    origin: str | None
    created_at: str
    updated_at: str
    deleted: int = 0
    # The oldest revision at which it can still be read.
    readable_from: int = 0
    # The revision of the last change of the instance itself, not of its values.
    shape_revision: int = 0
    changes_since_keyframe: int = 0
    revision: int = 0
    last_entry: int = 0
    # The last entry it has taken over from the parent of its chat.
    last_taken: int = 0
    keys: int = 0
    # How many rows of keys there are, also of removed ones.
    key_rows: int = 0
    digest: int = 0
    checksum: int = 0

    def verify_values(self, rows: list[DataRow]) -> None:
        """Raise unless these are all of its values, and no others."""
        digest = 0
        for row in rows:
            digest ^= row.content
        if len(rows) != self.keys or digest != self.digest:
            raise DatabaseDamaged()

    def verify_rows(self, rows: list[DataRow]) -> None:
        """Raise unless these are the rows of all keys it has or had."""
        if len(rows) != self.key_rows:
            raise DatabaseDamaged()
        self.verify_values([row for row in rows if row.value is not None])

    def shape(self) -> Shape:
        """Return what the log keeps of it: its chat by number, because ids of chats change."""
        return {
            "id": self.id,
            "characterId": self.character_id,
            "name": self.name,
            "chat": self.chat,
            "origin": self.origin,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }

    def text(self) -> str:
        return orjson.dumps(self.shape()).decode()


# An instance as the log keeps it.
Shape = dict[str, Any]


def instance_record(shape: Shape, chat_id: str | None) -> Instance:
    """Return an instance as the API answers it; `chat_id` is the present id of its chat."""
    record: Instance = {
        "id": shape["id"],
        "characterId": shape["characterId"],
        "name": shape["name"],
        "chatId": chat_id if shape["chat"] is not None else None,
        "createdAt": shape["createdAt"],
        "updatedAt": shape["updatedAt"],
    }
    if shape["origin"] is not None:
        record["origin"] = shape["origin"]
    return record


SELECT_HOLDER = select(HolderRow, "WHERE id = :id AND space = :space")
SELECT_HOLDER_BY_NUMBER = select(HolderRow, "WHERE number = :number")
SELECT_HOLDERS_NUMBERED = select_numbered(HolderRow)
SELECT_HOLDERS_OF_CHAT = select(HolderRow, "WHERE chat = :chat AND deleted = 0 ORDER BY ordinal")
SELECT_INSTANCES = select(HolderRow, "WHERE space = 'instance' AND deleted = 0 ORDER BY ordinal")
SELECT_INSTANCES_OF_CHARACTER = select(
    HolderRow, "WHERE character_id = :character_id AND deleted = 0 ORDER BY ordinal"
)
# `ids` is a JSON array: a whole group of writes asks at once.
SELECT_INSTANCES_BY_ID = select(
    HolderRow,
    "WHERE id IN (SELECT value FROM json_each(:ids)) AND space = 'instance'",
    postgres="WHERE id IN (SELECT json_array_elements_text(CAST(:ids AS json)))"
    " AND space = 'instance'",
)
SELECT_MEMBERS = Statement(
    f"""
    SELECT {names(HolderRow.columns, "instances")}
    FROM {{schema}}.members JOIN {{schema}}.instances ON instances.number = members.holder
    WHERE parent = :parent
    """
)
INSERT_HOLDER = insert(HolderRow)
UPDATE_HOLDER = update(HolderRow, "number", besides=("space", "id"))
# Most updates only follow a change of values. Naming the indexed columns in those would write
# the indexes again, too.
TOUCH_HOLDER = update(
    HolderRow,
    "number",
    *("changes_since_keyframe", "revision", "last_entry", "keys", "key_rows", "digest", "checksum"),
)


@dataclass(slots=True)
class DataRow(Row, table="data"):
    """A key that a holder has, or had: then `value` is None."""

    holder: int
    key: str
    # Canonical JSON text.
    value: str | None
    ordinal: int
    # The revision of its last change that took effect, and of its last change at all.
    revision: int
    last_change: int
    # 1 if the chain of a chat decides over some change of it.
    anchored: int
    checksum: int = 0
    # The checksum of holder, key and value alone; known once the row is sealed or verified.
    content: int = 0

    def _sum(self) -> int:
        self.content = content_sum(self.holder, self.key, self.value)
        return self.content ^ history_sum(
            self.ordinal, self.revision, self.last_change, self.anchored
        )


def content_sum(holder: int, key: str, value: str | None) -> int:
    # No key holds a NUL, so it keeps the columns apart; no JSON text reads None.
    return crc32(f"{holder}\0{key}\0{value}".encode())


def digest_part(holder: int, key: str, after: str | None) -> int:
    """Return what a value, or as the empty key a holder itself, adds to a keyframe's digest."""
    return content_sum(holder, key, after) if after is not None else 0


def history_sum(ordinal: int, revision: int, last_change: int, anchored: int) -> int:
    return crc32(f"{ordinal}.{revision}.{last_change}.{anchored}".encode())


def values_record(rows: list[DataRow]) -> dict[str, Any]:
    """Return values by key, each spliced in as the text it is stored as."""
    return {row.key: orjson.Fragment(row.value) for row in rows if row.value is not None}


# PostgreSQL indexes keys by their hash, because it refuses long keys in an index.
SELECT_VALUE = select(
    DataRow,
    "WHERE holder = :holder AND key = :key",
    postgres="WHERE holder = :holder AND md5(key) = md5(:key) AND key = :key",
)
# `pairs` is a JSON array of [holder, key].
SELECT_VALUES_BY_PAIR = Statement(
    f"""
    SELECT {names(DataRow.columns, "data")}
    FROM json_each(:pairs) AS pair CROSS JOIN {{schema}}.data
    WHERE holder = json_extract(pair.value, '$[0]')
        AND data.key = json_extract(pair.value, '$[1]')
    """,
    postgres=f"""
    SELECT {names(DataRow.columns, "data")}
    FROM json_array_elements(CAST(:pairs AS json)) AS pair (value)
    JOIN {{schema}}.data ON holder = CAST(pair.value ->> 0 AS bigint)
        AND md5(key) = md5(pair.value ->> 1) AND key = pair.value ->> 1
    """,
)
# Also rows of removed keys; the caller sorts, because it may show none.
SELECT_ROWS_OF_HOLDER = select(DataRow, "WHERE holder = :holder")
SELECT_VALUES = select(DataRow, "WHERE holder = :holder AND value IS NOT NULL ORDER BY ordinal")
_VALUES_OF_HOLDERS = f"""
    SELECT {names(DataRow.columns, "data")}
    FROM {{schema}}.instances JOIN {{schema}}.data ON data.holder = instances.number
"""
SELECT_VALUES_OF_CHARACTER = Statement(
    f"""
    {_VALUES_OF_HOLDERS}
    WHERE character_id = :parent AND deleted = 0 AND value IS NOT NULL
    ORDER BY instances.ordinal, data.ordinal
    """
)
SELECT_VALUES_OF_CHAT = Statement(
    f"""
    {_VALUES_OF_HOLDERS}
    WHERE chat = :parent AND deleted = 0 AND value IS NOT NULL ORDER BY data.ordinal
    """
)
INSERT_VALUE = insert(DataRow)
_CHANGED = ("value", "ordinal", "revision", "last_change", "anchored", "checksum")
UPDATE_VALUE = Statement(
    f"""
    UPDATE {{schema}}.data SET {", ".join(f"{name} = :{name}" for name in _CHANGED)}
    WHERE holder = :holder AND key = :key
    """,
    postgres=f"""
    UPDATE {{schema}}.data SET {", ".join(f"{name} = new.{name}" for name in _CHANGED)}
    FROM unnest({arrays(DataRow.columns)}) AS new ({names(DataRow.columns)})
    WHERE data.holder = new.holder AND md5(data.key) = md5(new.key) AND data.key = new.key
    """,
)
