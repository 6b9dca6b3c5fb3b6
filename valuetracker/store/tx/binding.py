"""Leaving a chat: an instance keeps the values it has, and the story decides over them no more."""

from __future__ import annotations

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.store.log.lists import EntryList, find_anchors, subject_list, taken_list
from valuetracker.store.log.replay import Replay
from valuetracker.store.rows.entries import UPDATE_LEFT, UPDATE_TAKEN_LEFT, EntryRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.tx.changes import KeepValues
from valuetracker.store.tx.ledger import Ledger


async def leave_chat(tx: Ledger, holder: HolderRow, new: int | None) -> None:
    """
    Have an instance leave its chat, unless that is the new one.

    Its live changes stand at the beginning from then on, the dormant ones are dropped, and its
    values are logged as bases. A deleted instance leaves the chat that it was in.
    """
    if (await _former_chat(tx, holder) if holder.deleted else holder.chat) == new:
        return
    revision = await tx.revise()
    await _leave(tx, subject_list(holder), UPDATE_LEFT, revision)
    await _leave(tx, await taken_list(tx, holder), UPDATE_TAKEN_LEFT, revision)
    tx.forget_entries()
    await tx.apply([KeepValues(holder)])


async def _former_chat(tx: Ledger, holder: HolderRow) -> int | None:
    """Return the chat that a deleted instance was in; None also if that was folded."""
    entry = await Replay(tx).find_entry(holder.number, holder.shape_entry, "")
    for index in entry.indexes("") if entry is not None else ():
        assert entry is not None
        operand = entry.logged[index].operand
        if operand is not None:
            chat: int | None = orjson.loads(operand)["chat"]
            return chat
    return None


async def _leave(tx: Ledger, log: EntryList, update: Statement, revision: int) -> None:
    async for chunk in log.newest_first(tx):
        entries = [entry for entry in chunk if _follows(entry)]
        await find_anchors(tx, entries)
        for entry in entries:
            entry.dropped = int(not entry.is_live)
            entry.left_at = revision
            entry.seal()
        if entries:
            await tx.execute_many(update, entries)


def _follows(entry: EntryRow) -> bool:
    """Return True if the changes of an entry stand in the story of a chat."""
    if entry.left_at:
        return False
    if entry.place is not None or entry.stands is not None:
        return True
    # Folded ones each have a place of their own.
    return any(change.op == "base" for change in entry.logged)
