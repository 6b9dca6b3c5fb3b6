"""The tables a person finds in a database, and layouts that are refused by name."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import httpx

from tests.conftest import running_server
from tests.engine.test_postgres import database_of, schema_of
from tests.support.databases import select
from tests.support.postgres import PostgresServer

VIEW = "SELECT instance_id, key, value FROM {}instance_values"


def write_something(client: httpx.Client) -> None:
    instance = {"id": "run-1", "characterId": "Seraphina.png"}
    assert client.post("/instances", json=instance).status_code == 200
    for key, value in (("hp", 50), ("outfit", {"top": "cloak"}), ("removed", True)):
        body = {"key": key, "value": value}
        assert client.post("/instances/run-1/data", json=body).status_code == 200
    assert client.delete("/instances/run-1/data/removed").status_code == 200
    body = {"key": "mood", "value": "calm"}
    assert client.post("/chats/a chat/data", json=body).status_code == 200


READABLE = [("run-1", "hp", "50"), ("run-1", "outfit", '{"top":"cloak"}')]


def test_a_file_shows_characters_instances_and_data_to_any_tool(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("demo") as client:
        server.register("demo")
        write_something(client)

    path = tmp_path / "demo.db"
    tables = {name for (name,) in select(path, "SELECT name FROM sqlite_schema")}
    assert {"characters", "instances", "data"} <= tables
    assert select(path, "SELECT id FROM characters") == [("Seraphina.png",)]
    assert select(path, VIEW.format("")) == READABLE


def test_a_schema_shows_the_same_on_postgresql(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.create_database()
    with running_server(tmp_path, database=url) as server, server.client("demo") as client:
        server.register("demo")
        write_something(client)

    name = database_of(url)
    schema = schema_of(postgres, name, "demo")
    text = f"SELECT string_agg(instance_id || ' ' || key || ' ' || value, ', ') FROM {schema}"
    shown = postgres.execute(f"{text}.instance_values", name)
    assert shown.strip() == ", ".join(" ".join(row) for row in READABLE)


def test_a_file_of_a_layout_from_before_the_first_release_is_refused_by_name(
    tmp_path: Path,
) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        server.register("other")
    before = (tmp_path / "demo.db").read_bytes()
    with closing(sqlite3.connect(tmp_path / "demo.db")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA application_id = 0x56544B52")
    old = (tmp_path / "demo.db").read_bytes()
    assert old != before

    with running_server(tmp_path) as server, server.client("demo") as client:
        refused = client.get("/characters")
        other = client.get("/characters", headers={"x-extension-id": "other"})

    assert (refused.status_code, refused.json()["code"]) == (503, "database_too_old")
    assert refused.json()["hint"]
    assert other.status_code == 200
    assert (tmp_path / "demo.db").read_bytes() == old


def test_a_schema_of_such_a_layout_is_refused_by_name(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.create_database()
    with running_server(tmp_path, database=url) as server:
        server.register("demo")
    name = database_of(url)
    schema = schema_of(postgres, name, "demo")
    postgres.execute(f"ALTER TABLE {schema}.instances RENAME TO holders", name)

    with running_server(tmp_path, database=url) as server, server.client("demo") as client:
        refused = client.get("/characters")

    assert (refused.status_code, refused.json()["code"]) == (503, "database_too_old")
