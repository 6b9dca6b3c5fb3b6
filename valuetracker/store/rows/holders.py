"""
The rows of holders and of their values: the tables `instances` and `data`.

A holder is what holds values: an instance, or one of the three spaces of a chat. Its account
(its revision, the number of its values, the exclusive or of their checksums) changes with every
value. So `data` keeps it, as the row of the empty key, on the page where the values are: a write
of a value writes no other page. A checkpoint costs the same for ten values as for a million.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.records import ChangedValue, Instance
from valuetracker.store.rows.numbers import revision_of
from valuetracker.store.rows.row import (
    Row,
    arrays,
    insert,
    names,
    select,
    select_numbered,
    select_page,
    update,
)
from valuetracker.store.rows.spaces import shown_key


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
    # The entry of the last change of the instance itself, not of its values.
    shape_entry: int = 0
    checksum: int = 0
    # The account: the revision of its last change, values included, its last entry, the number
    # of changes since its last keyframe, the number of its values, and their digest.
    revision: int = 0
    last_entry: int = 0
    changes_since_keyframe: int = 0
    keys: int = 0
    digest: int = 0

    @classmethod
    def of(cls, columns: tuple[Any, ...]) -> HolderRow:
        """Return a holder from its columns and those of its account, both verified."""
        holder = cls(*columns[:WIDTH]).verify()
        if columns[WIDTH] is None:
            raise DatabaseDamaged()
        account = DataRow(*columns[WIDTH:]).verify()
        holder.last_entry = account.entry
        holder.revision, holder.changes_since_keyframe, holder.keys, holder.digest = account_of(
            account
        )
        return holder

    def account(self) -> DataRow:
        """Return its account as a row of `data`, sealed."""
        text = f"{self.revision} {self.changes_since_keyframe} {self.keys} {self.digest}"
        account = DataRow(self.number, "", text, 0, self.last_entry, 0, 0)
        account.seal()
        return account

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


@dataclass(slots=True)
class DataRow(Row, table="data"):
    """A key that a holder has, or had: then `value` is None. The empty key is the account."""

    holder: int
    key: str
    # Canonical JSON text.
    value: str | None
    ordinal: int
    # The entry of its last change that took effect; 0 if there is none.
    entry: int
    # The entry of its last change, if that took no effect; else 0.
    dormant_entry: int
    # 1 if a flip can reach some change of it.
    anchored: int
    # A place of the message at which the last of its changes stands, live or dormant. None: at
    # the beginning, or the story does not order its changes.
    furthest: int | None = None
    checksum: int = 0
    # The checksum of holder, key and value alone; known once the row is sealed or verified.
    content: int = 0

    @property
    def revision(self) -> int:
        """Return the revision of its last change that took effect."""
        return revision_of(self.entry)

    @property
    def last_change(self) -> int:
        """Return the entry of its last change."""
        return self.dormant_entry or self.entry

    @property
    def is_removable(self) -> bool:
        """True if a removal has to be logged: it has a value, or a flip can reach a change."""
        return self.value is not None or bool(self.anchored)

    def _sum(self) -> int:
        # The same as `content_sum` and `history_sum`, written out: every read comes here.
        self.content = content = crc32(f"{self.holder}\0{self.key}\0{self.value}".encode())
        history = (
            f"{self.ordinal}.{self.entry}.{self.dormant_entry}.{self.anchored}.{self.furthest}"
        )
        return content ^ crc32(history.encode())


def account_of(row: DataRow) -> tuple[int, int, int, int]:
    """Return the numbers of an account, in the order in which `HolderRow.account` writes them."""
    if row.value is None:
        raise DatabaseDamaged()
    revision, changes_since_keyframe, keys, digest = map(int, row.value.split())
    return revision, changes_since_keyframe, keys, digest


def content_sum(holder: int, key: str, value: str | None) -> int:
    # No key holds a NUL, so it keeps the columns apart; no JSON text reads None.
    return crc32(f"{holder}\0{key}\0{value}".encode())


def history_sum(
    ordinal: int, entry: int, dormant_entry: int, anchored: int, furthest: int | None
) -> int:
    return crc32(f"{ordinal}.{entry}.{dormant_entry}.{anchored}.{furthest}".encode())


def verified_values(rows: Iterable[tuple[Any, ...]]) -> tuple[int, dict[str, Any]]:
    """
    Verify all rows of a holder; return the revision of its account, and its values by key.

    They are in the order of their creation, and spliced in like those of `values_record`.
    """
    revision: int | None = None
    values: list[tuple[int, str, str]] = []
    for columns in rows:
        holder, key, value, ordinal, entry, dormant_entry, anchored, furthest, checksum = columns
        # The same as `verify`, written out: an instance has many values.
        content = crc32(f"{holder}\0{key}\0{value}".encode())
        history = f"{ordinal}.{entry}.{dormant_entry}.{anchored}.{furthest}"
        if checksum != content ^ crc32(history.encode()):
            raise DatabaseDamaged()
        if not key:
            revision = account_of(DataRow(*columns))[0]
        elif value is not None:
            values.append((ordinal, key, value))
    if revision is None:
        raise DatabaseDamaged()
    values.sort()
    return revision, {key: orjson.Fragment(value) for _, key, value in values}


def values_record(rows: list[DataRow]) -> dict[str, Any]:
    """Return values by key, each spliced in as the text it is stored as."""
    return {row.key: orjson.Fragment(row.value) for row in rows if row.value is not None}


WIDTH = len(HolderRow.columns)


def select_holders(condition: str, postgres: str | None = None) -> Statement:
    """Select holders with their accounts; the condition goes on after FROM."""
    text = (
        f"SELECT {names(HolderRow.columns, 'instances')}, {names(DataRow.columns, 'account')}"
        " FROM {schema}.instances LEFT JOIN {schema}.data AS account"
        " ON account.holder = instances.number AND account.key = ''"
    )
    # PostgreSQL indexes keys by their hash, because it refuses long keys in an index.
    for_postgres = f"{text} AND md5(account.key) = md5('')"
    return Statement(f"{text} {condition}", f"{for_postgres} {postgres or condition}")


SELECT_HOLDER = select_holders("WHERE instances.id = :id AND space = :space")
SELECT_HOLDER_BY_NUMBER = select_holders("WHERE number = :number")
SELECT_HOLDERS_OF_CHAT = select_holders("WHERE chat = :chat AND deleted = 0")
SELECT_INSTANCES_OF_CHARACTER = select_holders("WHERE character_id = :character_id AND deleted = 0")
# `ids` is a JSON array: a whole group of writes asks at once.
SELECT_INSTANCES_BY_ID = select_holders(
    "WHERE instances.id IN (SELECT value FROM json_each(:ids)) AND space = 'instance'",
    postgres="WHERE instances.id IN (SELECT json_array_elements_text(CAST(:ids AS json)))"
    " AND space = 'instance'",
)
SELECT_MEMBERS = select_holders(
    "WHERE number IN (SELECT members.holder FROM {schema}.members WHERE parent = :parent)"
)
# Without accounts: a list of all instances shows none of theirs, nor does a name.
SELECT_HOLDERS_NUMBERED = select_numbered(HolderRow)
SELECT_INSTANCES = select(HolderRow, "WHERE space = 'instance' AND deleted = 0 ORDER BY ordinal")
# By the columns that the instances of a page have in common.
SELECT_PAGE_OF_INSTANCES: dict[tuple[str, ...], Statement] = {
    columns: select_page(
        HolderRow,
        "space = 'instance'",
        "deleted = 0",
        *(f"{column} = :{column}" for column in columns),
    )
    for columns in ((), ("character_id",), ("chat",), ("character_id", "chat"))
}
INSERT_HOLDER = insert(HolderRow)
UPDATE_HOLDER = update(HolderRow, "number", besides=("space", "id"))


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
SELECT_ROWS_OF_HOLDER = select(DataRow, "WHERE holder = :holder AND key <> ''")
SELECT_WITH_ACCOUNT = select(DataRow, "WHERE holder = :holder LIMIT :count")
SELECT_VALUES = select(
    DataRow, "WHERE holder = :holder AND key <> '' AND value IS NOT NULL ORDER BY ordinal"
)
_VALUES_OF_HOLDERS = f"""
    SELECT {names(DataRow.columns, "data")}
    FROM {{schema}}.instances JOIN {{schema}}.data ON data.holder = instances.number
"""
SELECT_VALUES_OF_CHARACTER = Statement(
    f"""
    {_VALUES_OF_HOLDERS}
    WHERE character_id = :parent AND deleted = 0 AND key <> '' AND value IS NOT NULL
    ORDER BY instances.ordinal, data.ordinal
    """
)
SELECT_VALUES_OF_CHAT = Statement(
    f"""
    {_VALUES_OF_HOLDERS}
    WHERE chat = :parent AND deleted = 0 AND key <> '' AND value IS NOT NULL
    ORDER BY data.ordinal
    """
)
INSERT_VALUE = insert(DataRow)
_CHANGED = ("value", "ordinal", "entry", "dormant_entry", "anchored", "furthest", "checksum")
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


# A file of the original plugin is adopted as one revision. Its values stand in `data` only: the
# log names the keys. When a key is changed for the first time, its adopted value moves to the
# table `adopted`. So an adopted file does not hold every value twice, and what was adopted can
# still be read at that revision.


@dataclass(slots=True)
class AdoptedRow(Row, table="adopted"):
    """An adopted value that has been replaced since."""

    holder: int
    key: str
    value: str
    checksum: int = 0


INSERT_ADOPTED = insert(AdoptedRow)
SELECT_ADOPTED = select(AdoptedRow, "WHERE holder = :holder")
DELETE_ADOPTED = Statement("DELETE FROM {schema}.adopted")
SELECT_UNCHANGED = select(
    DataRow, "WHERE holder = :holder AND entry = :entry AND key <> '' AND value IS NOT NULL"
)


def adopted_row(row: DataRow) -> AdoptedRow:
    """Return the row that keeps the value of an adopted key that is about to change."""
    assert row.value is not None
    adopted = AdoptedRow(row.holder, row.key, row.value)
    adopted.seal()
    return adopted


def owner_record(holder: HolderRow) -> dict[str, Any]:
    """Return how answers name the holder of a value; a chat's own data has no name."""
    record: dict[str, Any] = {"instanceId": holder.id if holder.space == "instance" else None}
    if holder.space in ("series", "processed"):
        record["space"] = holder.space
    return record


def in_answer(holder: HolderRow, key: str, text: str, later: int = 0) -> Any:
    """Return a value as a part of an answer; the pair of `Ledger.shown`."""
    return orjson.Fragment(text)


def changed_value(
    holder: HolderRow,
    key: str,
    before: str | None,
    after: str | None,
    shown: Callable[..., Any] = in_answer,
) -> ChangedValue:
    """Return a value that becomes another one, as the API answers it; None: absent."""
    record: Any = {**owner_record(holder), "key": shown_key(holder.space, key)}
    if before is not None:
        record["before"] = shown(holder, key, before, later=1)
    if after is not None:
        record["after"] = shown(holder, key, after)
    changed: ChangedValue = record
    return changed
