"""
The numbers of entries: the revision, shifted, plus the position within the revision.

So the entries of a revision are found without an index, and a number says its revision.
"""

from __future__ import annotations

from dataclasses import dataclass

REVISION_BITS = 24
POSITION_MASK = (1 << REVISION_BITS) - 1


def first_of(revision: int) -> int:
    """Return the number of a revision's first entry."""
    return revision << REVISION_BITS


def last_of(revision: int) -> int:
    """Return the highest number an entry of the revision can have."""
    return ((revision + 1) << REVISION_BITS) - 1


def revision_of(entry: int) -> int:
    """Return the revision of an entry by its number."""
    return entry >> REVISION_BITS


@dataclass(slots=True, frozen=True)
class Moment:
    """A revision, and the highest number an entry up to it can have."""

    revision: int

    @property
    def entry(self) -> int:
        return last_of(self.revision)
