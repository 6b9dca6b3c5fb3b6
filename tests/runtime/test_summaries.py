"""The registry knows the numbers of closed databases: they are listed without being opened."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import running_server, wait_for

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
EXTENSIONS = 1_000 if SOAK else 120


def write_something(client: httpx.Client, name: str) -> None:
    headers = {"x-extension-id": name}
    client.post("/instances", json={"id": "i", "characterId": "c"}, headers=headers)
    client.put("/instances/i/data/merge", json={"a": 1, "b": 2}, headers=headers)


def open_databases(client: httpx.Client) -> int:
    return int(client.get("/healthz").json()["openDatabases"])


def numbers(summary: dict[str, Any]) -> tuple[Any, ...]:
    names = ("status", "characters", "instances", "keys", "revision")
    return tuple(summary.get(name) for name in names)


def test_many_extensions_are_listed_without_opening_any(tmp_path: Path) -> None:
    names = [f"extension-{number:04}" for number in range(EXTENSIONS)]
    with running_server(tmp_path) as server, server.client() as client:
        for name in names:
            server.register(name)
        new = client.get("/extensions").json()
        opened_for_new = open_databases(client)
        for name in names[::7]:
            write_something(client, name)

    with running_server(tmp_path) as server, server.client() as client:
        listed = client.get("/extensions").json()
        one = client.get(f"/extensions/{names[7]}").json()
        opened = open_databases(client)
        sizes = {name: (tmp_path / f"{name}.db").stat().st_size for name in names}

    assert [each["id"] for each in new] == names
    assert {numbers(each) for each in new} == {("ok", 0, 0, 0, 0)}
    assert (opened_for_new, opened) == (0, 0)
    assert {numbers(each) for each in listed[::7]} == {("ok", 1, 1, 2, 2)}
    assert {each["id"]: each["bytes"] for each in listed} == sizes
    assert one == listed[7]


def test_an_open_database_is_described_as_it_is_now(tmp_path: Path) -> None:
    with running_server(tmp_path, open_databases=1) as server, server.client("demo") as client:
        for name in ("demo", "other"):
            server.register(name)
        write_something(client, "demo")
        opened = client.get("/extensions/demo").json()
        client.get("/characters", headers={"x-extension-id": "other"})
        wait_for(lambda: open_databases(client) == 1)
        closed = client.get("/extensions/demo").json()

    assert numbers(opened) == numbers(closed) == ("ok", 1, 1, 2, 2)


def test_a_file_that_was_changed_since_is_opened(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("demo") as client:
        server.register("demo")
        write_something(client, "demo")
    older = tmp_path.with_name(tmp_path.name + "-older")
    shutil.copytree(tmp_path, older)
    with running_server(tmp_path) as server, server.client("demo") as client:
        client.post("/characters", json={"id": "d"})
    shutil.copyfile(tmp_path / "demo.db", older / "demo.db")

    with running_server(older) as server, server.client("demo") as client:
        summary = client.get("/extensions/demo").json()
        opened = open_databases(client)

    assert numbers(summary) == ("ok", 2, 1, 2, 3)
    assert opened == 1


def test_a_file_with_a_log_of_a_killed_process_is_opened(tmp_path: Path) -> None:
    data_dir, left = tmp_path / "db", tmp_path / "left"
    with running_server(data_dir) as server, server.client("demo") as client:
        server.register("demo")
        write_something(client, "demo")
        shutil.copytree(data_dir, left, ignore=shutil.ignore_patterns("*-shm", ".lock", ".pid"))
    assert (left / "demo.db-wal").stat().st_size

    with running_server(left) as server, server.client("demo") as client:
        summary = client.get("/extensions/demo").json()
        opened = open_databases(client)

    assert numbers(summary) == ("ok", 1, 1, 2, 2)
    assert opened == 1


def test_a_damaged_file_is_listed_as_such_once_that_is_known(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    with running_server(tmp_path) as server, server.client("demo") as client:
        server.register("demo")
        write_something(client, "demo")
    before = file.stat()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE data SET value = '9' WHERE key = 'a'")
    # As if nobody had written to it: the disk changed it.
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    with running_server(tmp_path) as server, server.client("demo") as client:
        refused = client.get("/characters")
        known = client.get("/extensions").json()
    with running_server(tmp_path) as server, server.client("demo") as client:
        after_a_restart = client.get("/extensions").json()

    assert refused.json()["code"] == "database_damaged"
    assert [numbers(each) for each in known] == [("database_damaged", None, None, None, 2)]
    assert after_a_restart == known
