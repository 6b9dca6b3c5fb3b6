"""Sessions and `x-chat-id`: a reference kept across a change of chats writes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import done, head, make_instance, outcome, refused, set_value, values_of
from tests.support.chat import EVERY_WRITE, INSTANCE_WRITES, Chat, Values, furnish

ALL = pytest.mark.parametrize(("method", "path", "body"), EVERY_WRITE)
OF_INSTANCES = pytest.mark.parametrize(("method", "path", "body"), INSTANCE_WRITES)


def everything(chat: Chat) -> tuple[int, Any, Any]:
    """Return the whole state, which must be the same after a refusal."""
    return head(chat.client), chat.state(), chat.client.get("/chats").json()


def send(client: httpx.Client, method: str, path: str, body: Any, **headers: str) -> httpx.Response:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return client.request(method, path, json=body, headers=named)


@ALL
def test_every_write_refuses_a_session_of_another_chat(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    chat = furnish(client)
    ended = chat.session("tab")
    chat.session("tab")
    others = Chat(client, "other").session("another tab")
    before = everything(chat)

    answers = [
        refused(send(client, method, path, body, x_session=session))[:2]
        for session in ("nobody knows", ended, others)
    ]

    assert answers == [(409, "stale_session"), (409, "stale_session"), (409, "chat_mismatch")]
    assert everything(chat) == before


@ALL
def test_every_write_refuses_the_id_of_another_chat(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    chat = furnish(client)
    Chat(client, "other").open()
    before = everything(chat)

    known = send(client, method, path, body, x_chat_id="other")
    unknown = send(client, method, path, body, x_chat_id="nobody%20knows")

    assert refused(known)[:2] == (409, "chat_mismatch")
    assert refused(unknown)[:2] == (409, "chat_mismatch")
    assert everything(chat) == before


@ALL
def test_every_write_accepts_the_session_and_id_of_its_chat(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    chat = furnish(client)

    answer = send(client, method, path, body, x_session=chat.session(), x_chat_id="chat")

    assert answer.status_code in (200, 201), answer.text
    assert answer.headers["x-revision"] == "6"


@ALL
def test_former_ids_are_resolved_before_chats_are_compared(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    chat = furnish(client)
    session = chat.session()
    chat.rename("new name")

    # The old id in the path, the new one in the header.
    answer = send(client, method, path, body, x_chat_id="new%20name", x_session=session)

    assert answer.status_code in (200, 201), answer.text


@OF_INSTANCES
def test_a_write_may_name_its_chat_by_a_former_id(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    chat = furnish(client)
    chat.rename("renamed")

    answer = send(client, method, path, body, x_chat_id="chat")

    assert done(answer) == 7


def test_a_former_id_of_another_chat_is_refused(client: httpx.Client) -> None:
    chat = furnish(client)
    Chat(client, "other").open()
    Chat(client, "other").rename("other still")

    answer = chat.send("POST", "/data", {"key": "hp", "value": 1}, x_chat_id="other")

    assert refused(answer)[:2] == (409, "chat_mismatch")


@OF_INSTANCES
def test_a_write_to_an_unbound_instance_is_accepted(
    client: httpx.Client, method: str, path: str, body: Any
) -> None:
    make_instance(client, {"hp": 7})
    session = Chat(client, "chat").session()

    answer = send(client, method, path, body, x_chat_id="chat", x_session=session)

    assert done(answer) == 4


def test_a_session_cannot_write_to_an_unknown_chat(client: httpx.Client) -> None:
    session = Chat(client, "chat").session()
    unknown = Chat(client, "unknown")

    answer = unknown.send("POST", "/data", {"key": "hp", "value": 1}, x_session=session)

    assert refused(answer)[:2] == (409, "chat_mismatch")
    assert [each["chatId"] for each in client.get("/chats").json()] == ["chat"]


def test_a_first_write_may_name_its_own_chat(chat: Chat) -> None:
    assert chat.set("hp", 1, x_chat_id="chat") == 1


def test_a_write_without_either_is_not_checked(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.session("tab")
    Chat(client, "other").session("tab")

    assert chat.set("hp", 1) == 7


def test_chats_are_named_percent_encoded(client: httpx.Client) -> None:
    chat = Chat(client, "Ünder @ 日本 #1/2")
    chat.instance("sword")

    right = set_value(client, "hp", 1, x_chat_id=quote(chat.chat_id, safe=""))
    wrong = send(
        client,
        "POST",
        "/instances/sword/data",
        {"key": "hp", "value": 2},
        x_chat_id=quote("Ünder @ 日本 #1", safe=""),
    )

    assert right == 2
    assert refused(wrong)[:2] == (409, "chat_mismatch")
    assert values_of(client) == '{"hp":1}'


@pytest.mark.parametrize("headers", [{"x_chat_id": "chat"}, {"x_session": "its own"}])
def test_one_foreign_instance_refuses_a_whole_batch(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    chat = furnish(client)
    Chat(client, "other").instance("shield")
    if "x_session" in headers:
        headers = {"x_session": chat.session()}
    operations = [
        {"op": "set", "instanceId": id, "key": "hp", "value": 1} for id in ("sword", "shield")
    ]

    answer = send(client, "POST", "/batch", {"operations": operations}, **headers)

    assert refused(answer)[:2] == (409, "chat_mismatch")
    assert (values_of(client), values_of(client, "shield")) == ('{"hp":7}', "{}")


def test_a_session_cannot_write_to_an_instance_that_left_its_chat(client: httpx.Client) -> None:
    chat = furnish(client)
    session = chat.session()
    Chat(client, "other").instance("sword")

    answer = send(
        client, "POST", "/instances/sword/data", {"key": "hp", "value": 1}, x_session=session
    )

    assert refused(answer)[:2] == (409, "chat_mismatch")


def test_a_session_stays_valid_when_its_chat_is_renamed(client: httpx.Client) -> None:
    chat = furnish(client)
    session = chat.session()
    renamed = chat.rename("renamed")

    assert renamed.set("hp", 1, x_session=session) == 7
    assert chat.set("hp", 2, x_session=session) == 8


def test_a_session_is_unknown_to_another_extension(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    session = Chat(client, "chat").session()
    shared_server.register(f"{extension_id}-other")
    with shared_server.client(f"{extension_id}-other") as other:
        answer = Chat(other, "chat").send(
            "POST", "/data", {"key": "hp", "value": 1}, x_session=session
        )

        assert refused(answer)[:2] == (409, "stale_session")
        assert outcome(other.get("/chats")) == (200, [])


def test_checks_are_made_in_the_order_session_chat_existence_condition(
    client: httpx.Client,
) -> None:
    chat = furnish(client)
    Chat(client, "other").instance("shield")
    body = {"key": "hp", "value": 1}
    unknown = Values(client, "chat", "nothing")
    shield = Values(client, "other", "shield")
    session = chat.session()

    def ask(values: Values, **headers: str) -> tuple[int, str]:
        return refused(values.send("POST", "/data", body, **headers))[:2]

    stale = {"x_session": "nobody knows"}
    assert ask(unknown, if_match='"0"', **stale) == (409, "stale_session")
    assert ask(shield, x_chat_id="chat", **stale) == (409, "stale_session")
    assert ask(shield, x_session=session, if_match='"0"') == (409, "chat_mismatch")
    assert ask(shield, x_chat_id="chat", if_match='"0"') == (409, "chat_mismatch")
    assert ask(unknown, x_session=session, if_match='"0"') == (404, "instance_not_found")


def test_a_retry_is_answered_although_its_session_has_ended(client: httpx.Client) -> None:
    chat = furnish(client)
    body = {"key": "hp", "value": 1}
    headers = {"x_session": chat.session("tab"), "idempotency_key": "k"}
    first = chat.send("POST", "/data", body, **headers)
    # The session is not part of the request's identity: a retry may come from the next session.
    headers_since = {"x_session": chat.session("tab"), "idempotency_key": "k"}

    again = chat.send("POST", "/data", body, **headers)
    since = chat.send("POST", "/data", body, **headers_since)

    assert [done(each) for each in (first, again, since)] == [6, 6, 6]
    assert again.headers["idempotency-replayed"] == "true"
    assert since.headers["idempotency-replayed"] == "true"
    assert head(client) == 6


@pytest.mark.one_engine
@pytest.mark.parametrize("session", ["", "%", "%ff", "%00", "x" * 513])
def test_a_malformed_session_is_refused(client: httpx.Client, session: str) -> None:
    chat = furnish(client)

    answer = chat.send("POST", "/data", {"key": "hp", "value": 1}, x_session=session)

    assert refused(answer) == (400, "invalid_header", {})
    assert head(client) == 5


def test_a_session_given_twice_is_refused(client: httpx.Client) -> None:
    chat = furnish(client)
    session = chat.session()

    answer = client.post(
        "/chats/chat/data",
        json={"key": "hp", "value": 1},
        headers=[("x-session", session), ("x-session", session)],
    )

    assert refused(answer) == (400, "invalid_header", {})


def test_sessions_survive_a_restart(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            chat = furnish(client)
            ended, session = chat.session("tab"), chat.session("tab")
            others = Chat(client, "other").session("another tab")

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        chat = Chat(client, "chat")
        body = {"key": "hp", "value": 1}

        assert chat.set("hp", 2, x_session=session) == 7
        for stale, code in ((ended, "stale_session"), (others, "chat_mismatch")):
            answer = chat.send("POST", "/data", body, x_session=stale)
            assert refused(answer)[:2] == (409, code)
        # The same tab, opened again after the restart.
        chat.session("tab")
        answer = chat.send("POST", "/data", body, x_session=session)
        assert refused(answer)[:2] == (409, "stale_session")
        assert chat.data() == {"hp": 2}
