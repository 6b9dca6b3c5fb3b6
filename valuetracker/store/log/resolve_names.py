"""
The names of entries: the log knows what it speaks of by number.

Rows are looked up and verified, not joined: a name that has changed by itself is no name.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.row_types import CharacterRow, ChatRow, HolderRow
from valuetracker.store.rows.snapshot import Snapshot


async def put_names(tx: Snapshot, entries: Iterable[EntryRow]) -> None:
    """Say of entries what their subjects and chats are called now."""
    entries = list(entries)
    names = tx.names
    await _learn(tx, {entry.subject for entry in entries} - names.keys())
    for entry in entries:
        entry.space, entry.id = names[entry.subject]
        entry.chat_id = await tx.chat_id(entry.chat)


async def _learn(tx: Snapshot, numbers: set[int]) -> None:
    """The names of subjects nobody has asked for yet."""
    names = tx.names
    for statement, kind in (
        (sql.SELECT_HOLDERS_NUMBERED, HolderRow),
        (sql.SELECT_CHARACTERS_NUMBERED, CharacterRow),
        (sql.SELECT_CHATS_NUMBERED, ChatRow),
    ):
        if not numbers:
            return
        for row in await tx.fetch_all(statement, numbers=orjson.dumps(list(numbers)).decode()):
            found = kind(*row).verify()
            names[found.number] = _name(found)
            numbers.discard(found.number)
    if numbers:
        raise DatabaseDamaged()


def _name(row: HolderRow | CharacterRow | ChatRow) -> tuple[str, str]:
    if isinstance(row, HolderRow):
        return row.space, row.id
    return ("character", row.id) if isinstance(row, CharacterRow) else ("chat", "")
