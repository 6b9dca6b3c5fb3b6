"""
The rows of places, and the chain they form.

A place is a message of a chat and one of its swipes. All places of a message have its position in
the story, also hidden ones: a hidden message stays behind the one it followed. Positions only
order. The chain of a chat is its visible places in their order.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from valuetracker.store.rows.row import Row, insert, select, select_numbered, update


@dataclass(slots=True)
class PlaceRow(Row, table="places"):
    """A message of a chat and one of its swipes."""

    place: int
    chat: int
    message_id: str
    swipe: str
    # The revision at which the message was first seen, whichever swipe.
    first_seen: int
    # Where the message stands among all that were ever seen, hidden ones included.
    position: int
    visible: int
    # The revision of the first change anchored to it; 0 if there is none.
    first_written: int = 0
    hash: str | None = None
    checksum: int = 0

    def flip(self, revision: int) -> FlipRow:
        """Return the row that says where it stands from this revision on."""
        flip = FlipRow(self.place, revision, self.position, self.visible)
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
UPDATE_PLACE = update(PlaceRow, "place", "position", "visible", "first_written", "hash", "checksum")


@dataclass(slots=True)
class FlipRow(Row, table="flips"):
    """Where a place stands from a revision on, and whether it is visible."""

    place: int
    revision: int
    position: int
    visible: int
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
    " visible = excluded.visible, checksum = excluded.checksum",
)


# A message id and a swipe.
PlaceName = tuple[str, str]


class Chain:
    """All registered places of one chat."""

    def __init__(self, chat: int, places: Iterable[PlaceRow]) -> None:
        self.chat = chat
        self.places: dict[PlaceName, PlaceRow] = {}
        self.numbered: dict[int, PlaceRow] = {}
        # By message: its places, and the visible one of them.
        self.messages: dict[str, list[PlaceRow]] = {}
        self.visible: dict[str, PlaceRow] = {}
        self._end = 0
        # The visible chain and the whole story, kept until something moves.
        self._names: list[PlaceName] | None = None
        self._order: list[PlaceRow] | None = None
        self._story: list[str] | None = None
        for place in places:
            self.add(place)

    def add(self, place: PlaceRow) -> None:
        self.places[place.message_id, place.swipe] = place
        self.numbered[place.place] = place
        is_last = place.position > self._end and place.visible
        self.messages.setdefault(place.message_id, []).append(place)
        self._end = max(self._end, place.position)
        if place.visible:
            self.visible[place.message_id] = place
        if is_last and self._order is not None and self._story is not None:
            # A new message: the order is known.
            self._order.append(place)
            self._story.append(place.message_id)
        else:
            self._order = self._story = None
        self._names = None

    def next_position(self) -> int:
        self._end += 1
        return self._end

    def move(self, place: PlaceRow, position: int, visible: bool) -> None:
        """Put a place at a position, visible or hidden."""
        if place.position != position:
            self._story = None
        place.position, place.visible = position, int(visible)
        if visible:
            self.visible[place.message_id] = place
        elif self.visible.get(place.message_id) is place:
            del self.visible[place.message_id]
        self._names = self._order = None

    def position(self, message_id: str) -> int:
        """Return where a message stands; 0 if it was never seen."""
        places = self.messages.get(message_id)
        return places[0].position if places is not None else 0

    def position_of(self, place: int | None) -> int:
        """Return where the message of a place stands; 0, the beginning, for other chats' places."""
        found = self.numbered.get(place) if place is not None else None
        return found.position if found is not None else 0

    def order(self) -> list[PlaceRow]:
        """Return the visible places, oldest first."""
        if self._order is None:
            self._order = sorted(self.visible.values(), key=_position)
        return self._order

    def last(self) -> PlaceRow | None:
        """Return the last visible place."""
        order = self.order()
        return order[-1] if order else None

    def story(self) -> list[str]:
        """Return all messages ever seen, in the order of the story."""
        if self._story is None:
            self._story = sorted(self.messages, key=self.position)
        return self._story

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
    return place.position
