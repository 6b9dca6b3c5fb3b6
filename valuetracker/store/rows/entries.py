"""
The rows of the log: entries and keyframes.

An entry is what one revision did to one subject at one place. A subject is a character, a
chat, or a holder of values. All changes of an entry stand in one text: one row to write and
one checksum, however many keys. Changes are separated by control characters, which neither
keys nor JSON text hold.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Anchor
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.row import Row, insert, names, select, update

# The number of an entry is its revision, shifted, plus its position within the revision.
REVISION_BITS = 24
# How many entries a transaction keeps.
KEPT_ENTRIES = 50_000
BETWEEN_FIELDS = "\x1f"
BETWEEN_CHANGES = "\x1e"

# Derived changes: they say what came of the log, not what somebody asked for.
DERIVED = frozenset({"reconcile", "branch"})
# Bases: they start a key anew, so older changes of it do not matter any more.
BASES = frozenset({"set", "remove", "restore", "adopt", "base"})


def first_of(revision: int) -> int:
    """Return the number of a revision's first entry."""
    return revision << REVISION_BITS


def last_of(revision: int) -> int:
    """Return the highest number an entry of the revision can have."""
    return ((revision + 1) << REVISION_BITS) - 1


@dataclass(slots=True)
class LoggedChange:
    """
    One change of an entry; `key` is empty for a change of the subject itself.

    `prev_of_key` is the revision of the change of the key before this one; for a derived
    change `operand` is the revision of the newest source, so that replay goes there at once.
    `after` and `ordinal` are the state after it (None: the key was absent). `operand` is
    what was asked for, where `after` does not say it.
    """

    key: str
    op: str
    prev_of_key: int
    ordinal: int
    after: str | None
    operand: str | None


def encode_name(key: str) -> str:
    """Return a key as the log writes it; keys of adopted files may hold anything."""
    if key[:1] == '"' or BETWEEN_FIELDS in key or BETWEEN_CHANGES in key:
        return orjson.dumps(key).decode()
    return key


def decode_name(text: str) -> str:
    if text[:1] == '"':
        key: str = orjson.loads(text)
        return key
    return text


def encode_change(
    key: str, op: str, prev_of_key: int, ordinal: int, after: str | None, operand: str | None
) -> str:
    # No JSON text is empty, so an empty field stands for None.
    name = encode_name(key)
    return f"{name}\x1f{op}\x1f{prev_of_key}\x1f{ordinal}\x1f{after or ''}\x1f{operand or ''}"


def decode_changes(text: str) -> list[LoggedChange]:
    if not text:
        return []
    changes: list[LoggedChange] = []
    for piece in text.split(BETWEEN_CHANGES):
        key, op, previous, ordinal, after, operand = piece.split(BETWEEN_FIELDS)
        changes.append(
            LoggedChange(
                decode_name(key), op, int(previous), int(ordinal), after or None, operand or None
            )
        )
    return changes


@dataclass(slots=True)
class EntryRow(Row, table="entries"):
    """An entry as it is stored, and after it the names a reader wants to see."""

    entry: int
    subject: int
    at: str
    actor: str
    chat: int | None
    place: int | None
    # 1 if its changes took effect when they were made, 0 if they were stored dormant.
    effect: int
    # The revision at which its instance left the chat of the place, 0 while it is there. After
    # that no flip reaches the entry: it counts as unanchored, or not at all if `dropped`.
    left_at: int
    dropped: int
    # The entry before it in the log, of its subject, and in its chat; 0 if there is none.
    prev_in_log: int
    prev_of_subject: int
    prev_in_chat: int
    changes: str
    checksum: int = 0
    # Of the subject: `character`, `chat`, or the space of a holder, and its id.
    space: str = ""
    id: str = ""
    chat_id: str | None = None
    # The place as it stands now; None if it has none, or that was purged.
    anchor: PlaceRow | None = None
    _logged: list[LoggedChange] | None = None
    _indexes: dict[str, list[int]] | None = None

    @property
    def revision(self) -> int:
        return self.revision_of(self.entry)

    @staticmethod
    def revision_of(entry: int) -> int:
        return entry >> REVISION_BITS

    @property
    def logged(self) -> list[LoggedChange]:
        """Return its changes; decoded once, because every key of it may ask."""
        if self._logged is None:
            self._logged = decode_changes(self.changes)
        return self._logged

    def forget_logged(self) -> None:
        """Drop the decoded changes, because `changes` is another text now or of no interest."""
        self._logged = self._indexes = None

    def indexes(self, key: str) -> list[int]:
        """Return the positions of a key's changes in it, the last first."""
        if self._indexes is None:
            self._indexes = {}
            for index, change in enumerate(self.logged):
                self._indexes.setdefault(change.key, []).insert(0, index)
        return self._indexes.get(key, [])

    @property
    def anchor_chat(self) -> int | None:
        """Return the number of the chat its place is in; 0 for a place in no chat."""
        return self.anchor.chat if self.anchor is not None else None

    @property
    def is_flippable(self) -> bool:
        """True if the chain of a chat decides over it."""
        return self.place is not None and not self.left_at and bool(self.anchor_chat)

    @property
    def is_live(self) -> bool:
        """True if it counts now."""
        if self.left_at:
            return not self.dropped
        # An anchor in no chat is recorded and never flips.
        anchor = self.anchor
        return anchor is None or not anchor.chat or anchor.position is not None


def anchor_record(entry: EntryRow) -> Anchor | None:
    """Return the anchor of an entry as the API answers it."""
    if entry.anchor is None:
        return None
    return {"messageId": entry.anchor.message_id, "swipe": entry.anchor.swipe}


INSERT_ENTRY = insert(EntryRow)
UPDATE_LEFT = update(EntryRow, "entry", "left_at", "dropped", "checksum")
# A branch keeps the entries it takes over from its parent in a table of their own.
TAKEN = "taken"
INSERT_TAKEN = insert(EntryRow, table=TAKEN)
UPDATE_TAKEN_LEFT = update(
    EntryRow, "subject, entry", "left_at", "dropped", "checksum", table=TAKEN
)


def select_entries(
    condition: str, postgres: str | None = None, table: str = EntryRow.table
) -> Statement:
    """Select entries of the log, or taken ones; the condition goes on after FROM."""
    text = f"SELECT {names(EntryRow.columns)} FROM {{schema}}.{table}"
    return Statement(f"{text} {condition}", f"{text} {postgres}" if postgres else None)


@dataclass(slots=True)
class KeyframeRow(Row, table="keyframes"):
    """The revision of each key of a holder, after an entry."""

    holder: int
    entry: int
    keys: str
    # The exclusive or of the sums of the values it points to.
    digest: int = 0
    checksum: int = 0

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


SELECT_KEYFRAME = select(
    KeyframeRow, "WHERE holder = :holder AND entry <= :until ORDER BY entry DESC LIMIT 1"
)
INSERT_KEYFRAME = insert(KeyframeRow)


class ReadEntries:
    """The entries that one transaction has read; the past does not change, so they are kept."""

    def __init__(self) -> None:
        # By revision and subject; folded ones stand as revision 0.
        self.revisions: dict[int, dict[int, list[EntryRow]]] = {}
        # Taken ones, by holder and revision.
        self.taken: dict[tuple[int, int], list[EntryRow]] = {}
        self.single: dict[tuple[int, int], EntryRow | None] = {}
        # Keys without a dormant change: holder, key, last change, and the count of flips then.
        self.without_dormant: set[tuple[int, str, int, int]] = set()
        self._count = 0

    def count(self, entries: int) -> None:
        """Count entries that are added; if they become too many, forget the others."""
        self._count += entries
        if self._count > KEPT_ENTRIES:
            self.revisions.clear()
            self.taken.clear()
            self.single.clear()
            self._count = entries
