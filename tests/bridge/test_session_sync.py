"""A session that is sent to SillyTavern, and its answer."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.bridge.upstream import TOKEN, FakeSillyTavern, Said, closed_port
from tests.support.answers import MOMENT, outcome, refused_as
from valuetracker.errors import (
    InvalidBody,
    UpstreamFailed,
)
from valuetracker.settings import PREFIX

ENDPOINT = f"{PREFIX}/session/sync"


def sync(bridge: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = bridge.post("/st/session/sync", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def context(bridge: httpx.Client, **body: Any) -> dict[str, Any]:
    found: dict[str, Any] = sync(bridge, dry_run=True, **body)["context"]
    return found


# The request


def test_a_dry_run_shows_what_would_be_sent_and_opens_no_socket(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    found = sync(
        bridge,
        dry_run=True,
        scene_id="chapter_03",
        node_id="n1",
        pov="narrator",
        variables={"affinity": 0.42},
        messages=[
            {"role": "narrator", "content": "Evening settles over the city."},
            {"role": "alice", "content": "Did you find the clue?"},
        ],
        metadata={"mood": "calm"},
        user_id="me",
        limit_messages=40,
    )

    sent = {
        "session_id": "scene:chapter_03",
        "scene_id": "chapter_03",
        "node_id": "n1",
        "pov": "narrator",
        "variables": {"affinity": 0.42},
        "messages": [
            {"role": "narrator", "content": "Evening settles over the city."},
            {"role": "alice", "content": "Did you find the clue?"},
        ],
        "metadata": {"mood": "calm"},
        "user_id": "me",
    }
    assert found.pop("latency_ms") >= 0
    assert found == {
        "ok": True,
        "status": "ok",
        "reply": None,
        "error": None,
        "sent": sent,
        "received": {},
        "endpoint": upstream.url + ENDPOINT,
        "timestamp": MOMENT,
        "message_count": 2,
        "context": sent,
        "scene_source": "missing",
        "timeout": 2.0,
        "dry_run": True,
        "panel_reply": None,
        "reply_text": None,
    }
    assert upstream.asked == []


@pytest.mark.parametrize(
    ("message", "turn"),
    [
        ("It rains.", {"role": "narration", "content": "It rains."}),
        ({"text": "Hi", "speaker": "Bob"}, {"role": "Bob", "content": "Hi"}),
        ({"line": "Hi", "character": "Bob"}, {"role": "Bob", "content": "Hi"}),
        ({"content": "a", "text": "b", "line": "c"}, {"role": "narrator", "content": "a"}),
        ({"content": "", "text": "b", "role": ""}, {"role": "narrator", "content": "b"}),
        ({"role": "a", "speaker": "b", "character": "c"}, {"role": "a", "content": ""}),
        (
            {"role": "a", "content": "x", "timestamp": 5, "mood": "sad", "n": [1]},
            {"role": "a", "content": "x", "timestamp": 5, "meta": {"mood": "sad", "n": [1]}},
        ),
        (
            {"role": "a", "content": "x", "timestamp": None, "meta": {"b": 1}, "c": 2},
            {"role": "a", "content": "x", "meta": {"b": 1, "c": 2}},
        ),
        ({"content": 5}, {"role": "narrator", "content": "5"}),
        (7, {"role": "narration", "content": "7"}),
        ({}, {"role": "narrator", "content": ""}),
    ],
)
def test_turns_are_brought_into_one_shape(bridge: httpx.Client, message: Any, turn: Any) -> None:
    once = context(bridge, messages=[message])["messages"]
    twice = context(bridge, messages=once)["messages"]

    assert once == [turn]
    assert twice == [turn]


def test_messages_are_used_before_history_and_all_are_counted(
    bridge: httpx.Client,
) -> None:
    assert [each["content"] for each in context(bridge, history=["a"])["messages"]] == ["a"]
    assert [
        each["content"] for each in context(bridge, messages=["b", None], history=["a"])["messages"]
    ] == ["b"]


@pytest.mark.parametrize(("limit", "kept"), [(None, 50), (0, 60), (1, 1), (59, 59), (100, 60)])
def test_the_last_turns_are_kept(bridge: httpx.Client, limit: int | None, kept: int) -> None:
    body = {} if limit is None else {"limit_messages": limit}

    found = sync(bridge, dry_run=True, messages=[str(n) for n in range(60)], **body)

    assert found["message_count"] == kept
    assert [each["content"] for each in found["context"]["messages"]] == [
        str(n) for n in range(60 - kept, 60)
    ]


@pytest.mark.parametrize(
    ("body", "id"),
    [
        ({"session_id": "s", "scene_id": "a", "node_id": "b"}, "s"),
        ({"scene_id": "a", "node_id": "b"}, "scene:a"),
        ({"node_id": "b"}, "node:b"),
    ],
)
def test_a_session_has_an_id(bridge: httpx.Client, body: dict[str, Any], id: str) -> None:
    assert context(bridge, **body)["session_id"] == id


def test_a_session_without_an_id_gets_one(bridge: httpx.Client) -> None:
    one, other = context(bridge)["session_id"], context(bridge)["session_id"]

    assert re.fullmatch("session-[0-9a-f]{12}", one)
    assert one != other


@pytest.mark.parametrize(
    ("body", "source"),
    [
        ({"scene": {}}, "inline"),
        ({"scene": {"a": 1}, "scene_id": "x"}, "inline"),
        ({"scene_id": "x"}, "missing"),
        ({}, "unspecified"),
    ],
)
def test_the_source_of_the_scene_is_reported(
    bridge: httpx.Client, body: dict[str, Any], source: str
) -> None:
    assert sync(bridge, dry_run=True, **body)["scene_source"] == source


@pytest.mark.parametrize(
    "body",
    [
        {"timeout": 0.09},
        {"timeout": 30.1},
        {"timeout": "2"},
        {"timeout": True},
        {"limit_messages": -1},
        {"limit_messages": 1.5},
        {"limit_messages": True},
        {"messages": {}},
        {"history": "x"},
        {"variables": []},
        {"metadata": "x"},
        {"scene": 5},
        {"scene_id": ""},
        {"pov": 5},
        {"store": True},
        {"dry_run": "yes"},
        {"plugin_base": "/../x"},
        {"plugin_base": 5},
        {"base_url": 5},
    ],
)
def test_a_value_out_of_range_is_refused(
    bridge: httpx.Client, upstream: FakeSillyTavern, body: dict[str, Any]
) -> None:
    answer = bridge.post("/st/session/sync", json=body)

    assert outcome(answer) == refused_as(answer, InvalidBody)
    assert upstream.asked == []


def test_a_body_nested_too_deeply_is_refused(bridge: httpx.Client) -> None:
    deep = "[" * 200 + "]" * 200

    answers = [
        bridge.post("/st/session/sync", content=f'{{"dry_run":true,"{name}":{value}}}')
        for name, value in (
            ("messages", deep),
            ("variables", f'{{"a":{deep}}}'),
            ("scene", f'{{"a":{deep}}}'),
        )
    ]

    assert [(each.status_code, each.json()["code"]) for each in answers] == [(400, "too_deep")] * 3


# The answer


def test_a_token_and_its_cookies_are_fetched_first(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    upstream.says(ENDPOINT, {"ok": True, "reply": {"role": "bot", "content": "Yes."}})

    found = sync(bridge, session_id="s", messages=["Hm?"], timeout=10)

    first, second = upstream.asked
    assert (first.method, first.path) == ("GET", "/csrf-token")
    assert (second.method, second.path) == ("POST", f"{ENDPOINT}?timeout=9.000")
    assert second.headers["x-csrf-token"] == TOKEN
    assert set(second.headers["cookie"].split("; ")) == {"session-1=abc", "X-CSRF=def"}
    assert second.headers["content-type"] == "application/json"
    assert "origin" not in second.headers
    assert json.loads(second.body) == found["context"] == found["sent"]
    assert found["reply"] == {"role": "bot", "content": "Yes."}
    assert (found["ok"], found["status"], found["error"]) == (True, "ok", None)


def test_a_server_without_csrf_tokens_gets_the_post_without_one(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    del upstream.answers["/csrf-token"]
    upstream.says(ENDPOINT, {"ok": True})

    assert sync(bridge)["ok"]
    assert "x-csrf-token" not in upstream.asked[1].headers


def test_a_configured_token_is_sent(start_server: StartServer, upstream: FakeSillyTavern) -> None:
    upstream.says(ENDPOINT, {"ok": True})
    server = start_server(st_base_url=upstream.url, st_token="hush")
    with server.client() as client:
        answer = client.post("/st/session/sync", json={})

    assert answer.status_code == 200
    assert {each.headers["authorization"] for each in upstream.asked} == {"Bearer hush"}
    assert "hush" not in answer.text


@pytest.mark.parametrize(
    ("reply", "panel"),
    [
        ("Yes.", {"role": "assistant", "content": "Yes."}),
        ({"content": "Yes."}, {"role": "assistant", "content": "Yes."}),
        ({"text": "Yes.", "speaker": "Bob"}, {"role": "Bob", "content": "Yes."}),
        (
            {"role": "Bob", "content": "Yes.", "emotion": "joy", "meta": {"a": 1}, "x": 2},
            {"role": "Bob", "content": "Yes.", "emotion": "joy", "meta": {"a": 1, "x": 2}},
        ),
        (
            {"content": "Yes.", "mood": None, "tags": ["a"], "usage": {"tokens": 5}},
            {
                "role": "assistant",
                "content": "Yes.",
                "meta": {"mood": None, "tags": ["a"], "usage": {"tokens": 5}},
            },
        ),
        (
            {"content": "Yes.", "meta": "odd", "x": 1},
            {"role": "assistant", "content": "Yes.", "meta": {"x": 1, "meta": "odd"}},
        ),
        (
            {"text": "Yes.", "meta": {}},
            {"role": "assistant", "content": "Yes.", "meta": {}},
        ),
        ({"text": "Yes.", "meta": None}, {"role": "assistant", "content": "Yes."}),
        (5, {"role": "assistant", "content": "5"}),
        ({}, {"role": "assistant", "content": ""}),
        (None, None),
    ],
)
def test_a_reply_has_the_shape_of_a_panel(
    bridge: httpx.Client, upstream: FakeSillyTavern, reply: Any, panel: Any
) -> None:
    upstream.says(ENDPOINT, {"ok": True, "reply": reply})

    found = sync(bridge)

    assert found["reply"] == reply
    assert found["panel_reply"] == panel
    assert found["reply_text"] == (panel["content"] if panel else None)


def test_a_refusal_of_sillytavern_is_reported(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    upstream.says(ENDPOINT, {"ok": False, "error": "No model."})

    found = sync(bridge)

    assert (found["ok"], found["status"], found["error"]) == (False, "error", "No model.")
    assert found["received"] == {"ok": False, "error": "No model."}


@pytest.mark.parametrize(
    "said",
    [
        Said(b"", 500),
        Said(b'{"ok": true}', 403),
        Said(b"{}", 302, {"location": "http://169.254.169.254/"}),
        Said(b"<html>"),
        Said(b"{"),
        Said(b"\xff"),
        Said(b'{"n": 1' + b"0" * 40 + b"}"),
        Said(b"[" * 300 + b"]" * 300),
        Said(b" " * (9 * 1024 * 1024)),
        Said(b"{}", 200, {"content-encoding": "gzip"}),
        Said(b"{}", delay=3),
    ],
    ids=lambda said: f"{said.status} {said.body[:12]!r} {said.delay}",
)
def test_an_unusable_answer_is_an_upstream_failure(
    bridge: httpx.Client, upstream: FakeSillyTavern, said: Said
) -> None:
    upstream.answers[ENDPOINT] = said

    answer = bridge.post("/st/session/sync", json={"timeout": 0.8})

    body = answer.json()
    assert answer.status_code == 502
    assert body["code"] == UpstreamFailed.code
    check_measures(body["details"], f"{upstream.url}{ENDPOINT}", timeout=0.8)
    assert body["details"].get("status") in (None, said.status)
    assert [each.path.partition("?")[0] for each in upstream.asked] == ["/csrf-token", ENDPOINT]


def test_a_missing_sillytavern_is_an_upstream_failure(bridge: httpx.Client) -> None:
    url = f"http://127.0.0.1:{closed_port()}"

    answer = bridge.post("/st/session/sync", json={"base_url": url, "messages": ["a", "b"]})

    details = answer.json()["details"]
    assert (answer.status_code, answer.json()["code"]) == (502, UpstreamFailed.code)
    check_measures(details, f"{url}{ENDPOINT}", messages=2)
    assert set(details) == {"message_count", "timeout", "latency_ms", "endpoint"}


def check_measures(
    details: dict[str, Any], endpoint: str, messages: int = 0, timeout: float = 2.0
) -> None:
    """Check that a failure says how much was sent where, and how long that took."""
    assert details["endpoint"] == endpoint
    assert (details["message_count"], details["timeout"]) == (messages, timeout)
    assert details["latency_ms"] >= 0


def test_a_failed_sync_is_listed_like_a_good_one(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    upstream.says(ENDPOINT, {"ok": True})
    sync(bridge, session_id="good")
    upstream.answers[ENDPOINT] = Said(b"", 500)
    failed = bridge.post("/st/session/sync", json={"session_id": "bad", "messages": ["a"]})
    refused = bridge.post("/st/session/sync", json={"session_id": "none", "timeout": 99})

    items = bridge.get("/st/session/sync").json()["items"]

    # A request that is refused sends nothing.
    assert (failed.status_code, refused.status_code) == (502, 400)
    assert [(each["session_id"], each["ok"], each["status"]) for each in items] == [
        ("bad", False, "error"),
        ("good", True, "ok"),
    ]
    assert set(items[0]) == set(items[1])
    assert items[0]["error"] == failed.json()["error"]
    for name in ("message_count", "timeout", "endpoint"):
        assert items[0][name] == failed.json()["details"][name]


def test_a_switched_off_bridge_sends_nothing(
    start_server: StartServer, upstream: FakeSillyTavern
) -> None:
    server = start_server(st_enabled=0, st_base_url=upstream.url)
    with server.client() as client:
        found = client.post("/st/session/sync", json={"messages": ["Hm?"]}).json()

    assert (found["ok"], found["status"], found["reply"]) == (False, "disabled", None)
    assert found["context"]["messages"]
    assert upstream.asked == []


def test_the_latest_syncs_are_listed(bridge: httpx.Client, upstream: FakeSillyTavern) -> None:
    upstream.says(ENDPOINT, {"ok": True})
    sync(bridge, session_id="one", messages=["a", "b"], timeout=5)
    sync(bridge, session_id="two", dry_run=True)

    items = bridge.get("/st/session/sync").json()["items"]

    assert all(each.pop("latency_ms") >= 0 for each in items)
    endpoint = f"{upstream.url}{ENDPOINT}"
    common = {
        "ok": True,
        "status": "ok",
        "error": None,
        "timestamp": MOMENT,
        "endpoint": endpoint,
    }
    assert items == [
        {**common, "session_id": "two", "message_count": 0, "timeout": 2.0, "dry_run": True},
        {**common, "session_id": "one", "message_count": 2, "timeout": 5.0, "dry_run": False},
    ]
