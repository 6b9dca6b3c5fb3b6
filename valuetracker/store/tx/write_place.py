"""
The place a request writes at, and the values its changes meet there.

Nearly every change stands behind all others of its key, and meets the present value. One that is
late, or at a hidden place, meets the value that the changes up to its place make.
"""

from __future__ import annotations

from dataclasses import dataclass

from valuetracker.store.log.order import Order, order_of
from valuetracker.store.log.replay import Replay
from valuetracker.store.rows.entries import Source
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.spaces import follows_order
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import anchor_chat, register_place


@dataclass(slots=True)
class WritePlace:
    """Where the changes of a request to one holder stand."""

    tx: Ledger
    holder: HolderRow
    # None for unanchored changes, and those whose place is in no chat: nothing is behind them.
    place: PlaceRow | None
    order: Order

    @property
    def hidden(self) -> bool:
        """True if a write there is stored dormant."""
        return self.place is not None and not self.place.visible

    def is_late(self, row: DataRow | None) -> bool:
        """True if a change of this key would stand before another one."""
        if row is None or row.furthest is None or self.place is None or self.order.chain is None:
            return False
        return self.order.chain.position_of(row.furthest) > self.place.position

    async def value(self, row: DataRow | None) -> str | None:
        """Return the value that a change of this key meets; None if it is absent there."""
        if row is None:
            return None
        place = self.place
        if place is None or not (self.hidden or self.is_late(row)):
            return row.value
        ordered = follows_order(self.holder.space, row.key)

        def counts(source: Source) -> bool:
            if ordered and self.order.position(source) > place.position:
                return False
            entry = source.entry
            # As if a hidden place were visible.
            return entry.is_live or (entry.place == place.place and not entry.left_at)

        replayed = await Replay(self.tx).replay(
            self.holder.number, row.key, row.last_change, counts, self.order
        )
        return replayed.value

    async def is_removable(self, row: DataRow | None) -> bool:
        """
        Return True if a removal of this key has to be logged.

        That is if the key has a value, now or there, or if a flip can reach a change of it, which
        would bring it back.
        """
        if row is None:
            return False
        return row.is_removable or await self.value(row) is not None

    async def removable_rows(self) -> list[DataRow]:
        """Return the rows of the keys that a clear of the holder removes."""
        rows = await self.tx.list_rows(self.holder)
        return [row for row in rows if await self.is_removable(row)]


async def enter_place(tx: Ledger, holder: HolderRow, anchor: Anchor | None) -> WritePlace:
    """Register the place of an anchor, and return it."""
    await register_place(tx, holder, anchor)
    return await find_place(tx, holder, anchor)


async def find_place(tx: Ledger, holder: HolderRow, anchor: Anchor | None) -> WritePlace:
    """Return the place of an anchor, which must be registered."""
    order = await order_of(tx, holder)
    chat = await anchor_chat(tx, holder) if anchor is not None else None
    if anchor is None or chat is None:
        return WritePlace(tx, holder, None, order)
    chain = await tx.load_chain(chat.number)
    return WritePlace(tx, holder, chain.places[anchor.message_id, anchor.swipe], order)
