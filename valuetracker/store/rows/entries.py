"""
One entry of the log: what one revision did to one subject, at one place.

A subject is a character, a chat, or a holder of values. All changes of an entry stand in
one text: one row to write, one checksum, however many keys. Changes are kept apart by
control characters, which neither keys nor JSON text hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

import orjson

from valuetracker.store.rows.row_types import PlaceRow, Row, content_sum

# An entry's number is its revision, shifted, plus its place among those of the revision.
REVISION_BITS = 24
BETWEEN_FIELDS = "\x1f"
BETWEEN_CHANGES = "\x1e"

# What is no source: it says what came of the log, not what somebody asked for.
DERIVED = frozenset({"reconcile", "branch"})
# What starts a key anew; what came before it does not matter any more.
BASES = frozenset({"set", "remove", "restore", "adopt", "base"})


def first_of(revision: int) -> int:
    """The number of a revision's first entry."""
    return revision << REVISION_BITS


def last_of(revision: int) -> int:
    """The highest number an entry of the revision can have."""
    return ((revision + 1) << REVISION_BITS) - 1


@dataclass(slots=True)
class Record:
    """
    One change: `key` is empty for a change of the subject itself.

    `previous` is the revision that spoke of the key before, `after` and `place` what it
    then was (None: it was gone), `operand` what was asked for where `after` does not say it.
    Of a derived change it is the revision of the newest source: replay goes there at once.
    """

    key: str
    op: str
    previous: int
    place: int
    after: str | None
    operand: str | None


def encode_name(key: str) -> str:
    """A key as it stands in the log; those of adopted files may hold anything."""
    if key[:1] == '"' or BETWEEN_FIELDS in key or BETWEEN_CHANGES in key:
        return orjson.dumps(key).decode()
    return key


def decode_name(text: str) -> str:
    if text[:1] == '"':
        key: str = orjson.loads(text)
        return key
    return text


def encode_record(
    key: str, op: str, previous: int, place: int, after: str | None, operand: str | None
) -> str:
    return (
        f"{encode_name(key)}\x1f{op}\x1f{previous}\x1f{place}\x1f"
        f"{'' if after is None else after}\x1f{'' if operand is None else operand}"
    )


def decode_records(text: str) -> list[Record]:
    if not text:
        return []
    records: list[Record] = []
    for piece in text.split(BETWEEN_CHANGES):
        key, op, previous, place, after, operand = piece.split(BETWEEN_FIELDS)
        records.append(
            Record(decode_name(key), op, int(previous), int(place), after or None, operand or None)
        )
    return records


@dataclass(slots=True)
class EntryRow(Row):
    """An entry as it is stored, and after it the names a reader wants to see."""

    entry: int
    subject: int
    at: str
    actor: str
    chat: int | None
    place: int | None
    effect: int
    standing: int
    # The entry before it in the log, of its subject, and in its chat; 0 if there is none.
    prior: int
    before: int
    earlier: int
    changes: str
    checksum: int = 0
    # Of the subject: `character`, `chat`, or the space of a holder, and its id.
    space: str = ""
    id: str = ""
    chat_id: str | None = None
    # The place, as it stands now; None if it has none, or that was purged.
    anchor: PlaceRow | None = None
    _records: list[Record] | None = None
    _indexes: dict[str, list[int]] | None = None

    def _sum(self) -> int:
        return entry_checksum(
            self.entry,
            self.subject,
            self.at,
            self.actor,
            self.chat,
            self.place,
            self.effect,
            self.standing,
            self.prior,
            self.before,
            self.earlier,
            self.changes,
        )

    @property
    def revision(self) -> int:
        return self.revision_of(self.entry)

    @staticmethod
    def revision_of(entry: int) -> int:
        return entry >> REVISION_BITS

    @property
    def records(self) -> list[Record]:
        """Its changes; taken apart once, because every key of it may ask."""
        if self._records is None:
            self._records = decode_records(self.changes)
        return self._records

    def forget_records(self) -> None:
        """What it says is another now, or of no interest."""
        self._records = self._indexes = None

    def indexes(self, key: str) -> list[int]:
        """Where in it a key is spoken of, the last first."""
        if self._indexes is None:
            self._indexes = {}
            for index, record in enumerate(self.records):
                self._indexes.setdefault(record.key, []).insert(0, index)
        return self._indexes.get(key, [])

    @property
    def anchor_chat(self) -> int | None:
        """Which chat its place is of; 0 if of none."""
        return self.anchor.chat if self.anchor is not None else None

    @property
    def is_flippable(self) -> bool:
        """Whether the chain of a chat decides over it."""
        return self.place is not None and not self.standing and bool(self.anchor_chat)

    @property
    def is_live(self) -> bool:
        """Whether what it asked for counts now."""
        if self.standing:
            return self.standing > 0
        # Anchored in no chat, it is recorded and never flips.
        anchor = self.anchor
        return anchor is None or not anchor.chat or anchor.position is not None


# How many entries are kept for others to find.
MOST_READ = 50_000


class ReadEntries:
    """What one transaction has read of the log; the past stays as it is, so it is kept."""

    def __init__(self) -> None:
        # By revision and subject; what was folded stands as revision 0.
        self.revisions: dict[int, dict[int, list[EntryRow]]] = {}
        # What was taken over, by holder and revision.
        self.taken: dict[tuple[int, int], list[EntryRow]] = {}
        self.single: dict[tuple[int, int], EntryRow | None] = {}
        # Keys of which no change waits for its place, by their row and how often places moved.
        self.calm: set[tuple[int, str, int, int]] = set()
        self._count = 0

    def count(self, entries: int) -> None:
        """So many are added; if they become too many, others are forgotten."""
        self._count += entries
        if self._count > MOST_READ:
            self.revisions.clear()
            self.taken.clear()
            self.single.clear()
            self._count = entries


# What `standing` says: a flip can reach it; or since which revision that is no longer so,
# because its instance left the chat: above 0 it counts as unanchored, below it was dropped.
FLIPPABLE = 0
# Dropped from the beginning.
NEVER = -1


def entry_checksum(
    entry: int,
    subject: int,
    at: str,
    actor: str,
    chat: int | None,
    place: int | None,
    effect: int,
    standing: int,
    prior: int,
    before: int,
    earlier: int,
    changes: str,
) -> int:
    return crc32(
        f"{entry}\0{subject}\0{at}\0{actor}\0{chat}\0{place}\0{effect}\0{standing}\0"
        f"{prior}\0{before}\0{earlier}\0{changes}".encode()
    )


def record_sum(holder: int, key: str, after: str | None) -> int:
    """What a value, or as the empty key a holder itself, adds to the digest of a keyframe."""
    return content_sum(holder, key, after) if after is not None else 0


@dataclass(slots=True)
class KeyframeRow(Row):
    """Which revision each key of a holder was of, after an entry."""

    holder: int
    entry: int
    keys: str
    # The exclusive or of the sums of what it stands for.
    digest: int = 0
    checksum: int = 0

    def _sum(self) -> int:
        return crc32(f"{self.holder}\0{self.entry}\0{self.digest}\0{self.keys}".encode())

    @classmethod
    def of(
        cls, holder: int, entry: int, revisions: Iterable[tuple[str, int]], digest: int
    ) -> KeyframeRow:
        keys = BETWEEN_CHANGES.join(
            f"{encode_name(key)}{BETWEEN_FIELDS}{revision}" for key, revision in revisions
        )
        frame = cls(holder, entry, keys, digest)
        frame.seal()
        return frame

    def revisions(self) -> dict[str, int]:
        found: dict[str, int] = {}
        if not self.keys:
            return found
        for piece in self.keys.split(BETWEEN_CHANGES):
            key, revision = piece.split(BETWEEN_FIELDS)
            found[decode_name(key)] = int(revision)
        return found
