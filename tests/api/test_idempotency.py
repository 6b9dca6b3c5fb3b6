"""Idempotency-Key: a repeated request gets the same answer and is done once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import orjson
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import (
    JSON_PATCH,
    MERGE_PATCH,
    done,
    head,
    make_instance,
    refused,
    set_value,
)
from valuetracker.app import create_engine
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extensions import Extensions
from valuetracker.settings import Settings
from valuetracker.store.batch import BatchOperation, run_batch
from valuetracker.store.data import list_values
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.context import Context
from valuetracker.store.tx.jobs import Written

VALUES = "/instances/sword/data"
INCREMENT = {"operations": [{"op": "increment", "instanceId": "sword", "key": "hits", "by": 1}]}
PATCH = {"content": '[{"op":"add","path":"/a","value":1}]', "headers": {"content-type": JSON_PATCH}}
MERGE = {"content": '{"a":1}', "headers": {"content-type": MERGE_PATCH}}

# Every writing route, by a request that changes something.
WRITES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/characters", {"json": {"id": "new"}}),
    ("DELETE", "/characters/arthur", {}),
    ("POST", "/characters/arthur/restore", {"json": {"revision": 2}}),
    ("DELETE", "/characters/arthur/instances", {}),
    ("POST", "/instances", {"json": {"id": "new", "characterId": "new"}}),
    ("DELETE", "/instances/sword", {}),
    ("POST", "/instances/sword/restore", {"json": {"revision": 2}}),
    ("POST", VALUES, {"json": {"key": "edge", "value": 2}}),
    ("PUT", VALUES, {"json": {"key": "edge", "value": 2}}),
    ("DELETE", f"{VALUES}/edge", {}),
    ("DELETE", VALUES, {}),
    ("PUT", f"{VALUES}/override", {"json": {"a": 1}}),
    ("PUT", f"{VALUES}/merge", {"json": {"a": 1}}),
    ("PUT", f"{VALUES}/remove", {"json": {"keys": ["edge"]}}),
    ("PATCH", VALUES, {"json": {"a": 1}}),
    ("PATCH", VALUES, MERGE),
    ("PATCH", VALUES, PATCH),
    ("POST", "/batch", {"json": INCREMENT}),
]


def send(
    client: httpx.Client, method: str, path: str, given: dict[str, Any], **headers: str
) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    sent = {"idempotency-key": "k", **given.get("headers", {}), **named}
    return client.request(method, path, **{**given, "headers": sent})


def is_replay(answer: httpx.Response) -> bool:
    assert answer.headers.get("idempotency-replayed", "true") == "true"
    return "idempotency-replayed" in answer.headers


@pytest.mark.parametrize(("method", "path", "given"), WRITES)
def test_the_same_request_is_answered_the_same_and_done_once(
    client: httpx.Client, method: str, path: str, given: dict[str, Any]
) -> None:
    make_instance(client, {"edge": 1, "hilt": 1})
    first = send(client, method, path, given)
    assert (done(first), is_replay(first)) == (4, False)
    # A change in between, which would alter the answer if the request were done again.
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "name": "S"}))
    set_value(client, "edge", "since")
    now = head(client)

    again = send(client, method, path, given)

    assert (done(again), is_replay(again)) == (4, True)
    assert again.content == first.content
    assert head(client) == now


def test_a_request_that_changed_nothing_is_remembered_too(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    removal = ("PUT", f"{VALUES}/remove", {"json": {"keys": ["hilt"]}})
    first = send(client, *removal)
    set_value(client, "hilt", 1)

    again = send(client, *removal)

    assert (done(first), is_replay(first), done(again), is_replay(again)) == (2, False, 2, True)
    assert client.get(VALUES).json() == {"edge": 1, "hilt": 1}


def test_a_compaction_is_remembered_too(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    first = send(client, "POST", "/compact", {"json": {"keep": {"revisions": 0}}})
    set_value(client, "edge", 2)

    again = send(client, "POST", "/compact", {"json": {"keep": {"revisions": 0}}})

    assert (again.content, is_replay(again)) == (first.content, True)
    assert client.get(f"{VALUES}?at=2").json() == {"edge": 1}


def test_if_match_of_a_retry_is_not_compared_with_its_own_commit(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    write = {"json": {"key": "edge", "value": 2}}
    first = send(client, "PUT", VALUES, write, if_match='"2"')

    again = send(client, "PUT", VALUES, write, if_match='"2"')

    assert (done(first), done(again), is_replay(again)) == (3, 3, True)


def test_a_retry_is_answered_although_its_target_was_deleted(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    first = send(client, "DELETE", "/instances/sword", {})

    again = send(client, "DELETE", "/instances/sword", {})

    assert (again.status_code, again.content, is_replay(again)) == (200, first.content, True)


OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("another body", {"json": {"key": "edge", "value": 3}}),
    ("the same in other bytes", {"content": '{"value": 2, "key": "edge"}'}),
    ("another actor", {"headers": {"x-actor": "user"}}),
    ("a message", {"headers": {"x-message-id": "m1"}}),
    ("a swipe", {"headers": {"x-swipe-id": "1"}}),
    ("a chat", {"headers": {"x-chat-id": "c1"}}),
    ("another type", {"headers": {"content-type": "application/json; charset=utf-8"}}),
    ("another method", {"method": "PUT"}),
    ("another path", {"url": "/instances/shield/data"}),
    ("a query", {"url": f"{VALUES}?x=1"}),
]


@pytest.mark.parametrize("given", [other for _, other in OTHERS], ids=[name for name, _ in OTHERS])
def test_the_same_key_for_another_request_is_refused(
    client: httpx.Client, given: dict[str, Any]
) -> None:
    make_instance(client, {"edge": 1})
    make_instance(client, id="shield")
    base: dict[str, Any] = {"method": "POST", "url": VALUES}
    content: dict[str, Any] = {"content": '{"key":"edge","value":2}'}
    headers = {"idempotency-key": "k", "content-type": "application/json"}
    done(client.request(**base, **content, headers=headers))

    different = given if "json" in given else {**content, **given}
    merged = {**headers, **given.get("headers", {})}
    answer = client.request(**{**base, **different, "headers": merged})

    assert refused(answer) == (422, "idempotency_mismatch", {})
    assert head(client) == 4


def test_a_refused_request_is_not_remembered(client: httpx.Client) -> None:
    body = {"json": {"key": "edge", "value": 1}}
    assert send(client, "POST", VALUES, body).status_code == 404
    make_instance(client)
    stale = send(client, "POST", VALUES, body, if_match='"0"')
    assert done(stale) == 2
    other = send(client, "DELETE", f"{VALUES}/none", {}, idempotency_key="other")
    assert other.status_code == 404
    set_value(client, "none", 1)

    again = send(client, "DELETE", f"{VALUES}/none", {}, idempotency_key="other")

    assert (done(again), is_replay(again)) == (4, False)


def test_a_key_is_any_text_percent_encoded(client: httpx.Client) -> None:
    make_instance(client)
    increment = ("POST", "/batch", {"json": INCREMENT})

    first = send(client, *increment, idempotency_key="%C3%A9%20%41")
    same = send(client, *increment, idempotency_key="%C3%A9%20A")
    other = send(client, *increment, idempotency_key="%C3%A9%20a")

    assert [done(each) for each in (first, same, other)] == [2, 2, 3]
    assert [is_replay(each) for each in (first, same, other)] == [False, True, False]


@pytest.mark.one_engine
@pytest.mark.parametrize("key", ["", "%", "%ff", "%00", "x" * 513, "%20x"])
def test_a_malformed_key_is_refused(client: httpx.Client, key: str) -> None:
    make_instance(client)

    answer = send(client, "POST", "/batch", {"json": INCREMENT}, idempotency_key=key)

    assert refused(answer) == (400, "invalid_header", {})
    assert head(client) == 1


def test_two_extensions_may_use_the_same_key(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    shared_server.register(f"{extension_id}-other")
    with shared_server.client(f"{extension_id}-other") as other:
        make_instance(client)
        make_instance(other)

        answers = [send(each, "POST", "/batch", {"json": INCREMENT}) for each in (client, other)]

    assert [is_replay(answer) for answer in answers] == [False, False]


def test_registering_is_not_remembered(extension_id: str, shared_server: RunningServer) -> None:
    with shared_server.client() as client:
        for name in (f"{extension_id}-a", f"{extension_id}-b", f"{extension_id}-a"):
            answer = send(client, "POST", "/register", {"json": {"extensionId": name}})
            assert (answer.status_code, is_replay(answer)) == (200, False)
            assert answer.json()["message"] == f"Extension {name} registered successfully"


def test_an_answer_is_remembered_across_a_restart(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client("demo") as client:
            make_instance(client)
            first = send(client, "POST", "/batch", {"json": INCREMENT})

    with running_server(tmp_path) as server, server.client("demo") as client:
        again = send(client, "POST", "/batch", {"json": INCREMENT})

        assert (again.content, is_replay(again)) == (first.content, True)
        assert client.get(VALUES).json() == {"hits": 1}


def test_of_many_equal_requests_at_once_one_is_done(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    make_instance(client)

    def attempt(_: int) -> httpx.Response:
        with shared_server.client(extension_id) as mine:
            return send(mine, "POST", "/batch", {"json": INCREMENT})

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(attempt, range(24)))

    assert {answer.content for answer in answers} == {answers[0].content}
    assert sorted(is_replay(answer) for answer in answers) == [False] + [True] * 23
    assert client.get(VALUES).json() == {"hits": 1}


async def test_two_equal_requests_in_one_group_have_one_effect(tmp_path: Path) -> None:
    extensions = Extensions(create_engine(Settings(data_dir=tmp_path)), AnswerCache(0), Capacity(4))
    await extensions.start()
    await extensions.register("demo", None)
    extension = await extensions.acquire("demo")
    await extension.write(put_instance, "sword", "arthur", None)
    operations = [BatchOperation("increment", "sword", "hits", "1")]
    answers: list[Written] = []

    async def attempt() -> None:
        context = Context(idempotency_key="k", fingerprint="f")
        answers.append(await extension.write(run_batch, operations, context=context))

    # All wait before the first one begins, so they form one group.
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(attempt)

    reading = await extension.read(list_values, instance("sword"))
    extensions.release(extension)
    await extensions.stop()
    assert [answer.revision for answer in answers] == [2] * 5
    assert sorted(answer.replayed for answer in answers) == [False] + [True] * 4
    assert len({answer.body for answer in answers}) == 1
    assert (orjson.dumps(reading.result), reading.revision) == (b'{"hits":1}', 2)
