"""
What a reading verb is given: one consistent state, on a connection that cannot write.
"""

from __future__ import annotations

from typing import Any

from valuetracker.engine import Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store import statements as sql
from valuetracker.store.ledger import last_change, load_head
from valuetracker.store.rows import CharacterRow, DataRow, Head, InstanceRow
from valuetracker.store.tags import Tag


class Snapshot:
    """
    The transaction of reading verbs.

    A verb says what its answer depends on with `depends_on`, so that the answer can be
    kept in memory until a commit touches that; one that says nothing depends on
    everything. It says in `etag` at which revision what it read last changed; one that
    says nothing has changed with the head.
    """

    __slots__ = ("_transaction", "etag", "head", "tags")

    def __init__(self, transaction: Transaction, head: Head) -> None:
        self._transaction = transaction
        self.head = head
        self.tags: set[Tag] = set()
        self.etag: int | None = head.revision

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

    async def find_character(self, character_id: str) -> CharacterRow | None:
        row = await self._transaction.fetch_one(sql.SELECT_CHARACTER, id=character_id)
        if row is None:
            await self._confirm_absence(sql.SCAN_FOR_CHARACTER, character_id)
            return None
        return CharacterRow(*row).verify()

    async def find_instance(self, instance_id: str) -> InstanceRow | None:
        row = await self._transaction.fetch_one(sql.SELECT_INSTANCE, id=instance_id)
        if row is None:
            await self._confirm_absence(sql.SCAN_FOR_INSTANCE, instance_id)
            return None
        return InstanceRow(*row).verify()

    async def _confirm_absence(self, scan: Statement, id: str) -> None:
        # An index that has lost a row makes it vanish without a trace; the table has it.
        row = await self._transaction.fetch_one(scan, id=id)
        if row is None or row[0]:
            raise DatabaseDamaged()

    async def find_value(self, instance_id: str, key: str) -> DataRow | None:
        row = await self._transaction.fetch_one(sql.SELECT_VALUE, instance_id=instance_id, key=key)
        if row is not None:
            return DataRow(*row).verify()
        # Nothing there, or an index that has lost it: the instance's digest tells.
        instance = await self.find_instance(instance_id)
        if instance is not None:
            await self.list_values(instance)
        return None

    async def list_values(self, instance: InstanceRow) -> list[DataRow]:
        rows = [
            DataRow(*row).verify()
            for row in await self.fetch_all(sql.SELECT_VALUES, instance_id=instance.id)
        ]
        instance.verify_values(rows)
        return rows

    async def last_change(self, space: str, owner: str, key: str = "") -> int:
        """The revision that last changed a row, also one that is gone; 0 for none."""
        return await last_change(self._transaction, self.head, space, owner, key)
