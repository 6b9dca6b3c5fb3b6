"""The headers of writes and of their answers: revision, actor, anchor."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import done, head, make_instance, outcome, refused, set_value, values_of

VALUES = "/instances/sword/data"
WRITE = {"key": "edge", "value": 2}


def last_item(client: httpx.Client) -> dict[str, Any]:
    items = client.get("/instances/sword/history?limit=1").json()["items"]
    found: dict[str, Any] = items[0]
    return found


def write(client: httpx.Client, headers: Any) -> httpx.Response:
    return client.post(VALUES, json=WRITE, headers=headers)


def test_each_request_that_changes_something_makes_one_revision(client: httpx.Client) -> None:
    answers = [
        client.post("/characters", json={"id": "arthur", "name": "Arthur"}),
        client.post("/instances", json={"id": "sword", "characterId": "uther"}),
        client.post(VALUES, json={"key": "edge", "value": 1}),
        client.post(VALUES, json={"key": "edge", "value": 1}),
        client.put(f"{VALUES}/merge", json={"a": 1, "b": 2, "c": 3}),
        client.put(f"{VALUES}/remove", json={"keys": ["a", "none", "b"]}),
        client.put(f"{VALUES}/override", json={"edge": 2}),
        client.patch(VALUES, json={"edge": None, "hilt": 1}),
        client.delete(f"{VALUES}/hilt"),
        client.put(f"{VALUES}/override", json={"x": 1}),
        client.delete(VALUES),
        client.delete("/characters/uther"),
    ]

    assert [done(answer) for answer in answers] == list(range(1, 13))


def test_a_request_that_changes_nothing_makes_no_revision_and_answers_the_present_one(
    client: httpx.Client,
) -> None:
    done(client.post("/characters", json={"id": "arthur", "name": "Arthur"}))
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "name": "S"}))

    answers = [
        client.post("/characters", json={"id": "arthur", "name": "Arthur"}),
        client.post("/characters", json={"id": "arthur", "name": ""}),
        client.post("/instances", json={"id": "sword", "characterId": "arthur"}),
        client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": None}),
        client.put(f"{VALUES}/merge", json={}),
        client.put(f"{VALUES}/override", json={}),
        client.put(f"{VALUES}/remove", json={"keys": ["none"]}),
        client.patch(VALUES, json={}),
        client.patch(VALUES, json={"none": None}),
        client.delete(VALUES),
        client.delete("/characters/none/instances"),
        client.post(
            "/batch", json={"operations": [{"op": "remove", "instanceId": "sword", "key": "x"}]}
        ),
        client.post("/instances/sword/restore", json={"revision": 2}),
        client.post("/compact", json={"keep": {"revisions": 9}}),
    ]

    assert [done(answer) for answer in answers] == [2] * len(answers)
    assert head(client) == 2


def test_a_refused_request_makes_no_revision(client: httpx.Client) -> None:
    make_instance(client)

    statuses = [
        client.post(VALUES, json={"key": "edge"}).status_code,
        client.delete(f"{VALUES}/none").status_code,
        client.delete("/instances/none").status_code,
        client.put(f"{VALUES}/merge", json=[1]).status_code,
    ]

    assert statuses == [400, 404, 404, 400]
    assert set_value(client, "edge", 1) == 2


def test_the_revisions_of_many_clients_at_once_have_no_gap(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    make_instance(client)

    def write_many(number: int) -> list[int]:
        with shared_server.client(extension_id) as mine:
            return [set_value(mine, f"key {number}", each) for each in range(25)]

    with ThreadPoolExecutor(8) as pool:
        revisions = list(pool.map(write_many, range(8)))

    assert all(each == sorted(each) for each in revisions)
    assert sorted(itertools.chain(*revisions)) == list(range(2, 202))
    events = client.get("/changes?since=1&limit=1000").json()["items"]
    assert [event["revision"] for event in events] == list(range(2, 202))


def deregister(client: httpx.Client, **body: Any) -> None:
    assert client.request("DELETE", "/register", json=body).status_code == 200


def test_revisions_continue_after_a_purge(extension_id: str, shared_server: RunningServer) -> None:
    with shared_server.client(extension_id) as client:
        assert make_instance(client, {"edge": 1}) == 2
        deregister(client, extensionId=extension_id, purge=True)
        shared_server.register(extension_id)

        revision = make_instance(client, {"edge": 1})

        assert revision == 4
        assert [each["revision"] for each in client.get("/changes?since=2").json()["items"]] == [
            3,
            4,
        ]
        assert refused(client.get("/changes?since=1"))[:2] == (410, "compacted")


def test_revisions_continue_above_the_old_ones_when_an_older_file_is_put_back(
    tmp_path: Path,
) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client, {"edge": 1})
    older = (tmp_path / "demo.db").read_bytes()
    with running_server(tmp_path) as server, server.client("demo") as client:
        assert [set_value(client, "edge", number) for number in range(5)][-1] == 7
    (tmp_path / "demo.db").write_bytes(older)

    with running_server(tmp_path) as server, server.client("demo") as client:
        deregister(client, extensionId="demo")
        server.register("demo")

        assert values_of(client) == '{"edge":1}'
        assert client.get("/changes").json()["next"] == "7.1"
        assert set_value(client, "edge", "on") == 8
        # The numbers in between belong to the lost revisions.
        events = client.get("/changes?since=0.1").json()["items"]
        assert [event["revision"] for event in events] == [1, 2, 8]
        assert values_of(client, at=5) == '{"edge":1}'


def test_revisions_survive_a_restart_and_a_deregistration(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client, {"edge": 1})
            deregister(client, extensionId="demo")

    with running_server(tmp_path) as server, server.client("demo") as client:
        server.register("demo")
        assert set_value(client, "edge", 2) == 3


@pytest.mark.parametrize("actor", ["user", "extension", "a", "A-Z_0.9", "x" * 64])
def test_an_actor_is_recorded(client: httpx.Client, actor: str) -> None:
    make_instance(client)

    done(write(client, {"x-actor": actor}))

    assert last_item(client)["actor"] == actor


@pytest.mark.one_engine
@pytest.mark.parametrize("actor", ["", "two words", "x" * 65, "é".encode(), "a,b", "<b>"])
def test_a_malformed_actor_is_refused(client: httpx.Client, actor: str | bytes) -> None:
    make_instance(client)

    assert refused(write(client, {"x-actor": actor})) == (400, "invalid_header", {})
    assert head(client) == 1


@pytest.mark.parametrize("text", ["m1", "é", "日本語", "🗡️", "a/b", "100%", "a b", "%41", "x" * 512])
def test_an_anchor_is_any_text_percent_encoded(client: httpx.Client, text: str) -> None:
    make_instance(client)

    done(write(client, {"x-message-id": quote(text, safe=""), "x-swipe-id": quote(text)}))

    assert last_item(client)["anchor"] == {"messageId": text, "swipe": text}


def test_a_swipe_is_zero_by_default_and_ignored_without_a_message(client: httpx.Client) -> None:
    make_instance(client)

    done(write(client, {"x-message-id": "m1"}))
    assert last_item(client)["anchor"] == {"messageId": "m1", "swipe": "0"}
    done(write(client, {"x-swipe-id": "3"}))
    assert last_item(client)["anchor"] is None


TEXT_HEADERS = ["x-message-id", "x-swipe-id", "x-chat-id", "idempotency-key"]


@pytest.mark.one_engine
@pytest.mark.parametrize("name", TEXT_HEADERS)
@pytest.mark.parametrize(
    "text",
    ["", "%", "%zz", "%ff", "%C3", "%00", "%0A", "%7F", "%C2%85", "x" * 513, "%20m", b"\xff"],
)
def test_malformed_header_text_is_refused(
    client: httpx.Client, name: str, text: str | bytes
) -> None:
    make_instance(client)

    assert refused(write(client, {name: text})) == (400, "invalid_header", {})
    assert head(client) == 1


@pytest.mark.one_engine
@pytest.mark.parametrize("name", [*TEXT_HEADERS, "x-actor", "if-match", "content-type"])
def test_a_header_given_twice_is_refused(client: httpx.Client, name: str) -> None:
    make_instance(client)
    value = {"if-match": '"1"', "content-type": "application/json"}.get(name, "1")
    body = b'{"key":"edge","value":2}'

    answer = client.post(VALUES, content=body, headers=[(name, value), (name, value)])

    assert refused(answer) == (400, "invalid_header", {})
    assert head(client) == 1


def test_raw_utf8_in_a_header_is_accepted(client: httpx.Client) -> None:
    make_instance(client)

    done(write(client, {"x-message-id": "é".encode()}))

    assert last_item(client)["anchor"] == {"messageId": "é", "swipe": "0"}


def test_changes_of_characters_and_instances_are_never_anchored(client: httpx.Client) -> None:
    headers = {"x-message-id": "m1"}
    body = {"id": "sword", "characterId": "arthur"}
    done(client.post("/instances", json=body, headers=headers))
    done(client.post("/characters", json={"id": "arthur", "name": "A"}, headers=headers))
    done(write(client, headers))
    done(client.delete("/characters/arthur", headers=headers))

    events = client.get("/changes?since=0").json()["items"]

    anchors = [[change["anchor"] for change in event["changes"]] for event in events]
    assert anchors == [[None, None], [None], [{"messageId": "m1", "swipe": "0"}], [None] * 3]


def test_the_answer_to_a_read_has_no_revision_header(client: httpx.Client) -> None:
    make_instance(client)

    answer = client.get("/instances/sword", headers={"x-actor": "user", "x-message-id": "m"})

    assert outcome(answer)[0] == 200
    assert "x-revision" not in answer.headers
