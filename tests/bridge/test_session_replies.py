"""The receiving side: sessions that are stored, and pages that reply to them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.conftest import RunningServer, running_server, wait_for
from tests.support.answers import outcome, refused_as
from valuetracker.errors import (
    ChatArchived,
    ExtensionNotRegistered,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    PromptNotFound,
    TooManyKeys,
)
from valuetracker.settings import PREFIX

DEFAULT = {"x-extension-id": "session-sync"}


@pytest.fixture
def server(start_server: StartServer) -> RunningServer:
    return start_server()


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client() as client:
        yield client


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def take(client: httpx.Client, query: str = "", **body: Any) -> dict[str, Any]:
    answer = client.post(f"/session/sync{query}", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def listeners(server: RunningServer, user: str = "default-user") -> int:
    """Return the number of pages that wait."""
    waiting: int = server.app.state.dispatcher.service.prompts.listeners(user)
    return waiting


# Storing


def test_variables_are_kept_in_the_chat_of_the_session(client: httpx.Client) -> None:
    first = take(client, session_id="lake", variables={"gold": 1, "hp": {"now": 5}})
    second = take(client, session_id="lake", variables={"gold": 2})

    assert first == {"ok": True, "reply": None, "variables": {"gold": 1, "hp": {"now": 5}}}
    assert second == {"ok": True, "reply": None, "variables": {"gold": 2, "hp": {"now": 5}}}
    assert client.get("/chats/lake/data", headers=DEFAULT).json() == second["variables"]


def test_variables_are_kept_as_they_were_sent(client: httpx.Client) -> None:
    text = '{"n":18446744073709551615,"o":{"b":1,"a":[null,1.5,"\\u00e9"]}}'

    answer = client.post("/session/sync", content=f'{{"session_id":"s","variables":{text}}}')

    assert answer.text.endswith(f'"variables":{text.replace(chr(92) + "u00e9", "é")}}}')


def test_all_variables_of_one_session_are_one_revision(client: httpx.Client) -> None:
    take(client, session_id="lake", variables={"a": 1, "b": 2, "c": 3})

    items = client.get("/chats/lake/history", headers=DEFAULT).json()["items"]

    assert len({each["revision"] for each in items if each["op"] == "set"}) == 1


def test_the_extension_is_created_when_it_is_needed(client: httpx.Client) -> None:
    before = client.get("/extensions/session-sync").status_code

    take(client, session_id="lake")

    assert (before, client.get("/extensions/session-sync").status_code) == (404, 200)


@pytest.mark.parametrize("how", ["header", "body", "both"])
def test_another_extension_may_be_named(server: RunningServer, how: str) -> None:
    server.register("mine")
    header = {"x-extension-id": "mine"}
    body: dict[str, Any] = {"session_id": "lake", "variables": {"gold": 1}}
    with server.client() as client:
        answer = client.post(
            "/session/sync",
            json=body | ({"extension_id": "mine"} if how != "header" else {}),
            headers=header if how != "body" else {},
        )

        assert answer.status_code == 200
        assert client.get("/chats/lake/data", headers=header).json() == {"gold": 1}
        assert client.get("/extensions/session-sync").status_code == 404


@pytest.mark.parametrize(
    ("body", "header", "kind"),
    [
        ({"extension_id": "nobody"}, "", ExtensionNotRegistered),
        ({}, "nobody", ExtensionNotRegistered),
        ({"extension_id": "a"}, "b", InvalidExtensionId),
        ({"extension_id": "a b"}, "", InvalidExtensionId),
        ({}, "a b", InvalidExtensionId),
        ({"session_id": "a\nb"}, "", InvalidId),
        ({"session_id": ""}, "", InvalidId),
        ({"session_id": "x" * 513}, "", InvalidId),
        ({"variables": {"": 1}}, "", InvalidKey),
        ({"variables": {"x" * 1_025: 1}}, "", InvalidKey),
        ({"variables": {str(n): n for n in range(10_001)}}, "", TooManyKeys),
        ({"variables": [1]}, "", InvalidBody),
        ({"timeout": 31}, "", InvalidBody),
    ],
)
def test_an_invalid_session_is_refused(
    client: httpx.Client, body: dict[str, Any], header: str, kind: type[Any]
) -> None:
    headers = {"x-extension-id": header} if header else {}

    answer = client.post("/session/sync", json={"session_id": "s", **body}, headers=headers)

    assert answer.json()["code"] == kind.code
    assert answer.status_code == kind.status


def test_an_archived_chat_accepts_no_variables(client: httpx.Client) -> None:
    take(client, session_id="lake", variables={"gold": 1})
    client.delete("/chats/lake", headers=DEFAULT)

    answer = client.post("/session/sync", json={"session_id": "lake", "variables": {"gold": 2}})

    assert outcome(answer) == refused_as(answer, ChatArchived)


# Replying


def test_without_an_open_page_a_session_is_answered_at_once(client: httpx.Client) -> None:
    started = time.monotonic()

    found = take(client, session_id="lake", messages=["Hm?"], timeout=30)

    assert found["reply"] is None
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("reply", "panel"),
    [
        ("Yes.", {"role": "assistant", "content": "Yes."}),
        ({"text": "Oh.", "emotion": 1}, {"role": "assistant", "content": "Oh.", "emotion": 1}),
        ({"role": "b", "content": "Oh.", "meta": {}}, {"role": "b", "content": "Oh.", "meta": {}}),
        (None, None),
    ],
)
def test_an_open_page_may_reply(
    server: RunningServer,
    client: httpx.Client,
    threads: ThreadPoolExecutor,
    reply: Any,
    panel: Any,
) -> None:
    page: Future[httpx.Response] = threads.submit(client.get, "/session/pending?wait=30")
    wait_for(lambda: listeners(server))
    session = threads.submit(
        take,
        client,
        session_id="lake",
        pov="me",
        messages=["Hm?"],
        variables={"gold": 1},
        timeout=30,
    )

    prompt = page.result().json()["prompt"]
    taken = client.post("/session/reply", json={"id": prompt["id"], "reply": reply})

    assert prompt == {
        "id": prompt["id"],
        "extension_id": "session-sync",
        "session_id": "lake",
        "wait_ms": 30_000,
        "context": {
            "session_id": "lake",
            "pov": "me",
            "variables": {"gold": 1},
            "messages": [{"role": "narration", "content": "Hm?"}],
            "metadata": {},
        },
    }
    assert outcome(taken) == (200, {"ok": True})
    assert session.result() == {"ok": True, "reply": panel, "variables": {"gold": 1}}


def test_a_prompt_waits_for_a_page_that_is_just_asking_again(
    server: RunningServer, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    assert client.get("/session/pending").json() == {"prompt": None}
    session = threads.submit(take, client, session_id="lake", timeout=30)

    prompt = wait_for(lambda: client.get("/session/pending").json()["prompt"])
    client.post("/session/reply", json={"id": prompt["id"], "reply": "Yes."})

    assert session.result()["reply"]["content"] == "Yes."


def test_each_prompt_is_given_to_one_page(
    server: RunningServer, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    pages = [threads.submit(client.get, "/session/pending?wait=30") for _ in range(3)]
    wait_for(lambda: listeners(server) == 3)

    for name in ("lake", "tower", "road"):
        take(client, session_id=name, timeout=0.1)

    prompts = [page.result().json()["prompt"] for page in pages]
    assert sorted(prompt["session_id"] for prompt in prompts) == ["lake", "road", "tower"]


def test_a_late_reply_is_refused(
    server: RunningServer, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    page = threads.submit(client.get, "/session/pending?wait=30")
    wait_for(lambda: listeners(server))

    found = take(client, "?timeout=0.1", session_id="lake", timeout=30)
    prompt = page.result().json()["prompt"]
    late = client.post("/session/reply", json={"id": prompt["id"], "reply": "Yes."})

    assert found["reply"] is None
    assert prompt["wait_ms"] == 100
    assert outcome(late) == refused_as(late, PromptNotFound)


def test_only_one_reply_counts(
    server: RunningServer, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    page = threads.submit(client.get, "/session/pending?wait=30")
    wait_for(lambda: listeners(server))
    session = threads.submit(take, client, session_id="lake", timeout=30)
    id = page.result().json()["prompt"]["id"]

    first = client.post("/session/reply", json={"id": id, "reply": "Yes."})
    second = client.post("/session/reply", json={"id": id, "reply": "No."})

    assert (first.status_code, second.status_code) == (200, 404)
    assert session.result()["reply"]["content"] == "Yes."


def test_a_page_that_disconnects_gets_no_prompt(
    server: RunningServer, client: httpx.Client, threads: ThreadPoolExecutor
) -> None:
    host, _, port = server.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as page:
        page.sendall(
            f"GET {PREFIX}/session/pending?wait=30 HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        )
        wait_for(lambda: listeners(server))
    wait_for(lambda: not listeners(server))
    session = threads.submit(take, client, session_id="lake", timeout=30)

    prompt = wait_for(lambda: client.get("/session/pending").json()["prompt"])
    client.post("/session/reply", json={"id": prompt["id"], "reply": "Yes."})

    assert session.result()["reply"]["content"] == "Yes."


@pytest.mark.parametrize(
    "body", [{}, {"id": "x"}, {"reply": "x"}, {"id": 5, "reply": "x"}, {"id": "x", "reply": [1]}]
)
def test_an_invalid_reply_is_refused(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post("/session/reply", json=body)

    assert outcome(answer) == refused_as(answer, InvalidBody)


def test_users_get_no_prompts_of_other_users(start_server: StartServer) -> None:
    server = start_server(bridge_secret="s")

    def speaker(user: str) -> httpx.Client:
        client = server.client()
        client.headers.update({"x-vt-secret": "s", "x-vt-user": user, "x-vt-admin": "false"})
        return client

    with speaker("alice") as alice, speaker("bob") as bob, ThreadPoolExecutor(1) as pool:
        page = pool.submit(alice.get, "/session/pending?wait=5")
        wait_for(lambda: listeners(server, "alice"))
        found = take(bob, session_id="lake", variables={"gold": 1}, timeout=30)
        own = take(alice, session_id="lake", timeout=0.1)
        prompt = page.result().json()["prompt"]
        foreign = bob.post("/session/reply", json={"id": prompt["id"], "reply": "No."})

    assert found == {"ok": True, "reply": None, "variables": {"gold": 1}}
    assert own["variables"] == {}
    assert foreign.status_code == 404


def test_a_server_that_stops_answers_pages_and_sessions(
    tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    with running_server(tmp_path / "other", shutdown_seconds=60) as server:
        client = server.client()
        first = threads.submit(client.get, "/session/pending?wait=30")
        wait_for(lambda: listeners(server))
        session = threads.submit(take, client, session_id="lake", timeout=30)
        first.result()
        second = threads.submit(client.get, "/session/pending?wait=30")
        wait_for(lambda: listeners(server))
        started = time.monotonic()

    assert time.monotonic() - started < 20
    assert second.result().json() == {"prompt": None}
    assert session.result()["reply"] is None
    client.close()


# Both sides


def test_a_server_can_send_a_session_to_another_one(
    start_server: StartServer, threads: ThreadPoolExecutor
) -> None:
    server = start_server()
    with server.client() as client:
        page = threads.submit(client.get, "/session/pending?wait=30")
        wait_for(lambda: listeners(server))
        sent = threads.submit(
            client.post,
            "/st/session/sync",
            json={
                "base_url": server.url,
                "session_id": "lake",
                "messages": [{"speaker": "Bob", "text": "Hm?", "mood": "sad"}],
                "variables": {"gold": 1},
                "timeout": 20,
            },
        )
        prompt = page.result().json()["prompt"]
        client.post(
            "/session/reply",
            json={"id": prompt["id"], "reply": {"content": "Yes.", "emotion": "joy"}},
        )
        found = sent.result().json()

    assert prompt["wait_ms"] == 18_000
    assert prompt["context"] == found["context"]
    assert found["panel_reply"] == {"role": "assistant", "content": "Yes.", "emotion": "joy"}
    assert found["reply_text"] == "Yes."
    assert found["received"]["variables"] == {"gold": 1}
