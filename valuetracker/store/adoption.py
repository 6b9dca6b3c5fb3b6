"""
Adopting the files of the original SillyTavern plugin.

Its files hold the tables `characters`, `instances` and `data` with a `value` text that it read
back as JSON where that parses and as a string where it does not. Everything reads the same
afterwards; it becomes revision 1, unanchored. Rows whose instance is missing get one, under
the character `_orphaned`, so nothing is lost; an empty id or key becomes `_empty`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import orjson

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import BadRequest
from valuetracker.records import moment
from valuetracker.store.rows.head import make_head
from valuetracker.store.tx.changes import Change, ChangeValue, PutCharacter, PutInstance
from valuetracker.store.tx.jobs import WriteJob
from valuetracker.store.tx.ledger import Ledger, ledgers
from valuetracker.values import canonical, parse

ORPHANED = "_orphaned"
# Replaces an empty id or key.
NAMELESS = "_empty"

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
    columns: dict[str, set[str]] = {}
    for table, column in await transaction.fetch_all(SELECT_COLUMNS):
        columns.setdefault(table, set()).add(column)
    return all(needed <= columns.get(table, set()) for table, needed in TABLES.items())


# Later versions of the plugin added columns: all are read, by name.
SELECT_CHARACTERS = Statement("SELECT * FROM adopted_characters ORDER BY rowid")
SELECT_INSTANCES = Statement("SELECT * FROM adopted_instances ORDER BY rowid")
SELECT_DATA = Statement(
    "SELECT instance_id, key, value, typeof(value) FROM adopted_data ORDER BY rowid"
)
SELECT_TABLE_COLUMNS = Statement("SELECT name FROM pragma_table_info(:table_name)")


async def adopt(ledger: Ledger, transaction: Transaction) -> None:
    """Copy the old rows, as one revision."""
    at = ledger.now
    characters: dict[str, PutCharacter] = {}
    instances: dict[str, PutInstance] = {}
    for row in await _rows(transaction, "adopted_characters", SELECT_CHARACTERS):
        created, updated = _times(row, at)
        id = _name(row["id"])
        characters[id] = PutCharacter(id, _optional(row["name"]), created, updated)
    for row in await _rows(transaction, "adopted_instances", SELECT_INSTANCES):
        created, updated = _times(row, at)
        id, owner = _name(row["id"]), _name(row["character_id"])
        characters.setdefault(owner, PutCharacter(owner, None, created, updated))
        instances[id] = PutInstance(id, owner, None, _optional(row["name"]), created, updated)
    values: list[tuple[str, str, str]] = []
    rows = await transaction.fetch_all(SELECT_DATA)
    taken = {(_name(instance_id), _text(key)) for instance_id, key, _, _ in rows}
    for instance_id, key, value, kind in rows:
        id = _name(instance_id)
        if id not in instances:
            characters.setdefault(ORPHANED, PutCharacter(ORPHANED, None, at, at))
            instances[id] = PutInstance(id, ORPHANED, None, None, at, at)
        name = _name(key)
        while not _text(key) and (id, name) in taken:
            name += "_"
        taken.add((id, name))
        values.append((id, name, _value(value, kind)))
    await ledger.apply([*characters.values(), *instances.values()])
    changes: list[Change] = []
    for id, key, text in values:
        holder = await ledger.find_instance(id)
        assert holder is not None
        changes.append(ChangeValue(holder, key, text, op="adopt"))
    await ledger.apply(changes)


def conversion(revision: int) -> Callable[[Transaction], Coroutine[Any, Any, None]]:
    """Return the job the engine runs in the transaction that adopts a file."""

    async def convert(transaction: Transaction) -> None:
        await make_head(transaction, revision)
        ledger = ledgers()(transaction)
        await ledger.perform(WriteJob(adopt, (transaction,)))
        await ledger.finish()

    return convert


async def _rows(transaction: Transaction, table: str, statement: Statement) -> list[dict[str, Any]]:
    names = [
        name for (name,) in await transaction.fetch_all(SELECT_TABLE_COLUMNS, table_name=table)
    ]
    return [dict(zip(names, row, strict=True)) for row in await transaction.fetch_all(statement)]


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


def _times(row: dict[str, Any], at: str) -> tuple[str, str]:
    created = _time(row.get("created_at"), at)
    return created, _time(row.get("updated_at"), created)


def _time(value: Any, otherwise: str) -> str:
    # SQLite's CURRENT_TIMESTAMP is UTC without saying so.
    try:
        time = datetime.fromisoformat(str(value))
        return moment(time if time.tzinfo else time.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        return otherwise


def _value(value: Any, kind: str) -> str:
    """Return the value the original would have returned, as canonical JSON."""
    if value is None:
        return "null"
    if kind in ("integer", "real"):
        return orjson.dumps(value).decode()
    text = _text(value)
    try:
        # A stored value is kept however large it is.
        return canonical(parse(text.encode()), largest=len(text) * 8)
    except BadRequest:
        # Not JSON, so a string; or JSON that could not be given back exactly, which stays
        # the string it was rather than become something else.
        return orjson.dumps(text).decode()
