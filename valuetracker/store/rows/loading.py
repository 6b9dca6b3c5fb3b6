"""
What a writing verb can look at: rows and log as they are by now.

What the group has applied and not yet written is in the rows of the working set; whoever asks
the database itself has it written first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from valuetracker.engine import Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.chain import Chain
from valuetracker.store.rows.entries import ReadEntries
from valuetracker.store.rows.row_cache import WorkingSet
from valuetracker.store.rows.row_types import (
    CharacterRow,
    ChatRow,
    DataRow,
    Head,
    HolderRow,
    PlaceRow,
)


class Loading(ABC):
    """The half of a ledger that changes nothing."""

    def __init__(self, transaction: Transaction, rows: WorkingSet) -> None:
        self._transaction = transaction
        self._rows = rows
        self._begun = False
        self._read_entries: ReadEntries | None = None

    @abstractmethod
    async def _write_pending(self) -> None:
        """Write what was applied and is only in memory."""

    async def load_head(self) -> Head:
        if not self._begun:
            await self._rows.begin(self._transaction)
            self._begun = True
        head = self._rows.head
        assert head is not None
        return head

    async def settle(self) -> None:
        """Have rows and log say all that was applied."""
        await self._write_pending()

    async def find_character(self, character_id: str) -> CharacterRow | None:
        found = await self._rows.find_character(character_id)
        return found if found is not None and not found.gone else None

    async def find_instance(self, instance_id: str) -> HolderRow | None:
        found = await self._rows.find_holder("instance", instance_id)
        return found if found is not None and not found.gone else None

    async def find_any_instance(self, instance_id: str) -> HolderRow | None:
        """An instance that is or was there."""
        return await self._rows.find_holder("instance", instance_id)

    async def find_any_character(self, character_id: str) -> CharacterRow | None:
        return await self._rows.find_character(character_id)

    async def get_holder(self, number: int) -> HolderRow:
        return await self._rows.get_holder(number)

    async def list_instances_of(self, character_id: str) -> list[HolderRow]:
        """The instances of a character, in the order in which they came into being."""
        return await self._rows.list_instances_of(character_id)

    async def list_holders_of_chat(self, chat: ChatRow) -> list[HolderRow]:
        """What a chat holds: its rooms, and the instances that are bound to it."""
        return await self._rows.list_holders_of_chat(chat)

    async def load_rows(self, holder: HolderRow, keys: list[str]) -> dict[str, DataRow | None]:
        """The rows of these keys, by key, among others; a row may be without value."""
        number = holder.number
        await self._rows.load_values([(number, key) for key in keys])
        return self._rows.table(number).rows

    async def list_rows(self, holder: HolderRow) -> list[DataRow]:
        """All keys a holder has or had, in the order in which they came into being."""
        return await self._rows.list_rows(holder)

    async def list_values(self, holder: HolderRow) -> list[DataRow]:
        return [row for row in await self._rows.list_rows(holder) if row.value is not None]

    async def find_chat(self, chat_id: str) -> ChatRow | None:
        """The chat of this id, or of this former id."""
        chat = await self._rows.find_chat(chat_id)
        return chat if chat is not None and not chat.gone else None

    async def find_any_chat(self, chat_id: str) -> ChatRow | None:
        """The same, also if it has been purged."""
        return await self._rows.find_chat(chat_id)

    async def get_chat(self, number: int) -> ChatRow:
        return await self._rows.get_chat(number)

    async def chat_id(self, number: int | None) -> str | None:
        return (await self._rows.get_chat(number)).id if number is not None else None

    async def load_chain(self, chat: int) -> Chain:
        return await self._rows.load_chain(chat)

    async def list_places(self, chat: ChatRow) -> list[PlaceRow]:
        """All places of a chat that were ever seen, as they are now."""
        return list((await self._rows.load_chain(chat.number)).places.values())

    async def load_places(self, numbers: Iterable[int]) -> dict[int, PlaceRow]:
        return await self._rows.load_places(numbers)

    async def find_room(self, chat: ChatRow, space: str) -> HolderRow | None:
        """One of the rooms of a chat, if it was ever needed."""
        if not chat.has_room(space):
            return None
        holder = await self._rows.find_holder(space, str(chat.number))
        if holder is None:
            raise DatabaseDamaged()
        return holder

    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]:
        await self._write_pending()
        return await self._transaction.fetch_all(statement, **parameters)

    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None:
        await self._write_pending()
        return await self._transaction.fetch_one(statement, **parameters)

    @property
    def read_entries(self) -> ReadEntries:
        """What the verb has read of the log."""
        if self._read_entries is None:
            self._read_entries = ReadEntries()
        return self._read_entries

    def forget_entries(self) -> None:
        """What was read of the log is not all as it was."""
        self._read_entries = None
