"""
The rows of places, and the chain they form.

A place is a message of a chat and one of its swipes. It is visible while it has a position;
positions only order, so a message that is hidden leaves a hole and one that is shown gets the
next number. The chain of a chat is its visible places in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from valuetracker.store.rows.row import Row, insert, select, select_numbered, update


@dataclass(slots=True)
class PlaceRow(Row, table="places"):
    """A message of a chat and one of its swipes; visible while it has a position."""

    place: int
    chat: int
    message_id: str
    swipe: str
    # The revision at which the message was first seen, whichever swipe.
    first_seen: int
    position: int | None
    # The revision of the first change anchored to it; 0 if there is none.
    first_written: int = 0
    hash: str | None = None
    checksum: int = 0

    def flip(self, revision: int) -> FlipRow:
        """Return the row that says where it stands from this revision on."""
        flip = FlipRow(self.place, revision, self.position)
        flip.seal()
        return flip


SELECT_PLACES = select(PlaceRow, "WHERE chat = :chat")
SELECT_PLACE = select(
    PlaceRow,
    "WHERE chat = :chat AND message_id = :message_id AND swipe = :swipe",
    postgres="WHERE chat = :chat AND md5(message_id) = md5(:message_id)"
    " AND md5(swipe) = md5(:swipe) AND message_id = :message_id AND swipe = :swipe",
)
SELECT_PLACES_NUMBERED = select_numbered(PlaceRow, "place")
INSERT_PLACE = insert(PlaceRow)
UPDATE_PLACE = update(PlaceRow, "place", "position", "first_written", "hash", "checksum")


@dataclass(slots=True)
class FlipRow(Row, table="flips"):
    """The position of a place from a revision on."""

    place: int
    revision: int
    position: int | None
    checksum: int = 0


_NUMBERED = "place IN (SELECT value FROM json_each(:numbers))"
_NUMBERED_ON_POSTGRES = (
    "place IN (SELECT CAST(value AS bigint)"
    " FROM json_array_elements_text(CAST(:numbers AS json)) AS value)"
)
_IS_LAST = """
    AND revision = (
        SELECT max(last.revision) FROM {schema}.flips AS last
        WHERE last.place = flip.place AND last.revision <= :revision
    )
"""
# The last flip of each place up to a revision.
SELECT_FLIPS = select(
    FlipRow,
    f"AS flip WHERE {_NUMBERED} {_IS_LAST}",
    postgres=f"AS flip WHERE {_NUMBERED_ON_POSTGRES} {_IS_LAST}",
)
INSERT_FLIP = insert(
    FlipRow,
    "ON CONFLICT (place, revision) DO UPDATE SET position = excluded.position,"
    " checksum = excluded.checksum",
)


# A message id and a swipe.
PlaceName = tuple[str, str]


class Chain:
    """All registered places of one chat."""

    def __init__(self, chat: int, places: Iterable[PlaceRow]) -> None:
        self.chat = chat
        self.places: dict[PlaceName, PlaceRow] = {}
        # By message: its visible place, and the revision at which it was first seen.
        self.visible: dict[str, PlaceRow] = {}
        self.first_seen: dict[str, int] = {}
        self._end = 0
        # The visible chain, kept until something moves.
        self._names: list[PlaceName] | None = None
        self._order: list[PlaceRow] | None = None
        for place in places:
            self.add(place)

    def add(self, place: PlaceRow) -> None:
        self.places[place.message_id, place.swipe] = place
        self.first_seen.setdefault(place.message_id, place.first_seen)
        if place.position is not None:
            self._end = max(self._end, place.position)
            self.visible[place.message_id] = place
        self._names = self._order = None

    def next_position(self) -> int:
        self._end += 1
        return self._end

    def move(self, place: PlaceRow, position: int | None) -> None:
        """Give a place another position, or hide it."""
        place.position = position
        if position is not None:
            self.visible[place.message_id] = place
        elif self.visible.get(place.message_id) is place:
            del self.visible[place.message_id]
        self._names = self._order = None

    def order(self) -> list[PlaceRow]:
        """Return the visible places, oldest first."""
        if self._order is None:
            self._order = sorted(self.visible.values(), key=_position)
        return self._order

    def set_order(self, names: list[PlaceName], places: list[PlaceRow]) -> None:
        """Say what the visible chain has become, so that it need not be sorted again."""
        self._names, self._order = names, places

    def same_until(self, names: list[PlaceName]) -> int:
        """Return how many places the visible chain and another share from the start."""
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

    def names(self) -> list[PlaceName]:
        """Return the names of the visible places, oldest first."""
        if self._names is None:
            self._names = [(place.message_id, place.swipe) for place in self.order()]
        return self._names


def _position(place: PlaceRow) -> int:
    return place.position or 0


def limit_of(chain: list[PlaceRow], message_id: str) -> int | None:
    """
    Return the revision from which on unanchored changes come after a message of this chain.

    That is the first sight of the first message that follows it and was not seen before it: a
    message that was shown again behind it is older and says nothing.
    """
    index = next(index for index, place in enumerate(chain) if place.message_id == message_id)
    own = chain[index].first_seen
    later = (place.first_seen for place in chain[index + 1 :])
    return min((seen for seen in later if seen >= own), default=None)
