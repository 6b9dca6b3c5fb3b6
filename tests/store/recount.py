"""Counts again, from the tables of a file, everything a ledger keeps a running account of."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from valuetracker.store import rows

CHARACTER = "place, id, name, created_at, updated_at, revision, checksum"
INSTANCE = (
    "place, id, character_id, chat_id, name, created_at, updated_at, "
    "revision, keys, digest, checksum"
)
DATA = "place, instance_id, key, value, revision, checksum"
CHANGE = "change, revision, space, owner, key, op, after, checksum"

# What is there, as plain texts: characters, instances and values by id, each in its order.
State = dict[str, Any]


def recount(path: Path, from_revision: int = 1) -> State:
    """The state of a file, once all its accounts are found to be true."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("BEGIN")
        return _recount(connection, from_revision)


def _recount(connection: sqlite3.Connection, from_revision: int) -> State:
    def fetch(columns: str, table: str, order: str = "place") -> list[tuple[Any, ...]]:
        return connection.execute(f"SELECT {columns} FROM {table} ORDER BY {order}").fetchall()

    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    (head,) = fetch("revision, place, change, characters, instances, keys, checksum", "head", "1")
    end = rows.Head(*head).verify()
    characters = [rows.CharacterRow(*row).verify() for row in fetch(CHARACTER, "characters")]
    instances = [rows.InstanceRow(*row).verify() for row in fetch(INSTANCE, "instances")]
    data = [rows.DataRow(*row).verify() for row in fetch(DATA, "data")]
    assert (end.characters, end.instances, end.keys) == (
        len(characters),
        len(instances),
        len(data),
    )
    places = [
        *(row.place for row in characters),
        *(row.place for row in instances),
        *(row.place for row in data),
    ]
    assert len(set(places)) == len(places)
    assert max(places, default=0) <= end.place
    owners = {row.id for row in characters}
    for instance in instances:
        assert instance.character_id in owners
        instance.verify_values([row for row in data if row.instance_id == instance.id])
    assert {row.instance_id for row in data} <= {row.id for row in instances}
    state: State = {
        "characters": {row.id: row.name for row in characters},
        "instances": {row.id: [row.character_id, row.chat_id, row.name] for row in instances},
        "data": {
            instance.id: {row.key: row.value for row in data if row.instance_id == instance.id}
            for instance in instances
        },
    }
    _check_log(connection, end, state, from_revision)
    _check_revisions_of_rows(connection, instances, data)
    return state


def _check_log(
    connection: sqlite3.Connection, head: rows.Head, state: State, from_revision: int
) -> None:
    """That the log is whole and that replaying it gives the state."""
    changes = [
        rows.ChangeRow(*row)
        for row in connection.execute(f"SELECT {CHANGE} FROM changes ORDER BY change")
    ]
    assert [row.change for row in changes] == list(range(1, head.change + 1))
    for row in changes:
        sealed = replace(row)
        sealed.seal()
        assert sealed.checksum == row.checksum
    revisions = connection.execute(
        "SELECT revision, at, first, changes, checksum FROM revisions ORDER BY revision"
    ).fetchall()
    assert [row[0] for row in revisions] == list(range(from_revision, head.revision + 1))
    for number, at, first, length, checksum in revisions:
        sealed_revision = rows.RevisionRow(number, at, first, length)
        sealed_revision.seal()
        assert sealed_revision.checksum == checksum
        assert {row.revision for row in changes[first - 1 : first - 1 + length]} == {number}
    assert sum(row[3] for row in revisions) == head.change
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
            state["data"].setdefault(row.owner, {})
            state["instances"][row.owner] = [after["characterId"], after["chatId"], after["name"]]
    return {**state, "data": {id: state["data"][id] for id in state["instances"]}}


def _check_revisions_of_rows(
    connection: sqlite3.Connection, instances: list[rows.InstanceRow], data: list[rows.DataRow]
) -> None:
    latest: dict[tuple[str, str, str], int] = {}
    touched: dict[str, int] = {}
    for space, owner, key, revision in connection.execute(
        "SELECT space, owner, key, max(revision) FROM changes GROUP BY space, owner, key"
    ):
        latest[space, owner, key] = revision
        if space in ("data", "instance"):
            touched[owner] = max(touched.get(owner, 0), revision)
    for row in data:
        assert row.revision == latest["data", row.instance_id, row.key]
    for instance in instances:
        assert instance.revision == touched[instance.id]


def order_of(state: State) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """The order of everything that has one."""
    return (
        list(state["characters"]),
        list(state["instances"]),
        {id: list(values) for id, values in state["data"].items()},
    )
