"""
The rows of one table that a writer has seen, as they are now, and what must be written.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from valuetracker.store.rows import CharacterRow, DataRow, InstanceRow

AnyRow = TypeVar("AnyRow", CharacterRow, InstanceRow, DataRow)


class Pending(Generic[AnyRow]):
    """What must be written, sorted by how."""

    def __init__(self) -> None:
        self.deleted: list[AnyRow] = []
        self.inserted: list[AnyRow] = []
        self.updated: list[AnyRow] = []


class Table(Generic[AnyRow]):
    """The rows of one table, by id: the row, or None where there is known to be none."""

    __slots__ = ("_stored", "_touched", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, AnyRow | None] = {}
        # The rows that the database holds, as they were when last read or written.
        self._stored: dict[str, AnyRow] = {}
        # A dictionary for its order: rows are written as they came.
        self._touched: dict[str, None] = {}

    def loaded(self, id: str, row: AnyRow | None) -> None:
        self.rows[id] = row
        if row is not None:
            self._stored[id] = row

    def put(self, id: str, row: AnyRow | None) -> None:
        self.rows[id] = row
        self._touched[id] = None

    def is_touched(self, id: str) -> bool:
        return id in self._touched

    def drain(self, pending: Pending[AnyRow]) -> None:
        """Sort what was touched by how it must be written, and take it as written."""
        for id in self._touched:
            row = self.rows[id]
            stored = self._stored.pop(id, None)
            if row is not None:
                self._stored[id] = row
                (pending.inserted if stored is None else pending.updated).append(row)
            elif stored is not None:
                pending.deleted.append(stored)
        self._touched.clear()
