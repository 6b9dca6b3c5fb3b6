"""Opening a chat: one request loads it, and creates it on first use."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import done, head, instance, outcome, refused
from tests.support.chat import Chat, chat_record, chat_state, furnish


def opened(body: Any) -> Any:
    """Open a chat; return the answer without its session, which must be present."""
    session = body.pop("session")
    assert isinstance(session, str)
    assert session
    return body


def test_a_first_open_creates_the_chat(client: httpx.Client) -> None:
    answer = client.post("/chats/chat/open", json={"client": "tab"})

    assert answer.headers["x-revision"] == "1"
    assert opened(answer.json()) == {"created": True, **chat_state("chat", 1)}
    assert outcome(client.get("/chats")) == (200, [chat_record("chat", 1)])
    assert outcome(client.get("/chats/chat")) == (200, chat_record("chat", 1))


def test_another_open_creates_nothing_and_makes_no_revision(chat: Chat) -> None:
    chat.set("hp", 50)

    answer = chat.send("POST", "/open", {"client": "tab"})

    assert answer.headers["x-revision"] == "1"
    assert opened(answer.json()) == {"created": False, **chat_state("chat", 1, data={"hp": 50})}
    assert head(chat.client) == 1


def test_one_open_returns_everything(client: httpx.Client) -> None:
    chat = furnish(client)

    body = opened(chat.open())

    assert body == {
        "created": False,
        **chat_state(
            "chat",
            5,
            data={"hp": 50},
            instances=[
                {"instance": instance("sword", "arthur", chat_id="chat"), "data": {"hp": 7}}
            ],
            series={"recap": {"currentVersion": 1, "count": 1}},
            processed={"seen": 1},
        ),
    }
    del body["created"]
    assert chat.state() == body


def test_defaults_of_a_first_open_are_set_in_the_same_revision(chat: Chat) -> None:
    body = chat.open(defaults={"hp": 50, "b": None, "a": {"z": 1, "y": []}})

    assert (body["created"], body["revision"], head(chat.client)) == (True, 1, 1)
    assert chat.text() == '{"hp":50,"b":null,"a":{"z":1,"y":[]}}'


def test_defaults_set_only_absent_keys(chat: Chat) -> None:
    chat.set("hp", 45)
    chat.set("none", None)

    body = chat.open(defaults={"gold": 100, "hp": 50, "none": 1})

    assert body["data"] == {"hp": 45, "none": None, "gold": 100}
    assert (body["created"], body["revision"], head(chat.client)) == (False, 3, 3)


def test_defaults_for_keys_that_all_exist_make_no_revision(chat: Chat) -> None:
    chat.set("hp", 45)

    body = chat.open(defaults={"hp": 50})

    assert (body["data"], head(chat.client)) == ({"hp": 45}, 1)


def test_defaults_are_set_in_the_chats_own_data(chat: Chat) -> None:
    sword = chat.instance("sword")
    sword.set("hp", 7)

    body = chat.open(defaults={"hp": 50})

    assert body["data"] == {"hp": 50}
    assert body["instances"][0]["data"] == {"hp": 7}


def test_a_default_does_not_replace_a_value_set_meanwhile(chat: Chat) -> None:
    chat.open(defaults={"hp": 50})
    chat.set("hp", 45)

    assert chat.open(defaults={"hp": 50})["data"] == {"hp": 45}


def test_a_tab_that_opens_another_chat_ends_its_session(chat: Chat) -> None:
    first = chat.session("tab")
    Chat(chat.client, "other").session("tab")

    answer = chat.send("POST", "/data", {"key": "hp", "value": 1}, x_session=first)

    assert refused(answer)[:2] == (409, "stale_session")
    assert chat.data() == {}


def test_a_tab_that_opens_the_same_chat_again_has_a_new_session(chat: Chat) -> None:
    first, second = chat.session("tab"), chat.session("tab")

    assert first != second
    answer = chat.send("POST", "/data", {"key": "hp", "value": 1}, x_session=first)
    assert refused(answer)[:2] == (409, "stale_session")
    assert chat.set("hp", 2, x_session=second) == 2


def test_two_tabs_have_sessions_at_the_same_time(chat: Chat) -> None:
    first, second = chat.session("tab 1"), chat.session("tab 2")

    assert chat.set("hp", 1, x_session=first) == 2
    assert chat.set("hp", 2, x_session=second) == 3


def test_opening_an_archived_chat_brings_it_back_unchanged(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.archive()
    assert outcome(client.get("/chats")) == (200, [])

    body = chat.open()

    assert (body["created"], body["data"]) == (False, {"hp": 50})
    assert body["series"] == {"recap": {"currentVersion": 1, "count": 1}}
    assert [each["chatId"] for each in client.get("/chats").json()] == ["chat"]
    assert client.get("/chats/chat").json()["archived"] is False
    assert chat.set("hp", 1) == head(client)


def test_a_fresh_open_of_a_former_id_creates_a_new_chat(chat: Chat) -> None:
    chat.set("hp", 50)
    renamed = chat.rename("renamed")

    body = chat.open(fresh=True)

    assert (body["chatId"], body["created"], body["data"]) == ("chat", True, {})
    assert renamed.data() == {"hp": 50}
    chat.set("hp", 1)
    assert (chat.data(), renamed.data()) == ({"hp": 1}, {"hp": 50})
    listed = [each["chatId"] for each in chat.client.get("/chats").json()]
    assert listed == ["renamed", "chat"]


def test_an_open_of_a_former_id_opens_the_renamed_chat(chat: Chat) -> None:
    chat.set("hp", 50)
    chat.rename("renamed")

    body = chat.open()

    assert (body["chatId"], body["created"], body["data"]) == ("renamed", False, {"hp": 50})


def test_an_unknown_parent_is_a_warning_and_an_empty_chat(chat: Chat) -> None:
    body = opened(chat.open(parent="nobody knows", messageId="m1", defaults={"hp": 50}))

    assert len(body["warnings"]) == 1
    assert isinstance(body.pop("warnings")[0], str)
    expected = {"created": True, **chat_state("chat", 1, data={"hp": 50})}
    del expected["warnings"]
    assert body == expected
    assert [each["chatId"] for each in chat.client.get("/chats").json()] == ["chat"]


def test_an_open_that_is_repeated_has_the_same_session(chat: Chat) -> None:
    body = {"client": "tab"}
    first = chat.send("POST", "/open", body, idempotency_key="k")

    again = chat.send("POST", "/open", body, idempotency_key="k")

    assert again.content == first.content
    assert again.headers["idempotency-replayed"] == "true"
    assert chat.set("hp", 1, x_session=first.json()["session"]) == 2


def test_of_many_opens_at_once_one_creates_the_chat(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    def open_it(number: int) -> Any:
        with shared_server.client(extension_id) as mine:
            return Chat(mine, "chat").open(f"tab {number}", defaults={"hp": number})

    with ThreadPoolExecutor(8) as pool:
        bodies = list(pool.map(open_it, range(16)))

    assert sorted(body["created"] for body in bodies) == [False] * 15 + [True]
    assert len({body["session"] for body in bodies}) == 16
    first = next(body for body in bodies if body["created"])
    assert [body["data"] for body in bodies] == [first["data"]] * 16
    assert head(client) == 1


def test_chats_are_listed_in_the_order_of_their_creation(client: httpx.Client) -> None:
    Chat(client, "b").open()
    Chat(client, "a").set("hp", 1)
    Chat(client, "c").instance("sword")
    Chat(client, "b").set("hp", 1)

    assert outcome(client.get("/chats")) == (
        200,
        [chat_record("b", 4), chat_record("a", 2), chat_record("c", 3)],
    )


UNKNOWN_READS: list[tuple[str, Any]] = [
    ("", None),
    ("/state", None),
    ("/data", {}),
    ("/data/hp", {}),
    ("/series/recap", {"currentVersion": None, "versions": []}),
    ("/processed/seen", {"ids": []}),
    ("/processed/seen/a", {"processed": False}),
    ("/history", {"items": [], "next": None}),
]


@pytest.mark.parametrize(("path", "body"), UNKNOWN_READS)
def test_reads_of_an_unknown_chat_are_empty_and_create_nothing(
    chat: Chat, path: str, body: Any
) -> None:
    assert outcome(chat.send("GET", path)) == (200, body)
    assert outcome(chat.client.get("/chats")) == (200, [])
    assert head(chat.client) == 0


CREATING: list[tuple[str, str, Any]] = [
    ("POST", "/data", {"key": "hp", "value": 1}),
    ("PUT", "/data", {"key": "hp", "value": 1}),
    ("PUT", "/data/merge", {"hp": 1}),
    ("PUT", "/data/override", {"hp": 1}),
    ("PATCH", "/data", {"hp": 1}),
    ("POST", "/batch", {"operations": [{"op": "set", "key": "hp", "value": 1}]}),
    ("POST", "/series/recap", {"content": 1}),
    ("POST", "/processed/seen", {"ids": ["a"]}),
    ("PUT", "/processed/seen/a", None),
]


@pytest.mark.parametrize(("method", "path", "body"), CREATING)
def test_a_first_write_creates_the_chat_in_the_same_revision(
    chat: Chat, method: str, path: str, body: Any
) -> None:
    answer = chat.send(method, path, body)

    assert answer.status_code in (200, 201), answer.text
    assert answer.headers["x-revision"] == "1"
    assert outcome(chat.client.get("/chats")) == (200, [chat_record("chat", 1)])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/restore", {"revision": 0}),
        ("PATCH", "", {"chatId": "renamed"}),
        ("POST", "/reconcile", {"anchors": []}),
        ("DELETE", "", None),
        ("DELETE", "?purge=true", None),
    ],
)
def test_a_route_that_needs_an_existing_chat_does_not_create_one(
    chat: Chat, method: str, path: str, body: Any
) -> None:
    assert refused(chat.send(method, path, body)) == (404, "chat_not_found", {})
    assert outcome(chat.client.get("/chats")) == (200, [])


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"client": None},
        {"client": 5},
        {"client": ""},
        {"client": "x" * 257},
        {"client": "tab", "defaults": []},
        {"client": "tab", "defaults": {"": 1}},
        {"client": "tab", "defaults": {"a": 10**30}},
        {"client": "tab", "fresh": "yes"},
        {"client": "tab", "parent": 5},
        {"client": "tab", "parent": "x" * 513},
        {"client": "tab", "parent": "other", "messageId": 5},
    ],
)
def test_a_malformed_open_is_refused(chat: Chat, body: Any) -> None:
    assert refused(chat.send("POST", "/open", body))[0] == 400
    assert outcome(chat.client.get("/chats")) == (200, [])


@pytest.mark.parametrize("length", [1, 255, 256])
def test_a_client_may_have_256_characters(chat: Chat, length: int) -> None:
    assert done(chat.send("POST", "/open", {"client": "日" * length})) == 1
