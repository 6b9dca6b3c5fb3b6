"""Pages of lists: some rows after another one, in the order in which they were created."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Page:
    """So many rows at the most, after the one that has this ordinal."""

    limit: int
    # An ordinal is never given out again, so a page begins at the same place whatever was
    # created or deleted since the page before it.
    after: int = 0
