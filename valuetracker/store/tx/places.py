"""How messages and swipes of a chat are registered, shown and hidden, with their values."""

from __future__ import annotations

from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import PlaceName, PlaceRow
from valuetracker.store.story.visibility import FlippedValue, Flips, preview_flips
from valuetracker.store.tx.changes import AddPlace, Change, ChangeChain, ChangeValue, MovePlace
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.ledger import Ledger


async def register_place(tx: Ledger, holder: HolderRow, anchor: Anchor | None) -> None:
    """
    Register the message and swipe a write is anchored to, before any of it is applied.

    A new message is put at the end of its chain. A new swipe becomes the visible one of its
    message, or shows a hidden message again at the end.
    """
    if anchor is None:
        return
    chat = await _anchor_chat(tx, holder)
    if chat is None:
        if await tx.find_lone_place(anchor.message_id, anchor.swipe) is None:
            place = await _new_place(tx, 0, anchor, 0, position=1)
            await tx.apply([AddPlace(place, tentative=True)])
        return
    chain = await tx.load_chain(chat.number)
    if (anchor.message_id, anchor.swipe) in chain.places:
        return
    old = chain.visible.get(anchor.message_id)
    changes: list[Change] = []
    if old is not None:
        flips = await preview_flips(tx, [old], [])
        changes = [MovePlace(old, None), *map(_change, flips.values)]
    position = old.position if old is not None else chain.next_position()
    first_seen = chain.first_seen.get(anchor.message_id, 0)
    place = await _new_place(tx, chat.number, anchor, first_seen, position)
    await tx.apply([*changes, AddPlace(place, tentative=True)])


async def show_chain(
    tx: Ledger, chat: ChatRow, names: list[PlaceName], dry_run: bool = False
) -> Flips:
    """Make this the visible chain of a chat, with the values that belong to it."""
    chain = await tx.load_chain(chat.number)
    # Most of a story stays as it is: only the rest is looked at.
    same = chain.same_until(names)
    order = chain.order()
    rest = names[same:]
    wanted = set(rest)
    hidden = [place for place in order[same:] if (place.message_id, place.swipe) not in wanted]
    known = [chain.places[name] for name in rest if name in chain.places]
    flips = await preview_flips(tx, hidden, [place for place in known if place.position is None])
    if dry_run:
        return flips
    changes: list[Change] = [MovePlace(place, None) for place in hidden]
    places = order[:same]
    last = places[-1].position or 0 if places else 0
    for name in rest:
        place = chain.places.get(name)
        if place is None:
            last = chain.next_position()
            first_seen = chain.first_seen.get(name[0], 0)
            place = await _new_place(tx, chat.number, Anchor(*name), first_seen, last)
            changes.append(AddPlace(place))
        elif place.position is None or place.position < last:
            # A place behind one with a higher position gets a new one.
            last = chain.next_position()
            changes.append(MovePlace(place, last))
        else:
            last = place.position
        places.append(place)
    values: list[Change] = [*map(_change, flips.values)]
    await tx.apply([*changes, *(values or [ChangeChain(chat)])])
    chain.set_order(names, places)
    return flips


def _change(value: FlippedValue) -> ChangeValue:
    return ChangeValue(value.holder, value.key, value.after, "reconcile", str(value.newest))


async def _new_place(
    tx: Ledger, chat: int, anchor: Anchor, first_seen: int, position: int | None
) -> PlaceRow:
    head = await tx.load_head()
    return PlaceRow(head.next_number(), chat, anchor.message_id, anchor.swipe, first_seen, position)


async def is_hidden(tx: Ledger, holder: HolderRow, anchor: Anchor | None) -> bool:
    """Return True if a write there is stored dormant; the place must be registered."""
    chat = await _anchor_chat(tx, holder) if anchor is not None else None
    if anchor is None or chat is None:
        return False
    chain = await tx.load_chain(chat.number)
    return chain.places[anchor.message_id, anchor.swipe].position is None


async def _anchor_chat(tx: Ledger, holder: HolderRow) -> ChatRow | None:
    """
    Return the chat an anchor on this holder is in: its own, else the one the request names.

    An unknown chat is created with the anchor.
    """
    if holder.chat is not None:
        return await tx.get_chat(holder.chat)
    if tx.context.chat_id is not None:
        return await tx.get_or_create_chat(tx.context.chat_id)
    return None
