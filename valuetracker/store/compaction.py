"""
Folding the log: below a cutoff only the state is kept, one `base` per key.

The state at the cutoff and everything after it can be read as before; what lay further
back is gone, and so are the changes that had not taken effect by then.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from valuetracker.engine.statement import Statement
from valuetracker.records import Compaction, moment
from valuetracker.store.log.links import log_list, taken_list
from valuetracker.store.log.state_at import find_moment, revision_of_time, state_until
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.checkpoint_rows import oldest_needed
from valuetracker.store.rows.entries import BETWEEN_CHANGES, FLIPPABLE, EntryRow, encode_record
from valuetracker.store.rows.row_types import Head
from valuetracker.store.tx.ledger import Ledger


@dataclass(slots=True, frozen=True)
class Keep:
    """What to keep: so many revisions, or those of so many days."""

    revisions: int | None = None
    days: float | None = None


DELETE_ENTRIES = Statement("DELETE FROM {schema}.entries WHERE entry <= :until")
SELECT_SUBJECTS_OF_TAKEN = Statement("SELECT DISTINCT subject FROM {schema}.taken")
DELETE_TAKEN = Statement("DELETE FROM {schema}.taken WHERE subject = :subject")
DELETE_KEYFRAMES = Statement("DELETE FROM {schema}.keyframes WHERE entry <= :until")


@dataclass(slots=True)
class Folded:
    """What is about to be folded."""

    # How many changes there are.
    changes: int = 0
    # Of each subject its last entry, in the order of those, without what it says.
    last: dict[int, EntryRow] = field(default_factory=dict)
    # How many entries are anchored to each place.
    places: Counter[int] = field(default_factory=Counter)

    def add(self, entry: EntryRow) -> None:
        self.changes += sum(1 for record in entry.records if record.op != "base")
        self.last.pop(entry.subject, None)
        self.last[entry.subject] = _without_changes(entry)
        self.add_place(entry)

    def add_place(self, entry: EntryRow) -> None:
        if entry.place is not None:
            self.places[entry.place] += 1


def _without_changes(entry: EntryRow) -> EntryRow:
    entry.changes = ""
    entry.forget_records()
    return entry


async def compact(tx: Ledger, keep: Keep) -> Compaction:
    head = await tx.load_head()
    cutoff = await _cutoff(tx, head, keep)
    # What a checkpoint names must stay.
    needed = await oldest_needed(tx)
    if needed is not None:
        cutoff = min(cutoff, needed)
    if cutoff <= head.oldest:
        return {"oldest": head.oldest, "removed": 0}
    at = await find_moment(tx, cutoff)
    folded = Folded()
    async for chunk in (await log_list(tx)).oldest_first(tx, until=at.entry):
        for entry in chunk:
            folded.add(entry)
    bases, kept = await _bases(tx, folded)
    await _let_go(tx, folded)
    await tx.execute(DELETE_ENTRIES, until=at.entry)
    await tx.execute(DELETE_KEYFRAMES, until=at.entry)
    await tx.execute_many(sql.INSERT_ENTRY, bases)
    await tx.set_oldest(cutoff)
    return {"oldest": cutoff, "removed": max(folded.changes - kept, 0)}


async def _let_go(tx: Ledger, folded: Folded) -> None:
    """A branch whose own beginning is folded needs nothing of what it took over."""
    for (subject,) in await tx.fetch_all(SELECT_SUBJECTS_OF_TAKEN):
        holder = await tx.get_holder(subject)
        last = folded.last.get(subject)
        # A room of a chat that was purged before it became a branch has been there longer.
        if last is not None and last.revision > holder.floor:
            async for chunk in taken_list(holder).newest_first(tx):
                for entry in chunk:
                    folded.add_place(entry)
            holder.taken = 0
            tx.put_holder(holder)
            await tx.execute(DELETE_TAKEN, subject=subject)
    # Places of a chat that was purged are gone, and those of no chat are not counted.
    for number, place in (await tx.load_places(folded.places)).items():
        if place.chat:
            place.entries -= folded.places[number]
            tx.put_place(place)


async def _bases(tx: Ledger, folded: Folded) -> tuple[list[EntryRow], int]:
    """
    For every subject its state, in place of the last entry it had.

    Also where there is none: what comes after it names it.
    """
    bases: list[EntryRow] = []
    kept = 0
    for entry in folded.last.values():
        state = await state_until(tx, entry.subject, entry.entry)
        records = [record for record in state.values() if record.after is not None]
        kept += sum(1 for record in records if record.op != "base")
        records.sort(key=lambda record: record.place)
        bases.append(_base(entry, [_base_record(r.key, r.place, r.after) for r in records]))
    prior = 0
    for base in bases:
        # What is folded is one moment, that of the last of it.
        base.at = bases[-1].at
        base.prior, prior = prior, base.entry
        base.seal()
    return bases, kept


def _base_record(key: str, place: int, after: str | None) -> str:
    return encode_record(key, "base", 0, place, after, None)


def _base(entry: EntryRow, records: list[str]) -> EntryRow:
    entry.changes = BETWEEN_CHANGES.join(records)
    entry.place, entry.effect, entry.standing = None, 1, FLIPPABLE
    entry.before = entry.earlier = 0
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
    revision = await revision_of_time(tx, moment(since))
    return revision if revision is not None else head.oldest
