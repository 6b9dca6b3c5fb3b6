"""Requests that change no value register no message; deleted instances leave no value."""

from __future__ import annotations

import httpx

from tests.support.answers import outcome

MERGE_PATCH = {"content-type": "application/merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}


def test_a_patch_that_changes_nothing_answers_the_present_values_without_its_place(
    client: httpx.Client,
) -> None:
    client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"})
    values = "/instances/sword/data"
    client.post(values, json={"key": "edge", "value": 13}, headers={"x-message-id": "m1"})
    other = {"x-message-id": "m1", "x-swipe-id": "1", "prefer": "return=representation"}

    merged = client.patch(values, content="{}", headers={**other, **MERGE_PATCH})
    patched = client.patch(values, content="[]", headers={**other, **JSON_PATCH})

    assert outcome(merged) == (200, {"edge": 13})
    assert outcome(patched) == (200, {"edge": 13})
    assert client.get(values).json() == {"edge": 13}


def test_an_instance_deleted_by_a_restore_leaves_no_value_to_come_back(
    client: httpx.Client,
) -> None:
    begun = client.post("/chats/tale/data", json={"key": "hp", "value": 50})
    client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"})
    values = "/instances/sword/data"
    client.post(values, json={"key": "edge", "value": 13})
    client.delete(f"{values}/edge", headers={"x-message-id": "m1"})
    before = {"revision": int(begun.headers["x-revision"])}

    restored = client.post("/chats/tale/restore", json=before)
    client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": "tale"})
    client.post("/chats/tale/reconcile", json={"anchors": []})

    assert restored.status_code == 200
    assert client.get(values).json() == {}
