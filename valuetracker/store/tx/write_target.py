"""
How a write gets hold of what it is about: who may, whether it is there, what was seen of it.

The order of the checks is the same for all: session, chat, existence, `If-Match`.
"""

from __future__ import annotations

from valuetracker.errors import InstanceNotFound
from valuetracker.store.rows.row_types import ChatRow, HolderRow
from valuetracker.store.rows.targets import Target
from valuetracker.store.story.visibility import make_chat
from valuetracker.store.tx.ledger import Ledger


async def hold(tx: Ledger, target: Target, key: str | None = None) -> HolderRow:
    """
    What values are to be written to; a chat that is not there yet is made.

    With a key, only that key must be unchanged since the caller looked.
    """
    holder = await look_up(tx, target)
    if holder is None and target.space == "instance":
        raise InstanceNotFound()
    await expect(tx, target, holder, key)
    if holder is None:
        holder = await make_room(tx, await make_chat(tx, target.id), target.space)
    return holder


async def hold_present(tx: Ledger, target: Target, key: str | None = None) -> HolderRow | None:
    """The same for a removal: it makes no chat, and there may be nothing to remove from."""
    holder = await look_up(tx, target)
    if holder is None and target.space == "instance":
        raise InstanceNotFound()
    await expect(tx, target, holder, key)
    return holder


async def look_up(tx: Ledger, target: Target) -> HolderRow | None:
    """What is addressed, if the caller may write to it."""
    if target.space == "instance":
        holder = await tx.find_instance(target.id)
        await tx.enter_holder(holder)
        return holder
    chat = await enter_chat(tx, target.id)
    return await find_room(tx, chat, target.space) if chat is not None else None


async def enter_chat(tx: Ledger, chat_id: str, archived: bool = False) -> ChatRow | None:
    """The chat, if the caller may write to it; `archived`: also to one that is put away."""
    chat = await tx.find_chat(chat_id)
    await tx.enter(chat, unknown=chat is None, archived=archived)
    return chat


async def find_room(tx: Ledger, chat: ChatRow, space: str) -> HolderRow | None:
    return await tx.find_room(chat, space)


async def expect(
    tx: Ledger, target: Target, holder: HolderRow | None, key: str | None = None
) -> None:
    """Refuse if what is addressed changed after the caller looked at it."""
    if tx.context.expected is None:
        return
    if key is not None:
        if holder is not None:
            row = (await tx.load_rows(holder, [key]))[key]
            tx.expect(row.revision if row is not None else 0)
    elif target.space == "instance":
        found = holder or await tx.find_any_instance(target.id)
        tx.expect(found.revision if found is not None else 0)
    else:
        await expect_chat(tx, target.id)


async def expect_chat(tx: Ledger, chat_id: str) -> None:
    if tx.context.expected is not None:
        chat = await tx.find_any_chat(chat_id)
        tx.expect(chat.revision if chat is not None else 0)


async def make_room(tx: Ledger, chat: ChatRow, space: str) -> HolderRow:
    """One of the rooms of a chat, made if it is needed for the first time."""
    holder = await tx.find_room(chat, space)
    if holder is None:
        holder = await tx.add_holder(space, chat)
    return holder
