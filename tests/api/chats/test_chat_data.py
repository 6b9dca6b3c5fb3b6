"""The values of a chat: every data route, on the chat itself and on its instances."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import JSON_PATCH, done, head, outcome, refused
from tests.support.chat import MERGED, OVERRIDDEN, Chat, Values

DONE = (200, {"success": True})


def fill(values: Values, **given: Any) -> None:
    """Set all values in one revision, which is 2 with the fixture."""
    done(values.send("PUT", "/data/override", given))


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_value_is_set_and_read(values: Values, method: str) -> None:
    answer = values.send(method, "/data", {"key": "hp", "value": {"b": 1, "a": [None]}})

    body = {"success": True, "key": "hp", "value": {"b": 1, "a": [None]}}
    assert outcome(answer) == (200, body)
    assert answer.headers["x-revision"] == "2"
    assert values.text() == '{"hp":{"b":1,"a":[null]}}'
    assert outcome(values.send("GET", "/data/hp")) == (200, {"hp": {"b": 1, "a": [None]}})
    assert outcome(values.send("GET", "/data/mp")) == (200, {})


def test_setting_an_equal_value_is_a_change(values: Values) -> None:
    values.set("hp", 50)

    assert values.set("hp", 50) == 3


def test_a_key_is_removed(values: Values) -> None:
    fill(values, hp=50, mp=1)

    answer = values.send("DELETE", "/data/hp")

    assert (outcome(answer), answer.headers["x-revision"]) == (DONE, "3")
    assert values.text() == '{"mp":1}'
    again = values.send("DELETE", "/data/hp")
    assert refused(again) == (404, "data_key_not_found", {})
    assert again.json()["error"] == "Data key not found"


def test_all_keys_are_cleared(values: Values) -> None:
    fill(values, hp=50, mp=1)

    answer = values.send("DELETE", "/data")

    assert (outcome(answer), answer.headers["x-revision"]) == (DONE, "3")
    assert values.text() == "{}"


def test_an_override_replaces_all_and_keeps_the_position_of_keys_it_keeps(values: Values) -> None:
    fill(values, a=1, b=2, c=3)

    answer = values.send("PUT", "/data/override", {"z": 9, "c": 3, "a": 0})

    assert (outcome(answer), answer.headers["x-revision"]) == (OVERRIDDEN, "3")
    assert values.text() == '{"a":0,"c":3,"z":9}'


def test_a_merge_sets_each_key_whole(values: Values) -> None:
    fill(values, edge={"state": "keen", "by": "smith"}, weight=2)

    answer = values.send("PUT", "/data/merge", {"owner": None, "edge": {"state": "dull"}})

    assert (outcome(answer), answer.headers["x-revision"]) == (MERGED, "3")
    assert values.text() == '{"edge":{"state":"dull"},"weight":2,"owner":null}'


def test_named_keys_are_removed(values: Values) -> None:
    fill(values, a=1, b=2, c=3)

    answer = values.send("PUT", "/data/remove", {"keys": ["c", "none", "a"]})

    assert outcome(answer) == (200, {"success": True, "removedCount": 2})
    assert values.text() == '{"b":2}'
    nothing = values.send("PUT", "/data/remove", {"keys": ["none"]})
    assert outcome(nothing) == (200, {"success": True, "removedCount": 0})
    assert nothing.headers["x-revision"] == "3"


def test_a_merge_patch_is_deep_and_null_removes(values: Values) -> None:
    fill(values, edge={"left": 1, "right": 2}, rust=True)

    answer = values.send("PATCH", "/data", {"edge": {"right": None, "top": 3}, "rust": None})

    assert done(answer) == 3
    assert values.text() == '{"edge":{"left":1,"top":3}}'


def test_a_json_patch_is_done_whole_or_not_at_all(values: Values) -> None:
    fill(values, tags=["a"], hp=50)

    def patch(*operations: dict[str, Any]) -> httpx.Response:
        return values.client.patch(
            f"{values.path}/data", json=list(operations), headers={"content-type": JSON_PATCH}
        )

    add = {"op": "add", "path": "/tags/-", "value": "b"}
    failed = patch(add, {"op": "test", "path": "/hp", "value": 51})
    assert refused(failed)[:2] == (409, "test_failed")
    assert values.data() == {"tags": ["a"], "hp": 50}
    assert done(patch(add, {"op": "test", "path": "/hp", "value": 50})) == 3
    assert values.data() == {"tags": ["a", "b"], "hp": 50}


def test_a_batch_does_every_operation(values: Values) -> None:
    answer = values.run(
        {"op": "set", "key": "s", "value": {"a": 1}},
        {"op": "merge", "key": "s", "value": {"b": 2}},
        {"op": "increment", "key": "n", "by": 2},
        {"op": "append", "key": "l", "value": 1},
        {"op": "addToSet", "key": "l", "value": 1},
        {"op": "pull", "key": "l", "value": 1},
        {"op": "remove", "key": "l"},
        {"op": "clear"},
        {"op": "set", "key": "last", "value": 1},
    )

    results = [
        {"value": {"a": 1}},
        {"value": {"a": 1, "b": 2}},
        {"value": 2},
        {"value": [1]},
        {"added": False},
        {"value": []},
        {"removed": True},
        {"removedCount": 2},
        {"value": 1},
    ]
    assert outcome(answer) == (200, {"revision": 2, "results": results})
    assert values.text() == '{"last":1}'


def test_the_past_reads_as_it_was(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45)
    done(values.send("DELETE", "/data/hp"))

    assert [values.data(at) for at in range(1, 5)] == [{}, {"hp": 50}, {"hp": 45}, {}]
    answer = values.client.get(f"{values.path}/data/hp", params={"at": 3})
    assert outcome(answer) == (200, {"hp": 45})
    future = values.client.get(f"{values.path}/data", params={"at": 5})
    assert refused(future) == (400, "revision_unknown", {"current": 4})


@pytest.mark.one_engine
@pytest.mark.parametrize("body", [[], 5, "text", None])
@pytest.mark.parametrize("verb", ["override", "merge"])
def test_a_body_that_is_no_object_changes_nothing(values: Values, verb: str, body: Any) -> None:
    values.set("hp", 50)

    answer = values.client.put(f"{values.path}/data/{verb}", json=body)
    empty = values.client.put(f"{values.path}/data/{verb}")

    assert (answer.status_code, empty.status_code) == (400, 400)
    assert (values.data(), head(values.client)) == ({"hp": 50}, 2)


def test_if_match_on_one_key_is_compared_with_the_revision_of_the_key(values: Values) -> None:
    values.set("hp", 50)
    values.set("mp", 1)
    body = {"key": "hp", "value": 45}
    assert (values.etag("/data/hp"), values.etag("/data/mp")) == ('"2"', '"3"')

    stale = values.send("POST", "/data", body, if_match='"1"')
    fresh = values.send("POST", "/data", body, if_match='"2"')

    assert refused(stale) == (412, "revision_conflict", {"expected": 1, "current": 2})
    assert done(fresh) == 4


GUARDED: list[tuple[str, str, Any]] = [
    ("DELETE", "/data", None),
    ("PUT", "/data/override", {"mp": 1}),
    ("PUT", "/data/merge", {"mp": 1}),
    ("PUT", "/data/remove", {"keys": ["hp"]}),
    ("PATCH", "/data", {"mp": 1}),
    ("POST", "/restore", {"revision": 1}),
]


@pytest.mark.parametrize(("method", "path", "body"), GUARDED)
def test_if_match_on_all_keys_is_compared_with_the_revision_of_the_holder(
    values: Values, method: str, path: str, body: Any
) -> None:
    values.set("hp", 50)
    assert values.etag() == '"2"'

    stale = values.send(method, path, body, if_match='"1"')

    assert refused(stale) == (412, "revision_conflict", {"expected": 1, "current": 2})
    assert done(values.send(method, path, body, if_match='"2"')) == 3


def test_an_answer_that_the_caller_has_is_not_sent_again(values: Values) -> None:
    values.set("hp", 50)

    for path in ("/data", "/data/hp", ""):
        answer = values.send("GET", path, if_none_match='"2"')
        assert (answer.status_code, answer.content) == (304, b"")
    values.set("hp", 45)
    answer = values.send("GET", "/data", if_none_match='"2"')
    assert (outcome(answer), answer.headers["etag"]) == ((200, {"hp": 45}), '"3"')


# Only chats.


def test_the_etag_of_a_chat_changes_with_its_instances(chat: Chat) -> None:
    chat.set("hp", 50)
    sword = chat.instance("sword")
    assert (chat.etag(), chat.etag(""), chat.etag("/data/hp")) == ('"2"', '"2"', '"1"')

    sword.set("hp", 7)
    assert (chat.etag(), chat.etag(""), chat.etag("/data/hp")) == ('"3"', '"3"', '"1"')

    Chat(chat.client, "other").set("hp", 1)
    assert chat.etag() == '"3"'
    assert chat.client.get("/chats").headers["etag"] == '"4"'


@pytest.mark.parametrize("path", ["/state", "/processed/seen", "/processed/seen/a"])
def test_a_read_of_rows_that_change_without_a_revision_has_no_etag(chat: Chat, path: str) -> None:
    chat.claim("seen", "a")

    assert "etag" not in chat.send("GET", path).headers


def test_a_chat_and_its_instances_have_separate_values(chat: Chat) -> None:
    sword, shield = chat.instance("sword"), chat.instance("shield")
    chat.set("hp", 1)
    sword.set("hp", 2)
    shield.set("hp", 3)

    done(sword.send("DELETE", "/data"))

    assert (chat.data(), sword.data(), shield.data()) == ({"hp": 1}, {}, {"hp": 3})
    done(chat.send("DELETE", "/data"))
    assert (chat.data(), sword.data(), shield.data()) == ({}, {}, {"hp": 3})


def test_a_chat_and_an_instance_of_the_same_id_have_separate_values(client: httpx.Client) -> None:
    same, other = Chat(client, "same"), Chat(client, "other")
    inner = other.instance("same")
    same.set("hp", 1)
    inner.set("hp", 2)

    assert (same.data(), inner.data(), other.data()) == ({"hp": 1}, {"hp": 2}, {})
    done(same.send("DELETE", "/data/hp"))
    assert (same.data(), inner.data()) == ({}, {"hp": 2})


def test_removals_never_create_a_chat(chat: Chat) -> None:
    removed = chat.send("PUT", "/data/remove", {"keys": ["hp"]})
    cleared = chat.send("DELETE", "/data")
    one = chat.send("DELETE", "/data/hp")
    versions = chat.send("DELETE", "/series/recap")
    version = chat.send("DELETE", "/series/recap/1")
    id = chat.send("DELETE", "/processed/seen/a")

    assert outcome(removed) == (200, {"success": True, "removedCount": 0})
    assert outcome(cleared) == DONE
    assert refused(one) == (404, "data_key_not_found", {})
    assert outcome(versions) == (200, {"clearedCount": 0})
    assert refused(version)[:2] == (404, "version_not_found")
    assert refused(id)[:2] == (404, "processed_not_found")
    assert (chat.client.get("/chats").json(), head(chat.client)) == ([], 0)


def test_a_batch_of_a_chat_changes_its_instances_in_one_revision(chat: Chat) -> None:
    sword = chat.instance("sword")

    answer = chat.run(
        {"op": "set", "key": "hp", "value": 1},
        {"op": "set", "key": "hp", "value": 2, "instanceId": "sword"},
        {"op": "increment", "key": "hp", "by": 1},
    )

    results = [{"value": 1}, {"value": 2}, {"value": 2}]
    assert outcome(answer) == (200, {"revision": 2, "results": results})
    assert (chat.data(), sword.data()) == ({"hp": 2}, {"hp": 2})


@pytest.mark.parametrize(
    ("instance_id", "expected"),
    [
        ("foreign", (409, "chat_mismatch", {"index": 1})),
        ("unbound", (409, "chat_mismatch", {"index": 1})),
        ("nothing", (404, "instance_not_found", {"index": 1})),
    ],
)
def test_a_batch_of_a_chat_cannot_change_other_instances(
    chat: Chat, instance_id: str, expected: Any
) -> None:
    chat.instance("sword")
    Chat(chat.client, "other").instance("foreign")
    done(chat.client.post("/instances", json={"id": "unbound", "characterId": "arthur"}))

    answer = chat.run(
        {"op": "set", "key": "hp", "value": 1},
        {"op": "set", "key": "hp", "value": 2, "instanceId": instance_id},
    )

    assert refused(answer) == expected
    assert (chat.data(), head(chat.client)) == ({}, 3)


def test_a_batch_of_a_chat_that_fails_creates_no_chat(chat: Chat) -> None:
    answer = chat.run(
        {"op": "set", "key": "hp", "value": "text"}, {"op": "increment", "key": "hp", "by": 1}
    )

    assert refused(answer) == (409, "type_conflict", {"index": 1})
    assert (chat.client.get("/chats").json(), head(chat.client)) == ([], 0)
