"""
Repairing: keyframes that are damaged or wrong are made anew from the log.
"""

from __future__ import annotations

from collections import defaultdict

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.audit.findings import Findings
from valuetracker.store.audit.replayed import SubjectReplay
from valuetracker.store.log.lists import subject_list, taken_list
from valuetracker.store.rows.entries import INSERT_KEYFRAME, KeyframeRow
from valuetracker.store.rows.holders import HolderRow, select_holders
from valuetracker.store.rows.row import select
from valuetracker.store.rows.snapshot import Snapshot

SELECT_KEYFRAMES = select(KeyframeRow, "ORDER BY holder, entry")
SELECT_HOLDER = select_holders("WHERE number = :number")
DELETE_KEYFRAME = Statement(
    "DELETE FROM {schema}.keyframes WHERE holder = :holder AND entry = :entry"
)


async def rebuild_keyframes(transaction: Transaction) -> None:
    """Make the keyframes anew whose rows are damaged."""
    damaged: dict[int, set[int]] = defaultdict(set)
    async for chunk in transaction.fetch_chunks(SELECT_KEYFRAMES):
        for columns in chunk:
            row = KeyframeRow(*columns)
            try:
                row.verify()
            except DatabaseDamaged:
                damaged[row.holder].add(row.entry)
    for number, entries in damaged.items():
        tx = await Snapshot.take(transaction)
        found = await tx.fetch_one(SELECT_HOLDER, number=number)
        frames = [] if found is None else await _frames(tx, HolderRow.of(found), entries)
        for entry in entries:
            await transaction.execute(DELETE_KEYFRAME, holder=number, entry=entry)
        if frames:
            await transaction.execute_many(INSERT_KEYFRAME, frames)


async def _frames(tx: Snapshot, holder: HolderRow, wanted: set[int]) -> list[KeyframeRow]:
    """Return the keyframes of a holder after these entries, as the log says."""
    replay = SubjectReplay(holder.number, True, tx.head.oldest, Findings())
    async for taken in (await taken_list(tx, holder)).oldest_first(tx):
        replay.take_over(taken)
    frames: list[KeyframeRow] = []
    async for chunk in subject_list(holder).oldest_first(tx):
        for entry in chunk:
            replay.add(entry)
            if entry.entry in wanted:
                present = (
                    (key, state.entry)
                    for key, state in replay.keys.items()
                    if state.after is not None or (not key and holder.space == "instance")
                )
                frames.append(KeyframeRow.of(holder.number, entry.entry, present))
    return frames
