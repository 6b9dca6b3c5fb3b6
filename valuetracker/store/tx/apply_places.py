"""How changes of the chain of a chat are applied: places added, shown and hidden."""

from __future__ import annotations

from valuetracker.store.rows.head import Head
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.tx.changes import AddPlace, ChangeChain, MovePlace
from valuetracker.store.tx.log_writer import LogWriter
from valuetracker.store.tx.touched import Touched


class ApplyPlaces:
    """Applies changes of places."""

    def __init__(self, reader: RowReader, log: LogWriter, touched: Touched) -> None:
        self._reader = reader
        self._cache = reader.cache
        self._log = log
        self._touched = touched
        # True if the request registered a place that stands only if a value is changed.
        self.tentative = False
        # The places of chats that the request has added, shown or hidden.
        self.flipped: list[PlaceRow] = []

    async def add(self, change: AddPlace, head: Head) -> None:
        place = change.place
        place.first_seen = place.first_seen or head.revision
        self.tentative = self.tentative or change.tentative
        self._cache.places.put(place.place, place)
        if not place.chat:
            self._cache.lone_places[place.message_id, place.swipe] = place
            return
        (await self._reader.load_chain(place.chat)).add(place)
        await self._flip(place, head)

    async def move(self, change: MovePlace, head: Head) -> None:
        chain = await self._reader.load_chain(change.place.chat)
        chain.move(change.place, change.position, change.visible)
        await self._flip(change.place, head)

    async def _flip(self, place: PlaceRow, head: Head) -> None:
        chat = await self._reader.get_chat(place.chat)
        self._touched.chat(chat, head.revision)
        self._cache.put_flip(place, head.revision)
        self.flipped.append(place)

    async def log_chain(self, change: ChangeChain, head: Head) -> None:
        """Log an entry without changes: other messages are visible, and all values the same."""
        self._touched.chat(change.chat, head.revision)
        await self._log.entry_for(change.chat, "chat", change.chat)
