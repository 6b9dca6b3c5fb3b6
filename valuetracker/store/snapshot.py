"""
What a reading verb is given: one consistent state, on a connection that cannot write.
"""

from __future__ import annotations

from typing import Any

from valuetracker.engine import Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store import statements as sql
from valuetracker.store.ledger import load_head
from valuetracker.store.rows import CharacterRow, ChatRow, DataRow, Head, HolderRow
from valuetracker.store.tags import Tag


class Snapshot:
    """
    The transaction of reading verbs.

    A verb says what its answer depends on with `depends_on`, so that the answer can be
    kept in memory until a commit touches that; one that says nothing depends on
    everything. It says in `etag` at which revision what it read last changed; one that
    says nothing has changed with the head.
    """

    __slots__ = ("_chat_ids", "_transaction", "etag", "head", "keepable", "tags")

    def __init__(self, transaction: Transaction, head: Head) -> None:
        self._transaction = transaction
        self._chat_ids: dict[int, str] = {}
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
        return CharacterRow(*row).verify()

    async def find_character(self, character_id: str) -> CharacterRow | None:
        found = await self.find_any_character(character_id)
        return found if found is not None and not found.gone else None

    async def find_any_holder(self, space: str, id: str) -> HolderRow | None:
        row = await self.fetch_one(sql.SELECT_HOLDER, space=space, id=id)
        if row is None:
            if space == "instance":
                await self._confirm_absence(sql.SCAN_FOR_HOLDER, id)
            return None
        return HolderRow(*row).verify()

    async def find_instance(self, instance_id: str) -> HolderRow | None:
        found = await self.find_any_holder("instance", instance_id)
        return found if found is not None and not found.gone else None

    async def _confirm_absence(self, scan: Statement, id: str) -> None:
        # An index that has lost a row makes it vanish without a trace; the table has it.
        row = await self.fetch_one(scan, id=id)
        if row is None or row[0]:
            raise DatabaseDamaged()

    # Values

    async def find_value(self, holder: HolderRow, key: str) -> DataRow | None:
        """The row of a key; it may be without value, or there may be none."""
        row = await self.fetch_one(sql.SELECT_VALUE, holder=holder.number, key=key)
        if row is not None:
            return DataRow(*row).verify()
        # Nothing there, or a table that has lost it: the holder's digest tells.
        await self.list_values(holder)
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
        if row is None:
            await self._confirm_absence(sql.SCAN_FOR_CHAT, chat_id)
            return None
        return ChatRow(*row).verify()

    async def find_chat(self, chat_id: str) -> ChatRow | None:
        """The chat of this id, or of this former id."""
        found = await self.find_any_chat(chat_id)
        return found if found is not None and not found.gone else None

    async def chat_id(self, number: int | None) -> str | None:
        if number is None:
            return None
        if number not in self._chat_ids:
            row = await self.fetch_one(sql.SELECT_CHAT_BY_NUMBER, number=number)
            if row is None:
                raise DatabaseDamaged()
            self._chat_ids[number] = ChatRow(*row).verify().id
        return self._chat_ids[number]
