"""
The base of all rows: columns, a checksum over them, and statements made from them.

A row class is a dataclass that names its table and lists its columns; the last column is
`checksum`. Fields after that one are not stored. SQLite does not notice a flipped bit; the
checksum, compared whenever a row is read, does. To add a column: add it to the migration of
each engine and to the row class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self
from zlib import crc32

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged

Columns = dict[str, str]


class Row:
    """A row that knows its table, its columns and its checksum."""

    __slots__ = ("checksum",)

    table: ClassVar[str]
    # The type of each column on PostgreSQL, in the order of the table.
    columns: ClassVar[Columns]
    checksum: int

    def __init_subclass__(cls, table: str | None = None) -> None:
        # With slots, dataclass makes the class a second time, without the keyword.
        if table is not None:
            cls.table = table
        annotations: dict[str, str] = inspect.get_annotations(cls)
        names = list(annotations)
        stored = names[: names.index("checksum") + 1]
        cls.columns = {
            name: "text" if annotations[name].startswith("str") else "bigint" for name in stored
        }
        if "_sum" not in cls.__dict__:
            made = _sum_of({name: annotations[name] for name in stored[:-1]})
            cls._sum = made  # type: ignore[assignment, method-assign]

    def _sum(self) -> int:
        """Return the checksum over all columns; made for each class from its columns."""
        raise AssertionError("__init_subclass__ makes this for each class")

    def seal(self) -> None:
        """Set the checksum to that of the columns."""
        self.checksum = self._sum()

    def verify(self) -> Self:
        """Return the row, or raise if its checksum is another."""
        if self.checksum != self._sum():
            raise DatabaseDamaged()
        return self

    def verify_as(self, **names: object) -> Self:
        """Verify the row, and that it is the one asked for: a damaged index finds others."""
        for name, value in names.items():
            if getattr(self, name) != value:
                raise DatabaseDamaged()
        return self.verify()


def _sum_of(annotations: dict[str, str]) -> Callable[[Any], int]:
    # Made once per class, as dataclass makes __init__: every write seals some rows, and a
    # written-out f-string costs half of what a loop over the columns does. No text holds a
    # NUL, so it keeps the columns apart; repr tells the text "None" from no text.
    columns = r"\0".join(
        f"{{self.{name}{'!r' if annotation == 'str | None' else ''}}}"
        for name, annotation in annotations.items()
    )
    scope: dict[str, Any] = {"crc32": crc32}
    exec(f"def _sum(self):\n    return crc32(f'''{columns}'''.encode())", scope)
    made: Callable[[Any], int] = scope["_sum"]
    return made


# Statements


def names(columns: Columns, table: str = "") -> str:
    """Return the columns as they stand in a SELECT."""
    return ", ".join(f"{table}.{name}" if table else name for name in columns)


def arrays(columns: Columns) -> str:
    """Return the columns as PostgreSQL takes many rows at once: an array per column."""
    return ", ".join(f":{name}::{kind}[]" for name, kind in columns.items())


def select(row: type[Row], condition: str, postgres: str | None = None) -> Statement:
    """Select rows; the condition goes on after FROM."""
    text = f"SELECT {names(row.columns)} FROM {{schema}}.{row.table}"
    return Statement(f"{text} {condition}", f"{text} {postgres}" if postgres else None)


def select_numbered(row: type[Row], key: str = "number") -> Statement:
    """Select rows by their numbers, a JSON array."""
    return select(
        row,
        f"WHERE {key} IN (SELECT value FROM json_each(:numbers))",
        postgres=f"WHERE {key} IN (SELECT CAST(value AS bigint)"
        " FROM json_array_elements_text(CAST(:numbers AS json)) AS value)",
    )


def select_page(row: type[Row], *conditions: str) -> Statement:
    """Select the rows of a page of those that meet these conditions."""
    met = " AND ".join((*conditions, "ordinal > :after"))
    return select(row, f"WHERE {met} ORDER BY ordinal LIMIT :count")


def insert(row: type[Row], otherwise: str = "", table: str | None = None) -> Statement:
    """Insert rows, many at once; `otherwise` is the clause for those that are there already."""
    into = f"INSERT INTO {{schema}}.{table or row.table} ({names(row.columns)})"
    values = ", ".join(f":{name}" for name in row.columns)
    return Statement(
        f"{into} VALUES ({values}) {otherwise}",
        postgres=f"{into} SELECT * FROM unnest({arrays(row.columns)}) {otherwise}",
    )


def update(
    row: type[Row], key: str, *changed: str, besides: tuple[str, ...] = (), table: str | None = None
) -> Statement:
    """
    Update many rows by their key: these columns, or all but the key and those `besides`.

    A key of several columns is written with commas.
    """
    keys = key.split(", ")
    chosen = changed or tuple(name for name in row.columns if name not in (*keys, *besides))
    new = {name: row.columns[name] for name in (*chosen, *keys)}
    name = table or row.table
    return Statement(
        f"UPDATE {{schema}}.{name} SET {', '.join(f'{each} = :{each}' for each in chosen)}"
        f" WHERE {' AND '.join(f'{each} = :{each}' for each in keys)}",
        postgres=f"UPDATE {{schema}}.{name} SET"
        f" {', '.join(f'{each} = new.{each}' for each in chosen)}"
        f" FROM unnest({arrays(new)}) AS new ({names(new)})"
        f" WHERE {' AND '.join(f'{name}.{each} = new.{each}' for each in keys)}",
    )
