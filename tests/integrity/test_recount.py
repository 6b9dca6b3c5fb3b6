"""A recount finds no fault after any write to a chat, and finds every lost or changed row."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunningServer, running_server
from tests.integrity.recount import recount
from tests.support.answers import done
from tests.support.chat import EVERY_WRITE, Chat, furnish
from valuetracker.errors import DatabaseDamaged


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    with running_server(tmp_path) as server:
        yield server


def write_story(server: RunningServer) -> None:
    """Add, swipe and hide messages; bind, restore and unbind an instance; recount each time."""
    file = server.data_dir / "demo.db"
    with server.client("demo") as client:
        chat = furnish(client)
        sword = chat.instance("sword")
        for number in range(3):
            chat.set("hp", number, f"m{number}")
            sword.set("hp", number, f"m{number}")
            recount(file)
        chat.reconcile("m0", "m1")
        recount(file)
        # Writes to a hidden place have no effect; then a swipe that is not registered yet.
        sword.set("hp", 99, "m2", "0")
        sword.set("mp", 99, "m2", "0")
        recount(file)
        revision = sword.set("hp", 10, "m1", "1")
        recount(file)
        chat.reconcile("m0", ("m1", "1"), "m2")
        recount(file)
        sword.increment("hp", 5, "m2")
        sword.restore(revision)
        chat.restore(revision)
        recount(file)
        chat.add_version("recap", "Later", "m2")
        chat.claim("seen", "b", "c", message="m1")
        recount(file)
        body = {"id": "sword", "characterId": "uther", "chatId": None}
        done(client.post("/instances", json=body))
        recount(file)
        # Without a chat, an anchor is recorded and never flips.
        sword.set("hp", 11, "m7")
        recount(file)
        chat.rename("another").reconcile("m2")
        recount(file)


def test_a_recount_finds_no_fault_while_a_story_is_written(server: RunningServer) -> None:
    with server.client() as client:
        client.post("/register", json={"extensionId": "demo"})

    write_story(server)

    with server.client("demo") as client:
        chat = Chat(client, "another")
        done(client.post("/compact", json={"keep": {"revisions": 8}}))
        recount(server.data_dir / "demo.db")
        chat.reconcile("m0", "m1", "m2")
        recount(server.data_dir / "demo.db")


@pytest.mark.parametrize(("method", "path", "body"), EVERY_WRITE)
def test_a_recount_finds_no_fault_after_any_write(
    server: RunningServer, method: str, path: str, body: Any
) -> None:
    with server.client("demo") as client:
        client.post("/register", json={"extensionId": "demo"})
        chat = furnish(client)
        chat.reconcile("m1")
        anchored = {"x-message-id": "m1"} if "reconcile" not in path else {}

        answer = client.request(method, path, json=body, headers=anchored)

    assert answer.status_code < 300, answer.text
    recount(server.data_dir / "demo.db")


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The content of a file after a story was written."""
    folder = tmp_path_factory.mktemp("story")
    with running_server(folder) as server:
        with server.client() as client:
            client.post("/register", json={"extensionId": "demo"})
        write_story(server)
    return (folder / "demo.db").read_bytes()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM entries WHERE entry = (SELECT max(entry) FROM entries)",
        "DELETE FROM entries WHERE effect = 0",
        "DELETE FROM data WHERE value IS NULL",
        "DELETE FROM data WHERE value IS NOT NULL",
        "DELETE FROM members WHERE holder = (SELECT max(holder) FROM members)",
        "INSERT INTO members VALUES (1000, 1000, 0)",
        "DELETE FROM flips WHERE revision = (SELECT max(revision) FROM flips)",
        "UPDATE flips SET visible = 1 WHERE visible = 0",
        "UPDATE places SET position = 1",
        "UPDATE data SET furthest = NULL WHERE furthest IS NOT NULL",
        "UPDATE data SET anchored = 1 - anchored",
        "DELETE FROM places WHERE chat = 0",
        "DELETE FROM chats",
        "DELETE FROM characters WHERE id = 'arthur'",
        "UPDATE entries SET effect = 1 WHERE effect = 0",
        "UPDATE data SET entry = entry - 1",
        "UPDATE aliases SET chat = 1000",
        "UPDATE head SET keys = keys + 1",
    ],
)
def test_a_recount_finds_a_lost_or_changed_row(
    story: bytes, tmp_path: Path, statement: str
) -> None:
    file = tmp_path / "demo.db"
    file.write_bytes(story)
    recount(file)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(statement).rowcount
        connection.commit()

    with pytest.raises((AssertionError, DatabaseDamaged, KeyError)):
        recount(file)
