"""
Replay: recompute a key from its source changes, in the order of their revisions.

The changes of a key are a linked list: each names the entry of the one before it. So a key
is recomputed by going back from its last change to the last base, and applying the changes
from there; how much else has happened does not matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.store.log.lists import find_anchors, read_entries
from valuetracker.store.log.operators import ABSENT, apply_operator
from valuetracker.store.rows.entries import (
    BASES,
    DERIVED,
    TAKEN,
    EntryRow,
    LoggedChange,
    select_entries,
)
from valuetracker.store.rows.numbers import last_of
from valuetracker.store.rows.reader import RowReader
from valuetracker.values import canonical

SELECT_ENTRY = select_entries("WHERE entry = :entry AND subject = :subject")
SELECT_TAKEN = select_entries("WHERE entry = :entry AND subject = :subject", table=TAKEN)
# Folded entries of a holder are one entry, and a keyframe stands there.
SELECT_FOLDED = select_entries(
    """
    WHERE subject = :subject AND entry = (
        SELECT max(entry) FROM {schema}.keyframes WHERE holder = :subject AND entry <= :until
    )
    """
)

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
        """
        Return the entry of a holder that has this number, also one it has taken over.

        For a folded one, that is the entry it was folded into; None if no state was left.
        """
        known = self._tx.read_entries.entries
        if (holder, number) not in known:
            entry = await self._read(holder, number)
            if entry is not None:
                await find_anchors(self._tx, [entry])
            self._tx.read_entries.add(holder, number, entry)
        return known[holder, number]

    async def find_own_entry(self, holder: int, number: int) -> EntryRow | None:
        """Return the entry of a holder that has this number, if it is neither taken nor folded."""
        row = await self._tx.fetch_one(SELECT_ENTRY, entry=number, subject=holder)
        if row is None:
            return None
        entries = await read_entries(self._tx, [row])
        await find_anchors(self._tx, entries)
        return entries[0]

    async def _read(self, holder: int, number: int) -> EntryRow | None:
        given = {"entry": number, "subject": holder}
        oldest = last_of((await self._tx.load_head()).oldest)
        # A folded entry may be from before the holder was deleted; a taken one is not.
        own, taken = SELECT_ENTRY, SELECT_TAKEN
        for statement in (own, taken) if number > oldest else (taken,):
            row = await self._tx.fetch_one(statement, **given)
            if row is not None:
                return (await read_entries(self._tx, [row]))[0]
        if number > oldest:
            raise DatabaseDamaged()
        row = await self._tx.fetch_one(SELECT_FOLDED, subject=holder, until=oldest)
        return (await read_entries(self._tx, [row]))[0] if row is not None else None

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
