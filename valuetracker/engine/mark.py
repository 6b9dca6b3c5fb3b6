"""
The mark of a database: the one row of its table `file`, which says which database this is.

The columns differ by engine; the last one is a checksum of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from valuetracker.errors import DatabaseDamaged


def seal(*columns: object) -> tuple[Any, ...]:
    """Return the columns of a mark with their checksum."""
    return (*columns, crc32("\0".join(map(str, columns)).encode()))


def verify(row: Sequence[Any] | None) -> tuple[Any, ...]:
    """Return a mark without its checksum; raise if there is none, or it is damaged."""
    if row is None or tuple(row) != seal(*row[:-1]):
        raise DatabaseDamaged("The row of the table `file` is missing or damaged.")
    return tuple(row[:-1])
