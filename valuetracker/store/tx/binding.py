"""Leaving a chat: the anchored changes of an instance become unanchored or are dropped."""

from __future__ import annotations

from valuetracker.engine.statement import Statement
from valuetracker.store.log.lists import EntryList, find_anchors, subject_list, taken_list
from valuetracker.store.rows.entries import UPDATE_LEFT, UPDATE_TAKEN_LEFT
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.tx.ledger import Ledger


async def leave_chat(tx: Ledger, holder: HolderRow) -> None:
    """Leave a chat: live changes become unanchored, dormant ones are dropped."""
    revision = await tx.revise()
    await _leave(tx, subject_list(holder), UPDATE_LEFT, revision)
    await _leave(tx, await taken_list(tx, holder), UPDATE_TAKEN_LEFT, revision)
    tx.forget_entries()


async def _leave(tx: Ledger, log: EntryList, update: Statement, revision: int) -> None:
    async for chunk in log.newest_first(tx):
        entries = [entry for entry in chunk if entry.place is not None and not entry.left_at]
        await find_anchors(tx, entries)
        for entry in entries:
            entry.dropped = int(not entry.is_live)
            entry.left_at = revision
            entry.seal()
        if entries:
            await tx.execute_many(update, entries)
