"""
Folding the log: up to a cutoff only the state is kept, one `base` per key.

The state at the cutoff and everything after it can be read as before. Older states cannot be
read any more, and changes that were dormant at the cutoff are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from valuetracker.engine.statement import Statement
from valuetracker.records import Compaction, moment
from valuetracker.store.log.lists import log_list
from valuetracker.store.log.state_at import find_moment, revision_of_time, state_until
from valuetracker.store.rows.chat_rows import list_checkpoint_rows
from valuetracker.store.rows.checkpoints import READY
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    INSERT_ENTRY,
    INSERT_KEYFRAME,
    EntryRow,
    KeyframeRow,
    LoggedChange,
    encode_change,
)
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import DELETE_ADOPTED
from valuetracker.store.tx.changes import UpdateHead
from valuetracker.store.tx.ledger import Ledger


@dataclass(slots=True, frozen=True)
class Keep:
    """How much to keep: so many revisions, or those of so many days."""

    revisions: int | None = None
    days: float | None = None


DELETE_ENTRIES = Statement("DELETE FROM {schema}.entries WHERE entry <= :until")
SELECT_SUBJECTS_OF_TAKEN = Statement("SELECT DISTINCT subject FROM {schema}.taken")
DELETE_TAKEN = Statement("DELETE FROM {schema}.taken WHERE subject = :subject")
DELETE_KEYFRAMES = Statement("DELETE FROM {schema}.keyframes WHERE entry <= :until")


@dataclass(slots=True)
class Folded:
    """Counts of the entries that are about to be folded."""

    # How many changes there are.
    changes: int = 0
    # The last entry of each subject, in their order, without its changes.
    last: dict[int, EntryRow] = field(default_factory=dict)

    def add(self, entry: EntryRow) -> None:
        self.changes += sum(1 for change in entry.logged if change.op != "base")
        self.last.pop(entry.subject, None)
        self.last[entry.subject] = _without_changes(entry)


def _without_changes(entry: EntryRow) -> EntryRow:
    entry.changes = ""
    entry.forget_logged()
    return entry


async def compact(tx: Ledger, keep: Keep) -> Compaction:
    head = await tx.load_head()
    cutoff = await _cutoff(tx, head, keep)
    # A state that a checkpoint names must stay readable.
    needed = await _oldest_needed(tx)
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
    await _drop_taken(tx, folded)
    await tx.execute(DELETE_ENTRIES, until=at.entry)
    await tx.execute(DELETE_KEYFRAMES, until=at.entry)
    await tx.execute_many(INSERT_ENTRY, bases)
    # Entries after it, and keyframes, find a folded value by the keyframe that stands there.
    await tx.execute_many(INSERT_KEYFRAME, [_frame(base) for base in bases])
    if head.adopted and head.adopted <= cutoff:
        await tx.execute(DELETE_ADOPTED)
    await tx.apply([UpdateHead(oldest=cutoff)])
    # Kept answers about the folded past are no longer true.
    tx.invalidate_everything()
    return {"oldest": cutoff, "removed": max(folded.changes - kept, 0)}


async def _drop_taken(tx: Ledger, folded: Folded) -> None:
    """Drop the taken entries of branches whose own beginning is folded."""
    for (subject,) in await tx.fetch_all(SELECT_SUBJECTS_OF_TAKEN):
        holder = await tx.get_holder(subject)
        last = folded.last.get(subject)
        # The space of a chat that was purged before it became a branch is older than the branch.
        if last is not None and last.revision > holder.readable_from:
            await tx.execute(DELETE_TAKEN, subject=subject)


async def _bases(tx: Ledger, folded: Folded) -> tuple[list[EntryRow], int]:
    """
    Return for every subject an entry with its state, which replaces the last one it had.

    Also for subjects without any state: the entry after it names it.
    """
    bases: list[EntryRow] = []
    kept = 0
    for entry in folded.last.values():
        state = await state_until(tx, entry.subject, entry.entry)
        changes = [change for change in state.values() if change.after is not None]
        kept += sum(1 for change in changes if change.op != "base")
        changes.sort(key=lambda change: change.ordinal)
        bases.append(_base(entry, changes))
    for base in bases:
        # All that is folded has one time, that of the last entry.
        base.at = bases[-1].at
        base.seal()
    return bases, kept


def _base(entry: EntryRow, changes: list[LoggedChange]) -> EntryRow:
    entry.changes = BETWEEN_CHANGES.join(
        encode_change(entry.entry, change.key, "base", 0, change.ordinal, change.after)
        for change in changes
    )
    entry.place, entry.effect, entry.left_at, entry.dropped, entry.back = None, 1, 0, 0, 0
    return entry


def _frame(base: EntryRow) -> KeyframeRow:
    keys = [(change.key, base.entry) for change in base.logged]
    return KeyframeRow.of(base.subject, base.entry, keys)


async def _oldest_needed(tx: Ledger) -> int | None:
    """Return the oldest revision that a checkpoint needs; None if there is no checkpoint."""
    needed: list[int] = []
    for chat in await tx.list_chats():
        for row in await list_checkpoint_rows(tx, chat):
            if row.status == READY and row.message_id is None:
                needed.append(row.revision)
            elif row.status == READY:
                # As of a message, every anchored change of the chat matters: a folded one
                # would count for all messages.
                places = (await tx.load_chain(chat.number)).places.values()
                written = [place.first_written for place in places if place.first_written]
                needed.append(min(written) - 1 if written else row.revision)
    return min(needed, default=None)


async def _cutoff(tx: Ledger, head: Head, keep: Keep) -> int:
    if keep.revisions is not None:
        return head.revision - keep.revisions
    assert keep.days is not None
    try:
        since = datetime.fromisoformat(tx.now) - timedelta(days=keep.days)
    except OverflowError:
        # Longer than there has been time: everything is kept.
        return head.oldest
    revision = await revision_of_time(tx, moment(since))
    return revision if revision is not None else head.oldest
