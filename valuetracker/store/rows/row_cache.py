"""
The rows a database's writer knows, kept from one group of writes to the next.

Only the writer changes rows, so what it last wrote need not be read again: the next group
finds it here. How that is known to be still so: the head in the database, which every
group reads and locks first, is the head this was left with. Anything else (a group that was
rolled back, another server, a file put in place) and all of it is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from valuetracker.engine import Transaction
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.cached_table import Pending, Table
from valuetracker.store.rows.chain import Chain
from valuetracker.store.rows.row_types import (
    AliasRow,
    CharacterRow,
    ChatRow,
    DataRow,
    FlipRow,
    Head,
    HolderRow,
    MemberRow,
    PlaceRow,
    member_sum,
)

# About how many bytes of rows are kept, and what a row costs beyond its value.
KEPT_BYTES = 4 * 1024 * 1024
ROW_BYTES = 500
# How many places of chats are kept: enough for the longest chain there may be.
KEPT_PLACES = 200_000
# Of how many holders it is remembered that they are whole.
MOST_WHOLE = 100_000

HolderId = tuple[str, str]


class WorkingSet:
    """Rows by name, loaded when first asked for."""

    def __init__(self) -> None:
        self._transaction: Transaction | None = None
        # Whether the indexes by name were found to be whole since the database was opened, and
        # which holders were: those are not looked at again.
        self._names_are_whole = False
        self._whole: set[int] = set()
        # How often places have moved.
        self.turns = 0
        self.forget()

    def forget(self) -> None:
        self.head: Head | None = None
        self.characters: Table[str, CharacterRow] = Table()
        self.holders: Table[HolderId, HolderRow] = Table()
        self._holder_ids: dict[int, HolderId] = {}
        self.values: dict[int, Table[str, DataRow]] = {}
        self._touched_values: dict[int, Table[str, DataRow]] = {}
        # Holders all of whose rows are loaded.
        self._complete: set[int] = set()
        # Holders and chats of which more changed than what they hold.
        self.restructured: set[int] = set()
        self.chats: Table[int, ChatRow] = Table()
        self._chat_numbers: dict[str, int | None] = {}
        self._chains: dict[int, Chain] = {}
        self.places: Table[int, PlaceRow] = Table()
        self._lone_places: dict[tuple[str, str], PlaceRow] = {}
        self.flips: dict[tuple[int, int], FlipRow] = {}
        self.members: dict[tuple[int, int], MemberRow] = {}
        self.aliases: list[AliasRow] = []
        self._weight = 0

    async def begin(self, transaction: Transaction) -> Head:
        """Take the lock on the head, and see whether what is known still holds."""
        self._transaction = transaction
        row = await transaction.fetch_one(sql.LOCK_HEAD)
        if row is None:
            raise DatabaseDamaged()
        head = Head(*row).verify()
        crowded = self._weight > KEPT_BYTES or len(self.places.rows) > KEPT_PLACES
        if self.head != head or crowded:
            self.forget()
        self.head = head
        return head

    @property
    def transaction(self) -> Transaction:
        assert self._transaction is not None, "not begun"
        return self._transaction

    # Characters and holders, also those that are gone

    async def find_character(self, character_id: str) -> CharacterRow | None:
        rows = self.characters.rows
        if character_id not in rows:
            row = await self.transaction.fetch_one(sql.SELECT_CHARACTER, id=character_id)
            found = CharacterRow(*row).verify_as(id=character_id) if row else None
            if found is None:
                await self._confirm_absence()
            self.characters.loaded(character_id, found)
            self._weight += ROW_BYTES
        return rows[character_id]

    async def find_holder(self, space: str, id: str) -> HolderRow | None:
        rows = self.holders.rows
        if (space, id) not in rows:
            row = await self.transaction.fetch_one(sql.SELECT_HOLDER, space=space, id=id)
            holder = HolderRow(*row).verify_as(space=space, id=id) if row else None
            if holder is None:
                await self._confirm_absence()
            self._keep_holder((space, id), holder)
        return rows[space, id]

    async def get_holder(self, number: int) -> HolderRow:
        """The holder of this number, which must be there."""
        id = self._holder_ids.get(number)
        if id is not None:
            known = self.holders.rows[id]
            assert known is not None
            return known
        found = await self.transaction.fetch_one(sql.SELECT_HOLDER_BY_NUMBER, number=number)
        if found is None:
            raise DatabaseDamaged()
        holder = HolderRow(*found).verify()
        self._keep_holder((holder.space, holder.id), holder)
        return holder

    def _keep_holder(self, id: HolderId, holder: HolderRow | None) -> None:
        self.holders.loaded(id, holder)
        self._weight += ROW_BYTES
        if holder is not None:
            self._holder_ids[holder.number] = id

    def put_subject(self, subject: CharacterRow | HolderRow | ChatRow) -> None:
        """The log has said something of it."""
        if isinstance(subject, HolderRow):
            self.put_holder(subject)
        elif isinstance(subject, ChatRow):
            self.chats.put(subject.number, subject)
        else:
            self.characters.put(subject.id, subject)

    async def add_member(
        self, parent: CharacterRow | ChatRow, holder: HolderRow, is_new: bool
    ) -> None:
        """A holder belongs to a character or a chat, perhaps not for the first time."""
        id = (parent.number, holder.number)
        if id in self.members:
            return
        if not is_new:
            known = await self.transaction.fetch_one(
                sql.SELECT_MEMBER, parent=parent.number, holder=holder.number
            )
            if known is not None:
                return
        parent.members ^= member_sum(holder.number)
        self.members[id] = MemberRow(*id)

    def put_holder(self, holder: HolderRow) -> None:
        id = (holder.space, holder.id)
        self.holders.put(id, holder)
        self._holder_ids[holder.number] = id

    async def list_instances_of(self, character_id: str) -> list[HolderRow]:
        await self._load_holders(sql.SELECT_INSTANCES_OF_CHARACTER, character_id=character_id)
        found = self._present(lambda row: row.character_id == character_id)
        character = await self.find_character(character_id)
        if character is not None:
            character.verify_instances(found)
        return found

    async def list_holders_of_chat(self, chat: ChatRow) -> list[HolderRow]:
        await self._load_holders(sql.SELECT_HOLDERS_OF_CHAT, chat=chat.number)
        found = self._present(lambda row: row.chat == chat.number)
        chat.verify_holders(found)
        return found

    async def _load_holders(self, statement: Any, **parameters: Any) -> None:
        for row in await self.transaction.fetch_all(statement, **parameters):
            stored = HolderRow(*row).verify()
            if (stored.space, stored.id) not in self.holders.rows:
                self._keep_holder((stored.space, stored.id), stored)

    def _present(self, wanted: Any) -> list[HolderRow]:
        return sorted(
            (
                row
                for row in self.holders.rows.values()
                if row is not None and not row.gone and wanted(row)
            ),
            key=lambda row: row.place,
        )

    async def load_instances(self, ids: Iterable[str]) -> None:
        """Several at once."""
        missing = [id for id in ids if ("instance", id) not in self.holders.rows]
        if not missing:
            return
        for id in missing:
            self._keep_holder(("instance", id), None)
        rows = await self.transaction.fetch_all(
            sql.SELECT_INSTANCES_BY_ID, ids=orjson.dumps(missing).decode()
        )
        for row in rows:
            holder = HolderRow(*row).verify()
            self._keep_holder((holder.space, holder.id), holder)
        if len(rows) < len(missing):
            await self._confirm_absence()

    async def _confirm_absence(self) -> None:
        """
        Whether a name that was not found is not there.

        An index that has lost it would have it made again, empty. What is whole when it is first
        looked at stays so: the writer knows what it has written.
        """
        if self._names_are_whole:
            return
        assert self.head is not None
        for statement in sql.CHECK_INDEXES:
            if await self.transaction.fetch_all(statement) != [("ok",)]:
                raise DatabaseDamaged()
        tables = (self.characters, self.holders, self.chats)
        pending = sum(table.pending for table in tables)
        if await self.transaction.fetch_one(sql.COUNT_SUBJECTS) != (self.head.subjects - pending,):
            raise DatabaseDamaged()
        aliases = await self.transaction.fetch_all(sql.SELECT_ALIASES)
        self.head.verify_aliases(aliases, pending=len(self.aliases))
        self._names_are_whole = True

    # Values

    async def load_values(self, pairs: Iterable[tuple[int, str]]) -> None:
        """The rows of these holders and keys, all at once."""
        missing = [pair for pair in pairs if not self._is_known(*pair)]
        if not missing:
            return
        if len(missing) == 1:
            holder, key = missing[0]
            rows = await self.transaction.fetch_all(sql.SELECT_VALUE, holder=holder, key=key)
        else:
            rows = await self.transaction.fetch_all(
                sql.SELECT_VALUES_BY_PAIR, pairs=orjson.dumps(missing).decode()
            )
        absent = set(missing)
        for holder, key in missing:
            self.table(holder).rows[key] = None
        for row in rows:
            stored = DataRow(*row).verify()
            self._keep(stored)
            absent.discard((stored.holder, stored.key))
        self._weight += ROW_BYTES * len(missing)
        for holder in {holder for holder, _ in absent} - self._whole:
            await self._confirm_rows(await self.get_holder(holder))

    async def _confirm_rows(self, holder: HolderRow) -> None:
        """Whether a key that was not found is not there: then no other is missing, either."""
        if holder.known:
            stored = [
                DataRow(*row).verify()
                for row in await self.transaction.fetch_all(
                    sql.SELECT_ROWS_OF_HOLDER, holder=holder.number
                )
            ]
            known = self.table(holder.number).rows
            # As they are by now.
            rows = {row.key: row for row in stored} | {
                key: row for key, row in known.items() if row is not None
            }
            holder.verify_rows(list(rows.values()))
        if len(self._whole) >= MOST_WHOLE:
            self._whole.clear()
        self._whole.add(holder.number)

    def _is_known(self, holder: int, key: str) -> bool:
        table = self.values.get(holder)
        if table is None:
            return False
        if key in table.rows:
            return True
        if holder in self._complete:
            table.rows[key] = None
            return True
        return False

    def table(self, holder: int) -> Table[str, DataRow]:
        table = self.values.get(holder)
        if table is None:
            table = self.values[holder] = Table()
        return table

    def _keep(self, row: DataRow) -> None:
        self.table(row.holder).loaded(row.key, row)
        self._weight += len(row.value or "")

    def values_touched(self, holder: int, weight: int = 0) -> None:
        """Values of this holder have been put into its table."""
        self._touched_values[holder] = self.values[holder]
        self._weight += weight

    def is_complete(self, holder: int) -> bool:
        """Whether all rows of a holder are known."""
        return holder in self._complete

    async def list_rows(self, holder: HolderRow) -> list[DataRow]:
        """All keys that a holder has or had, by place."""
        table = self.table(holder.number)
        if holder.number not in self._complete:
            for row in await self.transaction.fetch_all(
                sql.SELECT_ROWS_OF_HOLDER, holder=holder.number
            ):
                stored = DataRow(*row).verify()
                if stored.key not in table.rows:
                    self._keep(stored)
                    self._weight += ROW_BYTES
            self._complete.add(holder.number)
            holder.verify_rows([row for row in table.rows.values() if row is not None])
        # Those that are gone have no place: they come first, by their keys.
        return sorted(
            (row for row in table.rows.values() if row is not None),
            key=lambda row: (row.place, row.key),
        )

    # Chats

    async def find_chat(self, id: str) -> ChatRow | None:
        """The chat of this id, or that had it once; also one that was purged."""
        if id not in self._chat_numbers:
            row = await self.transaction.fetch_one(sql.SELECT_CHAT, id=id)
            chat = ChatRow(*row).verify_as(id=id) if row else None
            if chat is None:
                alias = await self.transaction.fetch_one(sql.SELECT_ALIAS, id=id)
                if alias is not None:
                    chat = await self.get_chat(AliasRow(*alias).verify_as(id=id).chat)
                else:
                    await self._confirm_absence()
            if chat is not None and chat.number not in self.chats.rows:
                self.chats.loaded(chat.number, chat)
            self._chat_numbers[id] = chat.number if chat is not None else None
            self._weight += ROW_BYTES
        number = self._chat_numbers[id]
        return self.chats.rows[number] if number is not None else None

    async def get_chat(self, number: int) -> ChatRow:
        """The chat of this number, which must be there."""
        if number not in self.chats.rows:
            row = await self.transaction.fetch_one(sql.SELECT_CHAT_BY_NUMBER, number=number)
            if row is None:
                raise DatabaseDamaged()
            self.chats.loaded(number, ChatRow(*row).verify())
            self._weight += ROW_BYTES
        chat = self.chats.rows[number]
        assert chat is not None
        return chat

    def put_chat(self, chat: ChatRow) -> None:
        self.chats.put(chat.number, chat)
        self._chat_numbers[chat.id] = chat.number

    def forget_chat_ids(self) -> None:
        """Ids have changed hands."""
        self._chat_numbers.clear()

    async def load_chain(self, chat: int) -> Chain:
        chain = self._chains.get(chat)
        if chain is None:
            places = [
                PlaceRow(*row).verify()
                for row in await self.transaction.fetch_all(sql.SELECT_PLACES, chat=chat)
            ]
            (await self.get_chat(chat)).verify_places(places)
            for place in places:
                self.places.loaded(place.place, place)
            chain = self._chains[chat] = Chain(chat, places)
        return chain

    async def load_places(self, numbers: Iterable[int]) -> dict[int, PlaceRow]:
        """Places by their numbers, as far as they are there."""
        wanted = set(numbers)
        missing = [number for number in wanted if number not in self.places.rows]
        if missing:
            for row in await self.transaction.fetch_all(
                sql.SELECT_PLACES_NUMBERED, numbers=orjson.dumps(missing).decode()
            ):
                place = PlaceRow(*row).verify()
                if place.chat:
                    # With the others of its chat, which know it by another name.
                    await self.load_chain(place.chat)
                else:
                    self.places.loaded(place.place, place)
                    self._lone_places[place.message_id, place.swipe] = place
        found = {number: self.places.rows.get(number) for number in wanted}
        return {number: place for number, place in found.items() if place is not None}

    async def find_lone_place(self, message_id: str, swipe: str) -> PlaceRow | None:
        """A place that belongs to no chat; those form no chain."""
        found = self._lone_places.get((message_id, swipe))
        if found is None:
            row = await self.transaction.fetch_one(
                sql.SELECT_PLACE, chat=0, message_id=message_id, swipe=swipe
            )
            if row is None:
                return None
            found = PlaceRow(*row).verify()
            self.places.loaded(found.place, found)
            self._lone_places[message_id, swipe] = found
        return found

    def add_place(self, place: PlaceRow) -> None:
        """A place that was never seen before."""
        self.places.put(place.place, place)
        if place.chat:
            self._chains[place.chat].add(place)
            chat = self.chats.rows[place.chat]
            assert chat is not None
            chat.places += 1
            self.chats.put(chat.number, chat)
        else:
            self._lone_places[place.message_id, place.swipe] = place

    def flip(self, place: PlaceRow, revision: int) -> None:
        """A place has moved, come or gone."""
        self.turns += 1
        self.places.put(place.place, place)
        self.flips[place.place, revision] = place.flip(revision)

    # Writing

    async def write(self) -> None:
        """Write every row that was touched, as it ended up."""
        assert self.head is not None
        values: Pending[DataRow] = Pending()
        for table in self._touched_values.values():
            table.drain(values)
        self._touched_values.clear()
        holders: Pending[HolderRow] = Pending()
        self.holders.drain(holders)
        characters: Pending[CharacterRow] = Pending()
        self.characters.drain(characters)
        chats: Pending[ChatRow] = Pending()
        self.chats.drain(chats)
        places: Pending[PlaceRow] = Pending()
        self.places.drain(places)
        for pending in (holders, characters, chats, places):
            for row in (*pending.inserted, *pending.updated):
                row.seal()
        self.head.seal()
        # Most updates only follow a change of values. Naming the indexed columns in those
        # would write the indexes again, too.
        steps: tuple[tuple[Any, list[Any]], ...] = (
            (sql.UPDATE_VALUE, values.updated),
            (sql.INSERT_VALUE, values.inserted),
            (sql.UPDATE_HOLDER, self._reshaped(holders.updated, True)),
            (sql.TOUCH_HOLDER, self._reshaped(holders.updated, False)),
            (sql.INSERT_HOLDER, holders.inserted),
            (sql.INSERT_MEMBER, list(self.members.values())),
            (sql.UPDATE_CHARACTER, characters.updated),
            (sql.INSERT_CHARACTER, characters.inserted),
            (sql.UPDATE_CHAT, self._reshaped(chats.updated, True)),
            (sql.TOUCH_CHAT, self._reshaped(chats.updated, False)),
            (sql.INSERT_CHAT, chats.inserted),
            (sql.INSERT_ALIAS, self.aliases),
            (sql.UPDATE_PLACE, places.updated),
            (sql.INSERT_PLACE, places.inserted),
            (sql.INSERT_FLIP, list(self.flips.values())),
            (sql.UPDATE_HEAD, [self.head]),
        )
        for statement, rows in steps:
            if rows:
                await self.transaction.execute_many(statement, rows)
        self.restructured.clear()
        self.members, self.aliases = {}, []
        self.flips.clear()

    def _reshaped(self, rows: list[Any], wanted: bool) -> list[Any]:
        return [row for row in rows if (row.number in self.restructured) == wanted]
