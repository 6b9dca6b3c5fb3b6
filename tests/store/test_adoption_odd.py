"""Originals that hold what the plugin itself would not have written, or not in this version."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.integrity.recount import recount
from tests.support.original import SCHEMA, VALUES, add_rows, make_original, register

WANTED = {key: value for key, (_, value) in VALUES.items()}


def change(file: Path, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)
        connection.commit()


def adopted(server: RunningServer, client: httpx.Client) -> dict[str, Any]:
    """Register the file, check all that is in it, and return its values by instance."""
    answer = register(client)
    assert answer.status_code == 200, answer.text
    instances = [each["id"] for each in client.get("/instances").json()]
    values = {id: client.get(f"/instances/{id}/data").json() for id in instances}
    state = recount(server.data_dir / "demo.db")
    assert list(state["instances"]) == instances
    return values


@pytest.mark.parametrize(
    "moment",
    ["words", "", None, 1700000000000, "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"],
)
def test_an_invalid_time_does_not_stop_an_adoption(server: RunningServer, moment: Any) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE characters SET created_at = ?1, updated_at = ?1", (moment,))
        connection.commit()

    with server.client("demo") as client:
        answer = register(client)
        found = client.get("/characters/nameless").json()

    assert answer.status_code == 200, answer.text
    assert found["character"]["createdAt"].endswith("Z")


def test_values_that_are_not_stored_as_text_are_adopted(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) VALUES ('empty', ?, ?)",
            [("whole", 7), ("half", 0.5), ("bytes", b'{"a":1}')],
        )
        connection.commit()

    with server.client("demo") as client:
        register(client)

        assert client.get("/instances/empty/data").json() == {
            "whole": 7,
            "half": 0.5,
            "bytes": {"a": 1},
        }


def test_rows_without_an_id_or_key_get_one(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    add_rows(
        file, ("run", "", "1"), ("run", None, "2"), ("run", "_empty", "3"), (None, "lost", "4")
    )

    with server.client("demo") as client:
        assert register(client).status_code == 200
        found = client.get("/instances/run/data").json()
        lost = client.get("/instances/_empty/data")
        history = client.get("/instances/run/history")
        events = client.get("/changes?since=0")
        past = client.get("/instances/run?at=1")

    named = {key: value for key, value in found.items() if key.startswith("_empty")}
    assert named == {"_empty": 3, "_empty_": 1, "_empty__": 2}
    assert lost.json() == {"lost": 4}
    assert [each.status_code for each in (history, events, past)] == [200, 200, 200]


def test_an_invalid_text_does_not_lose_any_other_value(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    add_rows(file, ("run", "broken", b"\xffA"))

    with server.client("demo") as client:
        answer = register(client)
        found = client.get("/instances/run/data").json()

    assert answer.status_code == 200, answer.text
    assert (found["broken"], found["text"]) == ("\ufffdA", "words")


# Tables


@pytest.mark.parametrize("table", ["characters", "instances", "data"])
def test_a_table_without_rowids_is_adopted(server: RunningServer, table: str) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    declared = next(each for each in SCHEMA.split(";") if f"TABLE {table} (" in each)
    change(
        file,
        f"ALTER TABLE {table} RENAME TO old; {declared} WITHOUT ROWID;"
        f"INSERT INTO {table} SELECT * FROM old; DROP TABLE old",
    )

    with server.client("demo") as client:
        values = adopted(server, client)
        characters = client.get("/characters").json()

    assert values["run"] == WANTED
    assert values["ghost"] == {"k": 1, "l": 2}
    assert len(characters) == 4


def test_other_columns_tables_views_and_triggers_do_not_matter(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    change(
        file,
        """
        ALTER TABLE characters ADD COLUMN rowid TEXT DEFAULT 'same';
        ALTER TABLE instances ADD COLUMN length AS (length(id));
        ALTER TABLE data ADD COLUMN note TEXT;
        ALTER TABLE instances DROP COLUMN updated_at;
        CREATE TABLE notes (id TEXT PRIMARY KEY);
        CREATE VIEW broken AS SELECT * FROM nowhere;
        CREATE TRIGGER refuse BEFORE DELETE ON data BEGIN SELECT RAISE(ABORT, 'no'); END;
        """,
    )

    with server.client("demo") as client:
        values = adopted(server, client)
        run = client.get("/instances/run").json()["instance"]

    assert values["run"] == WANTED
    assert (run["createdAt"], run["updatedAt"]) == ("2024-01-02T03:04:05.000Z",) * 2


def test_a_file_in_another_encoding_is_adopted(server: RunningServer) -> None:
    made, file = server.data_dir / "made", server.data_dir / "demo.db"
    make_original(made)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.executescript(SCHEMA)
        for table in ("characters", "instances", "data"):
            with closing(sqlite3.connect(made)) as source:
                rows = source.execute(f"SELECT * FROM {table}").fetchall()
            marks = ", ".join("?" * len(rows[0]))
            connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        connection.commit()

    with server.client("demo") as client:
        assert adopted(server, client)["run"] == WANTED


def test_an_index_that_lost_rows_loses_no_value(server: RunningServer) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    change(
        file,
        """
        PRAGMA writable_schema = ON;
        UPDATE sqlite_schema SET rootpage = (
            SELECT rootpage FROM sqlite_schema WHERE name = 'idx_instances_character_id'
        ) WHERE name = 'idx_data_instance_id';
        """,
    )

    with server.client("demo") as client:
        assert adopted(server, client)["run"] == WANTED


def test_a_file_without_rows_is_adopted_as_revision_0(server: RunningServer) -> None:
    change(server.data_dir / "demo.db", SCHEMA)

    with server.client("demo") as client:
        assert register(client).status_code == 200
        summary = client.get("/extensions/demo").json()
        written = client.post("/characters", json={"id": "new"})

    assert [summary[name] for name in ("revision", "characters", "instances", "keys")] == [0] * 4
    assert written.headers["x-revision"] == "1"
    recount(server.data_dir / "demo.db")


# Several rows that become one


def test_of_several_rows_with_one_name_the_last_counts_at_the_place_of_the_first(
    server: RunningServer,
) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    change(
        file,
        """
        INSERT INTO characters VALUES (NULL, 'first', NULL, NULL), ('', 'last', NULL, NULL);
        INSERT INTO instances VALUES (NULL, 'nameless', 'first', NULL, NULL);
        INSERT INTO instances VALUES ('later', 'nameless', NULL, NULL, NULL);
        INSERT INTO instances VALUES ('', '', 'last', NULL, NULL);
        """,
    )
    add_rows(
        file, ("", "k", "1"), ("run", "k", "1"), ("", "l", "2"), (None, "k", "3"), ("run", "k", "4")
    )

    with server.client("demo") as client:
        values = adopted(server, client)
        characters = client.get("/characters").json()
        instance = client.get("/instances/_empty").json()["instance"]

    assert list(values) == ["run", "empty", "stray", "_empty", "later", "ghost"]
    assert list(values["_empty"].items()) == [("k", 3), ("l", 2)]
    assert values["run"] == {**WANTED, "k": 4}
    assert [(each["id"], each["name"]) for each in characters if each["id"] == "_empty"] == [
        ("_empty", "last")
    ]
    assert (instance["name"], instance["characterId"]) == ("last", "_empty")


def test_the_order_of_keys_is_that_of_the_rows_even_if_instances_alternate(
    server: RunningServer,
) -> None:
    file = server.data_dir / "demo.db"
    make_original(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) VALUES (?, ?, ?)",
            [
                (id, f"k{number}", str(number))
                for number in range(200, 0, -1)
                for id in ("empty", "stray", "new")
            ],
        )
        connection.commit()

    with server.client("demo") as client:
        values = adopted(server, client)

    numbers = {f"k{number}": number for number in range(200, 0, -1)}
    assert list(values["empty"].items()) == list(numbers.items())
    assert list(values["stray"].items()) == [("k", "kept"), *numbers.items()]
    assert list(values["new"].items()) == list(numbers.items())
