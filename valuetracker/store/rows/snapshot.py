"""
What a reading verb is given: one consistent state, on a connection that cannot write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from valuetracker.engine import Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import ReadEntries
from valuetracker.store.rows.row_types import (
    AliasRow,
    CharacterRow,
    ChatRow,
    DataRow,
    Head,
    HolderRow,
    PlaceRow,
)
from valuetracker.store.rows.tags import Tag
from valuetracker.store.tx.ledger import load_head


class Snapshot:
    """
    The transaction of reading verbs.

    A verb says what its answer depends on with `depends_on`, so that the answer can be
    kept in memory until a commit touches that; one that says nothing depends on
    everything. It says in `etag` at which revision what it read last changed; one that
    says nothing has changed with the head.
    """

    __slots__ = (
        "_chats",
        "_places",
        "_transaction",
        "etag",
        "head",
        "keepable",
        "names",
        "read_entries",
        "tags",
    )

    def __init__(self, transaction: Transaction, head: Head) -> None:
        self._transaction = transaction
        self._chats: dict[int, ChatRow] = {}
        self._places: dict[int, PlaceRow] = {}
        # What subjects of the log are called: their space and id, by number.
        self.names: dict[int, tuple[str, str]] = {}
        self.read_entries = ReadEntries()
        self.head = head
        self.tags: set[Tag] = set()
        self.etag: int | str | None = head.tag
        # Whether the answer stays true until the next commit; the clock can end it, too.
        self.keepable = True

    @classmethod
    async def take(cls, transaction: Transaction) -> Snapshot:
        # Reading the head first fixes the snapshot, so its revision is the answer's.
        return cls(transaction, await load_head(transaction))

    def depends_on(self, tag: Tag) -> None:
        self.tags.add(tag)

    async def load_head(self) -> Head:
        return self.head

    def is_over(self, revision: int) -> bool:
        """Whether nothing will be added to a revision."""
        return True

    async def settle(self) -> None:
        """Nothing is ever pending."""

    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]:
        return await self._transaction.fetch_all(statement, **parameters)

    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None:
        return await self._transaction.fetch_one(statement, **parameters)

    # Characters and holders

    async def find_any_character(self, character_id: str) -> CharacterRow | None:
        row = await self.fetch_one(sql.SELECT_CHARACTER, id=character_id)
        if row is None:
            await self._confirm_absence(sql.SCAN_FOR_CHARACTER, character_id)
            return None
        return CharacterRow(*row).verify_as(id=character_id)

    async def find_character(self, character_id: str) -> CharacterRow | None:
        found = await self.find_any_character(character_id)
        return found if found is not None and not found.gone else None

    async def find_any_instance(self, instance_id: str) -> HolderRow | None:
        row = await self.fetch_one(sql.SELECT_HOLDER, space="instance", id=instance_id)
        if row is None:
            await self._confirm_absence(sql.SCAN_FOR_HOLDER, instance_id)
            return None
        return HolderRow(*row).verify_as(space="instance", id=instance_id)

    async def find_room(self, chat: ChatRow, space: str) -> HolderRow | None:
        """One of the rooms of a chat, if it was ever needed."""
        if not chat.has_room(space):
            return None
        row = await self.fetch_one(sql.SELECT_HOLDER, space=space, id=str(chat.number))
        if row is None:
            raise DatabaseDamaged()
        return HolderRow(*row).verify_as(space=space, id=str(chat.number))

    async def find_instance(self, instance_id: str) -> HolderRow | None:
        found = await self.find_any_instance(instance_id)
        return found if found is not None and not found.gone else None

    async def _confirm_absence(self, scan: Statement, id: str) -> None:
        # An index that has lost a row makes it vanish without a trace; the table has it.
        row = await self.fetch_one(scan, id=id)
        if row != (0, self.head.subjects):
            raise DatabaseDamaged()

    # Values

    async def find_value(self, holder: HolderRow, key: str) -> DataRow | None:
        """The row of a key; it may be without value, or there may be none."""
        row = await self.fetch_one(sql.SELECT_VALUE, holder=holder.number, key=key)
        if row is not None:
            return DataRow(*row).verify_as(holder=holder.number, key=key)
        # Nothing there, or a table that has lost it: the holder's accounts tell.
        rows = await self.fetch_all(sql.SELECT_ROWS_OF_HOLDER, holder=holder.number)
        holder.verify_rows([DataRow(*row).verify() for row in rows])
        return None

    async def list_values(self, holder: HolderRow) -> list[DataRow]:
        rows = [
            DataRow(*row).verify()
            for row in await self.fetch_all(sql.SELECT_VALUES, holder=holder.number)
        ]
        holder.verify_values(rows)
        return rows

    # Chats

    async def find_any_chat(self, chat_id: str) -> ChatRow | None:
        row = await self.fetch_one(sql.SELECT_CHAT, id=chat_id)
        if row is not None:
            return ChatRow(*row).verify_as(id=chat_id)
        alias = await self.fetch_one(sql.SELECT_ALIAS, id=chat_id)
        if alias is not None:
            return await self.get_chat(AliasRow(*alias).verify_as(id=chat_id).chat)
        await self._confirm_absence(sql.SCAN_FOR_CHAT, chat_id)
        # Its id is all that finds an alias: had that changed, a row would be wrong.
        if self.head.aliases:
            self.head.verify_aliases(await self.fetch_all(sql.SELECT_ALIASES))
        return None

    async def find_chat(self, chat_id: str) -> ChatRow | None:
        """The chat of this id, or of this former id."""
        found = await self.find_any_chat(chat_id)
        return found if found is not None and not found.gone else None

    async def chat_id(self, number: int | None) -> str | None:
        return (await self.get_chat(number)).id if number is not None else None

    async def get_chat(self, number: int) -> ChatRow:
        """The chat of this number, which must be there."""
        if number not in self._chats:
            row = await self.fetch_one(sql.SELECT_CHAT_BY_NUMBER, number=number)
            if row is None:
                raise DatabaseDamaged()
            self._chats[number] = ChatRow(*row).verify()
        return self._chats[number]

    async def list_places(self, chat: ChatRow) -> list[PlaceRow]:
        """All places of a chat that were ever seen, as they are now."""
        places = [
            PlaceRow(*row).verify()
            for row in await self.fetch_all(sql.SELECT_PLACES, chat=chat.number)
        ]
        chat.verify_places(places)
        self._places.update((place.place, place) for place in places)
        return places

    async def load_places(self, numbers: Iterable[int]) -> dict[int, PlaceRow]:
        """Places by their numbers, as far as they are there."""
        wanted = set(numbers)
        missing = [number for number in wanted if number not in self._places]
        if missing:
            for row in await self.fetch_all(
                sql.SELECT_PLACES_NUMBERED, numbers=orjson.dumps(missing).decode()
            ):
                place = PlaceRow(*row).verify()
                self._places[place.place] = place
        return {number: self._places[number] for number in wanted if number in self._places}
