"""
The files of the original SillyTavern plugin: what they hold, and what it means.

They have the tables `characters`, `instances` and `data` with a `value` text that the plugin
read back as JSON where that parses and as a string where it does not. Rows whose instance is
missing get one, under the character `_orphaned`, so nothing is lost; an empty id or key becomes
`_empty`.

A file may hold anything in any order, and more than fits in memory. So it is read twice. First it
is found out, in temporary tables, which characters and instances there will be, and which rows
belong to each. Then they are read in the order of their creation, one instance at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from valuetracker.engine import Original, Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import BadRequest
from valuetracker.records import moment
from valuetracker.values import canonical, parse

ORPHANED = "_orphaned"
# Replaces an empty id or key.
NAMELESS = "_empty"
# How many rows are found at once, and of how many instances the number is kept.
CHUNK_ROWS = 10_000
KEPT_NUMBERS = 10_000

# The columns that tell its files from ours, which have tables of the same names.
TABLES = {
    "characters": {"id", "name"},
    "instances": {"id", "character_id", "name"},
    "data": {"instance_id", "key", "value"},
}

SELECT_COLUMNS = Statement(
    """
    SELECT tables.name, columns.name
    FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns
    WHERE tables.type = 'table'
    """
)


async def recognise(transaction: Transaction) -> bool:
    """Return True if a file was made by the original plugin."""
    columns = await _columns(transaction)
    return all(needed <= columns.get(table, set()) for table, needed in TABLES.items())


async def _columns(transaction: Transaction) -> dict[str, set[str]]:
    columns: dict[str, set[str]] = {}
    for table, column in await transaction.fetch_all(SELECT_COLUMNS):
        columns.setdefault(_text(table), set()).add(_text(column))
    return columns


# A table WITHOUT ROWID has nothing else that says where a row is, so a copy is read: an
# unqualified name means the temporary table.
SELECT_WITHOUT_ROWID = Statement(
    "SELECT name FROM pragma_table_list WHERE schema = 'main' AND wr ORDER BY name"
)
COPY_TABLE = {
    table: Statement(f"CREATE TEMP TABLE {table} AS SELECT * FROM main.{table}") for table in TABLES
}
CREATE_FOUND = (
    Statement(
        """
        CREATE TEMP TABLE found_characters (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, name TEXT,
            created_at TEXT NOT NULL, updated_at TEXT NOT NULL
        )
        """
    ),
    Statement(
        """
        CREATE TEMP TABLE found_instances (
            number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, character_id TEXT NOT NULL,
            name TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL
        )
        """
    ),
    # Which rows of `data` belong to an instance, by its number.
    Statement(
        """
        CREATE TEMP TABLE found_rows (
            instance INTEGER NOT NULL, row INTEGER NOT NULL, PRIMARY KEY (instance, row)
        ) WITHOUT ROWID
        """
    ),
)
# Several ids may become one: the last row counts, at the place of the first.
PUT_CHARACTER = Statement(
    """
    INSERT INTO found_characters (id, name, created_at, updated_at)
    VALUES (:id, :name, :created_at, :updated_at)
    ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, created_at = excluded.created_at, updated_at = excluded.updated_at
    """
)
ADD_MISSING_CHARACTER = Statement(
    """
    INSERT INTO found_characters (id, created_at, updated_at)
    VALUES (:id, :created_at, :updated_at) ON CONFLICT (id) DO NOTHING
    """
)
PUT_INSTANCE = Statement(
    """
    INSERT INTO found_instances (id, character_id, name, created_at, updated_at)
    VALUES (:id, :character_id, :name, :created_at, :updated_at)
    ON CONFLICT (id) DO UPDATE SET
        character_id = excluded.character_id, name = excluded.name,
        created_at = excluded.created_at, updated_at = excluded.updated_at
    """
)
# An index of the original may have lost a row.
SELECT_OWNERS = Statement("SELECT _rowid_, instance_id FROM data NOT INDEXED ORDER BY _rowid_")
SELECT_NUMBER = Statement("SELECT number FROM found_instances WHERE id = :id")
INSERT_FOUND = Statement("INSERT INTO found_rows VALUES (:instance, :row)")
COUNT_FOUND = Statement(
    """
    SELECT (SELECT count(*) FROM found_characters), (SELECT count(*) FROM found_instances)
    """
)
SELECT_CHARACTERS = Statement(
    "SELECT id, name, created_at, updated_at FROM found_characters ORDER BY number"
)
SELECT_INSTANCES = Statement(
    """
    SELECT instances.number, characters.number, instances.id, character_id, instances.name,
        instances.created_at, instances.updated_at
    FROM found_instances AS instances
    CROSS JOIN found_characters AS characters ON characters.id = character_id
    ORDER BY instances.number
    """
)
SELECT_VALUES = Statement(
    """
    SELECT instance, key, value
    FROM found_rows CROSS JOIN data ON data._rowid_ = found_rows.row
    ORDER BY instance, row
    """
)


class FoundCharacter(NamedTuple):
    """A character that there will be."""

    id: str
    name: str | None
    created_at: str
    updated_at: str


class FoundInstance(NamedTuple):
    """An instance that there will be; `character` is the number of its character."""

    character: int
    id: str
    character_id: str
    name: str | None
    created_at: str
    updated_at: str


class OriginalFile:
    """The characters, instances and values of a file; `at` is the time of what has none."""

    def __init__(self, original: Original, at: str, report: Callable[..., None]) -> None:
        self._original = original
        self._at = at
        self._report = report

    async def find(self) -> None:
        """Find out what there is, in temporary tables."""
        for statement in CREATE_FOUND:
            await self._original.execute(statement)
        for (table,) in await self._original.fetch_all(SELECT_WITHOUT_ROWID):
            if _text(table) in COPY_TABLE:
                await self._original.execute(COPY_TABLE[_text(table)])
        columns = await _columns(self._original)
        await self._find_characters(columns["characters"])
        await self._find_instances(columns["instances"])
        await self._find_rows()

    async def _find_characters(self, columns: set[str]) -> None:
        statement = _select("characters", ("id", "name"), columns)
        for chunk in _chunks(self._original.stream(statement)):
            rows = [
                (_name(id), _optional(name), *self._times(*times)) for id, name, *times in chunk
            ]
            await self._original.execute_tuples(PUT_CHARACTER, rows)

    async def _find_instances(self, columns: set[str]) -> None:
        statement = _select("instances", ("id", "character_id", "name"), columns)
        for chunk in _chunks(self._original.stream(statement)):
            rows = [
                (_name(id), _name(owner), _optional(name), *self._times(*times))
                for id, owner, name, *times in chunk
            ]
            owners = [(owner, *times) for _, owner, _, *times in rows]
            await self._original.execute_tuples(ADD_MISSING_CHARACTER, owners)
            await self._original.execute_tuples(PUT_INSTANCE, rows)

    def _times(self, created_at: Any, updated_at: Any) -> tuple[str, str]:
        created = _time(created_at, self._at)
        return created, _time(updated_at, created)

    async def _find_rows(self) -> None:
        numbers: dict[str, int] = {}
        count = 0
        for chunk in _chunks(self._original.stream(SELECT_OWNERS)):
            if len(numbers) > KEPT_NUMBERS:
                numbers.clear()
            found: list[tuple[int, int]] = []
            for row, instance_id in chunk:
                id = _name(instance_id)
                if id not in numbers:
                    numbers[id] = await self._number(id)
                found.append((numbers[id], row))
            await self._original.execute_tuples(INSERT_FOUND, found)
            count += len(found)
            self._report(found=count)

    async def _number(self, id: str) -> int:
        """Return the number of an instance; add one that is missing."""
        row = await self._original.fetch_one(SELECT_NUMBER, id=id)
        if row is None:
            at = self._at
            await self._original.execute_tuples(ADD_MISSING_CHARACTER, [(ORPHANED, at, at)])
            await self._original.execute_tuples(PUT_INSTANCE, [(id, ORPHANED, None, at, at)])
            row = await self._original.fetch_one(SELECT_NUMBER, id=id)
        assert row is not None
        number: int = row[0]
        return number

    # Reading what was found

    async def count(self) -> tuple[int, int]:
        """Return how many characters and instances there will be."""
        row = await self._original.fetch_one(COUNT_FOUND)
        assert row is not None
        characters, instances = row
        return characters, instances

    def characters(self) -> Iterator[FoundCharacter]:
        for columns in self._original.stream(SELECT_CHARACTERS):
            yield FoundCharacter(*map(_optional, columns))  # type: ignore[arg-type]

    def instances(self) -> Iterator[tuple[FoundInstance, dict[str, str]]]:
        """Return each instance with its values by key, as canonical JSON."""
        groups = groupby(self._original.stream(SELECT_VALUES), itemgetter(0))
        group = next(groups, None)
        for number, character, *columns in self._original.stream(SELECT_INSTANCES):
            rows: list[Row] = []
            if group is not None and group[0] == number:
                rows = list(group[1])
                group = next(groups, None)
            yield FoundInstance(character, *map(_optional, columns)), _values(rows)  # type: ignore[arg-type]


def _select(table: str, needed: Sequence[str], columns: set[str]) -> Statement:
    """Select columns, and those of times if there are any, in the order of the rows."""
    # Versions of the plugin differ in other columns.
    times = [name if name in columns else "NULL" for name in ("created_at", "updated_at")]
    return Statement(f"SELECT {', '.join((*needed, *times))} FROM {table} ORDER BY _rowid_")


def _chunks(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, CHUNK_ROWS)):
        yield chunk


def _values(rows: list[Row]) -> dict[str, str]:
    """Return the values of an instance by key; of several rows with one key the last counts."""
    values: dict[str, str] = {}
    taken = {_name(key) for _, key, _ in rows if _text(key)}
    for _, key, value in rows:
        name = _name(key)
        while not _text(key) and name in taken:
            name += "_"
        taken.add(name)
        values[name] = _value(value)
    return values


# The meaning of the original's columns


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)


def _name(value: Any) -> str:
    # SQLite's own functions end a text at NUL, so no name may hold one. An empty name could
    # not be asked for.
    return _text(value).replace("\0", "\ufffd") or NAMELESS


def _optional(value: Any) -> str | None:
    return None if value is None else _text(value)


def _time(value: Any, otherwise: str) -> str:
    # SQLite's CURRENT_TIMESTAMP is UTC without saying so.
    try:
        time = datetime.fromisoformat(_text(value))
        return moment(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return otherwise


def _value(value: Any) -> str:
    """Return the value the original would have returned, as canonical JSON."""
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return orjson.dumps(value).decode()
    text = _text(value)
    try:
        # A stored value is kept however large it is.
        return canonical(parse(text.encode()), largest=len(text) * 8)
    except BadRequest:
        # Not JSON, so a string; or JSON that could not be given back exactly, which stays
        # the string it was rather than become something else.
        return orjson.dumps(text).decode()
