"""
Replay: recompute a key from its source changes, in the order of their revisions.

The changes of a key are a linked list: each names the revision of the one before it. So a key
is recomputed by going back from its last change to the last base, and applying the changes
from there; how much else has happened does not matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson

from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.store.log.links import OF_SUBJECT, TAKEN, entries_of_revision, find_anchors
from valuetracker.store.log.operators import ABSENT, apply_operator
from valuetracker.store.rows.entries import (
    BASES,
    DERIVED,
    EntryRow,
    LoggedChange,
    first_of,
    last_of,
    select_entries,
)
from valuetracker.store.rows.reader import RowReader
from valuetracker.values import canonical

SELECT_BASES_OF = select_entries("WHERE subject = :subject AND entry <= :until")
SELECT_TAKEN_OF = select_entries(
    "WHERE subject = :subject AND entry BETWEEN :since AND :until ORDER BY entry DESC",
    table="taken",
)
SELECT_ENTRY = select_entries("WHERE entry = :entry AND subject = :subject")
SELECT_TAKEN = select_entries("WHERE entry = :entry AND subject = :subject", table="taken")

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
    # The revision of the newest source, whether it counts or not.
    newest: int


class Replay:
    """Replays keys of one transaction."""

    def __init__(self, tx: RowReader) -> None:
        self._tx = tx

    async def walk(self, holder: int, key: str, last: int) -> AsyncIterator[Source]:
        """Yield the source changes of a key, newest first, from the revision of its last change."""
        oldest = (await self._tx.load_head()).oldest
        revision = last
        while revision:
            previous: int | None = None
            for entry in await self.entries(holder, revision):
                for index in entry.indexes(key):
                    change = entry.logged[index]
                    previous = change.prev_of_key
                    if change.op not in DERIVED:
                        yield Source(entry, index, change)
                    elif change.operand is not None:
                        # Past all other derived changes, however often it has flipped.
                        previous = int(change.operand)
            if previous is None and revision > oldest:
                # There was a change of it. Of folded ones only values are left.
                raise DatabaseDamaged()
            # A folded change names none before it.
            revision = previous or 0

    async def entries(self, holder: int, revision: int) -> list[EntryRow]:
        """Return the entries of a holder at a revision, newest first."""
        oldest = (await self._tx.load_head()).oldest
        if revision > oldest:
            entries = await self.own_entries(holder, revision)
            # Not in its own log, so it was taken over with the number it had.
            entries = entries or await self._taken_of(holder, revision)
        else:
            # A folded entry may be from before the holder was deleted; a taken one is not.
            entries = await self._taken_of(holder, revision)
            entries = entries or await self.own_entries(holder, revision)
        if not entries:
            raise DatabaseDamaged()
        return entries

    async def own_entries(self, holder: int, revision: int) -> list[EntryRow]:
        """Return the entries of a holder at a revision that are its own, newest first."""
        head = await self._tx.load_head()
        if revision <= head.oldest:
            return await self._folded(holder, head.oldest)
        known = self._tx.read_entries.revisions.get(revision)
        if known is None:
            known = {}
            entries = await entries_of_revision(self._tx, revision)
            await find_anchors(self._tx, entries)
            for entry in reversed(entries):
                known.setdefault(entry.subject, []).append(entry)
            if self._tx.is_final(revision):
                self._tx.read_entries.count(len(entries))
                self._tx.read_entries.revisions[revision] = known
        return known.get(holder, [])

    async def _folded(self, holder: int, oldest: int) -> list[EntryRow]:
        """Return the entry that all up to the oldest revision were folded into."""
        known = self._tx.read_entries.revisions.setdefault(0, {})
        if holder not in known:
            rows = await self._tx.fetch_all(SELECT_BASES_OF, subject=holder, until=last_of(oldest))
            known[holder] = [OF_SUBJECT.read(row, holder) for row in rows]
        return known[holder]

    async def _taken_of(self, holder: int, revision: int) -> list[EntryRow]:
        known = self._tx.read_entries.taken
        if (holder, revision) not in known:
            since, until = first_of(revision), last_of(revision)
            rows = await self._tx.fetch_all(
                SELECT_TAKEN_OF, subject=holder, since=since, until=until
            )
            entries = [TAKEN.read(row, holder) for row in rows]
            for entry, following in pairwise([*entries, None]):
                assert entry is not None
                if entry.prev_of_subject >= since and (
                    following is None or following.entry != entry.prev_of_subject
                ):
                    raise DatabaseDamaged()
            await find_anchors(self._tx, entries)
            self._tx.read_entries.count(len(entries))
            known[holder, revision] = entries
        return known[holder, revision]

    async def _sources(
        self, holder: int, key: str, last: int, counts: Counts
    ) -> tuple[list[Source], int]:
        """
        Return the changes that count, oldest first, from the last base on.

        Also the revision of the newest change, whether it counts or not.
        """
        found: list[Source] = []
        newest = 0
        async for source in self.walk(holder, key, last):
            newest = newest or source.entry.revision
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
            entry = await self.entry(restore.entry.subject, number)
            if entry is None or index >= len(entry.logged):
                return None
            if always or counts(entry):
                found.append(Source(entry, index, entry.logged[index]))
        for index in range(len(found) - 1, -1, -1):
            if found[index].change.op in BASES:
                return found[index:]
        return found

    async def entry(self, holder: int, number: int) -> EntryRow | None:
        """Return an entry of a holder, or one it has taken over."""
        known = self._tx.read_entries.single
        if (holder, number) not in known:
            row = await self._tx.fetch_one(SELECT_ENTRY, entry=number, subject=holder)
            if row is None:
                row = await self._tx.fetch_one(SELECT_TAKEN, entry=number, subject=holder)
            entry = EntryRow(*row).verify() if row is not None else None
            if entry is not None:
                await find_anchors(self._tx, [entry])
            elif EntryRow.revision_of(number) > (await self._tx.load_head()).oldest:
                raise DatabaseDamaged()
            self._tx.read_entries.count(1)
            known[holder, number] = entry
        return known[holder, number]

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
