"""The rows of one table that a transaction has read, and those of them that must be written."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from valuetracker.store.rows.row import Row

AnyRow = TypeVar("AnyRow", bound=Row)
Id = TypeVar("Id", bound=Hashable)


class Pending(Generic[AnyRow]):
    """Rows that must be written, sorted by how."""

    __slots__ = ("inserted", "updated")

    def __init__(self) -> None:
        self.inserted: list[AnyRow] = []
        self.updated: list[AnyRow] = []


class CachedTable(Generic[Id, AnyRow]):
    """Rows by id: the row, or None where there is known to be none."""

    __slots__ = ("_stored", "rows", "touched")

    def __init__(self) -> None:
        self.rows: dict[Id, AnyRow | None] = {}
        # Those that the database holds; no row is ever deleted from the cached tables.
        self._stored: set[Id] = set()
        # Those that must be written, in the order they were put.
        self.touched: dict[Id, None] = {}

    def loaded(self, id: Id, row: AnyRow | None) -> None:
        """Keep a row as the database has it."""
        self.rows[id] = row
        if row is not None:
            self._stored.add(id)

    def put(self, id: Id, row: AnyRow) -> None:
        """Keep a row that must be written."""
        self.rows[id] = row
        self.touched[id] = None

    def touch(self, ids: Iterable[Id]) -> None:
        """Have rows written that were replaced in `rows`."""
        self.touched.update(dict.fromkeys(ids))

    def is_touched(self, id: Id) -> bool:
        return id in self.touched

    @property
    def pending(self) -> int:
        """Return how many rows the database does not hold yet."""
        return len(self.touched.keys() - self._stored)

    def drain(self, pending: Pending[AnyRow]) -> None:
        """Sort the touched rows by how they must be written, and take them as written."""
        stored = self._stored
        for id in self.touched:
            row = self.rows[id]
            assert row is not None, "no row is deleted"
            if id in stored:
                pending.updated.append(row)
            else:
                stored.add(id)
                pending.inserted.append(row)
        self.touched.clear()
