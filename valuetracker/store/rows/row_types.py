"""
The rows as they are kept, each with a checksum over all of it.

SQLite does not notice a flipped bit; the checksum, compared whenever a row is read, does.
A holder also keeps the number of its values and the exclusive or of their checksums, so a
value that has gone missing is noticed as well as one that has changed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self
from zlib import crc32

import orjson

from valuetracker.errors import DatabaseDamaged
from valuetracker.records import Character
from valuetracker.store.rows.spaces import ROOMS


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

    def verify_as(self, **names: object) -> Self:
        """The same, and that it is the one that was asked for: an index may lie."""
        for name, value in names.items():
            if getattr(self, name) != value:
                raise DatabaseDamaged()
        return self.verify()


@dataclass(slots=True)
class Head(Row):
    """Where the log begins and ends, and how much there is."""

    revision: int
    oldest: int
    # The number of the last entry of the log.
    entry: int = 0
    number: int = 0
    place: int = 0
    # How many rows of characters, holders and chats there are; then of what is not gone.
    subjects: int = 0
    characters: int = 0
    instances: int = 0
    chats: int = 0
    aliases: int = 0
    keys: int = 0
    checksum: int = 0
    # Of the database it stands in: pages of another one that got here are so noticed.
    identity: str = ""

    def _sum(self) -> int:
        return checksum(
            self.identity,
            self.revision,
            self.oldest,
            self.entry,
            self.number,
            self.place,
            self.subjects,
            self.characters,
            self.instances,
            self.chats,
            self.aliases,
            self.keys,
        )

    def verify_aliases(self, rows: list[tuple[Any, ...]], pending: int = 0) -> None:
        """That these are all there are, but for some that are counted already."""
        if len([AliasRow(*row).verify() for row in rows]) + pending != self.aliases:
            raise DatabaseDamaged()

    @property
    def tag(self) -> int | str:
        """
        What names the whole of it: the revision, until something else is forgotten.

        A new database goes on with the numbers of one that was purged, and a log that was folded
        tells less at the same revision: both begin later.
        """
        return f"{self.revision}-{self.oldest}" if self.oldest else self.revision

    def next_number(self) -> int:
        self.number += 1
        return self.number

    def next_subject(self) -> int:
        """The number of a new character, holder or chat."""
        self.subjects += 1
        return self.next_number()

    def next_place(self) -> int:
        self.place += 1
        return self.place


@dataclass(slots=True)
class CharacterRow(Row):
    number: int
    place: int
    id: str
    name: str | None
    created_at: str
    updated_at: str
    instances: int = 0
    members: int = 0
    gone: int = 0
    revision: int = 0
    entry: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(
            self.number,
            self.place,
            self.id,
            self.name,
            self.created_at,
            self.updated_at,
            self.instances,
            self.members,
            self.gone,
            self.revision,
            self.entry,
        )

    def verify_instances(self, rows: list[HolderRow]) -> None:
        """That these are all of its instances."""
        if len(rows) != self.instances or any(row.character_id != self.id for row in rows):
            raise DatabaseDamaged()

    def record(self) -> Character:
        return {
            "id": self.id,
            "name": self.name,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
        }

    def text(self) -> str:
        """What the log keeps of it."""
        return orjson.dumps(self.record()).decode()


@dataclass(slots=True)
class HolderRow(Row):
    """What holds values: an instance, or one of the rooms of a chat."""

    number: int
    place: int
    space: str
    id: str
    character_id: str | None
    chat: int | None
    name: str | None
    # The id of the instance it was branched from.
    origin: str | None
    created_at: str
    updated_at: str
    gone: int = 0
    floor: int = 0
    shaped: int = 0
    unframed: int = 0
    revision: int = 0
    # The last entry of its log, and of what it took over.
    entry: int = 0
    taken: int = 0
    # How many keys it has, and how many it has or had.
    keys: int = 0
    known: int = 0
    digest: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        # Every write seals one: written out, because it costs half of what repr does.
        return crc32(
            f"{self.number}\0{self.place}\0{self.space}\0{self.id}\0{self.character_id!r}\0"
            f"{self.chat}\0{self.name!r}\0{self.origin!r}\0{self.created_at}\0"
            f"{self.updated_at}\0{self.gone}\0{self.floor}\0{self.shaped}\0{self.unframed}\0"
            f"{self.revision}\0{self.entry}\0{self.taken}\0{self.keys}\0{self.known}\0"
            f"{self.digest}".encode()
        )

    def verify_values(self, rows: list[DataRow]) -> None:
        """That these are all of its values, and no others."""
        digest = 0
        for row in rows:
            digest ^= row.content
        if len(rows) != self.keys or digest != self.digest:
            raise DatabaseDamaged()

    def verify_rows(self, rows: list[DataRow]) -> None:
        """That these are all keys it has or had."""
        if len(rows) != self.known:
            raise DatabaseDamaged()
        self.verify_values([row for row in rows if row.value is not None])

    def text(self) -> str:
        """What the log keeps of it: its chat by number, because ids of chats change."""
        return orjson.dumps(
            {
                "id": self.id,
                "characterId": self.character_id,
                "name": self.name,
                "chat": self.chat,
                "origin": self.origin,
                "createdAt": self.created_at,
                "updatedAt": self.updated_at,
            }
        ).decode()


@dataclass(slots=True)
class DataRow(Row):
    """A key that a holder has, or had: then there is no value."""

    holder: int
    key: str
    value: str | None
    place: int
    revision: int
    last: int
    anchored: int
    checksum: int = 0
    # The checksum of what it says, and not of when: known once it is sealed or verified.
    content: int = 0

    def _sum(self) -> int:
        self.content = content_sum(self.holder, self.key, self.value)
        return self.content ^ history_sum(self.place, self.revision, self.last, self.anchored)


def content_sum(holder: int, key: str, value: str | None) -> int:
    # No key holds a NUL, so it keeps the columns apart; no JSON text reads None.
    return crc32(f"{holder}\0{key}\0{value}".encode())


def history_sum(place: int, revision: int, last: int, anchored: int) -> int:
    return crc32(f"{place}.{revision}.{last}.{anchored}".encode())


@dataclass(slots=True)
class ChatRow(Row):
    number: int
    place: int
    id: str
    # The number of the chat it is a branch of, and as JSON from where in it.
    parent: int | None
    origin: str | None
    created_at: str
    updated_at: str
    archived_at: str | None = None
    gone: int = 0
    floor: int = 0
    revision: int = 0
    # The last entry about itself, and the last of all that were made in it.
    entry: int = 0
    told: int = 0
    # What it has: how many instances, which rooms, how many of the others.
    instances: int = 0
    rooms: int = 0
    places: int = 0
    checkpoints: int = 0
    operations: int = 0
    members: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        return crc32(
            f"{self.number}\0{self.place}\0{self.id}\0{self.parent}\0{self.origin!r}\0"
            f"{self.created_at}\0{self.updated_at}\0{self.archived_at!r}\0{self.gone}\0"
            f"{self.floor}\0{self.revision}\0{self.entry}\0{self.told}\0{self.instances}\0"
            f"{self.rooms}\0{self.places}\0{self.checkpoints}\0{self.operations}\0"
            f"{self.members}".encode()
        )

    def verify_holders(self, rows: list[HolderRow]) -> None:
        """That these are all its rooms and instances."""
        rooms = sum(1 << ROOMS.index(row.space) for row in rows if row.space in ROOMS)
        instances = sum(1 for row in rows if row.space == "instance")
        if rooms != self.rooms or instances != self.instances:
            raise DatabaseDamaged()
        if any(row.chat != self.number for row in rows):
            raise DatabaseDamaged()

    def has_room(self, space: str) -> bool:
        return bool(self.rooms >> ROOMS.index(space) & 1)

    def add_room(self, space: str) -> None:
        self.rooms |= 1 << ROOMS.index(space)

    def verify_places(self, rows: list[PlaceRow]) -> None:
        """That these are all its places."""
        if len({row.place for row in rows}) != self.places:
            raise DatabaseDamaged()
        if any(row.chat != self.number for row in rows):
            raise DatabaseDamaged()

    def text(self) -> str:
        """What the log keeps of it."""
        return orjson.dumps(
            {"id": self.id, "archived": self.archived_at is not None, "createdAt": self.created_at}
        ).decode()


@dataclass(slots=True)
class PlaceRow(Row):
    """A message of a chat and one of its swipes; visible while it has a position."""

    place: int
    chat: int
    message_id: str
    swipe: str
    seen: int
    position: int | None
    written: int = 0
    # How many entries are anchored to it, and the revision of its last flip.
    entries: int = 0
    moved: int = 0
    hash: str | None = None
    checksum: int = 0
    # The revision of the flip before the last; known to whoever made the last.
    moved_before: int = 0

    def _sum(self) -> int:
        return checksum(
            self.place,
            self.chat,
            self.message_id,
            self.swipe,
            self.seen,
            self.position,
            self.written,
            self.entries,
            self.moved,
            self.hash,
        )

    def flip(self, revision: int) -> FlipRow:
        """It has moved at this revision, perhaps not for the first time."""
        if self.moved != revision:
            self.moved_before, self.moved = self.moved, revision
        flip = FlipRow(self.place, revision, self.position, self.moved_before)
        flip.seal()
        return flip


@dataclass(slots=True)
class FlipRow(Row):
    """A place's position from a revision on, and the revision of the flip before."""

    place: int
    revision: int
    position: int | None
    previous: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(self.place, self.revision, self.position, self.previous)


@dataclass(slots=True)
class AliasRow(Row):
    """An id that a chat had before."""

    id: str
    chat: int
    checksum: int = 0

    def _sum(self) -> int:
        return checksum(self.id, self.chat)


@dataclass(slots=True)
class MemberRow:
    """That a holder belongs, or once belonged, to a character or a chat."""

    parent: int
    holder: int


def member_sum(holder: int) -> int:
    return crc32(b"%d" % holder)


def verify_members(parent: CharacterRow | ChatRow, holders: Iterable[int]) -> None:
    """That these are all it ever had."""
    found = 0
    for holder in holders:
        found ^= member_sum(holder)
    if found != parent.members:
        raise DatabaseDamaged()


def values_record(rows: list[DataRow]) -> dict[str, Any]:
    """Values by key, each spliced in as the text it is stored as."""
    return {row.key: orjson.Fragment(row.value) for row in rows if row.value is not None}
