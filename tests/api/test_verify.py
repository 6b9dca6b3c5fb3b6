"""Verifying an extension while it is in use: what is wrong is found, and named."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, wait_for
from tests.integrity.story import write_story
from tests.support.answers import make_instance, refused, set_value
from tests.support.chat import Chat
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import DataRow
from valuetracker.store.rows.places import FlipRow
from valuetracker.store.rows.row import names


def job_of(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """Wait until a job has ended, and return it."""
    assert answer.status_code == 202, answer.text
    path = f"/jobs/{answer.json()['job']}"
    wait_for(lambda: client.get(path).json()["status"] != "running")
    job: dict[str, Any] = client.get(path).json()
    return job


def verified(client: httpx.Client) -> dict[str, Any]:
    job = job_of(client, client.post("/verify"))
    assert (job["status"], job["error"]) == ("done", None), job
    result: dict[str, Any] = job["result"]
    return result


def test_a_sound_extension_has_no_findings(client: httpx.Client) -> None:
    write_story(client, "demo")

    report = verified(client)

    assert (report["sound"], report["findings"]) == (True, [])
    assert report["checkpoints"] == 2
    assert report["entries"] > 100


def test_an_unused_extension_is_sound(client: httpx.Client) -> None:
    assert verified(client)["sound"] is True


def test_an_imported_part_is_sound(client: httpx.Client, shared_server: RunningServer) -> None:
    write_story(client, "demo")
    file = client.get("/export", params={"chatId": "chat"}).content
    name = f"part-of-{client.headers['x-extension-id']}"
    shared_server.register(name)
    with shared_server.client(name) as friend:
        assert friend.post("/import", content=file).status_code == 200
        # The mule was in the chat at this checkpoint, and is in another one now.
        findings = verified(friend)["findings"]

    assert all(finding.startswith("checkpoint 'here'") for finding in findings)


@pytest.mark.one_engine
def test_an_unknown_extension_or_job_is_refused(client: httpx.Client) -> None:
    answer = client.post("/verify", headers={"x-extension-id": "nobody"})

    assert refused(answer)[:2] == (404, "extension_not_registered")
    assert refused(client.get("/jobs/nothing"))[:2] == (404, "job_not_found")


def write_rows(server: RunningServer, client: httpx.Client, statement: str, *rows: Any) -> None:
    """Write to the file of an extension as no server would."""
    path = server.data_dir / f"{client.headers['x-extension-id']}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executemany(statement, rows)


def read_rows(server: RunningServer, client: httpx.Client, kind: Any) -> list[Any]:
    path = server.data_dir / f"{client.headers['x-extension-id']}.db"
    with closing(sqlite3.connect(path)) as connection:
        found = connection.execute(f"SELECT {names(kind.columns)} FROM {kind.table}")
        return [kind(*row) for row in found.fetchall()]


@pytest.mark.one_engine
def test_a_value_that_the_log_does_not_know_is_found(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    make_instance(client, {"hp": 50, "mp": 3})
    (row,) = [each for each in read_rows(shared_server, client, DataRow) if each.key == "hp"]
    row.value = "51"
    row.seal()
    change = "UPDATE data SET value = ?, checksum = ? WHERE key = 'hp'"

    write_rows(shared_server, client, change, (row.value, row.checksum))

    findings = verified(client)["findings"]
    assert any("The value of 'hp' is not what the log says." in each for each in findings)


@pytest.mark.one_engine
def test_a_lost_entry_is_found(client: httpx.Client, shared_server: RunningServer) -> None:
    make_instance(client, {"hp": 50})
    set_value(client, "hp", 51)
    deletion = "DELETE FROM entries WHERE entry = (SELECT max(entry) FROM entries) - ?"

    write_rows(shared_server, client, deletion, (1 << 24,))

    assert verified(client)["sound"] is False


@pytest.mark.one_engine
def test_wrong_counts_are_found(client: httpx.Client, shared_server: RunningServer) -> None:
    make_instance(client, {"hp": 50})
    path = shared_server.data_dir / f"{client.headers['x-extension-id']}.db"
    (head,) = read_rows(shared_server, client, Head)
    with closing(sqlite3.connect(path)) as connection:
        (head.identity,) = connection.execute("SELECT identity FROM file").fetchone()
    head.keys = 7
    head.seal()

    write_rows(shared_server, client, "UPDATE head SET keys = ?, checksum = ?", (7, head.checksum))

    findings = verified(client)["findings"]
    assert findings == ["head: It counts 7 values, and there are 1."]


@pytest.mark.one_engine
def test_a_damaged_row_that_nobody_reads_is_found(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    Chat(client, "story").set("weather", "rain", "m1")
    assert read_rows(shared_server, client, FlipRow)

    write_rows(shared_server, client, "UPDATE flips SET position = position + ?", (1,))

    (finding,) = verified(client)["findings"]
    assert finding.startswith("The table flips has a damaged row")


@pytest.mark.one_engine
def test_a_checkpoint_that_does_not_validate_is_found(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    chat = Chat(client, "story")
    chat.set("weather", "rain", "m1")
    assert chat.send("POST", "/checkpoints", {"name": "here"}).status_code == 201
    (row,) = read_rows(shared_server, client, CheckpointRow)
    row.digest = "0" * 64
    row.seal()

    write_rows(
        shared_server,
        client,
        "UPDATE checkpoints SET digest = ?, checksum = ?",
        (row.digest, row.checksum),
    )

    findings = verified(client)["findings"]
    assert findings == [
        "checkpoint 'here' of chat 'story': The digest of the values differs from the record."
    ]
