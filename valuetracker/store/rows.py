"""
The rows as they are kept, each with a checksum over all of it.

SQLite does not notice a flipped bit; the checksum, compared whenever a row is read, does.
An instance also keeps the number of its values and the exclusive or of their checksums,
so a value that has gone missing is noticed as well as one that has changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self
from zlib import crc32

import orjson

from valuetracker.errors import DatabaseDamaged
from valuetracker.model import Character, Instance


def checksum(*columns: object) -> int:
    # repr keeps the columns apart: quoting makes ("a,b") and ("a", "b") differ, and None
    # is not 'None'.
    return crc32(repr(columns).encode("utf-8", "surrogatepass"))


class Row(ABC):
    """A row that knows its checksum."""

    __slots__ = ("checksum",)

    checksum: int

    @abstractmethod
    def _sum(self) -> int:
        """The checksum over all columns."""

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> Self:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self


@dataclass(slots=True)
class Head(Row):
    """Where the log begins and ends, and how much there is."""

    revision: int
    oldest: int
    change: int = 0
    cell: int = 0
    place: int = 0
    characters: int = 0
    instances: int = 0
    keys: int = 0
    checksum: int = 0
    # Of the database it stands in: pages of another one that got here are so noticed.
    identity: str = ""

    def _sum(self) -> int:
        return checksum(
            self.identity,
            self.revision,
            self.oldest,
            self.change,
            self.cell,
            self.place,
            self.characters,
            self.instances,
            self.keys,
        )


@dataclass(slots=True)
class CellRow:
    """Something that ever was, by name; what the log is about."""

    cell: int
    space: str
    owner: str
    key: str


@dataclass(slots=True)
class CharacterRow(Row):
    cell: int
    place: int
    id: str
    name: str | None
    created_at: str
    updated_at: str
    instances: int = 0
    revision: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(
            self.cell,
            self.place,
            self.id,
            self.name,
            self.created_at,
            self.updated_at,
            self.instances,
            self.revision,
        )

    def verify_instances(self, count: int) -> None:
        """That these are all of its instances."""
        if count != self.instances:
            raise DatabaseDamaged()

    def record(self) -> Character:
        return {
            "id": self.id,
            "name": self.name,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }

    def text(self) -> str:
        return orjson.dumps(self.record()).decode()


@dataclass(slots=True)
class InstanceRow(Row):
    cell: int
    place: int
    id: str
    character_id: str
    chat_id: str | None
    name: str | None
    created_at: str
    updated_at: str
    revision: int = 0
    keys: int = 0
    digest: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(
            self.cell,
            self.place,
            self.id,
            self.character_id,
            self.chat_id,
            self.name,
            self.created_at,
            self.updated_at,
            self.revision,
            self.keys,
            self.digest,
        )

    def verify_values(self, rows: list[DataRow]) -> None:
        """That these are all of its values, and no others."""
        digest = 0
        for row in rows:
            digest ^= row.checksum
        if len(rows) != self.keys or digest != self.digest:
            raise DatabaseDamaged()

    def record(self) -> Instance:
        return {
            "id": self.id,
            "characterId": self.character_id,
            "name": self.name,
            "chatId": self.chat_id,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }

    def text(self) -> str:
        return orjson.dumps(self.record()).decode()


@dataclass(slots=True)
class DataRow(Row):
    cell: int
    place: int
    instance_id: str
    key: str
    value: str
    revision: int
    checksum: int = 0

    def _sum(self) -> int:
        return data_checksum(
            self.cell, self.place, self.instance_id, self.key, self.revision, self.value
        )


def data_checksum(
    cell: int, place: int, instance_id: str, key: str, revision: int, value: str
) -> int:
    # No id holds a NUL, so it keeps the columns apart.
    return crc32(f"{cell}\0{place}\0{instance_id}\0{key}\0{revision}\0{value}".encode())


@dataclass(slots=True)
class RevisionRow(Row):
    """One request that changed something: its changes are numbered from `first` on."""

    revision: int
    at: str
    actor: str
    first: int
    changes: int
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(self.revision, self.at, self.actor, self.first, self.changes)


# The columns of a change as they are stored, and after them the name of its cell.
StoredChange = tuple[Any, ...]
CHANGE_COLUMNS = 14


@dataclass(slots=True)
class ChangeRow(Row):
    """One thing that one revision changed, with the name of its cell."""

    change: int
    revision: int
    cell: int
    op: str
    operand: str | None
    after: str | None
    place: int | None
    parent: str | None
    chat_id: str | None
    message_id: str | None
    swipe: str | None
    effect: int
    live: int
    checksum: int
    space: str
    owner: str
    key: str

    def _sum(self) -> int:
        return change_checksum(
            self.change,
            self.revision,
            self.cell,
            self.op,
            self.operand,
            self.after,
            self.place,
            self.parent,
            self.chat_id,
            self.message_id,
            self.swipe,
            self.effect,
            self.live,
            self.space,
            self.owner,
            self.key,
        )


def change_checksum(
    change: int,
    revision: int,
    cell: int,
    op: str,
    operand: str | None,
    after: str | None,
    place: int | None,
    parent: str | None,
    chat_id: str | None,
    message_id: str | None,
    swipe: str | None,
    effect: int,
    live: int,
    space: str,
    owner: str,
    key: str,
) -> int:
    # No id holds a NUL, and no JSON text reads None. Nearly all changes are unanchored
    # changes of values; theirs is the short way.
    text = (
        f"{change}\0{revision}\0{cell}\0{owner}\0{key}\0{space}\0{op}\0{place}\0{effect}\0{live}"
        f"\0{operand}\0{after}"
    )
    if message_id is not None or chat_id is not None or parent is not None:
        text += f"\0{parent!r}\0{chat_id!r}\0{message_id!r}\0{swipe!r}"
    return crc32(text.encode())


def values_record(rows: list[DataRow]) -> dict[str, Any]:
    """Values by key, each spliced in as the text it is stored as."""
    return {row.key: orjson.Fragment(row.value) for row in rows}


def former_values_record(rows: list[ChangeRow]) -> dict[str, Any]:
    """The same from the log: what each key was after its last change up to some moment."""
    return {row.key: orjson.Fragment(row.after) for row in rows if row.after is not None}
