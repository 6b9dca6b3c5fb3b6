"""
The rows as they are kept, each with a checksum over all of it.

SQLite does not notice a flipped bit; the checksum, compared whenever a row is read, does.
An instance also keeps the number of its values and the exclusive or of their checksums,
so a value that has gone missing is noticed as well as one that has changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import orjson

from valuetracker.errors import DatabaseDamaged
from valuetracker.model import Character, Instance


def checksum(*columns: object) -> int:
    # repr keeps the columns apart: quoting makes ("a,b") and ("a", "b") differ, and None
    # is not 'None'.
    return crc32(repr(columns).encode("utf-8", "surrogatepass"))


@dataclass(slots=True)
class Head:
    """Where the log begins and ends, and how much there is."""

    revision: int
    oldest: int
    place: int = 0
    change: int = 0
    characters: int = 0
    instances: int = 0
    keys: int = 0
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> Head:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        return checksum(
            self.revision,
            self.oldest,
            self.place,
            self.change,
            self.characters,
            self.instances,
            self.keys,
        )


@dataclass(slots=True)
class CharacterRow:
    place: int
    id: str
    name: str | None
    created_at: str
    updated_at: str
    revision: int = 0
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> CharacterRow:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        return checksum(
            self.place, self.id, self.name, self.created_at, self.updated_at, self.revision
        )

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
class InstanceRow:
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

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> InstanceRow:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        return checksum(
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
class DataRow:
    place: int
    instance_id: str
    key: str
    value: str
    revision: int
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> DataRow:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        return crc32(
            f"{self.place}\0{self.instance_id}\0{self.key}\0{self.revision}\0{self.value}".encode()
        )


@dataclass(slots=True)
class RevisionRow:
    """One request that changed something: its changes are numbered from `first` on."""

    revision: int
    at: str
    actor: str
    first: int
    changes: int
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> RevisionRow:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        return checksum(self.revision, self.at, self.actor, self.first, self.changes)


@dataclass(slots=True)
class ChangeRow:
    """One thing that one revision changed."""

    change: int
    revision: int
    space: str
    owner: str
    key: str
    op: str
    operand: str | None
    after: str | None
    place: int | None
    parent: str | None
    chat_id: str | None
    message_id: str | None
    swipe: str | None
    effect: int = 1
    live: int = 1
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> ChangeRow:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        # The long texts are summed as they are; quoting them would cost more than the sum.
        small = repr(
            (
                self.change,
                self.revision,
                self.space,
                self.owner,
                self.key,
                self.op,
                self.place,
                self.parent,
                self.chat_id,
                self.message_id,
                self.swipe,
                self.effect,
                self.live,
                self.operand is None,
                self.after is None,
            )
        )
        return crc32(f"{small}{self.operand or ''}\0{self.after or ''}".encode())


def values_record(rows: list[DataRow]) -> dict[str, Any]:
    """Values by key, each spliced in as the text it is stored as."""
    return {row.key: orjson.Fragment(row.value) for row in rows}


def former_values_record(rows: list[ChangeRow]) -> dict[str, Any]:
    """The same from the log: what each key was after its last change up to some moment."""
    return {row.key: orjson.Fragment(row.after) for row in rows if row.after is not None}
