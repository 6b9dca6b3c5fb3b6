"""Checkpoints: a name for a state of a chat, now or as of a message; a pointer, not a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    VALID,
    back_at,
    get_checkpoint,
    list_checkpoints,
    make_checkpoint,
    post_checkpoint,
    restore_checkpoint,
    rows,
    send_checkpoint,
    statuses,
    validate,
)
from tests.conftest import running_server
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, Values, furnish


def story(client: httpx.Client) -> Chat:
    """Make eleven revisions: a furnished chat, then two messages that change all of it."""
    chat = furnish(client)
    for number in (1, 2):
        chat.set("hp", 50 - 5 * number, f"m{number}")
        chat.add_version("recap", f"Scene {number}", f"m{number}", sceneCount=number)
        chat.claim("seen", f"id {number}", message=f"m{number}")
    return chat


def recap_of(checkpoint: Any) -> Any:
    """Return the series `recap` in a checkpoint: current, versions, its count of scenes."""
    found = checkpoint["state"]["series"]["recap"]
    assert set(found) == {"currentVersion", "versions"}
    versions = {each["version"]: each for each in found["versions"]}
    assert all("content" not in each and each["digest"] for each in versions.values())
    current = found["currentVersion"]
    return current, list(versions), versions[current].get("sceneCount")


def test_a_checkpoint_captures_everything(client: httpx.Client) -> None:
    chat = story(client)
    expect, meta = {"series": ["recap"], "lorebook": "world"}, {"by": "me", "tags": []}

    answer = post_checkpoint(chat, name="here", expect=expect, meta=meta)

    body = answer.json()
    digest, state = body["digest"], body["state"]
    assert isinstance(digest, str)
    assert digest
    count = rows(data=1, instances=1, values=1, series=3, processed=3)
    record = {
        "name": "here",
        "status": "ready",
        "revision": 11,
        "messageId": None,
        "createdAt": MOMENT,
        "digest": digest,
        "rows": count,
        "expect": expect,
        "meta": meta,
        "warnings": [],
        "state": state,
    }
    assert (answer.status_code, body) == (201, record)
    assert set(state) == {"series", "rows", "expect", "capture"}
    assert (state["rows"], state["expect"], set(state["series"])) == (count, expect, {"recap"})
    assert recap_of(body) == (3, [1, 2, 3], 2)
    assert get_checkpoint(chat) == record


def test_a_checkpoint_as_of_a_message_captures_the_state_as_of_it(client: httpx.Client) -> None:
    chat = story(client)
    sword = chat.instance("sword")
    sword.set("late", 1)
    chat.instance("shield")

    found = make_checkpoint(chat, messageId="m1")

    assert (found["revision"], found["messageId"]) == (13, "m1")
    assert found["rows"] == rows(data=1, instances=1, values=1, series=2, processed=2)
    assert recap_of(found) == (2, [1, 2], 1)
    assert found["rows"] == found["state"]["rows"]
    assert make_checkpoint(chat, "now")["rows"] == rows(
        data=1, instances=2, values=2, series=3, processed=3
    )


def test_a_checkpoint_captures_every_key(chat: Chat) -> None:
    keys = ["Ann", "_registry_character", "__index_all", "__operation_queue", "__proto__", "a/b"]
    lorebook = chat.instance("lorebook")
    for key in keys:
        chat.set(key, {"content": key})
        lorebook.set(key, {"content": key})

    assert make_checkpoint(chat)["rows"] == rows(data=6, instances=1, values=6)


def test_an_empty_chat_has_a_checkpoint_too(chat: Chat) -> None:
    chat.open()

    found = make_checkpoint(chat)

    assert (found["rows"], found["state"]["series"], found["revision"]) == (rows(), {}, 1)


def test_dormant_changes_are_not_counted(client: httpx.Client) -> None:
    chat = story(client)
    chat.reconcile("m1")

    found = make_checkpoint(chat)

    assert found["rows"] == rows(data=1, instances=1, values=1, series=2, processed=2)
    assert recap_of(found) == (2, [1, 2], 1)


def test_the_chosen_version_is_the_current_one(client: httpx.Client) -> None:
    chat = story(client)
    done(chat.send("PUT", "/series/recap/current", {"version": 2}))

    assert recap_of(make_checkpoint(chat)) == (2, [1, 2, 3], 1)


def test_a_checkpoint_makes_no_revision_and_is_not_in_the_log(client: httpx.Client) -> None:
    chat = story(client)
    history = chat.history()

    answer = post_checkpoint(chat, name="here")

    assert (answer.status_code, answer.headers["x-revision"], head(client)) == (201, "11", 11)
    assert chat.history() == history
    done(send_checkpoint(chat, "DELETE"))
    assert outcome(client.get("/changes?since=11")) == (200, {"items": [], "next": 11})


def test_equal_states_have_equal_digests(chat: Chat) -> None:
    chat.set("hp", 50)
    first, again = make_checkpoint(chat, "first"), make_checkpoint(chat, "again")
    chat.set("hp", 45, "m1")
    other = make_checkpoint(chat, "other")
    chat.reconcile()
    back = make_checkpoint(chat, "back")

    assert first["digest"] == again["digest"] == back["digest"]
    assert other["digest"] != first["digest"]


@pytest.mark.parametrize("part", ["data", "instance", "value", "series", "pointer", "processed"])
def test_the_digest_covers_every_part(client: httpx.Client, part: str) -> None:
    chat = story(client)
    before = make_checkpoint(chat, "before")["digest"]

    if part == "data":
        chat.set("hp", 41)
    elif part == "instance":
        chat.instance("shield")
    elif part == "value":
        chat.instance("sword").set("hp", 8)
    elif part == "series":
        done(chat.send("DELETE", "/series/recap/1"))
    elif part == "pointer":
        done(chat.send("PUT", "/series/recap/current", {"version": 1}))
    else:
        done(chat.send("DELETE", "/processed/seen/a"))

    assert make_checkpoint(chat, "after")["digest"] != before


# Expected keys.


def test_a_missing_expected_key_is_a_warning_and_no_refusal(client: httpx.Client) -> None:
    chat = story(client)
    expect = {"series": ["recap", "no series"], "keys": ["hp", "no key"], "messageCount": 2}

    found = make_checkpoint(chat, expect=expect)

    assert found["expect"] == found["state"]["expect"] == expect
    assert len(found["warnings"]) == 2
    for name in ("no series", "no key"):
        assert len([each for each in found["warnings"] if name in each]) == 1


def test_an_expected_key_missing_as_of_the_message_is_a_warning(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.set("mp", 1, "m2")
    chat.add_version("recap", "Once", "m2")
    expect = {"series": ["recap"], "keys": ["hp", "mp"]}

    then = make_checkpoint(chat, "then", messageId="m1", expect=expect)
    now = make_checkpoint(chat, "now", messageId="m2", expect=expect)

    assert (len(then["warnings"]), now["warnings"]) == (2, [])


# Names, lists, deleting.


def test_a_checkpoint_without_a_name_is_named_by_a_number(chat: Chat) -> None:
    chat.set("hp", 50)

    def name() -> Any:
        return post_checkpoint(chat).json()["name"]

    assert [name(), name()] == ["checkpoint-1", "checkpoint-2"]
    make_checkpoint(chat, "named")
    assert name() == "checkpoint-4"
    done(send_checkpoint(chat, "DELETE", "checkpoint-4"))
    assert name() == "checkpoint-5"


def test_a_name_is_taken_once_in_a_chat(client: httpx.Client) -> None:
    chat, other = Chat(client, "chat"), Chat(client, "other")
    chat.set("hp", 50)
    other.set("hp", 1)
    first = make_checkpoint(chat)
    chat.set("hp", 45)

    assert refused(post_checkpoint(chat, name="here"))[:2] == (409, "checkpoint_exists")
    assert get_checkpoint(chat) == first
    assert make_checkpoint(other)["revision"] == 3


def test_checkpoints_are_listed_oldest_first(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    made = [make_checkpoint(chat, name) for name in ("b", "a")]
    made.append(make_checkpoint(chat, "c", messageId="m1"))

    listed = list_checkpoints(chat)

    for each in made:
        del each["state"]
    assert listed == made
    short = [
        {key: each[key] for key in ("name", "revision", "messageId", "createdAt", "status")}
        for each in made
    ]
    assert chat.state()["checkpoints"] == chat.open()["checkpoints"] == short


def test_a_checkpoint_is_deleted(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)
    make_checkpoint(chat, "other")

    answer = send_checkpoint(chat, "DELETE")

    assert outcome(answer) == (200, {"success": True})
    assert statuses(chat) == [("other", "ready")]
    again = send_checkpoint(chat, "DELETE")
    assert refused(again) == (404, "checkpoint_not_found", {})
    # The name is free again.
    assert make_checkpoint(chat)["revision"] == 1


@pytest.mark.parametrize("name", ["x" * 256, "日 本", "a/b", "100%", "m:1?#"])
def test_a_name_may_be_any_text(chat: Chat, name: str) -> None:
    chat.set("hp", 50)

    made = make_checkpoint(chat, name)

    assert (made["name"], get_checkpoint(chat, name)) == (name, made)
    assert validate(chat, name) == VALID


def test_checkpoints_follow_a_rename_and_a_purge_deletes_them(chat: Chat) -> None:
    chat.set("hp", 50)
    made = make_checkpoint(chat)
    renamed = chat.rename("renamed")
    assert get_checkpoint(renamed) == get_checkpoint(chat) == made

    renamed.purge()

    assert list_checkpoints(renamed) == []
    assert refused(send_checkpoint(renamed, "GET"))[:2] == (404, "checkpoint_not_found")


def test_checkpoints_are_kept_across_a_restart(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            made = make_checkpoint(story(client), messageId="m1")

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        chat = Chat(client, "chat")
        assert get_checkpoint(chat) == made
        assert validate(chat) == VALID


# Compaction.


def compact(client: httpx.Client) -> int:
    answer = client.post("/compact", json={"keep": {"revisions": 0}})
    done(answer)
    return int(answer.json()["oldest"])


def test_the_log_is_not_folded_past_a_checkpoint(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    make_checkpoint(values.chat)
    values.set("hp", 40, "m2")
    values.set("hp", 35)

    assert compact(values.client) == 3

    assert values.data(at=3) == {"hp": 45}
    assert validate(values.chat) == VALID
    assert outcome(restore_checkpoint(values.chat)) == back_at(6, 1)
    assert values.data() == {"hp": 45}
    done(send_checkpoint(values.chat, "DELETE"))
    assert compact(values.client) == 6


def test_a_checkpoint_of_a_message_stays_valid_after_compaction(values: Values) -> None:
    values.set("hp", 50)
    for number in (1, 2, 3):
        values.set("hp", 50 - 5 * number, f"m{number}")
    make_checkpoint(values.chat, messageId="m1")
    values.set("hp", 30, "m4")

    assert compact(values.client) <= 5

    # The changes at m2 and m3 must not be folded into the state as of m1.
    assert validate(values.chat) == VALID
    assert restore_checkpoint(values.chat).json()["changed"] == 1
    assert values.data() == {"hp": 45}
