"""Pages of lists: some rows after another one, in the order in which they were created."""

from __future__ import annotations

from dataclasses import dataclass

from valuetracker.engine.statement import Statement
from valuetracker.store.rows.row import Row, select


@dataclass(slots=True, frozen=True)
class Page:
    """So many rows at the most, after the one that has this ordinal."""

    limit: int
    # An ordinal is never given out again, so a page begins at the same place whatever was
    # created or deleted since the page before it.
    after: int = 0


def select_page(row: type[Row], *conditions: str) -> Statement:
    """Select the rows of a page of those that meet these conditions."""
    met = " AND ".join((*conditions, "ordinal > :after"))
    return select(row, f"WHERE {met} ORDER BY ordinal LIMIT :count")
