"""A branch carries the record of what it was made from, and can be checked against it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    VALID,
    branch_off,
    get_checkpoint,
    list_checkpoints,
    make_checkpoint,
    rows,
    send_checkpoint,
    validate_branch,
)
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, Values, furnish

NOT_VALIDATED = {**VALID, "validated": False}
COUNTS = rows(data=1, instances=1, values=1, series=1, processed=1)


def origin_of(branch: Chat) -> Any:
    """Return where a branch comes from; every route must say the same."""
    found = branch.state()["origin"]
    assert branch.open()["origin"] == branch.send("GET", "").json()["origin"] == found
    listed = branch.client.get("/chats").json()
    assert [each["origin"] for each in listed if each["chatId"] == branch.chat_id] == [found]
    return found


def test_the_origin_of_a_branch_shows_the_record_of_its_checkpoint(client: httpx.Client) -> None:
    chat = furnish(client)
    made = make_checkpoint(chat, "duel", expect={"messageCount": 2})
    chat.set("late", 1)
    chat.add_version("recap", "Late")

    branch = branch_off(chat, checkpoint="duel")

    assert origin_of(branch) == {
        "chatId": "chat",
        "checkpoint": "duel",
        "messageId": None,
        "createdAt": MOMENT,
        "record": {
            "name": "duel",
            "createdAt": made["createdAt"],
            "versions": {"recap": 1},
            "rows": made["rows"],
        },
    }
    assert made["rows"] == COUNTS
    assert validate_branch(branch) == VALID


@pytest.mark.parametrize("point", [{}, {"revision": 5}, {"messageId": "m1"}])
def test_a_branch_from_elsewhere_records_its_own_beginning(
    client: httpx.Client, point: dict[str, Any]
) -> None:
    chat = furnish(client)
    chat.reconcile("m1")

    branch = branch_off(chat, **point)

    found = origin_of(branch)
    assert (found["checkpoint"], found["messageId"]) == (None, point.get("messageId"))
    assert found["record"] == {
        "name": None,
        "createdAt": MOMENT,
        "versions": {"recap": 1},
        "rows": COUNTS,
    }
    branch.set("hp", 1)
    done(branch.send("DELETE", "/series/recap"))
    assert validate_branch(branch) == VALID


def test_an_opened_branch_records_its_beginning_with_its_defaults(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.set("hp", 45, "m1")
    branch = Chat(client, "branch")

    opened = branch.open(parent="chat", messageId="m1", defaults={"mana": 5, "hp": 1})

    assert opened["data"] == {"hp": 45, "mana": 5}
    assert opened["origin"]["record"]["rows"] == {**COUNTS, "data": 2}
    assert origin_of(branch) == opened["origin"]
    assert validate_branch(branch) == VALID
    # Opened again it is the same branch, and its beginning stays what it was.
    branch.set("hp", 1)
    assert branch.open(parent="chat", messageId="m1")["origin"] == opened["origin"]
    assert validate_branch(branch) == VALID


def test_what_the_caller_finds_is_compared_with_the_record(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat, expect={"lorebook": "world", "messageCount": 100})
    branch = branch_off(chat, checkpoint="here")

    right = validate_branch(branch, series={"recap": 1}, lorebook="world", messageCount=100)
    wrong = validate_branch(branch, series={"recap": 2}, lorebook="other", messageCount=0)

    assert right == VALID
    assert wrong == {
        "success": False,
        "validated": True,
        "errors": ["Series recap is at version 2 and was recorded at version 1."],
        "warnings": [
            "lorebook was expected to be world and is other.",
            "messageCount was expected to be 100 and is 0.",
        ],
    }


def test_a_branch_needs_neither_parent_nor_checkpoint(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)
    branch = branch_off(chat, checkpoint="here")
    record = origin_of(branch)["record"]
    done(send_checkpoint(chat, "DELETE"))
    make_checkpoint(chat, expect={"lorebook": "other"})
    chat.purge()

    assert validate_branch(branch, lorebook="mine") == VALID
    assert branch.state()["origin"]["record"] == record


def test_the_record_is_no_checkpoint_of_the_branch(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)
    branch = branch_off(chat, checkpoint="here")

    assert list_checkpoints(branch) == branch.state()["checkpoints"] == []
    made = branch.send("POST", "/checkpoints", {}).json()
    assert made["name"] == "checkpoint-1"
    assert get_checkpoint(branch, "checkpoint-1") == made
    unknown = branch.send("GET", "/checkpoints/beginning")
    assert refused(unknown)[:2] == (404, "checkpoint_not_found")


def test_captured_keys_of_instances_are_found_under_their_new_ids(values: Values) -> None:
    values.set("recap", {"count": 1}, "m1")
    wanted = {"key": "recap", "instanceId": values.instance_id}
    make_checkpoint(values.chat, capture=[wanted])
    branch = branch_off(values.chat, checkpoint="here")
    deeper = branch_off(branch, "deeper")

    assert validate_branch(branch) == validate_branch(deeper) == VALID
    # As of now the branch is another one, but not its beginning.
    branch.reconcile()
    assert validate_branch(branch) == VALID


def test_a_chat_that_is_no_branch_is_not_validated(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)

    assert validate_branch(chat, series={"recap": 7}) == NOT_VALIDATED
    orphan = Chat(client, "orphan")
    orphan.open(parent="unknown")
    assert validate_branch(orphan) == NOT_VALIDATED
    unknown = Chat(client, "nobody knows").send("POST", "/validate", {})
    assert refused(unknown) == (404, "chat_not_found", {})


def test_validating_changes_nothing(client: httpx.Client) -> None:
    branch = branch_off(furnish(client))
    before, now = branch.state(), head(client)

    answer = branch.send("POST", "/validate")

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, VALID), str(now))
    assert (branch.state(), head(client)) == (before, now)
    branch.archive()
    assert validate_branch(branch) == VALID


def test_a_folded_beginning_cannot_be_validated(client: httpx.Client) -> None:
    chat = furnish(client)
    branch = branch_off(chat)
    branch.set("hp", 1)
    assert validate_branch(branch) == VALID

    # A branch keeps no part of the log from being folded.
    done(client.post("/compact", json={"keep": {"revisions": 0}}))

    folded = "The beginning of the branch was folded: the log begins with revision 7."
    assert validate_branch(branch) == {**NOT_VALIDATED, "warnings": [folded]}
    found = validate_branch(branch, series={"recap": 2})
    assert (found["success"], found["validated"], len(found["errors"])) == (False, False, 1)
    assert branch.state()["origin"]["record"]["versions"] == {"recap": 1}


def test_a_purged_branch_is_forgotten_with_its_record(client: httpx.Client) -> None:
    chat = furnish(client)
    branch = branch_off(chat)
    branch.purge()
    branch.open()

    assert (branch.state()["origin"], validate_branch(branch)) == (None, NOT_VALIDATED)
    branch.purge()
    assert origin_of(branch_off(chat))["record"]["rows"] == COUNTS
    assert validate_branch(branch) == VALID


@pytest.mark.one_engine
@pytest.mark.parametrize("body", [[], {"actual": []}, {"actual": {"series": 5}}])
def test_a_malformed_validation_is_refused(chat: Chat, body: Any) -> None:
    chat.set("hp", 50)

    assert refused(chat.send("POST", "/validate", body)) == (400, "invalid_body", {})
