"""
Replay: recompute a key from its source changes, in the order of their revisions.

The changes of a key are a linked list: each names the entry of the one before it. So a key
is recomputed by going back from its last change to the last base, and applying the changes
from there; how much else has happened does not matter.

The log leaves out large values that change a little. They are made in the same way, of the last
value that is held whole: `tx/apply_values.py` says how far back that is at the most.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.store.log.lists import SELECT_ENTRY, find_anchors, find_entry, read_entries
from valuetracker.store.log.operators import ABSENT, apply_operator
from valuetracker.store.rows.entries import (
    BASES,
    DERIVED,
    EntryRow,
    LoggedChange,
)
from valuetracker.store.rows.reader import RowReader
from valuetracker.values import canonical

Counts = Callable[[EntryRow], bool]


@dataclass(slots=True, frozen=True)
class Source:
    """One source change of a key: its entry, and its position there."""

    entry: EntryRow
    index: int
    change: LoggedChange


@dataclass(slots=True)
class Conflict:
    """A change that does not apply to the value it meets."""

    source: Source
    reason: str


@dataclass(slots=True)
class Replayed:
    """The result of a replay: the value as text (None: absent), and the skipped changes."""

    value: str | None
    conflicts: list[Conflict]
    sources: list[Source]
    # The entry of the newest source, whether it counts or not.
    newest: int


class Replay:
    """Replays keys of one transaction."""

    def __init__(self, tx: RowReader) -> None:
        self._tx = tx

    async def walk(self, holder: int, key: str, last: int) -> AsyncIterator[Source]:
        """Yield the source changes of a key, newest first, from the entry of its last change."""
        number = last
        while number:
            entry = await self.find_entry(holder, number)
            if entry is None:
                # Of folded changes only values are left, and the key had none.
                return
            number = 0
            for index in entry.indexes(key):
                change = entry.logged[index]
                number = change.prev_of_key
                if change.op not in DERIVED:
                    yield Source(entry, index, change)
                elif change.operand is not None:
                    # Past all other derived changes, however often it has flipped.
                    number = int(change.operand)

    async def find_entry(self, holder: int, number: int) -> EntryRow | None:
        """Return an entry of a holder by its number; see `find_entry` of the lists."""
        return await find_entry(self._tx, holder, number)

    async def find_own_entry(self, holder: int, number: int) -> EntryRow | None:
        """Return the entry of a holder that has this number, if it is neither taken nor folded."""
        row = await self._tx.fetch_one(SELECT_ENTRY, entry=number, subject=holder)
        if row is None:
            return None
        entries = await read_entries(self._tx, [row])
        await find_anchors(self._tx, entries)
        return entries[0]

    async def _sources(
        self, holder: int, key: str, last: int, counts: Counts
    ) -> tuple[list[Source], int]:
        """
        Return the changes that count, oldest first, from the last base on.

        Also the entry of the newest change, whether it counts or not.
        """
        found: list[Source] = []
        newest = 0
        async for source in self.walk(holder, key, last):
            newest = newest or source.entry.entry
            if not counts(source.entry):
                continue
            found.append(source)
            if source.change.op in BASES:
                break
        found.reverse()
        if found and found[0].change.op == "restore":
            named = await self._named(found[0], counts)
            if named is not None:
                found[:1] = named
        return found, newest

    async def _named(self, restore: Source, counts: Counts) -> list[Source] | None:
        """
        Return the changes a restore names, as far as they count; None if some were folded.

        Changes whose message was hidden at the restore always count.
        """
        found: list[Source] = []
        for number, index, always in orjson.loads(restore.change.operand or "[]"):
            source = await self.find_named(restore, number, index)
            if source is None:
                return None
            if always or counts(source.entry):
                found.append(source)
        for index in range(len(found) - 1, -1, -1):
            if found[index].change.op in BASES:
                return found[index:]
        return found

    async def find_named(self, restore: Source, number: int, index: int) -> Source | None:
        """Return a change that a restore names; None if it was folded."""
        entry = await self.find_entry(restore.entry.subject, number)
        if entry is None or entry.entry != number or index >= len(entry.logged):
            return None
        change = entry.logged[index]
        # The entry that others were folded into may have the number of the named one.
        return Source(entry, index, change) if change.key == restore.change.key else None

    async def replay(self, holder: int, key: str, last: int, counts: Counts) -> Replayed:
        sources, newest = await self._sources(holder, key, last, counts)
        value: str | None = None
        conflicts: list[Conflict] = []
        for source in sources:
            try:
                value = _apply(source.change, value)
            except ValueTrackerError as refusal:
                conflicts.append(Conflict(source, refusal.message))
        return Replayed(value, conflicts, sources, newest)


def is_live(entry: EntryRow) -> bool:
    return entry.is_live


def _apply(change: LoggedChange, value: str | None) -> str | None:
    if change.op == "remove":
        return None
    if change.op == "restore":
        return change.after
    if change.op in BASES:
        return change.after if change.after is not None else change.operand
    before: Any = ABSENT if value is None else orjson.loads(value)
    assert change.operand is not None
    return canonical(apply_operator(change.op, before, orjson.loads(change.operand)))


# Values that the log leaves out


async def resolve_value(tx: RowReader, entry: EntryRow, index: int) -> LoggedChange:
    """Return a change of an entry, with its value."""
    change = last = entry.logged[index]
    steps: list[LoggedChange] = []
    while last.is_left_out:
        steps.append(last)
        entry, index = await _change_before(tx, entry, index)
        last = entry.logged[index]
    if steps:
        change.held = _apply_all(last, steps[::-1])
    return change


async def _change_before(tx: RowReader, entry: EntryRow, index: int) -> tuple[EntryRow, int]:
    """Return the change of the same key before a change that leaves the value out."""
    change = entry.logged[index]
    earlier = [each for each in entry.indexes(change.key) if each < index]
    if earlier:
        return entry, earlier[0]
    found = await find_entry(tx, entry.subject, change.prev_of_key)
    indexes = found.indexes(change.key) if found is not None else []
    if found is None or not indexes:
        raise DatabaseDamaged()
    return found, indexes[0]


def _apply_all(whole: LoggedChange, steps: list[LoggedChange]) -> str:
    """Return the value after changes of a value that is held whole."""
    # Parsed and written once, however many changes there are.
    value: Any = orjson.loads(whole.after or "null")
    for step in steps:
        value = apply_operator(step.op, value, orjson.loads(step.operand or "null"))
    text = orjson.dumps(value).decode()
    if len(text) != steps[-1].size:
        raise DatabaseDamaged()
    return text
