"""Conditions: ETag and If-None-Match on reads, If-Match on writes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import JSON_PATCH, done, head, make_instance, outcome, refused, set_value

KEY = "/instances/sword/data/edge"
VALUES = "/instances/sword/data"
INSTANCE = "/instances/sword"
CHARACTER = "/characters/arthur"
LISTS = ["/characters", "/instances", "/instances?characterId=arthur", "/characters/x/instances"]


def etag(client: httpx.Client, path: str) -> int:
    tag = client.get(path).headers["etag"]
    assert tag == f'"{int(tag[1:-1])}"'
    return int(tag[1:-1])


def etags(client: httpx.Client) -> list[int]:
    return [etag(client, path) for path in (KEY, VALUES, INSTANCE, CHARACTER)]


def test_an_etag_is_the_revision_of_the_last_change_of_what_was_read(
    client: httpx.Client,
) -> None:
    make_instance(client, {"edge": 1, "hilt": 1})
    assert etags(client) == [2, 3, 3, 3]

    make_instance(client, {"boss": 1}, id="shield")
    assert etags(client) == [2, 3, 3, 5]

    make_instance(client, {"edge": 1}, id="crown", character_id="uther")
    assert etags(client) == [2, 3, 3, 5]

    set_value(client, "edge", 1)
    assert etags(client) == [8, 8, 8, 8]

    done(client.post("/characters", json={"id": "arthur", "name": "Arthur"}))
    assert etags(client) == [8, 8, 8, 9]


def test_removals_and_deletions_change_the_etag(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    make_instance(client, {"boss": 1}, id="shield")
    assert etags(client) == [2, 2, 2, 4]

    done(client.delete(KEY))
    assert etags(client) == [5, 5, 5, 5]

    done(client.delete("/instances/shield"))
    assert etags(client) == [5, 5, 5, 6]

    done(client.delete("/instances/sword"))
    assert (etag(client, VALUES), etag(client, CHARACTER)) == (7, 7)


def test_moving_an_instance_changes_the_etags_of_both_characters(client: httpx.Client) -> None:
    make_instance(client)
    done(client.post("/characters", json={"id": "uther"}))
    done(client.post("/characters", json={"id": "merlin"}))

    done(client.post("/instances", json={"id": "sword", "characterId": "uther"}))

    found = {id: etag(client, f"/characters/{id}") for id in ("arthur", "uther", "merlin")}
    assert found == {"arthur": 4, "uther": 4, "merlin": 3}


@pytest.mark.parametrize("path", LISTS)
def test_the_etag_of_a_list_is_the_revision_of_the_database(
    client: httpx.Client, path: str
) -> None:
    make_instance(client)
    assert etag(client, path) == 1

    set_value(client, "edge", 1)

    assert etag(client, path) == 2


def test_an_absent_key_or_instance_has_an_etag_too(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    assert etag(client, "/instances/sword/data/none") == 0
    assert etag(client, "/instances/none/data") == 0


def test_the_past_has_an_etag_that_stays(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1, "hilt": 1})

    first = client.get(f"{INSTANCE}?at=2")
    set_value(client, "edge", 2)
    again = client.get(f"{INSTANCE}?at=2", headers={"if-none-match": first.headers["etag"]})

    assert (again.status_code, again.content) == (304, b"")


CONDITIONS = [
    ('"2"', 304),
    ('W/"2"', 304),
    ('"1", "2"', 304),
    ('"1",W/"2" , "9"', 304),
    ("*", 304),
    ('"1"', 200),
    ('"3"', 200),
    ('"22"', 200),
    ("2", 200),
    ('"1", "3"', 200),
    ("", 200),
    ("'2'", 200),
]


@pytest.mark.one_engine
@pytest.mark.parametrize("from_memory", [False, True])
@pytest.mark.parametrize("path", [KEY, VALUES, INSTANCE, CHARACTER, "/characters", "/instances"])
@pytest.mark.parametrize(("condition", "status"), CONDITIONS)
def test_an_answer_that_the_caller_has_is_not_sent_again(
    client: httpx.Client, path: str, condition: str, status: int, from_memory: bool
) -> None:
    make_instance(client, {"edge": 1})
    full = client.get(path) if from_memory else None

    answer = client.get(path, headers={"if-none-match": condition})

    assert answer.status_code == status
    assert answer.headers["etag"] == '"2"'
    assert answer.headers["cache-control"] == "no-store"
    expected = b"" if status == 304 else client.get(path).content
    assert answer.content == expected
    if full is not None:
        assert client.get(path).content == full.content


@pytest.mark.parametrize("from_memory", [False, True])
def test_a_conditional_read_after_a_change_gets_the_new_answer(
    client: httpx.Client, from_memory: bool
) -> None:
    make_instance(client, {"edge": 1})
    if from_memory:
        client.get(KEY)
    set_value(client, "edge", 2)

    answer = client.get(KEY, headers={"if-none-match": '"2"'})

    assert (answer.status_code, answer.json(), answer.headers["etag"]) == (200, {"edge": 2}, '"3"')


@pytest.mark.parametrize("from_memory", [False, True])
def test_two_conditions_are_refused(client: httpx.Client, from_memory: bool) -> None:
    make_instance(client, {"edge": 1})
    if from_memory:
        client.get(KEY)

    answer = client.get(KEY, headers=[("if-none-match", '"1"'), ("if-none-match", '"2"')])

    assert refused(answer) == (400, "invalid_header", {})


def test_another_extension_is_answered_not_modified_too(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    make_instance(client, {"edge": 1})
    path = f"/cross-extension/instances/{extension_id}/sword/data"

    with shared_server.client() as stranger:
        answers = [stranger.get(path, headers={"if-none-match": '"2"'}) for _ in range(2)]
        answers.append(stranger.head(path, headers={"if-none-match": '"2"'}))

    assert [answer.status_code for answer in answers] == [304] * 3


# Method, path, body, and what the condition is about: the key, the instance or the character.
GUARDED: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", VALUES, {"json": {"key": "edge", "value": 2}}, KEY),
    ("PUT", VALUES, {"json": {"key": "edge", "value": 2}}, KEY),
    ("DELETE", KEY, {}, KEY),
    ("DELETE", VALUES, {}, INSTANCE),
    ("PUT", f"{VALUES}/override", {"json": {"a": 1}}, INSTANCE),
    ("PUT", f"{VALUES}/merge", {"json": {"a": 1}}, INSTANCE),
    ("PUT", f"{VALUES}/remove", {"json": {"keys": ["edge"]}}, INSTANCE),
    ("PATCH", VALUES, {"json": {"a": 1}}, INSTANCE),
    (
        "PATCH",
        VALUES,
        {
            "content": '[{"op":"add","path":"/a","value":1}]',
            "headers": {"content-type": JSON_PATCH},
        },
        INSTANCE,
    ),
    ("POST", "/instances", {"json": {"id": "sword", "characterId": "x"}}, INSTANCE),
    ("DELETE", INSTANCE, {}, INSTANCE),
    ("POST", f"{INSTANCE}/restore", {"json": {"revision": 2}}, INSTANCE),
    ("POST", "/characters", {"json": {"id": "arthur", "name": "A"}}, CHARACTER),
    ("DELETE", CHARACTER, {}, CHARACTER),
    ("DELETE", f"{CHARACTER}/instances", {}, CHARACTER),
    ("POST", f"{CHARACTER}/restore", {"json": {"revision": 2}}, CHARACTER),
]


def send(
    client: httpx.Client, method: str, path: str, given: dict[str, Any], condition: str
) -> httpx.Response:
    headers = {**given.get("headers", {}), "if-match": condition}
    return client.request(method, path, **{**given, "headers": headers})


@pytest.mark.parametrize(("method", "path", "given", "addressed"), GUARDED)
def test_a_write_is_refused_if_its_target_has_changed_since(
    client: httpx.Client, method: str, path: str, given: dict[str, Any], addressed: str
) -> None:
    # The key is at 2, the instance at 3, the character at 5, the head at 6.
    make_instance(client, {"edge": 1, "hilt": 1})
    make_instance(client, {"boss": 1}, id="shield")
    done(client.post("/characters", json={"id": "uther"}))
    current = {KEY: 2, INSTANCE: 3, CHARACTER: 5}[addressed]

    stale = send(client, method, path, given, f'"{current - 1}"')

    details = {"expected": current - 1, "current": current}
    assert refused(stale) == (412, "revision_conflict", details)
    assert head(client) == 6

    fresh = send(client, method, path, given, f'"{current}"')

    assert done(fresh) == 7


def test_a_newer_revision_than_the_last_change_passes(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1, "hilt": 1})

    answer = send(client, "POST", VALUES, GUARDED[0][2], '"3"')

    assert done(answer) == 4


def test_if_match_zero_passes_only_for_a_key_that_never_existed(client: httpx.Client) -> None:
    make_instance(client)
    new = {"json": {"key": "edge", "value": 1}}

    assert done(send(client, "POST", VALUES, new, '"0"')) == 2
    again = send(client, "POST", VALUES, new, '"0"')
    assert refused(again) == (412, "revision_conflict", {"expected": 0, "current": 2})
    done(client.delete(KEY))
    # Its removal was a change, too.
    removed = send(client, "POST", VALUES, new, '"2"')
    assert refused(removed) == (412, "revision_conflict", {"expected": 2, "current": 3})
    assert done(send(client, "POST", VALUES, new, '"3"')) == 4


def test_if_match_is_compared_with_the_deletion_of_an_instance(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    done(client.delete(INSTANCE))
    again = {"json": {"id": "sword", "characterId": "arthur"}}

    stale = send(client, "POST", "/instances", again, '"2"')

    assert refused(stale) == (412, "revision_conflict", {"expected": 2, "current": 3})
    assert done(send(client, "POST", "/instances", again, '"3"')) == 4


def test_existence_is_checked_before_the_condition(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    answers = [
        send(client, "DELETE", "/instances/none", {}, '"0"'),
        send(client, "DELETE", f"{VALUES}/none", {}, '"0"'),
        send(client, "PUT", "/instances/none/data/merge", {"json": {"a": 1}}, '"0"'),
        send(client, "DELETE", "/characters/none", {}, '"0"'),
    ]

    assert [answer.status_code for answer in answers] == [404] * 4


MALFORMED = ["2", "", "*", '"2", "3"', 'W/"2"', '"x"', '"-1"', '"2', '""', '"9999999999999999999"']


@pytest.mark.one_engine
@pytest.mark.parametrize("condition", MALFORMED)
def test_a_malformed_condition_is_refused(client: httpx.Client, condition: str) -> None:
    make_instance(client, {"edge": 1})

    for method, path, given, _ in GUARDED:
        answer = send(client, method, path, given, condition)
        assert refused(answer) == (400, "invalid_header", {}), (method, path)
    assert head(client) == 2


def test_a_condition_given_twice_is_refused(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    answer = client.delete(KEY, headers=[("if-match", '"2"'), ("if-match", '"2"')])

    assert refused(answer) == (400, "invalid_header", {})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/batch", {"operations": [{"op": "clear", "instanceId": "sword"}]}),
        ("/compact", {"keep": {"revisions": 0}}),
    ],
)
def test_some_routes_refuse_if_match(client: httpx.Client, path: str, body: Any) -> None:
    make_instance(client, {"edge": 1})

    answer = client.post(path, json=body, headers={"if-match": '"2"'})

    assert refused(answer) == (400, "invalid_header", {})
    assert outcome(client.get(f"{VALUES}?at=1")) == (200, {})
    assert outcome(client.get(VALUES)) == (200, {"edge": 1})


def test_many_clients_that_compare_and_set_lose_no_write(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    make_instance(client, {"edge": 0})

    def add_five(_: int) -> None:
        with shared_server.client(extension_id) as mine:
            added = 0
            while added < 5:
                seen = mine.get(KEY)
                body = {"json": {"key": "edge", "value": seen.json()["edge"] + 1}}
                answer = send(mine, "PUT", VALUES, body, seen.headers["etag"])
                assert answer.status_code in (200, 412), answer.text
                added += answer.status_code == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_five, range(8)))

    assert outcome(client.get(KEY)) == (200, {"edge": 40})
    assert head(client) == 42


def test_a_revision_that_does_not_exist_matches_nothing(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    answer = client.put(VALUES, json={"key": "edge", "value": 2}, headers={"if-match": '"99"'})

    assert refused(answer) == (412, "revision_conflict", {"expected": 99, "current": 2})
    assert client.get(KEY).json() == {"edge": 1}
