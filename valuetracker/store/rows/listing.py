"""Rows that are listed, known to be all there are: whoever has them says how many."""

from __future__ import annotations

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import ChatRow, HolderRow


async def present_chats(tx: Reader) -> list[ChatRow]:
    """All chats that are there, also those put away, in the order in which they came."""
    rows = [ChatRow(*row).verify() for row in await tx.fetch_all(sql.SELECT_CHATS)]
    if len(rows) != (await tx.load_head()).chats:
        raise DatabaseDamaged()
    return rows


async def holders_of_chat(tx: Reader, chat: ChatRow) -> list[HolderRow]:
    """The rooms and instances of a chat, in the order in which they came."""
    rows = await tx.fetch_all(sql.SELECT_HOLDERS_OF_CHAT, chat=chat.number)
    holders = [HolderRow(*row).verify() for row in rows]
    chat.verify_holders(holders)
    return holders
