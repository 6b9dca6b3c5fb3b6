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
from valuetracker.store import statements as sql
from valuetracker.store.rows import CellRow, CharacterRow, DataRow, Head, InstanceRow
from valuetracker.store.tables import Pending, Table

# About how many bytes of rows are kept, and what a row costs beyond its value.
KEPT_BYTES = 4 * 1024 * 1024
ROW_BYTES = 500


class WorkingSet:
    """Rows by name, loaded when first asked for."""

    def __init__(self) -> None:
        self._transaction: Transaction | None = None
        self._forget()

    def _forget(self) -> None:
        self.head: Head | None = None
        self.characters: Table[CharacterRow] = Table()
        self.instances: Table[InstanceRow] = Table()
        self.values: dict[str, Table[DataRow]] = {}
        self._touched_values: dict[str, Table[DataRow]] = {}
        # Instances all of whose values are loaded.
        self._complete: set[str] = set()
        # Instances of which more changed than their values.
        self.restructured: set[str] = set()
        self._cells: dict[tuple[str, str, str], int] = {}
        # Names that are known to have none.
        self._cell_less: set[tuple[str, str, str]] = set()
        self._new_cells: list[CellRow] = []
        self._weight = 0

    async def begin(self, transaction: Transaction) -> Head:
        """Take the lock on the head, and see whether what is known still holds."""
        self._transaction = transaction
        row = await transaction.fetch_one(sql.LOCK_HEAD)
        if row is None:
            raise DatabaseDamaged()
        head = Head(*row).verify()
        if self.head != head or self._weight > KEPT_BYTES:
            self._forget()
        self.head = head
        return head

    @property
    def transaction(self) -> Transaction:
        assert self._transaction is not None, "not begun"
        return self._transaction

    # Loading

    async def find_character(self, character_id: str) -> CharacterRow | None:
        rows = self.characters.rows
        if character_id not in rows:
            row = await self.transaction.fetch_one(sql.SELECT_CHARACTER, id=character_id)
            self.characters.loaded(character_id, CharacterRow(*row).verify() if row else None)
            self._weight += ROW_BYTES
        return rows[character_id]

    async def find_instance(self, instance_id: str) -> InstanceRow | None:
        rows = self.instances.rows
        if instance_id not in rows:
            row = await self.transaction.fetch_one(sql.SELECT_INSTANCE, id=instance_id)
            self.instances.loaded(instance_id, InstanceRow(*row).verify() if row else None)
            self._weight += ROW_BYTES
        return rows[instance_id]

    async def list_instances_of(self, character_id: str) -> list[InstanceRow]:
        for row in await self.transaction.fetch_all(
            sql.SELECT_INSTANCES_OF_CHARACTER, character_id=character_id
        ):
            stored = InstanceRow(*row).verify()
            if stored.id not in self.instances.rows:
                self.instances.loaded(stored.id, stored)
                self._weight += ROW_BYTES
        return sorted(
            (
                row
                for row in self.instances.rows.values()
                if row is not None and row.character_id == character_id
            ),
            key=lambda row: row.place,
        )

    async def load_instances(self, ids: Iterable[str]) -> None:
        """Several at once."""
        missing = [id for id in ids if id not in self.instances.rows]
        if not missing:
            return
        for id in missing:
            self.instances.loaded(id, None)
        for row in await self.transaction.fetch_all(
            sql.SELECT_INSTANCES_BY_ID, ids=orjson.dumps(missing).decode()
        ):
            instance = InstanceRow(*row).verify()
            self.instances.loaded(instance.id, instance)
        self._weight += ROW_BYTES * len(missing)

    async def load_values(self, pairs: Iterable[tuple[str, str]]) -> None:
        """The values of these instances and keys, all at once."""
        missing = [pair for pair in pairs if not self._is_known(*pair)]
        if not missing:
            return
        if len(missing) == 1:
            instance_id, key = missing[0]
            rows = await self.transaction.fetch_all(
                sql.SELECT_VALUE, instance_id=instance_id, key=key
            )
        else:
            rows = await self.transaction.fetch_all(
                sql.SELECT_VALUES_BY_PAIR, pairs=orjson.dumps(missing).decode()
            )
        for instance_id, key in missing:
            self.table(instance_id).rows[key] = None
        for row in rows:
            self._keep(DataRow(*row).verify())
        self._weight += ROW_BYTES * len(missing)

    def _is_known(self, instance_id: str, key: str) -> bool:
        table = self.values.get(instance_id)
        if table is None:
            return False
        if key in table.rows:
            return True
        if instance_id in self._complete:
            table.rows[key] = None
            return True
        return False

    def table(self, instance_id: str) -> Table[DataRow]:
        table = self.values.get(instance_id)
        if table is None:
            table = self.values[instance_id] = Table()
        return table

    def _keep(self, row: DataRow) -> None:
        self.table(row.instance_id).loaded(row.key, row)
        self._weight += len(row.value)

    def values_touched(self, instance_id: str, weight: int = 0) -> None:
        """Values of this instance have been put into its table."""
        self._touched_values[instance_id] = self.values[instance_id]
        self._weight += weight

    async def list_values(self, instance_id: str) -> list[DataRow]:
        """All values of an instance, in the order in which their keys came into being."""
        table = self.table(instance_id)
        if instance_id not in self._complete:
            for row in await self.transaction.fetch_all(sql.SELECT_VALUES, instance_id=instance_id):
                value = DataRow(*row).verify()
                if value.key not in table.rows:
                    self._keep(value)
                    self._weight += ROW_BYTES
            self._complete.add(instance_id)
        rows = sorted(
            (row for row in table.rows.values() if row is not None), key=lambda row: row.place
        )
        instance = await self.find_instance(instance_id)
        if instance is not None:
            instance.verify_values(rows)
        return rows

    # Cells

    def cell(self, space: str, owner: str, key: str) -> int:
        """The cell of a name; `load_cells` must have been asked for it."""
        return self._cells[space, owner, key]

    async def find_cells(self, names: Iterable[tuple[str, str, str]]) -> None:
        """Find the cells of these names, all at once, as far as they have any."""
        unknown = [
            name for name in names if name not in self._cells and name not in self._cell_less
        ]
        if not unknown:
            return
        for space, owner, key, cell in await self.transaction.fetch_all(
            sql.SELECT_CELLS, names=orjson.dumps(unknown).decode()
        ):
            self._cells[space, owner, key] = cell
        self._cell_less.update(name for name in unknown if name not in self._cells)
        self._weight += ROW_BYTES * len(unknown)

    async def load_cells(self, names: Iterable[tuple[str, str, str]]) -> None:
        """Find the cells of these names, or make them."""
        wanted = list(names)
        await self.find_cells(wanted)
        assert self.head is not None
        for name in wanted:
            if name not in self._cells:
                self.head.cell += 1
                self._cells[name] = self.head.cell
                self._cell_less.discard(name)
                self._new_cells.append(CellRow(self.head.cell, *name))

    # Writing

    async def write(self) -> None:
        """Write every row that was touched, as it ended up."""
        assert self.head is not None
        values: Pending[DataRow] = Pending()
        for table in self._touched_values.values():
            table.drain(values)
        self._touched_values.clear()
        instances: Pending[InstanceRow] = Pending()
        self.instances.drain(instances)
        for row in (*instances.inserted, *instances.updated):
            row.seal()
        # Most updates only follow a change of values. Naming the indexed columns in those
        # would write the indexes again, too.
        restructured = [row for row in instances.updated if row.id in self.restructured]
        touched = [row for row in instances.updated if row.id not in self.restructured]
        characters: Pending[CharacterRow] = Pending()
        self.characters.drain(characters)
        self.head.seal()
        steps: tuple[tuple[Any, list[Any]], ...] = (
            (sql.INSERT_CELL, self._new_cells),
            (sql.DELETE_VALUE, values.deleted),
            (sql.UPDATE_VALUE, values.updated),
            (sql.INSERT_VALUE, values.inserted),
            (sql.DELETE_INSTANCE, instances.deleted),
            (sql.UPDATE_INSTANCE, restructured),
            (sql.TOUCH_INSTANCE, touched),
            (sql.INSERT_INSTANCE, instances.inserted),
            (sql.DELETE_CHARACTER, characters.deleted),
            (sql.UPDATE_CHARACTER, characters.updated),
            (sql.INSERT_CHARACTER, characters.inserted),
            (sql.UPDATE_HEAD, [self.head]),
        )
        for statement, rows in steps:
            if rows:
                await self.transaction.execute_many(statement, rows)
        self._new_cells = []
        self.restructured.clear()
