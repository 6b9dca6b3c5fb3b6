"""How messages and swipes of a chat are registered, shown and hidden, with their values."""

from __future__ import annotations

from bisect import bisect_right

from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import Chain, PlaceName, PlaceRow
from valuetracker.store.story.visibility import FlippedValue, Flips, Moves, preview_flips
from valuetracker.store.tx.changes import (
    AddPlace,
    Change,
    ChangeChain,
    ChangeValue,
    MovePlace,
    StandKey,
    UpdateQuietly,
)
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
    chat = await anchor_chat(tx, holder)
    if chat is None:
        if await tx.find_lone_place(anchor.message_id, anchor.swipe) is None:
            place = await _new_place(tx, 0, anchor, 0, position=1)
            await tx.apply([AddPlace(place, tentative=True)])
        return
    chain = await tx.load_chain(chat.number)
    name = (anchor.message_id, anchor.swipe)
    if name in chain.places:
        return
    if anchor.message_id not in chain.messages:
        place = await _new_place(tx, chat.number, anchor, 0, chain.next_position())
        await tx.apply([AddPlace(place, tentative=True)])
        return
    names = [name if each[0] == anchor.message_id else each for each in chain.names()]
    if anchor.message_id not in chain.visible:
        names.append(name)
    await show_chain(tx, chat, names, tentative=True)


async def show_chain(
    tx: Ledger,
    chat: ChatRow,
    names: list[PlaceName],
    dry_run: bool = False,
    tentative: bool = False,
) -> Flips:
    """
    Make this the visible chain of a chat, with the values that belong to it.

    A tentative one stands only if the request also changes a value.
    """
    chain = await tx.load_chain(chat.number)
    # Most of a story stays as it is: only the rest is looked at.
    same = chain.same_until(names)
    order = chain.order()
    rest = names[same:]
    wanted = set(rest)
    hidden = [place for place in order[same:] if (place.message_id, place.swipe) not in wanted]
    known = [chain.places[name] for name in rest if name in chain.places]
    moves = Moves(hidden, [place for place in known if not place.visible])
    positions = _arrange(chain, same, rest, moves)
    flips = await preview_flips(tx, chat, moves)
    if dry_run:
        return flips
    changes: list[Change] = []
    if moves.reordered is not None:
        chat.reordered = await tx.revise()
        changes.append(UpdateQuietly(chat))
    flipped = {place.place for place in (*moves.hidden, *moves.shown)}
    for number in dict.fromkeys([*flipped, *moves.positions]):
        place = chain.numbered[number]
        visible = bool(place.visible) != (number in flipped)
        changes.append(MovePlace(place, moves.positions.get(number, place.position), visible))
    places = order[:same]
    for name in rest:
        shown = chain.places.get(name)
        if shown is None:
            seen = chain.messages.get(name[0])
            first_seen = seen[0].first_seen if seen is not None else 0
            shown = await _new_place(tx, chat.number, Anchor(*name), first_seen, positions[name[0]])
            changes.append(AddPlace(shown, tentative))
        places.append(shown)
    values: list[Change] = [*map(_change, flips.values)]
    standings = [
        StandKey(each.holder, each.key, each.furthest, each.anchored) for each in flips.standings
    ]
    if not values and not tentative:
        values = [ChangeChain(chat)]
    await tx.apply([*changes, *values, *standings])
    chain.set_order(names, places)
    return flips


def _arrange(chain: Chain, same: int, rest: list[PlaceName], moves: Moves) -> dict[str, int]:
    """
    Note in `moves` how messages move so that these follow the first visible ones, `same` of them.

    A hidden message stays directly behind the one it followed. Returns where messages stand.
    """
    order = chain.order()
    start = order[same - 1].position if same else 0
    shown = [message_id for message_id, _ in rest]
    if any(0 < chain.position(message_id) <= start for message_id in shown):
        # One that stood before them comes behind them now, with those that followed it.
        start, shown = 0, [*(place.message_id for place in order[:same]), *shown]
    story = chain.story()
    old = story[bisect_right(story, start, key=chain.position) :]
    followers: dict[str, list[str]] = {message_id: [] for message_id in shown}
    new: list[str] = []
    leader = new
    for message_id in old:
        if message_id in followers:
            leader = followers[message_id]
        else:
            leader.append(message_id)
    for message_id in shown:
        new += [message_id, *followers[message_id]]
    stayed = (message_id for message_id in new if message_id in chain.messages)
    for before, after in zip(old, stayed, strict=True):
        if before != after:
            moves.reordered = chain.position(before)
            break
    positions: dict[str, int] = {}
    last = start
    for message_id in new:
        position = chain.position(message_id)
        if position <= last:
            position = chain.next_position()
            for place in chain.messages.get(message_id, ()):
                moves.positions[place.place] = position
        positions[message_id] = last = position
    return positions


def _change(value: FlippedValue) -> ChangeValue:
    return ChangeValue(value.holder, value.key, value.after, "reconcile", str(value.newest))


async def _new_place(
    tx: Ledger, chat: int, anchor: Anchor, first_seen: int, position: int
) -> PlaceRow:
    head = await tx.load_head()
    return PlaceRow(
        head.next_number(), chat, anchor.message_id, anchor.swipe, first_seen, position, visible=1
    )


async def anchor_chat(tx: Ledger, holder: HolderRow) -> ChatRow | None:
    """
    Return the chat an anchor on this holder is in: its own, else the one the request names.

    An unknown chat is created with the anchor.
    """
    if holder.chat is not None:
        return await tx.get_chat(holder.chat)
    if tx.context.chat_id is not None:
        return await tx.get_or_create_chat(tx.context.chat_id)
    return None
