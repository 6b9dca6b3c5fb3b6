"""
Visibility: the values that a chat has when places are hidden, shown and moved.

Changes anchored to a hidden place are dormant, those at a visible place are live. Only the
keys that have a change at a place that flips, or at a message that moves among the others, are
recomputed. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import orjson

from valuetracker.store.log.lists import find_anchors
from valuetracker.store.log.order import Order, order_of
from valuetracker.store.log.replay import Conflict, Replay
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import TAKEN, EntryRow, Source, select_entries
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader

# `places` is a JSON array of their numbers.
_AT = """
    WHERE place IN (SELECT value FROM json_each(:places)) AND place IS NOT NULL ORDER BY entry
"""
_AT_OF_POSTGRES = """
    WHERE place IN (
        SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:places AS json)) AS value
    ) ORDER BY entry
"""
SELECT_ENTRIES_AT = select_entries(_AT, _AT_OF_POSTGRES)
SELECT_TAKEN_AT = select_entries(_AT, _AT_OF_POSTGRES, TAKEN)


@dataclass(slots=True)
class FlippedValue:
    """A value that becomes another one, or absent (None)."""

    holder: HolderRow
    key: str
    before: str | None
    after: str | None
    # The entry of the newest source of the key.
    newest: int


@dataclass(slots=True)
class Standing:
    """Where the last change of a key stands (None: the beginning), and if a flip can reach one."""

    holder: HolderRow
    key: str
    furthest: int | None
    anchored: bool


@dataclass(slots=True)
class Flips:
    """The effects of hiding, showing and moving places."""

    # How many changes become dormant, and how many live.
    dormant: int = 0
    revived: int = 0
    values: list[FlippedValue] = field(default_factory=list)
    conflicts: list[tuple[HolderRow, Conflict]] = field(default_factory=list)
    standings: list[Standing] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Moves:
    """The places of a chat that are about to be hidden, shown and moved."""

    hidden: list[PlaceRow] = field(default_factory=list)
    shown: list[PlaceRow] = field(default_factory=list)
    # The new positions of places.
    positions: dict[int, int] = field(default_factory=dict)
    # The position from which on messages stand in another order; None if they do not.
    reordered: int | None = None


async def preview_flips(tx: RowReader, chat: ChatRow, moves: Moves) -> Flips:
    """Compute what the values become once places are hidden, shown and moved."""
    flips = Flips()
    oldest = (await tx.load_head()).oldest
    places = [*moves.hidden, *moves.shown]
    visible = {place.place: False for place in moves.hidden}
    visible |= {place.place: True for place in moves.shown}
    flips.warnings = [
        f"What message {place.message_id} changed up to revision {oldest} was folded and stays."
        for place in places
        if 0 < place.first_written <= oldest
    ]

    def counts(source: Source) -> bool:
        return _counts(source.entry)

    def _counts(entry: EntryRow) -> bool:
        if not entry.left_at and entry.place in visible:
            return visible[entry.place]
        return entry.is_live

    affected: dict[tuple[int, str], None] = {}
    for entry in await _entries_at(tx, [place for place in places if place.first_written]):
        if entry.left_at:
            continue
        # A `state` here stands for a change that was folded.
        changes = [change for change in entry.logged if change.op != "state"]
        if _counts(entry):
            flips.revived += len(changes)
        else:
            flips.dormant += len(changes)
        for change in changes:
            affected[entry.subject, change.key] = None
    moved = await _keys_behind(tx, chat, moves.reordered)
    replay = Replay(tx)
    for number, key in affected | moved:
        holder = await tx.get_holder(number)
        if holder.deleted:
            # Its values were removed with it.
            continue
        row = await tx.find_value(holder, key)
        assert row is not None, "a key that the log mentions has a row"
        order = await _order_after(tx, holder, chat, moves)
        replayed = await replay.replay(number, key, row.last_change, counts, order)
        flips.conflicts += [(holder, conflict) for conflict in replayed.conflicts]
        if replayed.value != row.value:
            flips.values.append(
                FlippedValue(holder, key, row.value, replayed.value, replayed.newest)
            )
        if (number, key) in moved:
            standing = await replay.survey(number, key, row.last_change, order)
            flips.standings.append(Standing(holder, key, *standing))
    return flips


async def _order_after(tx: RowReader, holder: HolderRow, chat: ChatRow, moves: Moves) -> Order:
    """Return the order that the changes of a holder will have."""
    order = await order_of(tx, holder)
    if holder.chat == chat.number:
        order.moved = moves.positions
        if moves.reordered is not None:
            order.reordered = (await tx.load_head()).revision
    return order


async def _keys_behind(
    tx: RowReader, chat: ChatRow, position: int | None
) -> dict[tuple[int, str], None]:
    """Return the keys of a chat with a change that stands at or behind a position."""
    if position is None:
        return {}
    chain = await tx.load_chain(chat.number)
    return {
        (holder.number, row.key): None
        for holder in await tx.list_holders_of_chat(chat)
        for row in await tx.list_rows(holder)
        if chain.position_of(row.furthest) >= position
    }


async def _entries_at(tx: RowReader, places: list[PlaceRow]) -> list[EntryRow]:
    """Return all entries that are anchored to these places."""
    if not places:
        return []
    numbers = orjson.dumps([place.place for place in places]).decode()
    taken = await tx.fetch_all(SELECT_TAKEN_AT, places=numbers)
    rows = [*taken, *await tx.fetch_all(SELECT_ENTRIES_AT, places=numbers)]
    entries = {(row[1], row[0]): EntryRow(*row).verify() for row in rows}
    await find_anchors(tx, entries.values())
    return list(entries.values())
