"""
Adopted values that are changed, read as they were, restored, folded, branched.

The log names adopted keys without their values, which stand in another table until they are
replaced. Nothing of that may show.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.integrity.recount import recount
from tests.support.answers import done, set_value
from tests.support.chat import Chat
from tests.support.databases import select
from tests.support.original import make_large_original, register

KEYS = 70
ADOPTED = {f"k{key}": f"0 {key} xx" for key in range(KEYS)}


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    """An extension that has adopted two instances, each with enough keys for a keyframe."""
    file = server.data_dir / "demo.db"
    make_large_original(file, instances=2, keys=KEYS, length=2)
    with server.client("demo") as client:
        assert register(client).status_code == 200
        yield client
    recount(file)


def values(client: httpx.Client, id: str = "i0", at: int | None = None) -> dict[str, Any]:
    params = {} if at is None else {"at": at}
    answer = client.get(f"/instances/{id}/data", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_keyframe_of_a_large_instance_is_that_of_a_large_write(
    client: httpx.Client, server: RunningServer
) -> None:
    done(client.post("/instances", json={"id": "written", "characterId": "c"}))
    done(client.put("/instances/written/data/merge", json=ADOPTED))

    frames = select(
        server.data_dir / "demo.db",
        "SELECT id, count(*) FROM keyframes JOIN instances ON number = holder GROUP BY id",
    )

    assert dict(frames) == {"i0": 1, "i1": 1, "written": 1}


def test_what_was_adopted_is_read_at_its_revision_after_it_was_changed(
    client: httpx.Client,
) -> None:
    set_value(client, "k1", "new", "i0")
    set_value(client, "k1", "newer", "i0")
    done(client.delete("/instances/i0/data/k2"))
    set_value(client, "added", 1, "i0")

    now = {**ADOPTED, "k1": "newer", "added": 1}
    del now["k2"]
    assert values(client) == now
    assert list(values(client, at=1).items()) == list(ADOPTED.items())
    assert values(client, at=2) == {**ADOPTED, "k1": "new"}
    assert values(client, "i1") == values(client, "i1", at=1)


def test_the_history_has_adopted_values_before_and_after_they_were_changed(
    client: httpx.Client,
) -> None:
    def history() -> list[tuple[str, Any, Any]]:
        found = client.get("/instances/i0/history", params={"key": "k1", "order": "asc"})
        items = found.json()["items"]
        return [(each["op"], each.get("before"), each.get("after")) for each in items]

    untouched = history()
    set_value(client, "k1", "new", "i0")

    assert untouched == [("adopt", None, "0 1 xx")]
    assert history() == [("adopt", None, "0 1 xx"), ("set", "0 1 xx", "new")]


def test_the_feed_has_adopted_values_before_and_after_they_were_changed(
    client: httpx.Client,
) -> None:
    def adopted() -> dict[str, Any]:
        items = client.get("/changes", params={"since": 0}).json()["items"]
        return {
            each["key"]: each["after"]
            for each in items[0]["changes"]
            if each["op"] == "adopt" and each["instanceId"] == "i0"
        }

    untouched = adopted()
    set_value(client, "k1", "new", "i0")

    assert untouched == ADOPTED
    assert adopted() == ADOPTED


def test_adopted_values_are_restored(client: httpx.Client) -> None:
    set_value(client, "k1", "new", "i0")
    done(client.delete("/instances/i0/data/k2"))
    set_value(client, "added", 1, "i0")

    answer = client.post("/instances/i0/restore", json={"revision": 1})

    assert answer.json() == {"revision": 5, "changed": 3, "warnings": []}
    assert values(client) == ADOPTED


def test_a_deleted_instance_comes_back_with_its_adopted_values(client: httpx.Client) -> None:
    set_value(client, "k1", "new", "i0")
    done(client.delete("/instances/i0"))

    assert values(client, at=1) == ADOPTED
    assert values(client, at=2) == {**ADOPTED, "k1": "new"}
    done(client.post("/instances/i0/restore", json={"revision": 1}))
    assert values(client) == ADOPTED


@pytest.mark.parametrize("kept", [0, 1])
def test_adopted_values_are_folded(client: httpx.Client, server: RunningServer, kept: int) -> None:
    """With 1 the log begins between the adoption and the last change, with 0 after both."""
    set_value(client, "k1", "new", "i0")
    set_value(client, "k2", "new", "i0")

    answer = client.post("/compact", json={"keep": {"revisions": kept}})

    assert answer.json()["oldest"] == 3 - kept
    assert values(client) == {**ADOPTED, "k1": "new", "k2": "new"}
    assert values(client, "i1") == values(client, "i1", at=3 - kept)
    if kept:
        assert values(client, at=2) == {**ADOPTED, "k1": "new"}
    assert client.get("/instances/i0/data", params={"at": 1}).status_code == 410
    assert select(server.data_dir / "demo.db", "SELECT * FROM adopted") == []
    assert select(server.data_dir / "demo.db", "SELECT adopted FROM head") == [(0,)]
    set_value(client, "k3", "new", "i0")
    assert values(client) == {**ADOPTED, "k1": "new", "k2": "new", "k3": "new"}


def test_adopted_values_follow_the_story_of_a_chat(client: httpx.Client) -> None:
    chat = Chat(client, "chat")
    chat.set("started", True)
    done(client.post("/instances", json={"id": "i0", "characterId": "c", "chatId": "chat"}))
    set_value(client, "k1", "at a message", "i0", x_chat_id="chat", x_message_id="m1")
    changed = values(client)
    chat.send("POST", "/reconcile", {"anchors": []})

    assert changed == {**ADOPTED, "k1": "at a message"}
    assert values(client) == ADOPTED
    chat.send("POST", "/reconcile", {"anchors": [{"messageId": "m1"}]})
    assert values(client) == changed


def test_a_branch_takes_adopted_values_with_it(client: httpx.Client) -> None:
    chat = Chat(client, "chat")
    chat.set("started", True)
    done(client.post("/instances", json={"id": "i0", "characterId": "c", "chatId": "chat"}))
    set_value(client, "k1", "at a message", "i0", x_chat_id="chat", x_message_id="m1")
    answer = chat.send("POST", "/branches", {"chatId": "branch"})
    assert answer.status_code == 201, answer.text
    (copied,) = Chat(client, "branch").state()["instances"]

    assert copied["data"] == {**ADOPTED, "k1": "at a message"}
    id = copied["instance"]["id"]
    Chat(client, "branch").send("POST", "/reconcile", {"anchors": []})
    assert values(client, id) == ADOPTED
    set_value(client, "k2", "in the parent", "i0")
    assert values(client, id) == ADOPTED


def test_another_file_is_adopted_above_the_revisions_of_the_first(
    client: httpx.Client, server: RunningServer, tmp_path: Path
) -> None:
    set_value(client, "k1", "new", "i0")
    answer = client.request("DELETE", "/register", json={"extensionId": "demo", "purge": True})
    assert answer.status_code == 200, answer.text
    file = server.data_dir / "demo.db"
    make_large_original(file, instances=2, keys=KEYS, length=2)

    assert register(client).status_code == 200

    assert client.get("/extensions/demo").json()["revision"] == 3
    assert values(client) == values(client, at=3) == ADOPTED
    assert client.get("/instances/i0/data", params={"at": 1}).status_code == 410
    set_value(client, "k1", "new", "i0")
    assert values(client, at=3) == ADOPTED
