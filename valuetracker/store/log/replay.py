"""
What the changes of a key make of it: source changes, replayed in the order of their revisions.

The log of a key is a linked list: every change names the revision that spoke of the key
before. So a key is recomputed by going back from its last change to the last one that
starts it anew, and replaying from there; how much else has happened does not matter.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import orjson

from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.store.log.links import OF_SUBJECT, TAKEN, entries_of_revision, put_in_place
from valuetracker.store.log.operators import ABSENT, apply_operation
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import BASES, DERIVED, EntryRow, Record, first_of, last_of
from valuetracker.store.rows.reader import Reader
from valuetracker.values import canonical

SELECT_BASES_OF = sql.entries("WHERE subject = :subject AND entry <= :until")
SELECT_TAKEN_OF = sql.taken(
    "WHERE subject = :subject AND entry BETWEEN :since AND :until ORDER BY entry DESC"
)
SELECT_ENTRY = sql.entries("WHERE entry = :entry AND subject = :subject")
SELECT_TAKEN = sql.taken("WHERE entry = :entry AND subject = :subject")

Counts = Callable[[EntryRow], bool]


@dataclass(slots=True, frozen=True)
class Source:
    """One source change of a key: the entry it stands in, and where in it."""

    entry: EntryRow
    index: int
    record: Record


@dataclass(slots=True)
class Conflict:
    """A change that could not be replayed on what was there."""

    source: Source
    reason: str


@dataclass(slots=True)
class Replayed:
    """What came of a replay: the value as text (None: there is none), and what was skipped."""

    value: str | None
    conflicts: list[Conflict]
    sources: list[Source]
    # The revision of the newest source, whether it counts or not.
    newest: int


class Replay:
    """Replays keys of one transaction."""

    def __init__(self, tx: Reader) -> None:
        self._tx = tx

    async def walk(self, holder: int, key: str, last: int) -> AsyncIterator[Source]:
        """The source changes of a key, newest first, from the revision that spoke of it last."""
        oldest = (await self._tx.load_head()).oldest
        revision = last
        while revision:
            previous: int | None = None
            for entry in await self.entries(holder, revision):
                for index in entry.indexes(key):
                    record = entry.records[index]
                    previous = record.previous
                    if record.op not in DERIVED:
                        yield Source(entry, index, record)
                    elif record.operand is not None:
                        # However often it has flipped since.
                        previous = int(record.operand)
            if previous is None and revision > oldest:
                # Something spoke of it there. Of what was folded, only values are left.
                raise DatabaseDamaged()
            # What was folded has no past: it names none.
            revision = previous or 0

    async def entries(self, holder: int, revision: int) -> list[EntryRow]:
        """What a revision did to a holder, newest first."""
        oldest = (await self._tx.load_head()).oldest
        if revision > oldest:
            entries = await self.own_entries(holder, revision)
            # Not of its own log, so taken over with the number it had.
            entries = entries or await self._taken_of(holder, revision)
        else:
            # What was folded may be of a former life; what was taken over is not.
            entries = await self._taken_of(holder, revision)
            entries = entries or await self.own_entries(holder, revision)
        if not entries:
            raise DatabaseDamaged()
        return entries

    async def own_entries(self, holder: int, revision: int) -> list[EntryRow]:
        """What a revision did to a holder by its own log, newest first."""
        head = await self._tx.load_head()
        if revision <= head.oldest:
            return await self._folded(holder, head.oldest)
        known = self._tx.read_entries.revisions.get(revision)
        if known is None:
            known = {}
            entries = await entries_of_revision(self._tx, revision)
            await put_in_place(self._tx, entries)
            for entry in reversed(entries):
                known.setdefault(entry.subject, []).append(entry)
            if self._tx.is_over(revision):
                self._tx.read_entries.count(len(entries))
                self._tx.read_entries.revisions[revision] = known
        return known.get(holder, [])

    async def _folded(self, holder: int, oldest: int) -> list[EntryRow]:
        """What lies below the oldest was folded into one entry."""
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
                if entry.before >= since and (following is None or following.entry != entry.before):
                    raise DatabaseDamaged()
            await put_in_place(self._tx, entries)
            self._tx.read_entries.count(len(entries))
            known[holder, revision] = entries
        return known[holder, revision]

    async def _sources(
        self, holder: int, key: str, last: int, counts: Counts
    ) -> tuple[list[Source], int]:
        """
        The changes that count, oldest first, from the last that starts the key anew.

        And the revision of the newest one, whether it counts or not.
        """
        found: list[Source] = []
        newest = 0
        async for source in self.walk(holder, key, last):
            newest = newest or source.entry.revision
            if not counts(source.entry):
                continue
            found.append(source)
            if source.record.op in BASES:
                break
        found.reverse()
        if found and found[0].record.op == "restore":
            named = await self._named(found[0], counts)
            if named is not None:
                found[:1] = named
        return found, newest

    async def _named(self, restore: Source, counts: Counts) -> list[Source] | None:
        """
        The changes a restore stands for, as far as they count; None if some are no more.

        A restore that belongs to no message stays whatever becomes of those messages that
        were hidden when it was made.
        """
        found: list[Source] = []
        for number, index, always in orjson.loads(restore.record.operand or "[]"):
            entry = await self.entry(restore.entry.subject, number)
            if entry is None or index >= len(entry.records):
                return None
            if always or counts(entry):
                found.append(Source(entry, index, entry.records[index]))
        for index in range(len(found) - 1, -1, -1):
            if found[index].record.op in BASES:
                return found[index:]
        return found

    async def entry(self, holder: int, number: int) -> EntryRow | None:
        """An entry of a holder's log, or one it has taken over."""
        known = self._tx.read_entries.single
        if (holder, number) not in known:
            row = await self._tx.fetch_one(SELECT_ENTRY, entry=number, subject=holder)
            if row is None:
                row = await self._tx.fetch_one(SELECT_TAKEN, entry=number, subject=holder)
            entry = EntryRow(*row).verify() if row is not None else None
            if entry is not None:
                await put_in_place(self._tx, [entry])
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
                value = _apply(source.record, value)
            except ValueTrackerError as refusal:
                conflicts.append(Conflict(source, refusal.message))
        return Replayed(value, conflicts, sources, newest)


def is_live(entry: EntryRow) -> bool:
    return entry.is_live


def _apply(record: Record, value: str | None) -> str | None:
    if record.op == "remove":
        return None
    if record.op == "restore":
        return record.after
    if record.op in BASES:
        return record.after if record.after is not None else record.operand
    before: Any = ABSENT if value is None else orjson.loads(value)
    assert record.operand is not None
    return canonical(apply_operation(record.op, before, orjson.loads(record.operand)))
