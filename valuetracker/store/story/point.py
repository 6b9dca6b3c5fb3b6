"""
A point of a chat's story: a revision, and there perhaps as of a message.

Reading as of a message, checkpoints and branches ask the same question: which source changes
belong to that point, and which of them are live there.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import orjson

from valuetracker.errors import Compacted, MessageNotFound
from valuetracker.store.log.order import Order
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import EntryRow, Source
from valuetracker.store.rows.places import SELECT_FLIPS, Chain, FlipRow, PlaceRow
from valuetracker.store.rows.reader import RowReader


@dataclass(slots=True)
class Point:
    """
    Says which changes belong to the point, and which of them are live there.

    Those belong to it that were made up to `revision` and stand before `end`, the position of the
    next visible message (None: there is none). `chain` is as it was at the revision.
    """

    chat: ChatRow
    revision: int
    message_id: str | None
    chain: Chain
    end: int | None
    oldest: int
    _order: Order = field(init=False)

    def __post_init__(self) -> None:
        self._order = self.order("instance")

    def order(self, space: str) -> Order:
        """Return the order that the changes of a holder of the chat had."""
        return Order(space, self.chain, self.chat.reordered, self.revision)

    def follows(self, entry: EntryRow) -> bool:
        """True if the chain decided over a change then; its instance may have left since."""
        return entry.place in self.chain.numbered and not self._order.has_left(entry)

    def takes(self, source: Source) -> bool:
        """True if a change belongs to the point, live or dormant."""
        entry = source.entry
        # A folded change has lost its number; it was before all that are left.
        if entry.revision > max(self.revision, self.oldest):
            return False
        if entry.dropped and self._order.has_left(entry):
            return False
        if self.end is None or self.position(source) < self.end:
            return True
        if source.change.op == "base":
            raise self._compacted()
        return False

    def check_deletion(self, revision: int) -> None:
        """
        Refuse the point if a deletion that was folded may stand behind it.

        It was made at the revision, and stands at a message that had been seen by then.
        """
        if self.end is not None and any(
            place.position >= self.end and place.first_seen <= revision
            for place in self.chain.places.values()
        ):
            raise self._compacted()

    def _compacted(self) -> Compacted:
        return Compacted(
            f"Changes behind message {self.message_id} were folded.", oldest=self.oldest
        )

    def counts(self, source: Source) -> bool:
        """True if a change belongs to the point and is live there."""
        if not self.takes(source):
            return False
        entry = source.entry
        if entry.place is None or not self.follows(entry):
            return True
        return bool(self.chain.numbered[entry.place].visible)

    def position(self, source: Source) -> int:
        """Return where a change stood."""
        return self._order.position(source)

    def places(self) -> list[PlaceRow]:
        """Return the places that stand before the end, visible or hidden."""
        places = self.chain.places.values()
        return [place for place in places if self.end is None or place.position < self.end]


async def point_of(
    tx: RowReader, chat: ChatRow, revision: int | None = None, message_id: str | None = None
) -> Point:
    """Return a point of a chat: now or at a revision, and there as it is or as of a message."""
    head = await tx.load_head()
    chain = await chain_at(tx, chat, revision)
    if revision is None:
        revision = head.revision
    end: int | None = None
    if message_id is not None:
        shown = chain.visible.get(message_id)
        if shown is None:
            raise MessageNotFound()
        later = (place.position for place in chain.order() if place.position > shown.position)
        end = min(later, default=None)
    return Point(chat, revision, message_id, chain, end, head.oldest)


async def chain_at(tx: RowReader, chat: ChatRow, revision: int | None) -> Chain:
    """Return the chain of a chat at a revision; None is the present."""
    chain = await tx.load_chain(chat.number)
    if revision is None:
        return chain
    flips = await flips_at(tx, list(chain.numbered), revision)
    # A swipe that was registered later was not known then, even if its message was.
    places = [
        replace(place, position=flip.position, visible=flip.visible)
        for place in chain.places.values()
        if (flip := flips.get(place.place)) is not None
    ]
    return Chain(chat.number, places)


async def flips_at(tx: RowReader, places: list[int], revision: int) -> dict[int, FlipRow]:
    """Return where places stood at a revision; places registered later are left out."""
    numbers = orjson.dumps(places).decode()
    rows = await tx.fetch_all(SELECT_FLIPS, numbers=numbers, revision=revision)
    return {flip.place: flip for flip in (FlipRow(*row).verify() for row in rows)}
