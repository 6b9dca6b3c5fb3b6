"""The record of a checkpoint: versions of series, captured keys; and its state with contents."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    VALID,
    await_checkpoint,
    branch_off,
    get_checkpoint,
    list_checkpoints,
    make_checkpoint,
    post_checkpoint,
    send_checkpoint,
    state_of,
    statuses,
    validate,
)
from tests.api.chats.queue import Queue
from tests.support.answers import MOMENT, done, refused
from tests.support.chat import Chat, Values, furnish


def digest(value: Any) -> str:
    """Return the digest of a value, as a client that has read it would compute it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


# Series.


def test_every_version_is_recorded_with_its_fields_and_a_digest(chat: Chat) -> None:
    chat.add_version("recap", "Once", scene_count=1)
    chat.add_version("recap", {"text": "Twice, für uns"}, scene_count=2, excluded=[3])
    chat.add_version("mood", ["calm"])
    done(chat.send("PUT", "/series/recap/current", {"version": 1}))

    found = make_checkpoint(chat)["state"]["series"]

    first = {"version": 1, "createdAt": MOMENT, "digest": digest("Once"), "scene_count": 1}
    second = {
        "version": 2,
        "createdAt": MOMENT,
        "digest": digest({"text": "Twice, für uns"}),
        "scene_count": 2,
        "excluded": [3],
    }
    mood = {"version": 1, "createdAt": MOMENT, "digest": digest(["calm"])}
    assert found == {
        "recap": {"currentVersion": 1, "versions": [first, second]},
        "mood": {"currentVersion": 1, "versions": [mood]},
    }
    assert validate(chat) == VALID


def test_a_field_that_is_called_digest_gives_way(chat: Chat) -> None:
    chat.add_version("recap", "Once", digest="mine", tone="warm")

    (version,) = make_checkpoint(chat)["state"]["series"]["recap"]["versions"]

    assert (version["digest"], version["tone"]) == (digest("Once"), "warm")
    assert chat.series("recap")["versions"][0]["digest"] == "mine"


def test_very_large_fields_are_left_to_the_log(chat: Chat) -> None:
    chat.add_version("recap", "Once", notes="x" * 70_000)

    (version,) = make_checkpoint(chat)["state"]["series"]["recap"]["versions"]

    assert set(version) == {"version", "createdAt", "digest"}
    assert validate(chat) == VALID


# Captured keys.


def test_a_captured_key_is_recorded_with_size_digest_and_chosen_fields(values: Values) -> None:
    recap = {"content": "All für uns", "message_count": 100, "timestamp": 1_700_000_000_000}
    values.set("combined_recap", recap)
    values.set("plain", 5)
    of = {"instanceId": values.instance_id}
    capture = [
        {"key": "combined_recap", "fields": ["message_count", "timestamp"], **of},
        {"key": "plain", **of},
    ]

    made = make_checkpoint(values.chat, capture=capture)

    text = json.dumps(recap, separators=(",", ":"), ensure_ascii=False)
    assert made["state"]["capture"] == [
        {
            "key": "combined_recap",
            "instanceId": values.instance_id,
            "size": len(text.encode()),
            "digest": digest(recap),
            "fields": {"message_count": 100, "timestamp": 1_700_000_000_000},
        },
        {
            "key": "plain",
            "instanceId": values.instance_id,
            "size": 1,
            "digest": digest(5),
            "fields": {},
        },
    ]
    assert (made["warnings"], validate(values.chat)) == ([], VALID)
    values.set("combined_recap", "other")
    assert get_checkpoint(values.chat)["state"] == made["state"]
    assert validate(values.chat) == VALID


def test_as_of_a_message_the_value_of_then_is_captured(values: Values) -> None:
    values.set("recap", {"count": 1}, "m1")
    values.set("recap", {"count": 2}, "m2")
    wanted = {"key": "recap", "instanceId": values.instance_id, "fields": ["count"]}

    made = make_checkpoint(values.chat, messageId="m1", capture=[wanted])

    (captured,) = made["state"]["capture"]
    assert (captured["fields"], captured["digest"]) == ({"count": 1}, digest({"count": 1}))
    assert validate(values.chat) == VALID


def test_missing_keys_and_fields_are_warnings(client: httpx.Client) -> None:
    chat = furnish(client)
    Chat(client, "other").instance("shield").set("boss", 1)
    chat.set("gone", 1)
    done(chat.send("DELETE", "/data/gone"))
    capture = [
        {"key": "absent"},
        {"key": "gone"},
        {"key": "hp", "fields": ["count"]},
        {"key": "absent", "instanceId": "sword"},
        {"key": "hp", "instanceId": "nobody"},
        # An instance of another chat is no part of this one.
        {"key": "boss", "instanceId": "shield"},
    ]

    for point in ({}, {"messageId": "m1"}):
        if point:
            chat.set("other", 1, "m1")
        made = make_checkpoint(chat, f"at {point}", capture=capture, **point)

        assert [each["key"] for each in made["state"]["capture"]] == ["hp"]
        assert made["warnings"] == [
            "There is no key absent to capture.",
            "There is no key gone to capture.",
            "Key hp has no field count.",
            "There is no key absent of instance sword to capture.",
            "There is no key hp of instance nobody to capture.",
            "There is no key boss of instance shield to capture.",
        ]


def test_a_waiting_checkpoint_captures_when_it_is_made(queue: Queue) -> None:
    chat = queue.chat
    chat.set("recap", {"count": 1})
    queue.add("a")
    await_checkpoint(chat, capture=[{"key": "recap", "fields": ["count"]}, {"key": "absent"}])
    chat.set("recap", {"count": 2})

    queue.end("a")

    found = get_checkpoint(chat)
    assert [each["fields"] for each in found["state"]["capture"]] == [{"count": 2}]
    assert found["warnings"] == ["There is no key absent to capture."]


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "capture",
    [
        "hp",
        {"key": "hp"},
        ["hp"],
        [{}],
        [{"key": None}],
        [{"key": ""}],
        [{"key": "hp", "instanceId": 5}],
        [{"key": "hp", "fields": "count"}],
        [{"key": "hp", "fields": [5]}],
        [{"key": "hp", "field": "count"}],
        [{"key": "hp"}] * 10_001,
    ],
)
def test_a_malformed_capture_makes_no_checkpoint(chat: Chat, capture: Any) -> None:
    chat.set("hp", 50)

    assert refused(post_checkpoint(chat, name="here", capture=capture))[0] == 400
    assert list_checkpoints(chat) == []


def test_captured_fields_are_bounded_like_a_value(queue: Queue) -> None:
    chat = queue.chat
    chat.set("a", {"text": "x" * 5_000_000})
    chat.set("b", {"text": "x" * 5_000_000})
    capture = [{"key": key, "fields": ["text"]} for key in ("a", "b")]

    refusal = refused(post_checkpoint(chat, name="here", capture=capture))

    assert refusal == (413, "value_too_large", {})
    assert list_checkpoints(chat) == []
    # One that waits has nobody to refuse.
    queue.add("job")
    await_checkpoint(chat, capture=capture)
    assert queue.end("job").status_code == 200
    assert statuses(chat) == [("here", "failed")]
    assert "captured" in get_checkpoint(chat)["warnings"][0]


# The state with contents.


def test_the_state_of_a_checkpoint_has_all_contents(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.add_version("recap", "Twice", scenes=2)
    chat.claim("seen", "b")
    chat.claim("other/set", "x")
    made = make_checkpoint(chat)
    series, full = chat.series("recap"), client.get("/instances/sword").json()
    chat.set("hp", 1)
    done(chat.send("DELETE", "/series/recap"))
    chat.claim("seen", "c")
    done(client.delete("/instances/sword"))

    found = state_of(chat)

    assert found == {
        "data": {"hp": 50},
        "instances": [full],
        "series": {"recap": series},
        "processed": {"seen": ["a", "b"], "other/set": ["x"]},
    }
    assert [each["content"] for each in series["versions"]] == ["Once", "Twice"]
    recorded = made["state"]["series"]["recap"]["versions"]
    assert [each["digest"] for each in recorded] == [digest("Once"), digest("Twice")]


def test_the_state_of_a_checkpoint_is_that_of_its_message(chat: Chat) -> None:
    for number in (1, 2):
        chat.set("hp", 50 - 5 * number, f"m{number}")
        chat.add_version("recap", f"Scene {number}", f"m{number}")
        chat.claim("seen", f"id {number}", message=f"m{number}")
    make_checkpoint(chat, messageId="m1")
    chat.reconcile()

    found = state_of(chat)

    assert (found["data"], found["instances"]) == ({"hp": 45}, [])
    assert found["series"]["recap"]["currentVersion"] == 1
    assert found["processed"] == {"seen": ["id 1"]}


def test_an_empty_chat_has_an_empty_state(chat: Chat) -> None:
    chat.open()
    make_checkpoint(chat)

    assert state_of(chat) == {"data": {}, "instances": [], "series": {}, "processed": {}}


def test_the_state_of_no_checkpoint_is_refused(queue: Queue) -> None:
    chat = queue.chat
    queue.add("a")
    await_checkpoint(chat)

    def ask(chat: Chat, name: str) -> Any:
        return refused(send_checkpoint(chat, "GET", name, "/state"))

    assert ask(chat, "here")[:2] == (409, "checkpoint_waiting")
    assert ask(chat, "unknown")[:2] == (404, "checkpoint_not_found")
    assert ask(Chat(chat.client, "unknown"), "here")[:2] == (404, "checkpoint_not_found")


def test_the_state_of_a_branchs_checkpoint_has_the_branchs_instances(client: httpx.Client) -> None:
    chat = furnish(client)
    branch = branch_off(chat)
    make_checkpoint(branch)

    (found,) = state_of(branch)["instances"]

    assert (found["instance"]["origin"], found["data"]) == ("sword", {"hp": 7})
