"""
SQL statements, written once with `:named` parameters for both engines.

Tables are written `{schema}.table`: the engine fills in the schema and nothing else.

The names are replaced by numbered parameters when the statement is made, so that running it
needs no dictionary: the attributes of a row object, or keyword arguments, become a tuple in the
order of the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from operator import attrgetter
from typing import Any

# About how many characters of rows are read at once, and how many rows at the most.
CHUNK_LENGTH = 1024 * 1024
CHUNK_ROWS = 1_000
# A name after a single colon; `::` is PostgreSQL's cast.
PARAMETER = re.compile(r"(?<!:):([a-z_]+)")


class Statement:
    """SQL with `:named` parameters, and a second text where PostgreSQL needs another one."""

    __slots__ = ("names", "of_row", "postgres", "sqlite")

    def __init__(self, sqlite: str, postgres: str | None = None) -> None:
        self.names = tuple(dict.fromkeys(PARAMETER.findall(sqlite)))
        # An SQLite database is a file of its own, and its only schema is called main.
        self.sqlite = self._numbered(sqlite, "?").replace("{schema}", "main")
        self.postgres = self._numbered(postgres or sqlite, "$")
        self.of_row: Callable[[Any], tuple[Any, ...]] = self._row_reader()

    def _numbered(self, text: str, mark: str) -> str:
        numbers = {name: number for number, name in enumerate(self.names, 1)}
        return PARAMETER.sub(lambda match: f"{mark}{numbers[match[1]]}", text).strip()

    def _row_reader(self) -> Callable[[Any], tuple[Any, ...]]:
        if len(self.names) > 1:
            return attrgetter(*self.names)
        # attrgetter of a single name returns the attribute itself, not a tuple of one.
        return lambda row: tuple(getattr(row, name) for name in self.names)

    def values(self, parameters: dict[str, Any]) -> tuple[Any, ...]:
        return tuple([parameters[name] for name in self.names])


def length_of(row: tuple[Any, ...]) -> int:
    """Return about how many characters a row has."""
    return sum(len(each) if isinstance(each, str) else 8 for each in row)
