"""
Folding the log: below a cutoff only the state is kept, one `base` per key.

The state at the cutoff and everything after it can be read as before; what lay further
back is gone, and so are the changes that had not taken effect by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from valuetracker.engine.statement import Statement
from valuetracker.model import Compaction, moment
from valuetracker.store import statements as sql
from valuetracker.store.checkpoint_rows import SELECT_OLDEST_NEEDED
from valuetracker.store.entries import (
    BETWEEN_CHANGES,
    FLIPPABLE,
    EntryRow,
    decode_records,
    encode_record,
)
from valuetracker.store.ledger import Ledger
from valuetracker.store.log import Moment, find_moment, state_at
from valuetracker.store.rows import Head


@dataclass(slots=True, frozen=True)
class Keep:
    """What to keep: so many revisions, or those of so many days."""

    revisions: int | None = None
    days: float | None = None


# The last entry of every subject up to the cutoff.
SELECT_LAST_ENTRIES = Statement(
    f"""
    SELECT {sql.names(sql.ENTRIES)} FROM {{schema}}.entries WHERE entry IN (
        SELECT max(entry) FROM {{schema}}.entries WHERE entry <= :until GROUP BY subject
    ) ORDER BY entry
    """
)

# How many entries are counted at once.
CHUNK = 1_000

SELECT_FOLDED = Statement(
    """
    SELECT entry, changes FROM {schema}.entries
    WHERE entry > :since AND entry <= :until ORDER BY entry LIMIT :count
    """
)
DELETE_ENTRIES = Statement("DELETE FROM {schema}.entries WHERE entry <= :until")
# A branch whose own beginning was folded needs nothing of what it took over.
DELETE_TAKEN = Statement(
    """
    DELETE FROM {schema}.taken
    WHERE subject IN (SELECT subject FROM {schema}.entries WHERE entry <= :until)
    """
)
DELETE_KEYFRAMES = Statement("DELETE FROM {schema}.keyframes WHERE entry <= :until")

SELECT_REVISION_BEFORE = Statement(
    "SELECT entry FROM {schema}.entries WHERE at <= :at ORDER BY entry DESC LIMIT 1"
)


async def compact(tx: Ledger, keep: Keep) -> Compaction:
    head = await tx.load_head()
    cutoff = await _cutoff(tx, head, keep)
    # What a checkpoint names must stay.
    row = await tx.fetch_one(SELECT_OLDEST_NEEDED)
    if row is not None and row[0] is not None:
        cutoff = min(cutoff, row[0])
    if cutoff <= head.oldest:
        return {"oldest": head.oldest, "removed": 0}
    at = await find_moment(tx, cutoff)
    bases, kept = await _bases(tx, at)
    before = await _count(tx, at)
    await tx.execute(DELETE_TAKEN, until=at.entry)
    await tx.execute(DELETE_ENTRIES, until=at.entry)
    await tx.execute(DELETE_KEYFRAMES, until=at.entry)
    await tx.execute_many(sql.INSERT_ENTRY, bases)
    await tx.set_oldest(cutoff)
    return {"oldest": cutoff, "removed": max(before - kept, 0)}


async def _count(tx: Ledger, at: Moment) -> int:
    """How many changes there are up to then."""
    count = since = 0
    while True:
        rows = await tx.fetch_all(SELECT_FOLDED, since=since, until=at.entry, count=CHUNK)
        for entry, changes in rows:
            since = entry
            count += sum(1 for record in decode_records(changes) if record.op != "base")
        if len(rows) < CHUNK:
            return count


async def _bases(tx: Ledger, at: Moment) -> tuple[list[EntryRow], int]:
    """For every subject that was there, its state in place of the last entry it had."""
    bases: list[EntryRow] = []
    kept = 0
    last: EntryRow | None = None
    for row in await tx.fetch_all(SELECT_LAST_ENTRIES, until=at.entry):
        entry = last = EntryRow(*row).verify()
        state = await state_at(tx, entry.subject, at)
        records = [record for record in state.values() if record.after is not None]
        kept += sum(1 for record in records if record.op != "base")
        if records:
            records.sort(key=lambda record: record.place)
            bases.append(_base(entry, [_base_record(r.key, r.place, r.after) for r in records]))
    if last is not None and (not bases or bases[-1].entry != last.entry):
        # Nothing is left of it, but it says when the state was.
        bases.append(_base(last, []))
    for base in bases:
        # What is folded is one moment, that of the last of it.
        base.at = bases[-1].at
        base.seal()
    return bases, kept


def _base_record(key: str, place: int, after: str | None) -> str:
    return encode_record(key, "base", 0, place, after, None)


def _base(entry: EntryRow, records: list[str]) -> EntryRow:
    entry.changes = BETWEEN_CHANGES.join(records)
    entry.place, entry.effect, entry.standing = None, 1, FLIPPABLE
    entry.seal()
    return entry


async def _cutoff(tx: Ledger, head: Head, keep: Keep) -> int:
    if keep.revisions is not None:
        return head.revision - keep.revisions
    assert keep.days is not None
    try:
        since = datetime.now(UTC) - timedelta(days=keep.days)
    except OverflowError:
        # Longer than there has been time: everything is kept.
        return head.oldest
    row = await tx.fetch_one(SELECT_REVISION_BEFORE, at=moment(since))
    return EntryRow.revision_of(row[0]) if row is not None else head.oldest
