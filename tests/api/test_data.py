"""Values over HTTP: every data route, and the order of keys."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import (
    DONE,
    instance,
    make_instance,
    outcome,
    refusal,
    refused_as,
    values_of,
)
from valuetracker.errors import (
    DataKeyNotFound,
    InstanceNotFound,
    InvalidBody,
    InvalidKey,
)

OVERRIDDEN = (200, {"success": True, "message": "Instance data overridden successfully"})
MERGED = (200, {"success": True, "message": "Instance data merged successfully"})


def set_value(client: httpx.Client, key: Any, value: Any, id: str = "sword") -> httpx.Response:
    return client.post(f"/instances/{id}/data", json={"key": key, "value": value})


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_value_is_set(client: httpx.Client, method: str) -> None:
    make_instance(client)

    answer = client.request(method, "/instances/sword/data", json={"key": "edge", "value": "keen"})

    assert outcome(answer) == (200, {"success": True, "key": "edge", "value": "keen"})
    assert answer.headers["x-revision"] == "2"
    assert values_of(client) == '{"edge":"keen"}'


def test_setting_an_equal_value_is_a_change(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = set_value(client, "edge", "keen")

    assert answer.headers["x-revision"] == "3"


def test_values_are_read_one_by_one_and_all_together(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "weight": 2, "owner": None}, "sword")

    assert outcome(client.get("/instances/sword/data/edge")) == (200, {"edge": "keen"})
    assert outcome(client.get("/instances/sword/data/owner")) == (200, {"owner": None})
    assert values_of(client) == '{"edge":"keen","weight":2,"owner":null}'


def test_an_absent_key_or_instance_reads_as_empty(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    assert outcome(client.get("/instances/sword/data/absent")) == (200, {})
    assert outcome(client.get("/instances/nothing/data")) == (200, {})
    assert outcome(client.get("/instances/nothing/data/edge")) == (200, {})


def test_reads_never_create_anything(client: httpx.Client) -> None:
    client.get("/instances/nothing/data")
    client.get("/instances/nothing/data/edge")

    assert outcome(client.get("/instances")) == (200, [])
    assert outcome(client.get("/characters")) == (200, [])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "`key` is required."),
        ({"key": "edge"}, "`value` is required."),
        ({"value": "keen"}, "`key` is required."),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_no_key_or_no_value_is_refused(
    client: httpx.Client, method: str, body: dict[str, Any], message: str
) -> None:
    make_instance(client)

    answer = client.request(method, "/instances/sword/data", json=body)

    assert outcome(answer) == refusal(InvalidBody(message))
    assert values_of(client) == "{}"


@pytest.mark.parametrize("key", [None, 5, True, [], {}])
def test_a_key_must_be_a_string(client: httpx.Client, key: Any) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    setting = set_value(client, key, 1)
    removing = client.put("/instances/sword/data/remove", json={"keys": ["edge", key]})

    assert outcome(setting) == refusal(InvalidKey("The key must be a string."))
    assert outcome(removing) == refusal(InvalidKey("The key must be a string."))
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/data", {"key": "edge", "value": 1}),
        ("PUT", "/data", {"key": "edge", "value": 1}),
        ("DELETE", "/data", None),
        ("PUT", "/data/override", {"edge": 1}),
        ("PUT", "/data/override", {}),
        ("PUT", "/data/merge", {"edge": 1}),
        ("PUT", "/data/merge", {}),
        ("PUT", "/data/remove", {"keys": ["edge"]}),
        ("PUT", "/data/remove", {"keys": []}),
    ],
)
def test_an_unknown_instance_is_not_found(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    answer = client.request(method, f"/instances/nothing{path}", json=body)

    assert outcome(answer) == refusal(InstanceNotFound())
    assert answer.json()["error"] == "Instance not found"
    assert outcome(client.get("/instances")) == (200, [])


def test_a_key_is_removed(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "weight": 2}, "sword")

    answer = client.delete("/instances/sword/data/edge")

    assert outcome(answer) == DONE
    assert answer.headers["x-revision"] == "4"
    assert values_of(client) == '{"weight":2}'


@pytest.mark.parametrize("id", ["sword", "nothing"])
def test_an_absent_key_cannot_be_removed(client: httpx.Client, id: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.delete(f"/instances/{id}/data/absent")

    assert outcome(answer) == refusal(DataKeyNotFound())
    assert answer.json()["error"] == "Data key not found"


def test_all_keys_are_cleared_and_the_instance_stays(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "weight": 2}, "sword")
    make_instance(client, {"crest": "dragon"}, "shield")

    answer = client.delete("/instances/sword/data")

    assert outcome(answer) == DONE
    assert outcome(client.get("/instances/sword")) == (
        200,
        {"instance": instance("sword", "arthur"), "data": {}},
    )
    assert values_of(client, "shield") == '{"crest":"dragon"}'


def test_an_override_replaces_all_values(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "weight": 2}, "sword")

    answer = client.put("/instances/sword/data/override", json={"owner": "Arthur", "edge": 3})

    assert outcome(answer) == OVERRIDDEN
    assert answer.headers["x-revision"] == "4"
    assert values_of(client) == '{"edge":3,"owner":"Arthur"}'


def test_an_empty_override_clears(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.put("/instances/sword/data/override", json={})

    assert outcome(answer) == OVERRIDDEN
    assert values_of(client) == "{}"


def test_a_merge_sets_each_key_whole_and_leaves_the_others(client: httpx.Client) -> None:
    make_instance(client, {"edge": {"state": "keen", "by": "smith"}, "weight": 2}, "sword")

    answer = client.put(
        "/instances/sword/data/merge", json={"owner": "Arthur", "edge": {"state": "dull"}}
    )

    assert outcome(answer) == MERGED
    assert answer.headers["x-revision"] == "4"
    assert values_of(client) == '{"edge":{"state":"dull"},"weight":2,"owner":"Arthur"}'


def test_a_merge_keeps_null_as_a_value(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    client.put("/instances/sword/data/merge", json={"edge": None})

    assert values_of(client) == '{"edge":null}'


def test_an_empty_merge_touches_nothing(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.put("/instances/sword/data/merge", json={})

    assert outcome(answer) == MERGED
    assert answer.headers["x-revision"] == "2"
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize(
    ("keys", "count", "left"),
    [
        (["edge"], 1, '{"weight":2,"owner":null}'),
        (["owner", "edge"], 2, '{"weight":2}'),
        (["edge", "absent", "edge"], 1, '{"weight":2,"owner":null}'),
        (["absent"], 0, '{"edge":"keen","weight":2,"owner":null}'),
        ([], 0, '{"edge":"keen","weight":2,"owner":null}'),
    ],
)
def test_named_keys_are_removed(
    client: httpx.Client, keys: list[str], count: int, left: str
) -> None:
    make_instance(client, {"edge": "keen", "weight": 2, "owner": None}, "sword")

    answer = client.put("/instances/sword/data/remove", json={"keys": keys})

    assert outcome(answer) == (200, {"success": True, "removedCount": count})
    assert answer.headers["x-revision"] == ("5" if count else "4")
    assert values_of(client) == left


@pytest.mark.parametrize("body", [{}, {"keys": None}, {"keys": "edge"}, {"keys": {"edge": 1}}])
def test_keys_to_remove_must_be_an_array(client: httpx.Client, body: Any) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.put("/instances/sword/data/remove", json=body)

    message = "`keys` must be an array of keys." if body else "`keys` is required."
    assert outcome(answer) == refusal(InvalidBody(message))
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.one_engine
@pytest.mark.parametrize("verb", ["override", "merge"])
@pytest.mark.parametrize("bad", ["", "a\x00b", "a\nb", "\x7f", "\x85", "x" * 1025])
def test_one_bad_key_refuses_the_whole_request(client: httpx.Client, verb: str, bad: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.put(f"/instances/sword/data/{verb}", json={"edge": "dull", bad: 1})

    assert outcome(answer) == refused_as(answer, InvalidKey)
    assert values_of(client) == '{"edge":"keen"}'


def test_an_update_keeps_the_position_of_a_key(client: httpx.Client) -> None:
    make_instance(client, {"a": 1, "b": 2, "c": 3}, "sword")

    set_value(client, "a", 4)
    client.put("/instances/sword/data/merge", json={"d": 7, "b": 5})

    assert values_of(client) == '{"a":4,"b":5,"c":3,"d":7}'


def test_a_key_removed_and_set_again_is_last(client: httpx.Client) -> None:
    make_instance(client, {"a": 1, "b": 2, "c": 3}, "sword")

    client.delete("/instances/sword/data/a")
    set_value(client, "a", 1)
    client.put("/instances/sword/data/remove", json={"keys": ["b"]})
    client.put("/instances/sword/data/merge", json={"b": 2})

    assert values_of(client) == '{"c":3,"a":1,"b":2}'


def test_an_override_keeps_the_positions_of_keys_it_keeps(client: httpx.Client) -> None:
    make_instance(client, {"a": 1, "b": 2, "c": 3}, "sword")

    client.put("/instances/sword/data/override", json={"z": 9, "c": 3, "y": 8, "a": 0})

    assert values_of(client) == '{"a":0,"c":3,"z":9,"y":8}'


def test_a_cleared_key_that_is_set_again_is_last(client: httpx.Client) -> None:
    make_instance(client, {"a": 1, "b": 2}, "sword")

    client.delete("/instances/sword/data")
    client.put("/instances/sword/data/merge", json={"b": 2, "a": 1})

    assert values_of(client) == '{"b":2,"a":1}'


def test_keys_that_look_like_numbers_keep_their_order(client: httpx.Client) -> None:
    make_instance(client)

    client.put("/instances/sword/data/merge", json={"10": 1, "9": 2, "b": 3, "1": 4})

    assert values_of(client) == '{"10":1,"9":2,"b":3,"1":4}'


def test_removing_an_empty_key_does_not_clear_the_instance(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.delete("/instances/sword/data/")

    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_key")
    assert client.get("/instances/sword/data").json() == {"edge": "keen"}
