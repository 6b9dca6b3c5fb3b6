"""
How a write finds what it is about: who may write, whether it exists, whether it changed.

The order of the checks is the same for all writes: session, chat, existence, `If-Match`.
"""

from __future__ import annotations

from valuetracker.errors import ChatNotFound, InstanceNotFound
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.spaces import Address
from valuetracker.store.tx.ledger import Ledger


async def get_or_create_holder(tx: Ledger, address: Address, key: str | None = None) -> HolderRow:
    """
    Return the holder to write to; an unknown chat is created.

    With a key, `If-Match` is compared with that key alone.
    """
    holder = await find_checked_holder(tx, address, key)
    if holder is None:
        chat = await tx.get_or_create_chat(address.id)
        holder = await tx.get_or_create_space(chat, address.space)
    return holder


async def find_checked_holder(
    tx: Ledger, address: Address, key: str | None = None
) -> HolderRow | None:
    """Return the holder to remove from; None for a chat that has nothing there."""
    holder = await find_writable_holder(tx, address)
    if holder is None and address.space == "instance":
        raise InstanceNotFound()
    await check_if_match(tx, address, holder, key)
    return holder


async def find_writable_holder(tx: Ledger, address: Address) -> HolderRow | None:
    """Return the holder of an address; refuse if the caller may not write to it."""
    if address.space == "instance":
        holder = await tx.find_instance(address.id)
        await tx.authorize_holder(holder)
        return holder
    chat = await find_writable_chat(tx, address.id)
    return await tx.find_space(chat, address.space) if chat is not None else None


async def find_writable_chat(tx: Ledger, chat_id: str, archived: bool = False) -> ChatRow | None:
    """Return a chat; refuse if the caller may not write to it, or it is archived."""
    chat = await tx.find_chat(chat_id)
    await tx.authorize(chat, unknown=chat is None, archived=archived)
    return chat


async def get_writable_chat(tx: Ledger, chat_id: str, archived: bool = False) -> ChatRow:
    chat = await find_writable_chat(tx, chat_id, archived)
    if chat is None:
        raise ChatNotFound()
    return chat


async def list_writable_instances(tx: Ledger, character_id: str) -> list[HolderRow]:
    """Return the instances of a character; refuse if the caller may not write to all."""
    instances = await tx.list_instances_of(character_id)
    for each in instances:
        await tx.authorize_holder(each)
    return instances


# If-Match


async def check_if_match(
    tx: Ledger, address: Address, holder: HolderRow | None, key: str | None = None
) -> None:
    """Refuse if what is addressed changed after the revision of `If-Match`."""
    if tx.context.expected is None:
        return
    if key is not None:
        if holder is not None:
            row = await tx.find_value(holder, key)
            tx.check_if_match(row.revision if row is not None else 0)
    elif address.space == "instance":
        found = holder or await tx.find_any_instance(address.id)
        tx.check_if_match(found.revision if found is not None else 0)
    else:
        await check_chat_if_match(tx, address.id)


async def check_chat_if_match(tx: Ledger, chat_id: str) -> None:
    if tx.context.expected is not None:
        chat = await tx.find_any_chat(chat_id)
        tx.check_if_match(chat.revision if chat is not None else 0)


async def check_character_if_match(tx: Ledger, character_id: str) -> None:
    """Refuse if the character or any of its instances changed after that revision."""
    if tx.context.expected is not None:
        character = await tx.find_any_character(character_id)
        if character is None:
            return
        instances = await tx.list_instances_of(character_id)
        tx.check_if_match(max([character.revision, *(each.revision for each in instances)]))
