"""
The order of the story: values are made of changes in the order of messages, not of the clock.

Each test is an example of the rules in docs/DESIGN.md, for a chat and for an instance in it.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from tests.support.answers import JSON_PATCH, MERGE_PATCH, REPRESENTATION, done, outcome, refused
from tests.support.chat import Chat, Values, named

SUPERSEDED = "x-superseded"


def seen(values: Values, *messages: str) -> Values:
    """Show messages that nothing was written at."""
    values.chat.reconcile(*messages)
    return values


def as_of(values: Values, message: str) -> Any:
    state = values.chat.as_of(message)
    if values.instance_id is None:
        return state["data"]
    return {each["instance"]["id"]: each["data"] for each in state["instances"]}["sword"]


def clear(values: Values, message: str | None = None) -> httpx.Response:
    return values.send("DELETE", "/data", None, message)


# Late writes


def test_a_late_write_does_not_replace_what_a_later_message_set(values: Values) -> None:
    values.set("hp", 50)
    seen(values, "m1", "m2")
    values.set("hp", 40, "m2")
    answer = values.send("POST", "/data", {"key": "hp", "value": 90}, "m1")

    assert outcome(answer) == (200, {"success": True, "key": "hp", "value": 40})
    assert answer.headers[SUPERSEDED] == "true"
    assert "x-live" not in answer.headers
    assert values.data() == {"hp": 40}
    assert (as_of(values, "m1"), as_of(values, "m2")) == ({"hp": 90}, {"hp": 40})
    values.chat.reconcile("m1")
    assert values.data() == {"hp": 90}


def test_the_edit_of_a_person_stays_where_it_was_made_in_the_story(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 70)
    late = values.send("POST", "/data", {"key": "hp", "value": 90}, "m1")
    assert (late.headers[SUPERSEDED], values.data()) == ("true", {"hp": 70})

    values.set("hp", 60, "m3")
    assert values.data() == {"hp": 60}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 70}
    values.chat.reconcile("m1")
    assert values.data() == {"hp": 70}


def test_a_late_write_at_the_message_of_an_edit_comes_after_it(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 70)
    answer = values.send("POST", "/data", {"key": "hp", "value": 90}, "m2")

    assert SUPERSEDED not in answer.headers
    assert values.data() == {"hp": 90}


def test_an_edit_after_a_message_was_deleted_also_covers_what_is_hidden(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 70)
    values.chat.reconcile("m1")
    values.set("hp", 80)
    assert values.data() == {"hp": 80}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 80}


def test_an_edit_covers_the_change_of_a_hidden_message(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 40, "m2")
    values.chat.reconcile("m1")
    values.set("hp", 80)
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 80}


def test_a_clear_covers_the_change_of_a_hidden_message(values: Values) -> None:
    values.set("y", 1, "m1")
    values.chat.reconcile()
    done(clear(values))
    values.chat.reconcile("m1")
    assert values.data() == {}


def test_an_edit_at_a_deleted_message_supersedes_a_late_write_before_it(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 70)
    values.chat.reconcile("m1")
    late = values.send("POST", "/data", {"key": "hp", "value": 33}, "m1")
    assert outcome(late) == (200, {"success": True, "key": "hp", "value": 70})
    assert late.headers[SUPERSEDED] == "true"

    values.set("hp", 33, "m3")
    assert values.data() == {"hp": 33}


def test_increments_commute(values: Values) -> None:
    seen(values, "m0")
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", 10)
    values.chat.reconcile("m0")
    assert values.data() == {"gold": 110}
    values.chat.reconcile("m0", "m1")
    assert values.data() == {"gold": 80}

    late = values.run({"op": "increment", "key": "gold", "by": -5}, message="m0")
    assert late.json()["results"] == [{"value": 75}]
    assert SUPERSEDED not in late.headers
    assert values.data() == {"gold": 75}
    item = values.history(key="gold")[-1] if values.instance_id else values.history()[-1]
    assert (item["before"], item["after"], "superseded" in item) == (80, 75, False)


def test_a_stale_tab_that_hides_messages_for_a_moment_changes_nothing(values: Values) -> None:
    seen(values, "m1")
    values.set("hp", 40, "m2")
    values.chat.reconcile("m1", "m2", "m3")
    values.set("hp", 70)
    values.chat.reconcile("m1")
    values.chat.reconcile("m1", "m2", "m3")
    assert values.data() == {"hp": 70}


def test_a_correction_of_an_earlier_message_changes_the_value_as_of_it(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    values.set("hp", 44, "m1", x_actor="user")
    assert (values.data(), as_of(values, "m1")) == ({"hp": 40}, {"hp": 44})
    values.set("hp", 41, x_actor="user")
    assert values.data() == {"hp": 41}


def test_messages_that_change_places_take_their_changes_along(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    values.set("mood", "calm")
    values.chat.reconcile("m2", "m1")
    assert values.data() == {"hp": 45, "mood": "calm"}
    assert as_of(values, "m2") == {"hp": 40, "mood": "calm"}
    # The edit stands at m2, which is no longer last; a write at m1 is not late.
    values.set("mood", "grim", "m1")
    assert values.data() == {"hp": 45, "mood": "grim"}
    values.set("hp", 30)
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 40, "mood": "calm"}


def test_a_hidden_message_moves_with_the_one_it_followed(values: Values) -> None:
    for number, message in enumerate(("m1", "m2", "m3")):
        values.set("hp", number, message)
    values.chat.reconcile("m1", "m3")
    values.chat.reconcile("m3", "m1")
    values.chat.reconcile("m3", "m1", "m2")
    assert values.data() == {"hp": 1}
    values.chat.reconcile("m3", "m1")
    assert values.data() == {"hp": 0}


def test_many_late_operations_on_a_key_with_many_changes_are_refused(values: Values) -> None:
    seen(values, "m1", "m2")
    one = {"op": "increment", "key": "gold", "by": 1}
    done(values.run(*[one] * 1000, message="m2"))

    few = values.run(*[one] * 3, message="m1")
    many = values.run(*[one] * 1000, message="m1")

    assert few.json()["results"][-1] == {"value": 1003}
    status, code, details = refused(many)
    assert (status, code) == (413, "value_too_large")
    assert 50 < details["index"] < 1000
    assert values.data() == {"gold": 1003}


def test_a_late_write_is_told_by_history_feed_and_batch(values: Values) -> None:
    client = values.client
    values.set("hp", 50)
    seen(values, "m1", "m2")
    values.set("hp", 40, "m2")
    before = values.etag("/data/hp"), values.etag("/data")
    operations: list[dict[str, Any]] = [
        {"op": "set", "key": "hp", "value": 90},
        {"op": "increment", "key": "hp", "by": 1},
        {"op": "remove", "key": "hp"},
        {"op": "clear"},
        {"op": "addToSet", "key": "list", "value": 1},
    ]
    answer = values.run(*operations, message="m1")

    superseded = {"value": 40, "superseded": True}
    assert answer.json()["results"] == [
        superseded,
        superseded,
        {"removed": False, **superseded},
        {"removedCount": 0, "superseded": True},
        {"added": True},
    ]
    assert values.data() == {"hp": 40, "list": [1]}
    own = [each for each in values.history() if each["key"] == "hp"][-4:]
    assert [(each["op"], each["value"], each["live"]) for each in own] == [
        ("set", 90, True),
        ("increment", 1, True),
        ("remove", None, True),
        ("remove", None, True),
    ]
    assert all(each["superseded"] for each in own)
    assert not any("before" in each or "after" in each for each in own)
    revision = int(answer.headers["x-revision"])
    event = client.get("/changes", params={"since": revision - 1}).json()["items"][0]
    changes = [each for each in event["changes"] if each["key"] == "hp"]
    assert [(each.get("value"), each["superseded"], each["live"]) for each in changes] == [
        (90, True, True),
        (1, True, True),
        (None, True, True),
        (None, True, True),
    ]
    # It moves the ETag of the instance and the chat, not that of the key.
    assert (values.etag("/data/hp"), values.etag("/data") != before[1]) == (before[0], True)


def test_a_remembered_answer_says_again_that_it_was_superseded(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 40, "m2")

    def send() -> httpx.Response:
        body = {"key": "hp", "value": 90}
        return values.send("POST", "/data", body, "m1", idempotency_key="once")

    first, again = send(), send()
    assert first.content == again.content
    assert again.headers["idempotency-replayed"] == again.headers[SUPERSEDED] == "true"


def test_an_absent_key_has_no_value_in_an_answer(values: Values) -> None:
    seen(values, "m1", "m2")
    values.set("hp", 1, "m2")
    done(values.send("DELETE", "/data/hp", None, "m2"))
    late = values.send("POST", "/data", {"key": "hp", "value": 90}, "m1")
    assert outcome(late) == (200, {"success": True, "key": "hp"})
    assert late.headers[SUPERSEDED] == "true"
    results = values.run({"op": "set", "key": "hp", "value": 2}, message="m1").json()["results"]
    assert results == [{"superseded": True}]

    values.chat.reconcile("m1", ("m2", "1"))
    values.chat.reconcile("m1")
    dormant = values.send("POST", "/data", {"key": "mp", "value": 9}, "m2", "1")
    assert outcome(dormant) == (200, {"success": True, "key": "mp"})
    assert dormant.headers["x-live"] == "false"


def test_the_type_of_a_late_write_is_checked_where_it_stands(values: Values) -> None:
    seen(values, "m0")
    values.set("bag", [1], "m1")
    values.set("bag", "torn", "m2")
    late = values.run({"op": "append", "key": "bag", "value": 2}, message="m1")
    assert late.json()["results"] == [{"value": "torn", "superseded": True}]
    refusal = values.run({"op": "increment", "key": "bag", "by": 2}, message="m1")
    assert refused(refusal)[:2] == (409, "type_conflict")
    assert as_of(values, "m1") == {"bag": [1, 2]}


def test_later_changes_that_no_longer_apply_are_listed(values: Values) -> None:
    seen(values, "m1")
    values.increment("gold", 10, "m2")
    revision = values.increment("gold", 5, "m3")
    late = values.send("POST", "/data", {"key": "gold", "value": "none"}, "m1")

    found = late.json()
    for conflict in found["conflicts"]:
        assert conflict.pop("reason")
    assert found == {
        "success": True,
        "key": "gold",
        "value": "none",
        "conflicts": [
            values.conflict("gold", "increment", revision - 1),
            values.conflict("gold", "increment", revision),
        ],
    }
    assert values.data() == {"gold": "none"}


def test_a_late_set_before_increments_counts_with_them(values: Values) -> None:
    seen(values, "m1")
    values.increment("gold", 10, "m2")
    late = values.send("POST", "/data", {"key": "gold", "value": 100}, "m1")
    assert outcome(late) == (200, {"success": True, "key": "gold", "value": 110})
    values.chat.reconcile("m1")
    assert values.data() == {"gold": 100}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"gold": 110}


# Removals


def test_a_clear_is_logged_for_keys_that_a_flip_can_reach(values: Values) -> None:
    values.set("hp", 1, "m1")
    done(values.send("DELETE", "/data/hp", None, "m2"))
    done(clear(values))
    values.chat.reconcile("m1", ("m2", "1"))
    assert values.data() == {}


def test_a_late_clear_removes_what_had_a_value_where_it_stands(values: Values) -> None:
    values.set("hp", 1, "m1")
    values.set("mp", 2, "m1")
    values.chat.reconcile("m1", "m2")
    done(values.send("DELETE", "/data/hp"))
    answer = clear(values, "m1")
    assert answer.headers[SUPERSEDED] == "true"
    assert (values.data(), as_of(values, "m1")) == ({}, {})
    counted = [each for each in values.history() if each["op"] == "remove"]
    assert [each["key"] for each in counted] == ["hp", "hp", "mp"]


def test_a_key_is_not_found_only_if_it_is_absent_there_and_now(values: Values) -> None:
    values.set("hp", 1, "m1")
    values.chat.reconcile("m1", "m2", "m3")
    done(values.send("DELETE", "/data/hp"))
    late = values.send("DELETE", "/data/hp", None, "m1")
    assert (outcome(late), late.headers[SUPERSEDED]) == ((200, {"success": True}), "true")
    again = values.send("DELETE", "/data/hp", None, "m1")
    assert refused(again)[:2] == (404, "data_key_not_found")


def test_removed_keys_are_counted_if_they_no_longer_read(values: Values) -> None:
    seen(values, "m1")
    values.set("hp", 1, "m1")
    values.set("mp", 1, "m1")
    values.set("hp", 2, "m2")
    answer = values.send("PUT", "/data/remove", {"keys": ["hp", "mp"]}, "m1")
    assert outcome(answer) == (200, {"success": True, "removedCount": 1})
    assert answer.headers[SUPERSEDED] == "true"
    assert values.data() == {"hp": 2}


# Patches


def patch(values: Values, operations: list[Any], message: str | None = None) -> httpx.Response:
    """Send a JSON Patch, and ask for the values."""
    headers = named(message, None, {"content_type": JSON_PATCH, **REPRESENTATION})
    path = f"{values.path}/data"
    return values.client.patch(path, content=json.dumps(operations), headers=headers)


def test_a_json_patch_does_not_keep_what_an_earlier_message_changed(values: Values) -> None:
    values.set("stats", {"hp": 50, "mp": 5})
    values.run({"op": "merge", "key": "stats", "value": {"mp": 1}}, message="m1")
    tested = {"op": "test", "path": "/stats/mp", "value": 1}
    done(patch(values, [tested, {"op": "replace", "path": "/stats/hp", "value": 40}], "m2"))
    assert values.data() == {"stats": {"hp": 40, "mp": 1}}
    item = values.history()[-1]
    assert (item["op"], item["after"]) == ("patch", {"hp": 40, "mp": 1})

    # m1 is hidden: what the patch tested does not hold any more, and it counts all the same.
    values.chat.reconcile("m2")
    assert values.data() == {"stats": {"hp": 40, "mp": 5}}
    values.chat.reconcile("m1")
    assert values.data() == {"stats": {"hp": 50, "mp": 1}}


def test_a_json_patch_across_keys_is_replayed_for_each_of_them(values: Values) -> None:
    values.set("bag", {"gold": 3})
    values.set("chest", {})
    done(patch(values, [{"op": "move", "from": "/bag/gold", "path": "/chest/gold"}], "m2"))
    late = values.send("POST", "/data", {"key": "x", "value": 1})
    done(late)
    assert values.data() == {"bag": {}, "chest": {"gold": 3}, "x": 1}
    values.chat.reconcile()
    assert values.data() == {"bag": {"gold": 3}, "chest": {}, "x": 1}
    values.chat.reconcile("m2")
    assert values.data() == {"bag": {}, "chest": {"gold": 3}, "x": 1}


def test_a_json_patch_that_no_longer_fits_is_a_conflict(values: Values) -> None:
    values.set("bag", {"gold": 3}, "m1")
    done(patch(values, [{"op": "remove", "path": "/bag/gold"}], "m2"))
    found = values.chat.reconcile("m2")
    assert [each["op"] for each in found["conflicts"]] == ["patch"]
    assert values.data() == {}


def test_a_late_patch_looks_at_the_document_where_it_stands(values: Values) -> None:
    values.set("bag", {"gold": 3}, "m1")
    values.set("bag", "torn", "m2")
    answer = patch(values, [{"op": "replace", "path": "/bag/gold", "value": 4}], "m1")
    assert (outcome(answer), answer.headers[SUPERSEDED]) == ((200, {"bag": "torn"}), "true")
    assert as_of(values, "m1") == {"bag": {"gold": 4}}
    unfit = patch(values, [{"op": "replace", "path": "/bag/gold", "value": 4}])
    assert refused(unfit)[:2] == (409, "patch_failed")


# Restore


def test_a_restore_supersedes_late_writes_before_it(values: Values) -> None:
    values.set("hp", 50)
    first = values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    assert values.restore(first)[0] == 200
    late = values.send("POST", "/data", {"key": "hp", "value": 90}, "m1")
    assert (values.data(), late.headers[SUPERSEDED]) == ({"hp": 45}, "true")
    values.chat.reconcile("m2")
    assert values.data() == {"hp": 50}


# The beginning of the story


def test_defaults_stand_at_the_beginning(chat: Chat) -> None:
    chat.open()
    chat.reconcile("m1", "m2")
    chat.set("mp", 1, "m2")
    chat.open(defaults={"hp": 50, "mp": 5})
    chat.set("hp", 40, "m1")
    assert chat.data() == {"hp": 40, "mp": 1}


def test_what_an_instance_had_before_it_was_bound_stands_at_the_beginning(chat: Chat) -> None:
    client = chat.client
    chat.open()
    chat.reconcile("m1", "m2")
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur"}))
    done(client.put("/instances/sword/data", json={"key": "edge", "value": "keen"}))
    sword = chat.instance("sword")
    sword.set("edge", "dull", "m1")
    assert sword.data() == {"edge": "dull"}
    chat.reconcile("m2")
    assert sword.data() == {"edge": "keen"}


def test_an_instance_that_leaves_keeps_the_values_it_has(chat: Chat) -> None:
    chat.open()
    sword = chat.instance("sword")
    chat.reconcile("m1", "m2")
    sword.set("edge", "dull", "m2")
    sword.set("edge", "keen", "m1")
    sword.set("gone", 1, "m1")
    done(sword.send("DELETE", "/data/gone", None, "m2"))
    sword.set("gone", 2, "m1")
    etag = sword.etag("/data/edge")
    other = Chat(chat.client, "other")
    other.open()
    other.reconcile("m1")
    other.instance("sword")
    assert (sword.data(), sword.etag("/data/edge")) == ({"edge": "dull"}, etag)
    sword.set("edge", "blunt", "m1")
    other.reconcile()
    assert sword.data() == {"edge": "dull"}
    chat.instance("sword")
    sword.set("gone", 3, "m1")
    assert sword.data() == {"edge": "dull", "gone": 3}


def test_changes_of_an_instance_in_no_chat_go_by_revision(chat: Chat) -> None:
    chat.open()
    chat.reconcile("m1", "m2")
    done(chat.client.post("/instances", json={"id": "sword", "characterId": "arthur"}))
    sword = Values(chat.client, "chat", "sword")
    sword.set("edge", "dull", "m2", x_chat_id="chat")
    sword.set("edge", "keen", "m1", x_chat_id="chat")
    assert sword.data() == {"edge": "keen"}


# Series and processed ids


def test_a_late_version_does_not_become_current(chat: Chat) -> None:
    chat.open()
    chat.reconcile("m1", "m2")
    assert chat.add_version("recap", "two", "m2") == 1
    late = chat.send("POST", "/series/recap", {"content": "one"}, "m1")
    assert (late.status_code, late.json(), late.headers[SUPERSEDED]) == (
        201,
        {"version": 2},
        "true",
    )
    assert chat.series("recap")["currentVersion"] == 1
    chat.reconcile("m1")
    assert chat.series("recap")["currentVersion"] == 2


def test_processed_ids_and_versions_go_by_revision(chat: Chat) -> None:
    chat.open()
    chat.reconcile("m1", "m2")
    chat.claim("seen", "a", message="m2")
    chat.add_version("recap", "two", "m2")
    for path in ("/processed/seen/a", "/series/recap/1"):
        answer = chat.send("DELETE", path, None, "m1")
        assert (answer.status_code, SUPERSEDED in answer.headers) == (200, False)
    assert chat.processed("seen") == {"ids": []}
    assert chat.series("recap")["versions"] == []


# As of a message


def test_as_of_the_last_message_is_the_present(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    values.set("mood", "calm")
    values.chat.reconcile("m1")
    values.set("mp", 1)
    assert as_of(values, "m1") == values.data() == {"hp": 45, "mood": "calm", "mp": 1}


def test_an_instance_is_there_as_of_a_message_that_changed_it(chat: Chat) -> None:
    chat.open()
    chat.reconcile("m1", "m2")
    sword = chat.instance("sword")
    shield = chat.instance("shield")
    sword.set("edge", "keen", "m1")
    shield.set("size", 3)
    chat.reconcile("m1", "m2", "m3")
    done(chat.client.delete("/instances/shield"))

    def members(message: str) -> list[str]:
        return [each["instance"]["id"] for each in chat.as_of(message)["instances"]]

    assert [members(each) for each in ("m1", "m2", "m3")] == [
        ["sword"],
        ["sword", "shield"],
        ["sword"],
    ]


# Branches


def test_a_branch_takes_the_order_of_the_story_over(values: Values) -> None:
    client = values.client
    seen(values, "m1", "m2")
    values.set("hp", 70)
    values.set("hp", 90, "m1")
    values.chat.reconcile("m1", "m2", "m3")
    body = {"chatId": "fork", "from": {"messageId": "m2"}}
    made = client.post("/chats/chat/branches", json=body).json()
    fork = Values(client, "fork", made["instances"].get("sword"))
    assert fork.data() == {"hp": 70}
    fork.set("hp", 91, "m1")
    assert fork.data() == {"hp": 70}
    fork.chat.reconcile("m1")
    fork.set("hp", 80)
    fork.chat.reconcile("m1", "m2")
    assert (fork.data(), values.data()) == ({"hp": 80}, {"hp": 70})


# Folding


def compact(values: Values, keep: int) -> None:
    answer = values.client.post("/compact", json={"keep": {"revisions": keep}})
    assert answer.status_code == 200, answer.text


def test_a_folded_value_stands_where_its_last_change_stood(values: Values) -> None:
    seen(values, "m1", "m2", "m3")
    values.set("hp", 40, "m2")
    values.set("mp", 1, "m2")
    done(values.send("DELETE", "/data/mp", None, "m2"))
    compact(values, 0)
    for key in ("hp", "mp"):
        late = values.send("POST", "/data", {"key": key, "value": 90}, "m1")
        assert late.headers[SUPERSEDED] == "true"
    assert values.data() == {"hp": 40}
    values.set("hp", 30, "m3")
    assert values.data() == {"hp": 30}

    state = values.client.get("/chats/chat/state", params={"at": "message:m1"})
    assert refused(state)[:2] == (410, "compacted")
    assert as_of(values, "m2") == {"hp": 40}


def test_changes_behind_one_that_is_kept_are_not_folded(values: Values) -> None:
    values.set("gold", 100)
    seen(values, "m1", "m2")
    values.increment("gold", 10, "m2")
    cutoff = values.set("other", 1, "m2")
    values.set("gold", 50, "m1")
    assert values.data() == {"gold": 60, "other": 1}
    compact(values, 1)
    assert values.data(at=cutoff) == {"gold": 110, "other": 1}
    values.chat.reconcile("m1")
    assert values.data() == {"gold": 50, "other": 1}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"gold": 60, "other": 1}
    values.chat.reconcile("m2")
    assert values.data() == {"gold": 110, "other": 1}
    values.chat.reconcile("m1", "m2")
    compact(values, 0)
    assert values.data() == {"gold": 60, "other": 1}
    values.increment("gold", 1, "m2")
    values.chat.reconcile("m1")
    assert values.data() == {"gold": 60, "other": 1}


def test_a_change_that_is_shown_again_after_the_cutoff_is_not_folded_away(values: Values) -> None:
    values.set("z", 0)
    seen(values, "m0", "m1", "m2")
    values.set("a", 8, "m1")
    values.chat.reconcile("m0", "m2")
    values.chat.reconcile("m0", "m1", "m2")
    compact(values, 1)

    assert values.data() == {"z": 0, "a": 8}
    assert as_of(values, "m2") == as_of(values, "m1") == {"z": 0, "a": 8}
    values.increment("a", 1, "m2")
    assert values.data() == {"z": 0, "a": 9}
    values.chat.reconcile("m0", "m1")
    assert values.data() == {"z": 0, "a": 8}
    values.chat.reconcile("m0", "m1", "m2")
    assert values.data() == {"z": 0, "a": 9}


def test_a_change_that_is_hidden_after_the_cutoff_does_not_come_back(values: Values) -> None:
    values.set("a", 5)
    seen(values, "m0", "m1", "m2")
    values.set("a", 8, "m1")
    values.chat.reconcile("m0", "m2")
    compact(values, 1)

    assert values.data() == as_of(values, "m2") == {"a": 5}
    values.increment("a", 1, "m2")
    assert values.data() == {"a": 6}
    values.chat.reconcile("m0")
    assert values.data() == {"a": 5}
    values.chat.reconcile("m0", "m2")
    assert values.data() == {"a": 6}


def test_a_key_whose_changes_are_not_folded_reads_as_before_as_of_every_message(
    values: Values,
) -> None:
    seen(values, "m0", "m1", "m2")
    values.set("b", 1, "m0")
    values.set("b", 5)
    values.set("b", 3, "m1")
    before = [as_of(values, message) for message in ("m0", "m1", "m2")]
    compact(values, 1)

    assert [as_of(values, message) for message in ("m0", "m1", "m2")] == before
    assert before == [{"b": 1}, {"b": 3}, {"b": 5}]


@pytest.mark.parametrize("keep", [0, 1, 2, 3, 5, 8])
def test_folding_changes_no_present_value(values: Values, keep: int) -> None:
    values.set("bag", ["start"])
    seen(values, "m1", "m2", "m3")
    for item, message in (("c", "m3"), ("a", "m1"), ("b", "m2"), ("d", "m3")):
        done(values.run({"op": "append", "key": "bag", "value": item}, message=message))
    wanted = {"bag": ["start", "a", "b", "c", "d"]}
    assert values.data() == wanted
    compact(values, keep)
    values.chat.reconcile("m1", "m2")
    values.chat.reconcile("m1", "m2", "m3")
    assert values.data() == wanted


def test_a_key_is_folded_although_another_one_of_its_entry_is_not(values: Values) -> None:
    seen(values, "m1", "m2", "m3")
    done(values.send("PUT", "/data/merge", {"gold": 10, "hp": 50}, "m2"))
    values.set("gold", 5, "m1")
    compact(values, 1)
    values.increment("hp", 1, "m3")
    assert values.data() == {"gold": 10, "hp": 51}

    values.chat.reconcile("m1", "m2")
    assert values.data() == {"gold": 10, "hp": 50}
    values.chat.reconcile("m1")
    assert values.data() == {"gold": 5, "hp": 50}


# Answers


def test_the_answer_to_a_late_patch_lists_what_no_longer_applies(values: Values) -> None:
    values.set("hp", 50)
    seen(values, "m1", "m2")
    revision = values.increment("hp", 1, "m2")

    headers = named("m1", None, {"content_type": MERGE_PATCH})
    answer = values.client.patch(f"{values.path}/data", json={"hp": "torn"}, headers=headers)

    found = answer.json()
    assert found["conflicts"][0].pop("reason")
    conflicts = [values.conflict("hp", "increment", revision)]
    assert found == {"success": True, "conflicts": conflicts}
    assert values.data() == {"hp": "torn"}


def test_a_batch_tells_what_a_key_reads_after_a_late_or_dormant_change(values: Values) -> None:
    values.set("bag", {"start": 1})
    seen(values, "m1", "m2")
    merge = {"op": "merge", "key": "bag", "value": {"gold": 1}}
    owner = {} if values.instance_id is None else {"instanceId": values.instance_id}

    def results(operation: dict[str, Any], message: str) -> Any:
        body = {"operations": [{**owner, **operation}]}
        headers = {"idempotency_key": f"{operation['op']}-{operation['key']}-{message}"}
        answers = [values.chat.send("POST", "/batch", body, message, **headers) for _ in range(2)]
        assert answers[0].text == answers[1].text
        return answers[0].json()["results"]

    assert results(merge, "m2") == [{}]
    assert results(merge, "m1") == [{"value": {"start": 1, "gold": 1}}]
    assert results({"op": "set", "key": "new", "value": 2}, "m2") == [{}]
    assert results({"op": "set", "key": "new", "value": 1}, "m1") == [
        {"value": 2, "superseded": True}
    ]
    values.chat.reconcile("m1")
    assert results({"op": "set", "key": "bag", "value": 1}, "m2") == [
        {"value": {"start": 1, "gold": 1}}
    ]
    assert results({"op": "set", "key": "hidden", "value": 1}, "m2") == [{}]


# Large values


def line(number: int) -> str:
    return f"{number} {'x' * 100}"


def add(values: Values, number: int, message: str | None = None) -> int:
    """Append to a value that is too large to be in the log each time."""
    return done(values.run({"op": "append", "key": "log", "value": line(number)}, message=message))


def numbers(log: list[str]) -> list[int]:
    return [int(each.split()[0]) for each in log]


def lines(values: Values, at: int | None = None) -> list[int]:
    return numbers(values.data(at=at)["log"])


@pytest.mark.parametrize("keep", [None, 0, 1, 3, 5, 7])
def test_a_late_change_of_a_large_value_leaves_the_past_as_it_was(
    values: Values, keep: int | None
) -> None:
    values.set("log", [line(number) for number in range(40)])
    seen(values, "m1", "m2", "m3")
    start = list(range(40))
    wanted = {
        add(values, 100, "m1"): [*start, 100],
        add(values, 300, "m3"): [*start, 100, 300],
        add(values, 301, "m3"): [*start, 100, 300, 301],
        # Late; then two that are in order, and are made of what came of it.
        add(values, 200, "m2"): [*start, 100, 200, 300, 301],
        add(values, 302, "m3"): [*start, 100, 200, 300, 301, 302],
        add(values, 303): [*start, 100, 200, 300, 301, 302, 303],
        add(values, 101, "m1"): [*start, 100, 101, 200, 300, 301, 302, 303],
        add(values, 304, "m3"): [*start, 100, 101, 200, 300, 301, 302, 303, 304],
    }
    if keep is not None:
        compact(values, keep)
        wanted = dict(list(wanted.items())[-1 - keep :])

    def check() -> None:
        assert {at: lines(values, at) for at in wanted} == wanted
        made = {item["revision"]: item for item in values.history(key="log")}
        pairs = itertools.pairwise(wanted.items())
        for (_, before), (revision, after) in pairs:
            assert numbers(made[revision]["before"]) == before
            assert numbers(made[revision]["after"]) == after

    check()
    values.chat.reconcile("m1", "m2")
    check()
    values.chat.reconcile("m1", "m2", "m3")
    check()
    assert lines(values) == [*start, 100, 101, 200, 300, 301, 302, 303, 304]
