"""
The lists an entry is part of: the log, the list of its subject, the list of its chat.

The log is ordered by the numbers of its entries. An index finds those of a chat. Those of a
subject have none, because each write would have to write a page of it: each entry names the one
before it, and keyframes show where to begin in the middle of a long list.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Protocol

from valuetracker.engine import Row
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import TAKEN, EntryRow, select_entries
from valuetracker.store.rows.holders import (
    SELECT_ADOPTED,
    SELECT_UNCHANGED,
    AdoptedRow,
    DataRow,
    HolderRow,
)
from valuetracker.store.rows.numbers import last_of
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.row import names
from valuetracker.store.rows.row_cache import Subject

# How many entries are read at once, at first and at the most: they may be large.
FIRST_CHUNK = 4
CHUNK = 256
CHUNK_BYTES = 1024 * 1024

Chunks = AsyncIterator[list[EntryRow]]


class EntryList(Protocol):
    """A list of entries, read some at a time, within two numbers."""

    def newest_first(self, tx: RowReader, since: int = 0, until: int | None = None) -> Chunks: ...

    def oldest_first(self, tx: RowReader, since: int = 0, until: int | None = None) -> Chunks: ...


async def read_entries(tx: RowReader, rows: Iterable[Row]) -> list[EntryRow]:
    """Return entries of the log, verified, with the values they adopted."""
    entries = [EntryRow(*row).verify() for row in rows]
    await _put_adopted_values(tx, entries)
    return entries


async def _put_adopted_values(tx: RowReader, entries: Iterable[EntryRow]) -> None:
    """Put the values into the changes of those entries that adopted them."""
    adopted = (await tx.load_head()).adopted
    if not adopted:
        return
    for entry in entries:
        if entry.revision != adopted:
            continue
        # A branch keeps the values with the changes it has taken over.
        unfilled = [each for each in entry.logged if each.op == "adopt" and each.held is None]
        if unfilled:
            rows = await tx.fetch_all(SELECT_ADOPTED, holder=entry.subject)
            values = {row.key: row.value for row in (AdoptedRow(*each).verify() for each in rows)}
            for each in await tx.fetch_all(
                SELECT_UNCHANGED, holder=entry.subject, entry=entry.entry
            ):
                row = DataRow(*each).verify()
                assert row.value is not None
                values[row.key] = row.value
            for change in unfilled:
                change.held = values[change.key]


def _chunk_after(count: int, entries: list[EntryRow]) -> int:
    """Return how many entries to read after these."""
    size = sum(len(entry.changes) for entry in entries)
    return max(1, count // 4) if size > CHUNK_BYTES else min(CHUNK, count * 4)


# The log, a chat, taken entries: what an index finds


class IndexedList:
    """Entries that are found by an index: all, those of a chat, those a holder has taken."""

    def __init__(self, column: str | None, table: str = EntryRow.table) -> None:
        scope = f"{column} = :scope AND " if column is not None else ""
        between = f"WHERE {scope}entry BETWEEN :since AND :until ORDER BY entry"
        self._newest_first = select_entries(f"{between} DESC LIMIT :count", table=table)
        self._oldest_first = select_entries(f"{between} LIMIT :count", table=table)

    async def newest_first(self, tx: RowReader, scope: int, since: int, until: int) -> Chunks:
        count = FIRST_CHUNK
        while since <= until:
            chunk = await self._read(tx, self._newest_first, scope, since, until, count)
            if not chunk:
                return
            yield chunk
            until = chunk[-1].entry - 1
            count = _chunk_after(count, chunk)

    async def oldest_first(
        self, tx: RowReader, scope: int, since: int, until: int, most: int = CHUNK
    ) -> Chunks:
        count = min(most, FIRST_CHUNK)
        while since <= until:
            chunk = await self._read(tx, self._oldest_first, scope, since, until, count)
            if not chunk:
                return
            yield chunk
            since = chunk[-1].entry + 1
            count = min(most, _chunk_after(count, chunk))

    async def _read(
        self, tx: RowReader, statement: Statement, scope: int, since: int, until: int, count: int
    ) -> list[EntryRow]:
        given = {"scope": scope, "since": since, "until": until, "count": count}
        return await read_entries(tx, await tx.fetch_all(statement, **given))


_LOG = IndexedList(None)
_OF_CHAT = IndexedList("chat")
_TAKEN = IndexedList("subject", TAKEN)


@dataclass(slots=True, frozen=True)
class ScopedList:
    """One list that an index finds; entries up to `folded` are not part of it any more."""

    kind: IndexedList
    scope: int
    end: int
    folded: int = 0

    def newest_first(self, tx: RowReader, since: int = 0, until: int | None = None) -> Chunks:
        return self.kind.newest_first(tx, self.scope, *self._bounds(since, until))

    def oldest_first(
        self, tx: RowReader, since: int = 0, until: int | None = None, most: int = CHUNK
    ) -> Chunks:
        """Read the entries in their order, at most so many at once."""
        return self.kind.oldest_first(tx, self.scope, *self._bounds(since, until), most)

    def _bounds(self, since: int, until: int | None) -> tuple[int, int]:
        return max(since, self.folded + 1), self.end if until is None else min(until, self.end)


async def log_list(tx: RowReader) -> ScopedList:
    return ScopedList(_LOG, 0, last_of((await tx.load_head()).revision))


async def chat_list(tx: RowReader, chat: ChatRow) -> ScopedList:
    """Return the list of all entries made in a chat; folded ones are in no chat any more."""
    head = await tx.load_head()
    return ScopedList(_OF_CHAT, chat.number, last_of(head.revision), last_of(head.oldest))


async def taken_list(tx: RowReader, holder: HolderRow) -> ScopedList:
    """Return the list of the entries that a holder of a branch has taken over."""
    return ScopedList(_TAKEN, holder.number, last_of((await tx.load_head()).revision))


# A subject: each entry names the one before it

# From an entry back, each row by the one after it.
SELECT_BACK = Statement(
    f"""
    WITH RECURSIVE list AS (
        SELECT {names(EntryRow.columns)} FROM {{schema}}.entries WHERE entry = :last
        UNION ALL
        SELECT {names(EntryRow.columns, "older")}
        FROM list JOIN {{schema}}.entries AS older ON older.entry = list.entry - list.back
        WHERE list.back > 0 AND list.entry - list.back >= :since
    )
    SELECT * FROM list LIMIT :count
    """
)
# The entry of the first keyframe after a number: a place to begin in the middle of a list.
SELECT_NEXT_FRAME = Statement(
    "SELECT min(entry) FROM {schema}.keyframes WHERE holder = :holder AND entry > :after"
)


@dataclass(slots=True, frozen=True)
class SubjectList:
    """The list of one subject."""

    subject: Subject

    async def last_up_to(self, tx: RowReader, until: int) -> int:
        """Return the number of its last entry up to this one; 0 if there is none."""
        async for chunk in self.newest_first(tx, 0, until):
            return chunk[0].entry
        return 0

    async def newest_first(self, tx: RowReader, since: int = 0, until: int | None = None) -> Chunks:
        """Yield the entries from `until` back to `since`, some at a time."""
        last, count = await self._start(tx, until), FIRST_CHUNK
        while last and last >= since:
            chunk = await back(tx, self.subject.number, last, since, count)
            last = chunk[-1].prev_of_subject
            count = _chunk_after(count, chunk)
            if until is not None:
                chunk = [entry for entry in chunk if entry.entry <= until]
            if chunk:
                yield chunk

    async def _start(self, tx: RowReader, until: int | None) -> int:
        """Return an entry at or behind `until` from which to go back."""
        await tx.settle()
        last = self.subject.last_entry
        if until is not None and until < last and isinstance(self.subject, HolderRow):
            row = await tx.fetch_one(SELECT_NEXT_FRAME, holder=self.subject.number, after=until)
            if row is not None and row[0] is not None:
                return int(row[0])
        return last

    async def oldest_first(self, tx: RowReader, since: int = 0, until: int | None = None) -> Chunks:
        """Yield the entries from `since` up to `until`, from one keyframe to the next."""
        await tx.settle()
        end = self.subject.last_entry if until is None else min(until, self.subject.last_entry)
        while since <= end:
            last = await self._start(tx, since)
            chunk: list[EntryRow] = []
            number = last
            while number and number >= since:
                chunk += await back(tx, self.subject.number, number, since, CHUNK)
                number = chunk[-1].prev_of_subject
            chunk = [entry for entry in reversed(chunk) if entry.entry <= end]
            if chunk:
                yield chunk
            since = last + 1


async def back(tx: RowReader, subject: int, last: int, since: int, count: int) -> list[EntryRow]:
    """Return the entries of a subject from one that must exist back to `since`, newest first."""
    rows = await tx.fetch_all(SELECT_BACK, last=last, since=since, count=count)
    if not rows or rows[0][1] != subject:
        raise DatabaseDamaged()
    return await read_entries(tx, rows)


def subject_list(subject: Subject) -> SubjectList:
    return SubjectList(subject)


async def find_anchors(tx: RowReader, entries: Iterable[EntryRow]) -> None:
    """Find the places that entries are anchored to, as they stand now."""
    anchored = [entry for entry in entries if entry.place is not None]
    if not anchored:
        return
    places = await tx.load_places(entry.place for entry in anchored if entry.place is not None)
    for entry in anchored:
        # Only the places of a chat that was purged since are missing.
        entry.anchor = places.get(entry.place or 0)


# One entry

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


# No entry has this number.
FOLDED = 0


async def find_entry(tx: RowReader, holder: int, number: int, key: str) -> EntryRow | None:
    """
    Return the entry of a holder that has this number and a change of a key, also a taken one.

    For a folded one, that is the entry it was folded into; None if no state was left.
    """
    known = tx.read_entries.entries
    if (holder, number) not in known:
        tx.read_entries.add(holder, number, await _find(tx, holder, number))
    entry = known[holder, number]
    oldest = last_of((await tx.load_head()).oldest)
    if entry is None or not entry.taken or number > oldest or entry.indexes(key):
        return entry
    # Only changes of other keys were retained of it.
    return await _find_folded(tx, holder)


async def find_state(tx: RowReader, holder: int, number: int, key: str) -> EntryRow | None:
    """
    Return the entry of a holder that has this number, and a change of a key with what came of it.

    For a folded one, that is the entry with the state; None if the key has none, and for a taken
    one.
    """
    if number <= last_of((await tx.load_head()).oldest):
        entry = await _find_folded(tx, holder)
    else:
        entry = await find_entry(tx, holder, number, key)
    return entry if entry is not None and not entry.taken and entry.indexes(key) else None


async def _find(tx: RowReader, holder: int, number: int) -> EntryRow | None:
    given = {"entry": number, "subject": holder}
    oldest = last_of((await tx.load_head()).oldest)
    # A folded entry may be from before the holder was deleted; a taken one is not.
    own, taken = SELECT_ENTRY, SELECT_TAKEN
    for statement in (own, taken) if number > oldest else (taken,):
        row = await tx.fetch_one(statement, **given)
        if row is not None:
            found = (await read_entries(tx, [row]))[0]
            found.taken = statement is taken
            await find_anchors(tx, [found])
            return found
    if number > oldest:
        raise DatabaseDamaged()
    return await _find_folded(tx, holder)


async def _find_folded(tx: RowReader, holder: int) -> EntryRow | None:
    """Return the entry with the folded state of a holder; None if no state was left."""
    known = tx.read_entries.entries
    if (holder, FOLDED) not in known:
        until = last_of((await tx.load_head()).oldest)
        row = await tx.fetch_one(SELECT_FOLDED, subject=holder, until=until)
        found = (await read_entries(tx, [row]))[0] if row is not None else None
        tx.read_entries.add(holder, FOLDED, found)
    return known[holder, FOLDED]
