"""
The visible chain of a chat: which messages are there, in which order, with which swipe.

A place is a message and one of its swipes. It is visible while it has a position; positions
only order, so a message that goes leaves a hole and one that comes gets the next number.
"""

from __future__ import annotations

from collections.abc import Iterable

from valuetracker.store.rows.row_types import PlaceRow

Name = tuple[str, str]


class Chain:
    """All places of one chat that have ever been seen."""

    def __init__(self, chat: int, places: Iterable[PlaceRow]) -> None:
        self.chat = chat
        self.places: dict[Name, PlaceRow] = {}
        # By message: the place that is visible, and the revision it was first seen at.
        self.visible: dict[str, PlaceRow] = {}
        self.seen: dict[str, int] = {}
        self._end = 0
        # The visible chain, kept until something moves.
        self._names: list[Name] | None = None
        self._order: list[PlaceRow] | None = None
        for place in places:
            self.add(place)

    def add(self, place: PlaceRow) -> None:
        self.places[place.message_id, place.swipe] = place
        self.seen.setdefault(place.message_id, place.seen)
        if place.position is not None:
            self._end = max(self._end, place.position)
            self.visible[place.message_id] = place
        self._names = self._order = None

    def next_position(self) -> int:
        self._end += 1
        return self._end

    def move(self, place: PlaceRow, position: int | None) -> None:
        """Put a place somewhere, or hide it."""
        place.position = position
        if position is not None:
            self.visible[place.message_id] = place
        elif self.visible.get(place.message_id) is place:
            del self.visible[place.message_id]
        self._names = self._order = None

    def order(self) -> list[PlaceRow]:
        """The visible places, oldest first."""
        if self._order is None:
            self._order = sorted(self.visible.values(), key=_position)
        return self._order

    def is_now(self, names: list[Name], places: list[PlaceRow]) -> None:
        """Say what the visible chain has become, so that nobody need find out."""
        self._names, self._order = names, places

    def same_until(self, names: list[Name]) -> int:
        """How many places the visible chain and another have in common from the start."""
        own = self.names()
        low, high = 0, min(len(own), len(names))
        while low < high:
            middle = (low + high + 1) // 2
            # Compared as slices, which is far quicker than one by one.
            if own[low:middle] == names[low:middle]:
                low = middle
            else:
                high = middle - 1
        return low

    def names(self) -> list[Name]:
        """The names of the visible places, oldest first."""
        if self._names is None:
            self._names = [(place.message_id, place.swipe) for place in self.order()]
        return self._names


def _position(place: PlaceRow) -> int:
    return place.position or 0


def limit_of(chain: list[PlaceRow], message_id: str) -> int | None:
    """
    The revision from which on unanchored changes are later than a message of this chain.

    That is when the first message was seen which follows it and was not seen before it: one
    that was brought back behind it is older than it and says nothing.
    """
    index = next(index for index, place in enumerate(chain) if place.message_id == message_id)
    own = chain[index].seen
    return min((place.seen for place in chain[index + 1 :] if place.seen >= own), default=None)
