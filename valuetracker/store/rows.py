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
    """Where the log ends."""

    revision: int
    place: int
    change: int
    characters: int
    instances: int
    keys: int
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = self._sum()

    def verify(self) -> Head:
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def _sum(self) -> int:
        return checksum(
            self.revision, self.place, self.change, self.characters, self.instances, self.keys
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
    revision: int
    at: str
    first: int
    changes: int
    checksum: int = 0

    def seal(self) -> None:
        self.checksum = checksum(self.revision, self.at, self.first, self.changes)


@dataclass(slots=True)
class ChangeRow:
    change: int
    revision: int
    space: str
    owner: str
    key: str
    op: str
    after: str | None
    checksum: int = 0

    def seal(self) -> None:
        after = "" if self.after is None else "=" + self.after
        self.checksum = crc32(
            f"{self.change}\0{self.revision}\0{self.space}\0{self.owner}\0{self.key}\0{self.op}\0"
            f"{after}".encode()
        )


def values_record(rows: list[DataRow]) -> dict[str, Any]:
    """Values by key, each spliced in as the text it is stored as."""
    return {row.key: orjson.Fragment(row.value) for row in rows}
