"""A session that sends the values of a chat and stores the returned ones."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.bridge.upstream import FakeSillyTavern
from tests.support.answers import outcome, refused_as
from valuetracker.errors import (
    ExtensionNotRegistered,
    InvalidExtensionId,
    UpstreamFailed,
)
from valuetracker.settings import PREFIX

ENDPOINT = f"{PREFIX}/session/sync"


def sync(bridge: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = bridge.post("/st/session/sync", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_variables_come_from_a_chat_and_go_back_to_it(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    bridge.post(f"{PREFIX}/register", json={"extensionId": "mine"})
    mine = {"x-extension-id": "mine"}
    bridge.put(f"{PREFIX}/chats/lake/data/merge", json={"hp": 5, "gold": 1}, headers=mine)
    upstream.says(ENDPOINT, {"ok": True, "variables": {"gold": 2, "mood": {"a": None}}})

    found = sync(bridge, extension_id="mine", chat="lake", store=True)

    assert found["context"]["variables"] == {"hp": 5, "gold": 1}
    assert bridge.get(f"{PREFIX}/chats/lake/data", headers=mine).json() == {
        "hp": 5,
        "gold": 2,
        "mood": {"a": None},
    }
    history = bridge.get(f"{PREFIX}/chats/lake/history?limit=2", headers=mine).json()["items"]
    assert {each["key"] for each in history} == {"gold", "mood"}
    assert len({each["revision"] for each in history}) == 1


def test_variables_of_the_request_are_sent(bridge: httpx.Client, upstream: FakeSillyTavern) -> None:
    upstream.says(ENDPOINT, {"ok": True, "variables": {"gold": 2}})

    found = sync(bridge, chat="lake", variables={})

    assert found["context"]["variables"] == {}
    assert (
        bridge.get(f"{PREFIX}/chats/lake/data", headers={"x-extension-id": "session-sync"}).json()
        == {}
    )


@pytest.mark.parametrize(
    "answer", [{"ok": False, "variables": {"a": 1}}, {"ok": True, "variables": [1]}, {"ok": True}]
)
def test_variables_of_a_failed_answer_are_not_stored(
    bridge: httpx.Client, upstream: FakeSillyTavern, answer: Any
) -> None:
    upstream.says(ENDPOINT, answer)

    sync(bridge, chat="lake", store=True)

    assert (
        bridge.get(f"{PREFIX}/chats/lake/data", headers={"x-extension-id": "session-sync"}).json()
        == {}
    )


@pytest.mark.parametrize("key", ["", "a\nb", "x" * 2_000])
def test_variables_that_cannot_be_stored_are_an_upstream_failure(
    bridge: httpx.Client, upstream: FakeSillyTavern, key: str
) -> None:
    upstream.says(ENDPOINT, {"ok": True, "variables": {"fine": 1, key: 1}})

    answer = bridge.post("/st/session/sync", json={"chat": "lake", "store": True})

    assert (answer.status_code, answer.json()["code"]) == (502, UpstreamFailed.code)
    assert answer.json()["details"]["endpoint"] == f"{upstream.url}{ENDPOINT}"
    (listed,) = bridge.get("/st/session/sync").json()["items"]
    assert (listed["ok"], listed["error"]) == (False, answer.json()["error"])
    assert (
        bridge.get(f"{PREFIX}/chats/lake/data", headers={"x-extension-id": "session-sync"}).json()
        == {}
    )


def test_the_extension_of_a_chat_is_registered_and_unambiguous(bridge: httpx.Client) -> None:
    unknown = bridge.post("/st/session/sync", json={"chat": "lake", "extension_id": "nobody"})
    differing = bridge.post(
        "/st/session/sync",
        json={"chat": "lake", "extension_id": "a"},
        headers={"x-extension-id": "b"},
    )

    assert unknown.status_code == 404
    assert unknown.json()["code"] == ExtensionNotRegistered.code
    assert outcome(differing) == refused_as(differing, InvalidExtensionId)
