"""
The rows a group of verbs has seen, as they are now, and what of them must be written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from valuetracker.store.rows import CharacterRow, DataRow, InstanceRow


@dataclass(slots=True)
class Place:
    """A stored row that is to be deleted: its place is all that is needed."""

    place: int


Row = TypeVar("Row", CharacterRow, InstanceRow, DataRow)


class Table(Generic[Row]):
    """The rows of one table, by id: the row, or None where there is known to be none."""

    __slots__ = ("_stored_at", "rows", "touched")

    def __init__(self) -> None:
        self.rows: dict[str, Row | None] = {}
        self._stored_at: dict[str, int] = {}
        # A dictionary for its order: rows are written as they came.
        self.touched: dict[str, None] = {}

    def loaded(self, id: str, row: Row | None) -> None:
        self.rows[id] = row
        if row is not None:
            self._stored_at[id] = row.place

    def put(self, id: str, row: Row | None) -> None:
        self.rows[id] = row
        self.touched[id] = None

    def drain(self, deleted: list[Place], inserted: list[Row], updated: list[Row]) -> None:
        """Sort what must be written by how; a row that came back elsewhere is both."""
        for id in self.touched:
            row = self.rows[id]
            place = self._stored_at.pop(id, None)
            if row is not None:
                self._stored_at[id] = row.place
                if place == row.place:
                    updated.append(row)
                    continue
                inserted.append(row)
            if place is not None:
                deleted.append(Place(place))
        self.touched.clear()
