"""
The order of the story: where a change stands among the messages of a chat.

An anchored change stands at its message. An unanchored one stands at a message, too, and goes where
that goes. What an instance had before it came to the chat stands at the beginning, which is 0.
Processed ids, versions of a series, and instances in no chat go by revision: all stands at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from valuetracker.store.rows.entries import BASES, IN_ORDER, EntryRow, Source
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.places import Chain
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.spaces import follows_order


@dataclass(slots=True)
class Order:
    """The order of the changes of one holder: that of the chain it is in, then of revisions."""

    space: str
    # None for a holder that is in no chat.
    chain: Chain | None
    # The revision at which messages of the chain were last put into another order.
    reordered: int = 0
    # The revision that is looked at; None is the present.
    revision: int | None = None
    # Positions that places are about to have.
    moved: Mapping[int, int] = field(default_factory=dict)

    def has_left(self, entry: EntryRow) -> bool:
        """True if the instance of a change had left the chat since."""
        return bool(entry.left_at) and (self.revision is None or entry.left_at <= self.revision)

    def place(self, source: Source) -> int | None:
        """Return a place of the message at which a change stands; None for the beginning."""
        if self.chain is None or self.has_left(source.entry):
            return None
        if source.change.op == "base":
            number = int(source.change.operand) if source.change.operand is not None else None
        else:
            number = source.entry.place
        if number is None:
            number = source.entry.stands
        return number if number in self.chain.numbered else None

    def position(self, source: Source) -> int:
        """Return where a change stands."""
        number = self.place(source)
        if number is None or self.chain is None:
            return 0
        return self.moved.get(number) or self.chain.position_of(number)

    def key(self, source: Source) -> tuple[int, int, int]:
        """Return what orders the changes of a key."""
        ordered = self.chain is not None and follows_order(self.space, source.change.key)
        position = self.position(source) if ordered else 0
        return position, source.entry.entry, source.index

    def covers_older(self, source: Source) -> bool:
        """True if no older change of the key stands behind this base."""
        if source.change.op not in BASES:
            return False
        if self.chain is None or not follows_order(self.space, source.change.key):
            return True
        return source.entry.effect == IN_ORDER and source.entry.revision > self.reordered


async def order_of(tx: RowReader, holder: HolderRow) -> Order:
    """Return the present order of the changes of a holder."""
    if holder.chat is None:
        return Order(holder.space, None)
    chat = await tx.get_chat(holder.chat)
    return Order(holder.space, await tx.load_chain(chat.number), chat.reordered)
