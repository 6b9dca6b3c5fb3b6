"""
The names of entries: the log keeps subjects and chats by number.

Rows are looked up and verified instead of joined, so that a damaged name is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.characters import SELECT_CHARACTERS_NUMBERED, CharacterRow
from valuetracker.store.rows.chats import SELECT_CHATS_NUMBERED, ChatRow
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.holders import SELECT_HOLDERS_NUMBERED, HolderRow
from valuetracker.store.rows.snapshot import Snapshot


async def resolve_names(tx: Snapshot, entries: Iterable[EntryRow]) -> None:
    """Find the present names of the subjects and chats of entries."""
    entries = list(entries)
    names = tx.names
    await _load_names(tx, {entry.subject for entry in entries} - names.keys())
    for entry in entries:
        entry.space, entry.id = names[entry.subject]
        entry.chat_id = await tx.chat_id(entry.chat)


async def _load_names(tx: Snapshot, numbers: set[int]) -> None:
    """Load the names of subjects that nobody has asked for yet."""
    names = tx.names
    for statement, kind in (
        (SELECT_HOLDERS_NUMBERED, HolderRow),
        (SELECT_CHARACTERS_NUMBERED, CharacterRow),
        (SELECT_CHATS_NUMBERED, ChatRow),
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
