"""
How verbs find rows: the only finders there are.

`find_` returns None when there is nothing, `get_` raises, `list_` returns a list, `load_`
several rows by name. `find_any_` also finds deleted ones. Rows come from the cache or the
database, and are verified when they are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

import orjson

from valuetracker.clock import Clock
from valuetracker.engine import Row, TooLong, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import characters, chats, holders, places
from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow
from valuetracker.store.rows.entries import ReadEntries
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.pages import Page
from valuetracker.store.rows.places import Chain, PlaceRow
from valuetracker.store.rows.row_cache import ROW_BYTES, RowCache

# So many rows that they are read on a thread.
MANY = 1_000_000
Listed = TypeVar("Listed", CharacterRow, HolderRow, ChatRow)


class RowReader:
    """The half of a transaction that changes nothing."""

    # True if rows are changed in the cache, where all must then find the same ones.
    changes_rows = False
    # The time of `leases.lease_time`: one verb reads it once.
    read_time: tuple[int, int | None, int] | None = None
    # The most rows to read at once on the event loop; None if the verb runs on a thread.
    most_rows: int | None = None
    _read_entries: ReadEntries | None = None

    def __init__(
        self, transaction: Transaction, cache: RowCache, clock: Clock | None = None
    ) -> None:
        self._transaction = transaction
        self.cache = cache
        self.clock = clock or Clock()

    async def load_head(self) -> Head:
        assert self.cache.head is not None, "not begun"
        return self.cache.head

    def reads(self, rows: int) -> None:
        """Say how many rows are about to be read: many are read on a thread."""
        if self.most_rows is not None and rows > self.most_rows:
            raise TooLong

    async def settle(self) -> None:
        """Write what is pending, so that statements find it."""

    @property
    def read_entries(self) -> ReadEntries:
        """Return the entries this transaction has read."""
        if self._read_entries is None:
            self._read_entries = ReadEntries()
        return self._read_entries

    def forget_entries(self) -> None:
        """Have entries read again, because some of them were changed."""
        self._read_entries = None

    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]:
        await self.settle()
        return await self._transaction.fetch_all(statement, **parameters)

    async def fetch_chunks(
        self, statement: Statement, **parameters: Any
    ) -> AsyncIterator[list[Row]]:
        """Yield rows some at a time, because there may be more than fit in memory."""
        await self.settle()
        async for chunk in self._transaction.fetch_chunks(statement, **parameters):
            yield chunk

    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None:
        await self.settle()
        return await self._transaction.fetch_one(statement, **parameters)

    async def read_page(
        self, statement: Statement, kind: type[Listed], page: Page, **parameters: Any
    ) -> tuple[list[Listed], str | None]:
        """Return the rows of a page, and the cursor of the next one, if there is one."""
        # One more than asked for, to know whether there is a next page.
        count = page.limit + 1
        found = await self.fetch_all(statement, after=page.after, count=count, **parameters)
        rows = [kind(*row).verify() for row in found[: page.limit]]
        return rows, str(rows[-1].ordinal) if len(found) == count else None

    # Characters

    async def find_any_character(self, character_id: str) -> CharacterRow | None:
        rows = self.cache.characters.rows
        if character_id not in rows:
            row = await self._transaction.fetch_one(characters.SELECT_CHARACTER, id=character_id)
            found = CharacterRow(*row).verify_as(id=character_id) if row else None
            self.cache.characters.loaded(character_id, found)
            self.cache.weight += ROW_BYTES
        return rows[character_id]

    async def find_character(self, character_id: str) -> CharacterRow | None:
        found = await self.find_any_character(character_id)
        return found if found is not None and not found.deleted else None

    async def list_characters(self) -> list[CharacterRow]:
        """Return all characters in the order in which they were created."""
        rows = await self.fetch_all(characters.SELECT_CHARACTERS)
        return [CharacterRow(*row).verify() for row in rows]

    # Holders

    async def find_holder(self, space: str, id: str) -> HolderRow | None:
        """Return an instance, or a space by the number of its chat; also a deleted one."""
        rows = self.cache.holders.rows
        if (space, id) not in rows:
            row = await self._transaction.fetch_one(holders.SELECT_HOLDER, space=space, id=id)
            holder = HolderRow.of(row).verify_as(space=space, id=id) if row else None
            self.cache.keep_holder((space, id), holder)
        return rows[space, id]

    async def find_any_instance(self, instance_id: str) -> HolderRow | None:
        return await self.find_holder("instance", instance_id)

    async def find_instance(self, instance_id: str) -> HolderRow | None:
        found = await self.find_holder("instance", instance_id)
        return found if found is not None and not found.deleted else None

    async def find_space(self, chat: ChatRow, space: str) -> HolderRow | None:
        """Return a space of a chat; None if nothing was ever written to it."""
        return await self.find_holder(space, str(chat.number))

    async def get_holder(self, number: int) -> HolderRow:
        id = self.cache.holder_ids.get(number)
        if id is not None:
            known = self.cache.holders.rows[id]
            assert known is not None
            return known
        row = await self._transaction.fetch_one(holders.SELECT_HOLDER_BY_NUMBER, number=number)
        if row is None:
            raise DatabaseDamaged()
        holder = HolderRow.of(row)
        self.cache.keep_holder((holder.space, holder.id), holder)
        return holder

    async def list_instances(self) -> list[HolderRow]:
        """Return all instances, without accounts, in the order in which they were created."""
        rows = await self.fetch_all(holders.SELECT_INSTANCES)
        return [HolderRow(*row).verify() for row in rows]

    async def list_instances_of(self, character_id: str) -> list[HolderRow]:
        """Return the instances of a character in the order in which they were created."""
        await self._load_holders(holders.SELECT_INSTANCES_OF_CHARACTER, character_id=character_id)
        return self._present_holders(lambda row: row.character_id == character_id)

    async def list_holders_of_chat(self, chat: ChatRow) -> list[HolderRow]:
        """Return the spaces and instances of a chat in the order in which they were created."""
        await self._load_holders(holders.SELECT_HOLDERS_OF_CHAT, chat=chat.number)
        return self._present_holders(lambda row: row.chat == chat.number)

    async def list_members(self, parent: CharacterRow | ChatRow) -> list[HolderRow]:
        """Return the instances a character or a chat ever had."""
        rows = await self.fetch_all(holders.SELECT_MEMBERS, parent=parent.number)
        return [HolderRow.of(row) for row in rows]

    async def has_member(self, parent: CharacterRow | ChatRow, holder: HolderRow) -> bool:
        """Return True if an instance ever belonged to a character or a chat."""
        row = await self._transaction.fetch_one(
            characters.SELECT_MEMBER, parent=parent.number, holder=holder.number
        )
        return row is not None and bool(MemberRow(*row).verify())

    async def _load_holders(self, statement: Statement, **parameters: Any) -> None:
        for row in await self._transaction.fetch_all(statement, **parameters):
            stored = HolderRow.of(row)
            if (stored.space, stored.id) not in self.cache.holders.rows:
                self.cache.keep_holder((stored.space, stored.id), stored)

    def _present_holders(self, wanted: Callable[[HolderRow], bool]) -> list[HolderRow]:
        return sorted(
            (
                row
                for row in self.cache.holders.rows.values()
                if row is not None and not row.deleted and wanted(row)
            ),
            key=lambda row: row.ordinal,
        )

    async def load_instances(self, ids: Iterable[str]) -> None:
        """Read instances, all at once, so that they are found in the cache."""
        missing = [id for id in ids if ("instance", id) not in self.cache.holders.rows]
        if not missing:
            return
        rows = await self._transaction.fetch_all(
            holders.SELECT_INSTANCES_BY_ID,
            expected=len(set(missing)),
            ids=orjson.dumps(missing).decode(),
        )
        for id in missing:
            self.cache.keep_holder(("instance", id), None)
        for row in rows:
            holder = HolderRow.of(row)
            self.cache.keep_holder((holder.space, holder.id), holder)

    # Values

    async def load_values(self, pairs: Iterable[tuple[int, str]]) -> None:
        """Read the rows of these holders and keys, all at once."""
        cache = self.cache
        missing = [pair for pair in pairs if not cache.knows_value(*pair)]
        if not missing:
            return
        if len(missing) == 1:
            holder, key = missing[0]
            rows = await self._transaction.fetch_all(
                holders.SELECT_VALUE, expected=1, holder=holder, key=key
            )
        else:
            rows = await self._transaction.fetch_all(
                holders.SELECT_VALUES_BY_PAIR,
                expected=len(set(missing)),
                pairs=orjson.dumps(missing).decode(),
            )
        for holder, key in missing:
            cache.values_of(holder).rows[key] = None
        for row in rows:
            cache.keep_value(DataRow(*row).verify())
        cache.weight += ROW_BYTES * len(missing)

    async def load_rows(self, holder: HolderRow, keys: list[str]) -> dict[str, DataRow | None]:
        """Return the rows of these keys, by key, among others; a row may be without value."""
        number = holder.number
        await self.load_values([(number, key) for key in keys])
        return self.cache.values_of(number).rows

    async def find_value(self, holder: HolderRow, key: str) -> DataRow | None:
        """Return the row of a key; it may be without value."""
        return (await self.load_rows(holder, [key]))[key]

    async def read_value(self, number: int, key: str) -> DataRow | None:
        """Return the row of a key of the holder with this number; it is not kept."""
        row = await self._transaction.fetch_one(holders.SELECT_VALUE, holder=number, key=key)
        if row is None:
            return None
        value = DataRow(*row)
        # A damaged index finds other rows.
        if value.holder != number or value.key != key:
            raise DatabaseDamaged()
        return value.verify()

    async def read_values(self, number: int) -> tuple[int, dict[str, Any]]:
        """Return the revision of the holder with this number, and its values; they are not kept."""
        most = self.most_rows
        found = await self._transaction.fetch_all(
            holders.SELECT_WITH_ACCOUNT, holder=number, count=MANY if most is None else most + 2
        )
        self.reads(len(found) - 1)
        return holders.verified_values(found)

    async def list_rows(self, holder: HolderRow) -> list[DataRow]:
        """Return the rows of all keys a holder has or had, in the order of their creation."""
        table = self.cache.values_of(holder.number)
        if holder.number not in self.cache.complete_holders:
            self.reads(holder.keys)
            for row in await self._transaction.fetch_all(
                holders.SELECT_ROWS_OF_HOLDER, holder=holder.number
            ):
                stored = DataRow(*row).verify()
                if stored.key not in table.rows:
                    self.cache.keep_value(stored)
                    self.cache.weight += ROW_BYTES
            self.cache.complete_holders.add(holder.number)
        # Removed ones have no ordinal: they come first, by their keys.
        return sorted(
            (row for row in table.rows.values() if row is not None),
            key=lambda row: (row.ordinal, row.key),
        )

    async def list_values(self, holder: HolderRow) -> list[DataRow]:
        """Return the rows that have a value, in the order of their creation."""
        if holder.number in self.cache.values:
            return [row for row in await self.list_rows(holder) if row.value is not None]
        found = await self._transaction.fetch_all(holders.SELECT_VALUES, holder=holder.number)
        return [DataRow(*row).verify() for row in found]

    def values_record(self, rows: list[DataRow]) -> dict[str, Any]:
        """Return values by key, as a part of the answer."""
        return holders.values_record(rows)

    async def list_values_of(
        self, owners: Sequence[HolderRow], statement: Statement, parent: int | str
    ) -> dict[int, list[DataRow]]:
        """Return the values of all holders of a character or chat, with one statement."""
        values: dict[int, list[DataRow]] = {owner.number: [] for owner in owners}
        for row in await self.fetch_all(statement, parent=parent):
            value = DataRow(*row).verify()
            values[value.holder].append(value)
        return values

    # Chats

    async def find_any_chat(self, chat_id: str) -> ChatRow | None:
        """Return the chat of this id, or of this former id; also a purged one."""
        cache = self.cache
        if chat_id not in cache.chat_numbers:
            row = await self._transaction.fetch_one(chats.SELECT_CHAT, id=chat_id)
            chat = ChatRow(*row).verify_as(id=chat_id) if row else None
            if chat is None:
                alias = await self._transaction.fetch_one(chats.SELECT_ALIAS, id=chat_id)
                if alias is not None:
                    chat = await self.get_chat(AliasRow(*alias).verify_as(id=chat_id).chat)
            if chat is not None and chat.number not in cache.chats.rows:
                cache.chats.loaded(chat.number, chat)
            cache.chat_numbers[chat_id] = chat.number if chat is not None else None
            cache.weight += ROW_BYTES
        number = cache.chat_numbers[chat_id]
        return cache.chats.rows[number] if number is not None else None

    async def find_chat(self, chat_id: str) -> ChatRow | None:
        """Return the chat of this id, or of this former id."""
        found = await self.find_any_chat(chat_id)
        return found if found is not None and not found.deleted else None

    async def get_chat(self, number: int) -> ChatRow:
        known = self.cache.chats
        if number not in known.rows:
            row = await self._transaction.fetch_one(chats.SELECT_CHAT_BY_NUMBER, number=number)
            if row is None:
                raise DatabaseDamaged()
            known.loaded(number, ChatRow(*row).verify())
            self.cache.weight += ROW_BYTES
        chat = known.rows[number]
        assert chat is not None
        return chat

    async def chat_id(self, number: int | None) -> str | None:
        return (await self.get_chat(number)).id if number is not None else None

    async def list_chats(self) -> list[ChatRow]:
        """Return all chats, also archived ones, in the order in which they were created."""
        return [ChatRow(*row).verify() for row in await self.fetch_all(chats.SELECT_CHATS)]

    # Places

    async def load_chain(self, chat: int) -> Chain:
        """Return the chain of a chat, with all its places."""
        cache = self.cache
        chain = cache.chains.get(chat)
        if chain is None:
            found = await self._transaction.fetch_all(places.SELECT_PLACES, chat=chat)
            registered = [PlaceRow(*row).verify() for row in found]
            for place in registered:
                cache.places.loaded(place.place, place)
            chain = cache.chains[chat] = Chain(chat, registered)
        return chain

    async def load_places(self, numbers: Iterable[int]) -> dict[int, PlaceRow]:
        """Return places by their numbers; those of purged chats are missing."""
        wanted = set(numbers)
        known = self.cache.places
        missing = [number for number in wanted if number not in known.rows]
        if missing:
            for row in await self._transaction.fetch_all(
                places.SELECT_PLACES_NUMBERED, numbers=orjson.dumps(missing).decode()
            ):
                place = PlaceRow(*row).verify()
                if place.chat and self.changes_rows:
                    # With the others of its chain, where it is found by its name.
                    await self.load_chain(place.chat)
                else:
                    self._keep_lone_place(place)
        found = {number: known.rows.get(number) for number in wanted}
        return {number: place for number, place in found.items() if place is not None}

    async def find_lone_place(self, message_id: str, swipe: str) -> PlaceRow | None:
        """Return a place that belongs to no chat; those form no chain."""
        found = self.cache.lone_places.get((message_id, swipe))
        if found is None:
            row = await self._transaction.fetch_one(
                places.SELECT_PLACE, chat=0, message_id=message_id, swipe=swipe
            )
            if row is None:
                return None
            found = PlaceRow(*row).verify()
            self._keep_lone_place(found)
        return found

    def _keep_lone_place(self, place: PlaceRow) -> None:
        self.cache.places.loaded(place.place, place)
        if not place.chat:
            self.cache.lone_places[place.message_id, place.swipe] = place
