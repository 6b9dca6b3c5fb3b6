"""Counts again, from the tables of a database, everything a ledger keeps an account of."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from valuetracker.store import rows

# What is there, as plain texts: characters, instances and values by id, each in its order.
State = dict[str, Any]
Rows = list[tuple[Any, ...]]

# Each table, as a statement that PostgreSQL understands as well; `{}` is the schema.
TABLES = {
    "head": """
        SELECT revision, oldest, change, cell, place, characters, instances, keys, checksum,
            (SELECT identity FROM {}.file)
        FROM {}.head""",
    "cells": "SELECT cell, space, owner, key FROM {}.cells ORDER BY cell",
    "characters": """
        SELECT cell, place, id, name, created_at, updated_at, instances, revision, checksum
        FROM {}.characters ORDER BY place""",
    "instances": """
        SELECT cell, place, id, character_id, chat_id, name, created_at, updated_at, revision,
            keys, digest, checksum
        FROM {}.instances ORDER BY place""",
    "data": """
        SELECT cell, place, instance_id, key, value, revision, checksum
        FROM {}.data ORDER BY place""",
    "revisions": """
        SELECT revision, at, actor, first, changes, checksum FROM {}.revisions
        ORDER BY revision""",
    "changes": """
        SELECT change, revision, changes.cell, op, operand, after, place, parent, chat_id,
            message_id, swipe, effect, live, checksum, space, owner, key
        FROM {}.changes JOIN {}.cells ON cells.cell = changes.cell ORDER BY change""",
}


def statements(schema: str) -> dict[str, str]:
    return {name: text.replace("{}", schema) for name, text in TABLES.items()}


@dataclass
class Contents:
    """The verified rows of all tables."""

    head: rows.Head
    cells: dict[int, tuple[str, str, str]]
    characters: list[rows.CharacterRow]
    instances: list[rows.InstanceRow]
    data: list[rows.DataRow]
    revisions: list[rows.RevisionRow]
    changes: list[rows.ChangeRow]


def recount(path: Path, from_revision: int = 1) -> State:
    """The state of a file, once all its accounts are found to be true."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        found = {
            name: connection.execute(text).fetchall() for name, text in statements("main").items()
        }
    return recount_tables(found, from_revision)


def recount_tables(found: dict[str, Rows], from_revision: int = 1) -> State:
    """The same of tables that were read already, each by its name."""
    (head,) = found["head"]
    contents = Contents(
        rows.Head(*head).verify(),
        {cell: (space, owner, key) for cell, space, owner, key in found["cells"]},
        [rows.CharacterRow(*row).verify() for row in found["characters"]],
        [rows.InstanceRow(*row).verify() for row in found["instances"]],
        [rows.DataRow(*row).verify() for row in found["data"]],
        [rows.RevisionRow(*row).verify() for row in found["revisions"]],
        [rows.ChangeRow(*row).verify() for row in found["changes"]],
    )
    _check_accounts(contents)
    state = _state_of(contents)
    _check_log(contents, state, from_revision)
    _check_revisions_of_rows(contents)
    return state


def _check_accounts(contents: Contents) -> None:
    """That the rows are as many as is said, each with a number and a place of its own."""
    head = contents.head
    characters, instances, data = contents.characters, contents.instances, contents.data
    assert (head.characters, head.instances, head.keys) == (
        len(characters),
        len(instances),
        len(data),
    )
    places = [row.place for table in (characters, instances, data) for row in table]
    assert len(set(places)) == len(places)
    assert max(places, default=0) <= head.place
    assert list(contents.cells) == list(range(1, head.cell + 1))
    assert len(set(contents.cells.values())) == len(contents.cells)
    named = contents.cells
    assert all(named[row.cell] == ("character", row.id, "") for row in characters)
    assert all(named[row.cell] == ("instance", row.id, "") for row in instances)
    assert all(named[row.cell] == ("data", row.instance_id, row.key) for row in data)
    owners = {row.id for row in characters}
    for character in characters:
        character.verify_instances(
            len([row for row in instances if row.character_id == character.id])
        )
    for instance in instances:
        assert instance.character_id in owners
        instance.verify_values([row for row in data if row.instance_id == instance.id])
    assert {row.instance_id for row in data} <= {row.id for row in instances}


def _state_of(contents: Contents) -> State:
    return {
        "characters": {row.id: row.name for row in contents.characters},
        "instances": {
            row.id: [row.character_id, row.chat_id, row.name] for row in contents.instances
        },
        "data": {
            instance.id: {
                row.key: row.value for row in contents.data if row.instance_id == instance.id
            }
            for instance in contents.instances
        },
    }


def _check_log(contents: Contents, state: State, from_revision: int) -> None:
    """That the log is whole and that replaying it gives the state."""
    head, changes, revisions = contents.head, contents.changes, contents.revisions
    assert [row.change for row in changes] == list(range(1, head.change + 1))
    assert [row.revision for row in revisions] == list(range(from_revision, head.revision + 1))
    for row in revisions:
        own = changes[row.first - 1 : row.first - 1 + row.changes]
        assert {change.revision for change in own} == {row.revision}
    assert sum(row.changes for row in revisions) == head.change
    replayed = _replayed(changes)
    assert replayed == state
    # Dictionaries are equal whatever their order, but the order is promised, too.
    assert order_of(replayed) == order_of(state)


def _replayed(changes: list[rows.ChangeRow]) -> State:
    state: State = {"characters": {}, "instances": {}, "data": {}}
    for row in changes:
        if row.space == "data":
            values = state["data"][row.owner]
            if row.after is None:
                del values[row.key]
            else:
                values[row.key] = row.after
        elif row.space == "character":
            if row.after is None:
                del state["characters"][row.owner]
            else:
                state["characters"][row.owner] = json.loads(row.after)["name"]
        elif row.after is None:
            assert state["data"].pop(row.owner) == {}
            del state["instances"][row.owner]
        else:
            after = json.loads(row.after)
            assert after["characterId"] == row.parent
            state["data"].setdefault(row.owner, {})
            state["instances"][row.owner] = [after["characterId"], after["chatId"], after["name"]]
    return {**state, "data": {id: state["data"][id] for id in state["instances"]}}


def _check_revisions_of_rows(contents: Contents) -> None:
    latest: dict[int, int] = {}
    touched: dict[str, int] = {}
    for change in contents.changes:
        latest[change.cell] = change.revision
        if change.space in ("data", "instance"):
            touched[change.owner] = change.revision
    for row in contents.data:
        assert row.revision == latest[row.cell]
    for instance in contents.instances:
        assert instance.revision == touched[instance.id]


def order_of(state: State) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """The order of everything that has one."""
    return (
        list(state["characters"]),
        list(state["instances"]),
        {id: list(values) for id, values in state["data"].items()},
    )
