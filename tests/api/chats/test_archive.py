"""Archiving a chat, and purging it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.support.answers import done, head, outcome, refused
from tests.support.chat import EVERY_WRITE, Chat, chat_record, furnish

# To archive an archived chat again is allowed.
WRITES = [each for each in EVERY_WRITE if each[:2] != ("DELETE", "/chats/chat")]


def test_an_archived_chat_is_not_listed_but_readable(client: httpx.Client) -> None:
    chat = furnish(client)
    Chat(client, "other").open()
    before = chat.state()

    answer = chat.send("DELETE", "")

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, {"success": True}), "7")
    assert [each["chatId"] for each in client.get("/chats").json()] == ["other"]
    assert outcome(client.get("/chats/chat")) == (200, chat_record("chat", 7, archived=True))
    assert {**chat.state(), "revision": 5} == {**before, "revision": 5}
    assert chat.data() == {"hp": 50}
    assert chat.series("recap")["currentVersion"] == 1
    assert client.get("/instances/sword").json()["data"] == {"hp": 7}


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_an_archived_chat_and_its_instances_refuse_writes(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    chat = furnish(client)
    chat.archive()
    before = chat.state()

    answer = client.request(method, path, json=body)

    assert refused(answer)[:2] == (409, "chat_archived")
    assert (chat.state(), head(client)) == (before, 6)


def test_one_archived_instance_refuses_a_whole_batch(client: httpx.Client) -> None:
    furnish(client).archive()
    done(client.post("/instances", json={"id": "shield", "characterId": "arthur"}))
    operations = [
        {"op": "set", "instanceId": id, "key": "hp", "value": 1} for id in ("shield", "sword")
    ]

    answer = client.post("/batch", json={"operations": operations})

    assert refused(answer)[:2] == (409, "chat_archived")
    assert client.get("/instances/shield/data").json() == {}


def test_archiving_again_changes_nothing(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.archive()

    chat.archive()

    assert head(client) == 6


def test_another_chat_is_not_touched(client: httpx.Client) -> None:
    other = Chat(client, "other")
    other.set("hp", 1)
    chat = Chat(client, "chat")
    chat.set("hp", 50)

    chat.archive()

    assert other.set("hp", 2) == 4
    assert other.data() == {"hp": 2}


def test_an_archived_chat_stays_archived_after_a_restart(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            furnish(client).archive()

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        chat = Chat(client, "chat")
        answer = chat.send("POST", "/data", {"key": "hp", "value": 1})

        assert refused(answer)[:2] == (409, "chat_archived")
        assert (client.get("/chats").json(), chat.data()) == ([], {"hp": 50})


def test_a_chat_can_be_archived_by_a_former_id(client: httpx.Client) -> None:
    chat = furnish(client)
    renamed = chat.rename("renamed")

    chat.archive()

    assert renamed.send("GET", "").json()["archived"] is True


def test_an_unknown_chat_cannot_be_archived_or_purged(chat: Chat) -> None:
    assert refused(chat.send("DELETE", "")) == (404, "chat_not_found", {})
    assert refused(chat.send("DELETE", "?purge=true")) == (404, "chat_not_found", {})


@pytest.mark.one_engine
@pytest.mark.parametrize("purge", ["yes", "", "1", "True"])
def test_a_malformed_purge_is_refused(client: httpx.Client, purge: str) -> None:
    chat = furnish(client)

    assert refused(chat.send("DELETE", f"?purge={purge}")) == (400, "invalid_query", {})
    assert head(client) == 5


def test_purge_false_archives_the_chat(client: httpx.Client) -> None:
    chat = furnish(client)

    assert outcome(chat.send("DELETE", "?purge=false")) == (200, {"success": True})

    assert chat.data() == {"hp": 50}


# Purging.


@pytest.fixture(params=["in use", "archived"])
def secret(request: pytest.FixtureRequest, client: httpx.Client) -> Chat:
    """A chat with a secret in every kind of value, which tests purge; another chat beside it."""
    Chat(client, "other").set("hp", 1)
    chat = Chat(client, "chat")
    sword = chat.instance("sword")
    chat.set("hp", "secret")
    chat.set("secret key", 1, "secret message")
    sword.set("hp", "secret")
    chat.add_version("recap", "secret", note="secret")
    chat.claim("seen", "secret")
    chat.reconcile()
    chat.send("POST", "/data", {"key": "hp", "value": "secret"}, "secret message")
    if request.param == "archived":
        chat.archive()
    return chat


def test_a_purged_chat_does_not_exist(secret: Chat) -> None:
    client = secret.client
    before = head(client)

    secret.purge()

    assert head(client) == before + 1
    assert outcome(client.get("/chats/chat")) == (200, None)
    assert secret.state() is None
    assert (secret.data(), secret.history()) == ({}, [])
    assert secret.series("recap") == {"currentVersion": None, "versions": []}
    assert secret.processed("seen") == {"ids": []}
    assert [each["chatId"] for each in client.get("/chats").json()] == ["other"]
    assert refused(client.get("/instances/sword")) == (404, "instance_not_found", {})
    assert outcome(client.get("/instances")) == (200, [])
    assert Chat(client, "other").data() == {"hp": 1}


def test_no_route_returns_the_content_of_a_purged_chat(secret: Chat) -> None:
    client = secret.client

    secret.purge()

    for path in (
        "/changes?since=0",
        "/chats/chat/history",
        "/instances/sword/history",
        "/chats",
        "/instances",
    ):
        answer = client.get(path)
        assert (answer.status_code, "secret" in answer.text) == (200, False), path


def test_the_feed_has_no_gap_after_a_purge(secret: Chat) -> None:
    secret.purge()
    Chat(secret.client, "other").set("hp", 2)
    last = head(secret.client)

    found = secret.client.get("/changes?since=0").json()

    assert [each["revision"] for each in found["items"]] == list(range(1, last + 1))
    assert found["next"] == last


def test_the_past_of_a_purged_chat_is_deleted(secret: Chat) -> None:
    client = secret.client
    secret.purge()

    for path in ("/chats/chat/state", "/chats/chat/data", "/chats/chat/data/hp"):
        assert refused(client.get(f"{path}?at=4"))[0] == 410, path
    for path in ("/instances/sword", "/instances/sword/data", "/instances/sword/data/hp"):
        assert refused(client.get(f"{path}?at=5"))[0] == 410, path
    # The past of another chat is kept.
    assert Chat(client, "other").data(1) == {"hp": 1}


def test_a_purged_chat_cannot_be_purged_or_restored(secret: Chat) -> None:
    secret.purge()

    assert refused(secret.send("DELETE", "?purge=true"))[:2] == (404, "chat_not_found")
    assert secret.send("POST", "/restore", {"revision": 4}).status_code in (404, 410)
    restored = secret.client.post("/instances/sword/restore", json={"revision": 5})
    assert restored.status_code in (404, 410)
    assert secret.state() is None


def test_the_id_of_a_purged_chat_can_be_used_again(secret: Chat) -> None:
    secret.purge()

    body = secret.open(defaults={"hp": 50})

    assert (body["created"], body["data"], body["instances"]) == (True, {"hp": 50}, [])
    assert secret.add_version("recap", "A new beginning") == 1
    # A message of the purged chat is not registered in the new one.
    secret.set("hp", 45, "secret message")
    assert secret.data() == {"hp": 45}
    assert secret.reconcile()["dormant"] == 1
    assert secret.data() == {"hp": 50}


def test_a_session_of_a_purged_chat_is_refused(client: httpx.Client) -> None:
    chat = furnish(client)
    session = chat.session()
    chat.purge()

    answer = chat.send("POST", "/data", {"key": "hp", "value": 1}, x_session=session)

    assert answer.status_code == 409
    assert chat.state() is None


def test_a_purge_survives_a_restart(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            furnish(client).purge()

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        assert outcome(client.get("/chats/chat")) == (200, None)
        assert refused(client.get("/chats/chat/data?at=2"))[0] == 410
        revisions = [each["revision"] for each in client.get("/changes?since=0").json()["items"]]
        assert revisions == [1, 2, 3, 4, 5, 6]


def test_a_chat_that_was_folded_and_purged_can_be_written_and_read_again(
    client: httpx.Client,
) -> None:
    chat = Chat(client, "folded")
    done(chat.send("POST", "/data", {"key": "k", "value": 1}))
    done(client.post("/compact", json={"keep": {"revisions": 0}}))
    done(chat.send("DELETE", "?purge=true"))
    done(chat.send("POST", "/data", {"key": "k", "value": 2}))

    for order in ("desc", "asc"):
        answer = chat.send("GET", f"/history?order={order}")
        assert answer.status_code == 200, answer.text
        assert 2 in [item.get("after") for item in answer.json()["items"]]
