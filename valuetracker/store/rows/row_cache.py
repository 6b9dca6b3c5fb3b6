"""
The rows a transaction has read, as they are now, and those that must be written.

A database's writer keeps its cache from one group of writes to the next: only the writer
changes rows, so what it wrote last need not be read again. That this still holds is known by
the head, which every group reads and locks first: if it is not the head the cache was left
with (a group was rolled back, another server wrote, a file was put in place), all is
forgotten. A reading transaction has a cache of its own.
"""

from __future__ import annotations

from typing import Any

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.store.rows.cached_table import CachedTable, Pending
from valuetracker.store.rows.characters import (
    INSERT_CHARACTER,
    INSERT_MEMBER,
    UPDATE_CHARACTER,
    CharacterRow,
    MemberRow,
)
from valuetracker.store.rows.chats import (
    INSERT_ALIAS,
    INSERT_CHAT,
    TOUCH_CHAT,
    UPDATE_CHAT,
    AliasRow,
    ChatRow,
)
from valuetracker.store.rows.head import UPDATE_HEAD, Head
from valuetracker.store.rows.holders import (
    INSERT_ADOPTED,
    INSERT_HOLDER,
    INSERT_VALUE,
    UPDATE_HOLDER,
    UPDATE_VALUE,
    AdoptedRow,
    DataRow,
    HolderRow,
)
from valuetracker.store.rows.places import (
    INSERT_FLIP,
    INSERT_PLACE,
    UPDATE_PLACE,
    Chain,
    FlipRow,
    PlaceRow,
)

# About how many bytes of rows a writer keeps, and what a row costs beyond its value.
KEPT_BYTES = 4 * 1024 * 1024
ROW_BYTES = 500
# How many places of chats a writer keeps: enough for the longest chain there may be.
KEPT_PLACES = 200_000

HolderId = tuple[str, str]
Subject = CharacterRow | HolderRow | ChatRow


class RowCache:
    """Rows by name and by number."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Have every row read again."""
        self.head: Head | None = None
        self.characters: CachedTable[str, CharacterRow] = CachedTable()
        self.holders: CachedTable[HolderId, HolderRow] = CachedTable()
        self.holder_ids: dict[int, HolderId] = {}
        self.values: dict[int, CachedTable[str, DataRow]] = {}
        self._touched_values: dict[int, CachedTable[str, DataRow]] = {}
        # Holders all of whose rows are here.
        self.complete_holders: set[int] = set()
        # Holders and chats of which more must be written than follows a change of values: of
        # other holders only the account is written.
        self.restructured: set[int] = set()
        self.chats: CachedTable[int, ChatRow] = CachedTable()
        self.chat_numbers: dict[str, int | None] = {}
        self.chains: dict[int, Chain] = {}
        self.places: CachedTable[int, PlaceRow] = CachedTable()
        self.lone_places: dict[tuple[str, str], PlaceRow] = {}
        self.flips: dict[tuple[int, int], FlipRow] = {}
        self.members: dict[tuple[int, int], MemberRow] = {}
        self.aliases: list[AliasRow] = []
        self.adopted: list[AdoptedRow] = []
        # By holder and key of a large value: the entry of its last change, and how many changes
        # the log leaves its value out for since one that holds it.
        self.since_whole: dict[tuple[int, str], tuple[int, int]] = {}
        self.weight = 0

    def begin(self, head: Head) -> None:
        """Begin a group of writes at this head; forget what may have changed since the last."""
        crowded = self.weight > KEPT_BYTES or len(self.places.rows) > KEPT_PLACES
        if self.head != head or crowded:
            self.forget()
        self.head = head

    # Putting rows that must be written

    def put_holder(self, holder: HolderRow) -> None:
        id = (holder.space, holder.id)
        self.holders.put(id, holder)
        self.holder_ids[holder.number] = id

    def put_chat(self, chat: ChatRow) -> None:
        self.chats.put(chat.number, chat)
        self.chat_numbers[chat.id] = chat.number

    def put_flip(self, place: PlaceRow, revision: int) -> None:
        """Write that a place has another position from this revision on."""
        self.places.put(place.place, place)
        self.flips[place.place, revision] = place.flip(revision)

    def touch_values(self, holder: int, weight: int = 0) -> None:
        """Write the values that were put into the table of this holder."""
        self._touched_values[holder] = self.values[holder]
        self.weight += weight

    # Keeping rows that were read

    def keep_holder(self, id: HolderId, holder: HolderRow | None) -> None:
        self.holders.loaded(id, holder)
        self.weight += ROW_BYTES
        if holder is not None:
            self.holder_ids[holder.number] = id

    def keep_value(self, row: DataRow) -> None:
        self.values_of(row.holder).loaded(row.key, row)
        self.weight += len(row.value or "")

    def values_of(self, holder: int) -> CachedTable[str, DataRow]:
        table = self.values.get(holder)
        if table is None:
            table = self.values[holder] = CachedTable()
        return table

    def knows_value(self, holder: int, key: str) -> bool:
        """True if it is known whether a holder has a row of this key."""
        table = self.values.get(holder)
        if table is None:
            return False
        if key in table.rows:
            return True
        if holder in self.complete_holders:
            table.rows[key] = None
            return True
        return False

    # Writing

    async def write(self, transaction: Transaction) -> None:
        """Write every row that was put, as it ended up."""
        assert self.head is not None
        values: Pending[DataRow] = Pending()
        for table in self._touched_values.values():
            table.drain(values)
        self._touched_values.clear()
        holders: Pending[HolderRow] = Pending()
        self.holders.drain(holders)
        values.updated += [holder.account() for holder in holders.updated]
        values.inserted += [holder.account() for holder in holders.inserted]
        self.head.seal()
        steps: list[tuple[Statement, list[Any]]] = [
            (UPDATE_VALUE, values.updated),
            (INSERT_VALUE, values.inserted),
            (INSERT_ADOPTED, self.adopted),
            (UPDATE_HEAD, [self.head]),
        ]
        # Nearly every group changes values of known holders, and nothing else.
        if (
            holders.inserted
            or self.restructured
            or self.characters.touched
            or self.chats.touched
            or self.places.touched
            or self.members
            or self.aliases
        ):
            steps += self._other_steps(holders)
        for statement, rows in steps:
            if rows:
                await transaction.write_many(statement, rows)
        self.adopted = []

    def _other_steps(self, holders: Pending[HolderRow]) -> list[tuple[Statement, list[Any]]]:
        """Return the statements that write all but values, and take their rows as written."""
        characters: Pending[CharacterRow] = Pending()
        self.characters.drain(characters)
        chats: Pending[ChatRow] = Pending()
        self.chats.drain(chats)
        places: Pending[PlaceRow] = Pending()
        self.places.drain(places)
        holders.updated = self._restructured(holders.updated, True)
        for pending in (holders, characters, chats, places):
            for row in (*pending.inserted, *pending.updated):
                row.seal()
        steps: list[tuple[Statement, list[Any]]] = [
            (UPDATE_HOLDER, holders.updated),
            (INSERT_HOLDER, holders.inserted),
            (INSERT_MEMBER, list(self.members.values())),
            (UPDATE_CHARACTER, characters.updated),
            (INSERT_CHARACTER, characters.inserted),
            (UPDATE_CHAT, self._restructured(chats.updated, True)),
            (TOUCH_CHAT, self._restructured(chats.updated, False)),
            (INSERT_CHAT, chats.inserted),
            (INSERT_ALIAS, self.aliases),
            (UPDATE_PLACE, places.updated),
            (INSERT_PLACE, places.inserted),
            (INSERT_FLIP, list(self.flips.values())),
        ]
        self.restructured.clear()
        self.members, self.aliases = {}, []
        self.flips.clear()
        return steps

    def _restructured(self, rows: list[Any], wanted: bool) -> list[Any]:
        return [row for row in rows if (row.number in self.restructured) == wanted]
