"""
A point of a chat's story: a revision, and there perhaps as of a message.

Reading as of a message, checkpoints and branches ask the same question: which source changes
belong to that point, and which of them are live there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import orjson

from valuetracker.errors import MessageNotFound
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import EntryRow
from valuetracker.store.rows.numbers import Moment
from valuetracker.store.rows.places import SELECT_FLIPS, Chain, FlipRow, PlaceRow, limit_of
from valuetracker.store.rows.reader import RowReader


@dataclass(slots=True)
class Point:
    """
    Says which changes belong to the point, and which of them are live there.

    `positions` are the places at or before it, each with its position in the chain, or None
    if it is hidden there. Unanchored changes belong to it if they were made before `limit`,
    anchored ones if they were made up to `revision`.
    """

    chat: ChatRow
    revision: int
    message_id: str | None
    limit: int
    oldest: int
    positions: dict[int, int | None] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    @property
    def moment(self) -> Moment:
        """Return the last moment before the story went on."""
        return Moment(max(min(self.limit - 1, self.revision), self.oldest))

    def follows(self, entry: EntryRow) -> bool:
        """True if the chain decided over a change then; its instance may have left since."""
        has_left = entry.left_at and entry.left_at <= self.revision
        return entry.place is not None and bool(entry.anchor_chat) and not has_left

    def takes(self, entry: EntryRow) -> bool:
        """True if a change belongs to the point, live or dormant."""
        if not self.follows(entry):
            if entry.dropped:
                return False
            # A folded change has lost its number; it was before all that are left.
            return entry.revision < self.limit or entry.revision <= self.oldest
        return (
            entry.anchor_chat == self.chat.number
            and entry.place in self.positions
            and entry.revision <= self.revision
        )

    def counts(self, entry: EntryRow) -> bool:
        """True if a change belongs to the point and is live there."""
        if not self.takes(entry):
            return False
        if not self.follows(entry) or entry.place is None:
            return True
        return self.positions[entry.place] is not None


async def point_of(
    tx: RowReader, chat: ChatRow, revision: int | None = None, message_id: str | None = None
) -> Point:
    """Return a point of a chat: now or at a revision, and there as it is or as of a message."""
    head = await tx.load_head()
    chain = await _chain_at(tx, chat, revision)
    if revision is None:
        revision = head.revision
    point = Point(chat, revision, message_id, revision + 1, head.oldest)
    if message_id is None:
        point.positions = {place.place: place.position for place in chain.places.values()}
        return point
    if message_id not in chain.visible:
        raise MessageNotFound()
    limit = limit_of(chain.order(), message_id)
    if limit is not None:
        point.limit = limit
    if any(0 < place.first_written <= head.oldest for place in chain.places.values()):
        point.warnings.append(
            f"What messages changed up to revision {head.oldest} was folded and counts for all."
        )
    last = chain.visible[message_id].position or 0
    for place in chain.places.values():
        shown = chain.visible.get(place.message_id)
        if shown is None:
            # A hidden message belongs before the point if it was seen before.
            if place.first_seen < point.limit:
                point.positions[place.place] = None
        elif (shown.position or 0) <= last:
            point.positions[place.place] = place.position
    return point


async def _chain_at(tx: RowReader, chat: ChatRow, revision: int | None) -> Chain:
    places = list((await tx.load_chain(chat.number)).places.values())
    if revision is not None:
        positions = await positions_at(tx, places, revision)
        # A swipe that was registered later was not known then, even if its message was.
        places = [
            replace(place, position=positions[place.place])
            for place in places
            if place.place in positions
        ]
    return Chain(chat.number, places)


async def positions_at(
    tx: RowReader, places: Iterable[PlaceRow], revision: int
) -> dict[int, int | None]:
    """Return the positions of places at a revision; places registered later are left out."""
    numbers = orjson.dumps([place.place for place in places]).decode()
    rows = await tx.fetch_all(SELECT_FLIPS, numbers=numbers, revision=revision)
    flips = [FlipRow(*row).verify() for row in rows]
    return {flip.place: flip.position for flip in flips}
