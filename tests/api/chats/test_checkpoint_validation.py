"""A checkpoint is checked before it is used: errors refuse it unless it is forced."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    VALID,
    back_at,
    branch_off,
    make_checkpoint,
    post_branch,
    restore_checkpoint,
    send_checkpoint,
    validate,
    validate_branch,
)
from tests.api.chats.queue import ACTIVE, Queue
from tests.conftest import running_server
from tests.support.answers import done, head, outcome, refused
from tests.support.chat import Chat, furnish, restored
from valuetracker.store.rows.checkpoints import CheckpointRow


def recapped(chat: Chat) -> Chat:
    """Write two versions of a recap, and make a checkpoint."""
    chat.set("hp", 50)
    for number in (1, 2):
        chat.add_version("recap", f"Scene {number}")
    make_checkpoint(chat, expect={"lorebook": "world", "messageCount": 100})
    return chat


# Series in `actual`.


@pytest.mark.parametrize(
    ("series", "errors"),
    [
        ({"recap": 2}, []),
        ({}, []),
        ({"recap": 1}, ["Series recap is at version 1 and was recorded at version 2."]),
        ({"recap": 2.5}, ["Series recap is at version 2.5 and was recorded at version 2."]),
        ({"recap": None}, ["Series recap has no version and was recorded at version 2."]),
        ({"mood": 1}, ["Series mood is at version 1 and was not recorded."]),
        ({"mood": None, "recap": 2}, ["Series mood has no version and was not recorded."]),
    ],
)
def test_a_series_at_another_version_is_an_error(
    chat: Chat, series: dict[str, Any], errors: list[str]
) -> None:
    recapped(chat)

    found = validate(chat, series=series)

    assert found == {"success": not errors, "validated": True, "errors": errors, "warnings": []}


def test_other_differences_are_warnings(chat: Chat) -> None:
    recapped(chat)

    found = validate(chat, series={"recap": 2}, lorebook="other", messageCount=99, theme="dark")

    assert found == {
        **VALID,
        "warnings": [
            "lorebook was expected to be world and is other.",
            "messageCount was expected to be 100 and is 99.",
        ],
    }


@pytest.mark.one_engine
@pytest.mark.parametrize("series", [[], "recap", {"recap": "2"}, {"recap": True}, {"recap": [2]}])
def test_a_malformed_version_is_refused(chat: Chat, series: Any) -> None:
    recapped(chat)
    body: dict[str, Any] = {"actual": {"series": series}}
    now = head(chat.client)

    answers = [
        send_checkpoint(chat, "POST", verb="/validate", body=body),
        restore_checkpoint(chat, **body),
        post_branch(chat, checkpoint="here", more=body),
        chat.send("POST", "/validate", body),
    ]

    assert [refused(each) for each in answers] == [(400, "invalid_body", {})] * 4
    assert head(chat.client) == now


# Use and force.


WRONG: dict[str, Any] = {"series": {"recap": 1}, "lorebook": "other"}
ERRORS = ["Series recap is at version 1 and was recorded at version 2."]
WARNINGS = ["lorebook was expected to be world and is other."]


def test_an_invalid_checkpoint_is_not_restored_unless_forced(chat: Chat) -> None:
    recapped(chat)
    chat.set("hp", 45)
    before, now = chat.state(), head(chat.client)

    answer = restore_checkpoint(chat, actual=WRONG)

    details = {"errors": ERRORS, "warnings": WARNINGS}
    assert refused(answer) == (409, "checkpoint_invalid", details)
    assert "force" in answer.json()["hint"]
    assert (chat.state(), head(chat.client)) == (before, now)
    assert refused(restore_checkpoint(chat, actual=WRONG, force=False))[0] == 409
    forced = restore_checkpoint(chat, actual=WRONG, force=True)
    report = {"success": False, "errors": ERRORS, "warnings": WARNINGS}
    assert outcome(forced) == (200, {**report, "revision": now + 1, "changed": 1})
    assert chat.data() == {"hp": 50}


def test_an_invalid_checkpoint_makes_no_branch_unless_forced(chat: Chat) -> None:
    recapped(chat)
    now = head(chat.client)

    answer = post_branch(chat, checkpoint="here", more={"actual": WRONG})

    details = {"errors": ERRORS, "warnings": WARNINGS}
    assert refused(answer) == (409, "checkpoint_invalid", details)
    assert (chat.client.get("/chats/branch").json(), head(chat.client)) == (None, now)
    forced = post_branch(chat, checkpoint="here", more={"actual": WRONG, "force": True})
    assert (forced.status_code, forced.json()["errors"]) == (201, ERRORS)
    assert forced.json()["warnings"] == WARNINGS
    assert Chat(chat.client, "branch").data() == {"hp": 50}


def test_warnings_block_nothing(chat: Chat) -> None:
    recapped(chat)
    actual = {"lorebook": "other", "series": {"recap": 2}}
    now = head(chat.client)

    restored_now = restore_checkpoint(chat, actual=actual)
    branched = post_branch(chat, checkpoint="here", more={"actual": actual})

    assert outcome(restored_now) == back_at(now, 0, warnings=WARNINGS)
    assert (branched.status_code, branched.json()["warnings"]) == (201, WARNINGS)
    assert branched.json()["errors"] == []


@pytest.mark.one_engine
def test_only_a_checkpoint_is_compared_with_actual(chat: Chat) -> None:
    recapped(chat)

    points: list[dict[str, Any]] = [{}, {"revision": 1}]
    for point in points:
        answer = post_branch(chat, more={"actual": {"series": {}}}, **point)
        assert refused(answer) == (400, "invalid_body", {})
    assert post_branch(chat, more={"actual": None, "force": True}).status_code == 201


@pytest.mark.one_engine
@pytest.mark.parametrize("force", ["yes", 1, None])
def test_a_malformed_force_is_refused(chat: Chat, force: Any) -> None:
    recapped(chat)

    answers = [
        restore_checkpoint(chat, force=force),
        post_branch(chat, checkpoint="here", more={"force": force}),
    ]

    assert [refused(each) for each in answers] == [(400, "invalid_body", {})] * 2


def test_a_repeated_refusal_is_asked_again(chat: Chat) -> None:
    recapped(chat)
    key = {"idempotency_key": "k"}

    assert refused(restore_checkpoint(chat, headers=key, actual=WRONG))[0] == 409
    forced = restore_checkpoint(chat, headers=key, actual=WRONG, force=True)
    again = restore_checkpoint(chat, headers=key, actual=WRONG, force=True)

    assert (forced.status_code, again.content) == (200, forced.content)
    assert again.headers["idempotency-replayed"] == "true"


# A record that the log no longer agrees with.


# Each is a piece of the record, what it becomes, and the error that is found then.
REWRITTEN = [
    ('"version":1,', '"version":7,', "Version 7 of series recap is missing."),
    ('"scenes":2', '"scenes":3', "Version 2 of series recap differs from the record."),
    (
        '"currentVersion":2',
        '"currentVersion":1',
        "Series recap is at version 2 and was recorded at version 1.",
    ),
    ('{"recap":', '{"mood":', "Series mood is missing."),
    ('"key":"hp"', '"key":"mp"', "Key mp is missing."),
    ('"size":2,"digest":"', '"size":2,"digest":"0', "Key hp differs from the record."),
    ('"data":1', '"data":2', "The numbers of rows differ from the record."),
]


def rewrite(file: Path, name: str, old: str, new: str) -> None:
    """Change the record of a checkpoint, with a right checksum."""
    with closing(sqlite3.connect(file)) as connection, connection:
        columns = ", ".join(field.name for field in fields(CheckpointRow))
        query = f"SELECT {columns} FROM checkpoints WHERE name = ?"
        row = CheckpointRow(*connection.execute(query, (name,)).fetchone()).verify()
        assert old in row.state
        row.state = row.state.replace(old, new)
        row.seal()
        statement = "UPDATE checkpoints SET state = ?, checksum = ? WHERE name = ?"
        connection.execute(statement, (row.state, row.checksum, name))


def test_each_part_of_the_record_is_compared_with_the_log(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("demo") as client:
        client.post("/register", json={"extensionId": "demo"})
        chat = Chat(client, "chat")
        chat.set("hp", 50)
        for number in (1, 2):
            chat.add_version("recap", f"Scene {number}", scenes=number)
        for _, _, error in REWRITTEN:
            make_checkpoint(chat, error, capture=[{"key": "hp"}])
            assert validate(chat, error) == VALID
    for old, new, error in REWRITTEN:
        rewrite(tmp_path / "demo.db", error, old, new)

    with running_server(tmp_path) as server, server.client("demo") as client:
        chat = Chat(client, "chat")
        for _, _, error in REWRITTEN:
            found = validate(chat, error)
            assert (found["success"], found["validated"]) == (False, True)
            assert error in found["errors"]
            refusals = [restore_checkpoint(chat, error), post_branch(chat, checkpoint=error)]
            assert [refused(each)[:2] for each in refusals] == [(409, "checkpoint_invalid")] * 2
            # A dry run tells the same and refuses nothing.
            tried = restore_checkpoint(chat, error, dryRun=True).json()
            assert (tried["success"], tried["errors"]) == (False, found["errors"])
            assert restore_checkpoint(chat, error, force=True).status_code == 200
            forced = post_branch(chat, error, more={"force": True}, checkpoint=error)
            assert (forced.status_code, forced.json()["errors"]) == (201, found["errors"])
            # The branch carries the record as it is, and says so.
            assert error in validate_branch(Chat(client, error))["errors"]


# Dry runs.


@pytest.mark.parametrize("status", ACTIVE)
def test_a_dry_run_is_allowed_while_operations_are_active(queue: Queue, status: str) -> None:
    chat = queue.chat
    chat.set("hp", 50)
    make_checkpoint(chat)
    chat.set("hp", 45)
    queue.add("a", status)
    now = head(chat.client)
    changes = [chat.difference("hp", before=45, after=50)]

    tried = restore_checkpoint(chat, dryRun=True)
    of_revision = chat.send("POST", "/restore", {"revision": 2, "dryRun": True})

    assert outcome(tried) == back_at(now, 1, changes=changes)
    plain = {"revision": now, "changed": 1, "warnings": [], "changes": changes}
    assert outcome(of_revision) == (200, plain)
    refusals = [restore_checkpoint(chat), chat.send("POST", "/restore", {"revision": 2})]
    assert [refused(each)[:2] for each in refusals] == [(409, "operations_pending")] * 2
    assert (chat.data(), head(chat.client)) == ({"hp": 45}, now)


def test_a_dry_run_lists_values_of_every_space_and_instance(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)
    chat.set("hp", 45)
    chat.set("new", None)
    chat.add_version("recap", "Twice")
    chat.claim("seen", "b")
    chat.instance("shield").set("boss", 1)
    done(client.delete("/instances/sword"))
    now, before = head(client), chat.state()

    tried = restore_checkpoint(chat, dryRun=True).json()
    of_revision = chat.send("POST", "/restore", {"revision": 5, "dryRun": True}).json()

    changes = tried["changes"]
    assert (tried["changed"], tried["revision"]) == (len(changes), now)
    assert of_revision["changes"] == changes
    twice = next(each for each in changes if each["key"] == "recap/2")
    assert twice.pop("before")["content"] == "Twice"
    assert changes == [
        {"instanceId": None, "key": "new", "before": None},
        {"instanceId": None, "key": "hp", "before": 45, "after": 50},
        {"instanceId": None, "space": "series", "key": "recap/2"},
        {"instanceId": None, "space": "series", "key": "recap/current", "before": 2, "after": 1},
        {"instanceId": None, "space": "processed", "key": "seen/b", "before": True},
        {"instanceId": "shield", "key": "boss", "before": 1},
        {"instanceId": "sword", "key": "hp", "after": 7},
    ]
    assert (head(client), chat.state()) == (now, before)
    assert done(restore_checkpoint(chat)) == now + 1


def test_a_dry_run_of_an_instance_and_of_a_character(client: httpx.Client) -> None:
    chat = furnish(client)
    sword = chat.instance("sword")
    sword.set("hp", 8)
    changes = [{"instanceId": "sword", "key": "hp", "before": 8, "after": 7}]
    tried = {"revision": 6, "changed": 1, "warnings": [], "changes": changes}

    for path in ("/instances/sword/restore", "/characters/arthur/restore"):
        answer = client.post(path, json={"revision": 3, "dryRun": True})
        assert outcome(answer) == (200, tried)
    assert (sword.data(), head(client)) == ({"hp": 8}, 6)
    assert sword.restore(3) == restored(7, 1)


@pytest.mark.one_engine
@pytest.mark.parametrize("dry_run", ["yes", 1, None])
def test_a_malformed_dry_run_changes_nothing(chat: Chat, dry_run: Any) -> None:
    chat.set("hp", 50)
    chat.set("hp", 45)

    answer = chat.send("POST", "/restore", {"revision": 1, "dryRun": dry_run})

    assert refused(answer) == (400, "invalid_body", {})
    assert chat.data() == {"hp": 45}


def test_a_dry_run_of_a_stale_tab_is_refused(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)
    seen = chat.etag()
    chat.set("hp", 45)

    answer = restore_checkpoint(chat, headers={"if_match": seen}, dryRun=True)

    assert refused(answer) == (412, "revision_conflict", {"expected": 1, "current": 2})


def test_a_branch_of_a_valid_checkpoint_is_valid(client: httpx.Client) -> None:
    chat = furnish(client)
    capture = [{"key": "hp"}, {"key": "hp", "instanceId": "sword"}]
    make_checkpoint(chat, capture=capture)
    branch = branch_off(chat, checkpoint="here")

    assert validate_branch(branch) == VALID
    branch.set("hp", 1)
    branch.add_version("recap", "Other")
    assert validate_branch(branch) == VALID
