"""
The rows of the log: entries and keyframes.

An entry is what one revision did to one subject at one place. A subject is a character, a
chat, or a holder of values. All changes of an entry stand in one text: one row to write and
one checksum, however many keys. Changes are separated by control characters, which neither
keys nor JSON text hold.

A change names the entry with the change of its key before it, and an entry the one before it
of its subject. Both are stored as differences, which are short.

A small change of a large value leaves the value out: operator and operand make it of the value
before. `resolve_value` in `log/replay.py` puts it in.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Anchor
from valuetracker.records.times import time_text
from valuetracker.store.rows.numbers import POSITION_MASK, REVISION_BITS, revision_of
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.row import Row, insert, names, select, update

# How many entries a transaction keeps, and of how many keys the source changes.
KEPT_ENTRIES = 50_000
KEPT_WALKS = 1_000
BETWEEN_FIELDS = "\x1f"
BETWEEN_CHANGES = "\x1e"
# The actor of most writes, which the log leaves out.
USUAL_ACTOR = "extension"

# Values above this many bytes are left out of feed events; the reader can read them.
LARGEST_SHOWN = 64 * 1024

# Derived changes: they say what came of the log, not what somebody asked for. `state` is the
# value of a key at the moment up to which the log is folded, if its changes could not be folded.
DERIVED = frozenset({"reconcile", "branch", "state"})
# Bases: they start a key anew, so older changes of it do not matter any more.
BASES = frozenset({"set", "remove", "restore", "adopt", "base"})
# Changes that nobody made: values that were kept when the log was folded, or a chat was left.
KEPT = frozenset({"base", "state"})

# How the changes of an entry took effect when they were made.
DORMANT = 0
IN_ORDER = 1
SUPERSEDED = 2
# They took effect, and stand before other changes of their keys.
LATE = 3


@dataclass(slots=True)
class LoggedChange:
    """
    One change of an entry; `key` is empty for a change of the subject itself.

    `prev_of_key` is the entry with the change of the key before this one; for a derived
    change `operand` is the entry of the newest source, so that replay goes there at once; for
    a folded one it is a place of the message at which the last change folded stands.
    `after` and `ordinal` are the state after it (None: the key was absent). `operand` is
    what was asked for, where `after` does not say it. The value of an adopted key is kept
    elsewhere (see `rows/holders.py`): `held` is put in when the entry is read.
    """

    key: str
    op: str
    prev_of_key: int
    ordinal: int
    # The value after it, as far as the log holds it or it has been put in.
    held: str | None
    operand: str | None
    # How many changes of the key, this one included, leave the value out since one that holds it,
    # and how many characters the value has; 0 if this one does not leave it out.
    since_whole: int = 0
    size: int = 0

    @property
    def is_left_out(self) -> bool:
        """True if the value has to be resolved before it can be read."""
        return self.held is None and self.since_whole > 0

    @property
    def after(self) -> str | None:
        if self.is_left_out:
            raise RuntimeError("The log leaves this value out, and nobody has resolved it.")
        return self.held


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


def encode_back(entry: int, other: int) -> str:
    """
    Return an earlier entry as seen from another one; empty if there is none (0).

    The difference of their revisions, and the position within the revision unless it is 0.
    """
    if not other:
        return ""
    back = (entry >> REVISION_BITS) - (other >> REVISION_BITS)
    position = other & POSITION_MASK
    return f"{back}.{position}" if position else str(back)


def decode_back(entry: int, text: str) -> int:
    if not text:
        return 0
    back, _, position = text.partition(".")
    return (((entry >> REVISION_BITS) - int(back)) << REVISION_BITS) + int(position or 0)


def left_out(since_whole: int, size: int) -> str:
    """Return what the log says in the place of a value of so many characters."""
    # No JSON text begins with a tilde.
    return f"~{since_whole}.{size}"


def encode_change(
    entry: int,
    key: str,
    op: str,
    prev_of_key: int,
    ordinal: int,
    after: str | None,
    operand: str | None = None,
) -> str:
    """Return a change as the entry of this number keeps it; most of them are `set`."""
    # No JSON text is empty, so an empty field stands for None.
    name = encode_name(key) if key[:1] == '"' or not key.isprintable() else key
    text = (
        f"{name}\x1f{op if op != 'set' else ''}\x1f{encode_back(entry, prev_of_key)}"
        f"\x1f{ordinal or ''}\x1f{after or ''}"
    )
    return text if operand is None else f"{text}\x1f{operand}"


def encode_set(entry: int, key: str, prev_of_key: int, ordinal: int, after: str) -> str:
    """Return the same for a value that is set; most changes are that."""
    name = key if key.isprintable() and key[0] != '"' else encode_name(key)
    if prev_of_key and not prev_of_key & POSITION_MASK:
        # The same as `encode_back`, written out.
        back: int | str = (entry - prev_of_key) >> REVISION_BITS
    else:
        back = encode_back(entry, prev_of_key)
    return f"{name}\x1f\x1f{back}\x1f{ordinal}\x1f{after}"


def decode_changes(entry: int, text: str) -> list[LoggedChange]:
    if not text:
        return []
    changes: list[LoggedChange] = []
    for piece in text.split(BETWEEN_CHANGES):
        key, op, previous, ordinal, after, *operand = piece.split(BETWEEN_FIELDS)
        change = LoggedChange(
            decode_name(key),
            op or "set",
            decode_back(entry, previous),
            int(ordinal or 0),
            after or None,
            operand[0] if operand else None,
        )
        if after[:1] == "~":
            change.held = None
            change.since_whole, change.size = map(int, after[1:].split("."))
        changes.append(change)
    return changes


@dataclass(slots=True)
class EntryRow(Row, table="entries"):
    """An entry as it is stored, and after it the names a reader wants to see."""

    entry: int
    subject: int
    # Milliseconds since 1970.
    at: int
    # None for the usual one.
    actor: str | None
    chat: int | None
    place: int | None
    # Of unanchored changes: a place of the message at which they stand in the story of their
    # holder's chat; None: at the beginning.
    stands: int | None
    # DORMANT, IN_ORDER, SUPERSEDED or LATE.
    effect: int
    # The revision at which its instance left the chat, 0 while it is there. After that no flip
    # reaches the entry: it counts from the beginning, or not at all if `dropped`.
    left_at: int
    dropped: int
    # How far back the entry before it of its subject is; 0 if there is none.
    back: int
    changes: str
    checksum: int = 0
    # Of the subject: `character`, `chat`, or the space of a holder, and its id.
    space: str = ""
    id: str = ""
    chat_id: str | None = None
    # The place as it stands now; None if it has none, or that was purged.
    anchor: PlaceRow | None = None
    # Values that the log leaves out, by the index of their changes, if they are known.
    known: dict[int, str] | None = None
    # True for an entry that a branch has taken over.
    taken: bool = False
    _logged: list[LoggedChange] | None = None
    _indexes: dict[str, list[int]] | None = None

    @property
    def revision(self) -> int:
        return revision_of(self.entry)

    @property
    def prev_of_subject(self) -> int:
        """Return the number of the entry before it of its subject; 0 if there is none."""
        return self.entry - self.back if self.back else 0

    @property
    def time(self) -> str:
        """Return when it was made, as the API writes times."""
        return time_text(self.at)

    @property
    def shown_actor(self) -> str:
        return self.actor if self.actor is not None else USUAL_ACTOR

    @property
    def logged(self) -> list[LoggedChange]:
        """Return its changes; decoded once, because every key of it may ask."""
        if self._logged is None:
            self._logged = decode_changes(self.entry, self.changes)
            for index, value in (self.known or {}).items():
                self._logged[index].held = value
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
    def took_effect(self) -> bool:
        return self.effect in (IN_ORDER, LATE)

    @property
    def is_superseded(self) -> bool:
        return self.effect == SUPERSEDED

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
        return anchor is None or not anchor.chat or bool(anchor.visible)


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
    """The entry that holds each value of a holder, after an entry."""

    holder: int
    entry: int
    keys: str
    checksum: int = 0

    @classmethod
    def of(cls, holder: int, entry: int, entries: Iterable[tuple[str, int]]) -> KeyframeRow:
        keys = BETWEEN_CHANGES.join(
            f"{encode_name(key)}{BETWEEN_FIELDS}{encode_back(entry, number)}"
            for key, number in entries
        )
        frame = cls(holder, entry, keys)
        frame.seal()
        return frame

    def entries(self) -> dict[str, int]:
        """Return the number of the entry that holds the value of each key."""
        found: dict[str, int] = {}
        if not self.keys:
            return found
        for piece in self.keys.split(BETWEEN_CHANGES):
            key, back = piece.split(BETWEEN_FIELDS)
            found[decode_name(key)] = decode_back(self.entry, back)
        return found


SELECT_KEYFRAME = select(
    KeyframeRow, "WHERE holder = :holder AND entry <= :until ORDER BY entry DESC LIMIT 1"
)
INSERT_KEYFRAME = insert(KeyframeRow)


@dataclass(slots=True, frozen=True)
class Source:
    """One source change of a key: its entry, and its position there."""

    entry: EntryRow
    index: int
    change: LoggedChange


@dataclass(slots=True)
class Walk:
    """The source changes of a key as far as they have been read, newest first."""

    # The entry it began with, and the one to go on with; 0 if there is none.
    last: int
    next: int
    sources: list[Source] = field(default_factory=list)


class ReadEntries:
    """The entries that one transaction has read; the past does not change, so they are kept."""

    def __init__(self) -> None:
        # By subject and number; None where there is none, because it was folded.
        self.entries: dict[tuple[int, int], EntryRow | None] = {}
        # By subject and key.
        self.walks: dict[tuple[int, str], Walk] = {}
        # How many source changes have been looked at, each as often as it was.
        self.visits = 0

    def begin_walk(self, subject: int, key: str, last: int) -> Walk:
        """Keep a new walk; if they become too many, forget the others."""
        if len(self.walks) >= KEPT_WALKS:
            self.walks.clear()
        walk = self.walks[subject, key] = Walk(last, last)
        return walk

    def add(self, subject: int, number: int, entry: EntryRow | None) -> None:
        """Keep an entry; if they become too many, forget the others."""
        if len(self.entries) >= KEPT_ENTRIES:
            self.entries.clear()
            self.walks.clear()
        self.entries[subject, number] = entry
