"""Reading the chats of another extension, and never writing them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import head, outcome, refusal, refused
from tests.support.chat import Chat, furnish
from valuetracker.errors import ExtensionNotRegistered, MethodNotAllowed

# Each read across extensions, which must equal the read within the extension.
READS = [
    "",
    "/chat",
    "/chat/state",
    "/chat/data",
    "/chat/data/hp",
    "/chat/data/absent",
    "/chat/data/a%2Fb",
    "/unknown",
    "/unknown/state",
    "/unknown/data",
    "/unknown/data/hp",
    "/an%20old%20id/state",
]


@pytest.fixture
def reader(shared_server: RunningServer) -> Iterator[httpx.Client]:
    """A client that names no extension of its own."""
    with shared_server.client() as client:
        yield client


def write_story(client: httpx.Client) -> Chat:
    """Make a chat with everything a chat can have, renamed, at revision 8."""
    Chat(client, "an old id").open()
    Chat(client, "an old id").rename("chat")
    chat = Chat(client, "chat")
    chat.set("hp", 50)
    chat.set("hp", 45, "m1")
    chat.set("a/b", 1, "m2")
    chat.instance("sword").set("hp", 7)
    chat.add_version("recap", "one", "m2")
    return chat


@pytest.mark.parametrize("path", READS)
def test_the_reads_are_those_of_the_other_extension(
    client: httpx.Client, reader: httpx.Client, extension_id: str, path: str
) -> None:
    write_story(client)

    answer = reader.get(f"/cross-extension/chats/{extension_id}{path}")

    at_home = client.get(f"/chats{path}")
    assert (answer.status_code, answer.content) == (200, at_home.content)
    assert answer.headers.get("etag") == at_home.headers.get("etag")


@pytest.mark.parametrize("path", ["/chat/state", "/chat/data", "/chat/data/hp"])
@pytest.mark.parametrize("at", ["3", "4", "2001-01-01T00:00:00Z"])
def test_the_past_can_be_read(
    client: httpx.Client, reader: httpx.Client, extension_id: str, path: str, at: str
) -> None:
    write_story(client)

    answer = reader.get(f"/cross-extension/chats/{extension_id}{path}", params={"at": at})

    at_home = client.get(f"/chats{path}", params={"at": at})
    assert (answer.status_code, answer.content) == (200, at_home.content)


def test_the_state_as_of_a_message_can_be_read(
    client: httpx.Client, reader: httpx.Client, extension_id: str
) -> None:
    write_story(client)
    path = f"/cross-extension/chats/{extension_id}/chat/state"

    state = reader.get(path, params={"at": "message:m1"})

    assert (state.status_code, state.json()["data"]) == (200, {"hp": 45})
    assert state.content == client.get("/chats/chat/state?at=message:m1").content
    unknown = reader.get(path, params={"at": "message:m9"})
    assert refused(unknown) == (404, "message_not_found", {})


def test_reads_create_nothing(
    client: httpx.Client, reader: httpx.Client, extension_id: str
) -> None:
    for path in READS:
        reader.get(f"/cross-extension/chats/{extension_id}{path}")

    assert (client.get("/chats").json(), head(client)) == ([], 0)


def test_reads_show_what_is_written_and_flipped_meanwhile(
    client: httpx.Client, reader: httpx.Client, extension_id: str
) -> None:
    chat = write_story(client)
    path = f"/cross-extension/chats/{extension_id}/chat/data"
    before = reader.get(path)

    chat.reconcile()

    assert outcome(before) == (200, {"hp": 45, "a/b": 1})
    assert outcome(reader.get(path)) == (200, {"hp": 50})


def test_no_session_is_shown_to_others(
    client: httpx.Client, reader: httpx.Client, extension_id: str
) -> None:
    session = furnish(client).session()

    for path in ("", "/chat", "/chat/state"):
        answer = reader.get(f"/cross-extension/chats/{extension_id}{path}")
        assert session not in answer.text


WRITES: list[tuple[str, str, Any]] = [
    ("POST", "/chat/data", {"key": "hp", "value": 1}),
    ("PUT", "/chat/data", {"key": "hp", "value": 1}),
    ("PATCH", "/chat/data", {"hp": 1}),
    ("DELETE", "/chat/data", None),
    ("DELETE", "/chat/data/hp", None),
    ("PUT", "/chat/data/merge", {"hp": 1}),
    ("PATCH", "/chat", {"chatId": "renamed"}),
    ("DELETE", "/chat", None),
    ("POST", "/chat/state", {}),
    ("POST", "", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), WRITES)
def test_every_writing_method_is_refused(
    client: httpx.Client,
    reader: httpx.Client,
    extension_id: str,
    method: str,
    path: str,
    body: Any,
) -> None:
    chat = write_story(client)

    answer = reader.request(method, f"/cross-extension/chats/{extension_id}{path}", json=body)

    message = f"{method} is not possible here."
    assert outcome(answer) == refusal(MethodNotAllowed(message, allow=["GET", "HEAD"]))
    assert (chat.data(), head(client)) == ({"hp": 45, "a/b": 1}, 8)


@pytest.mark.parametrize("path", READS)
def test_an_unknown_extension_is_not_found(reader: httpx.Client, path: str) -> None:
    answer = reader.get(f"/cross-extension/chats/nobody{path}")

    assert outcome(answer) == refusal(ExtensionNotRegistered("nobody"))


def test_a_chat_of_one_extension_is_unknown_to_another(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    write_story(client)
    shared_server.register(f"{extension_id}-other")

    with shared_server.client(f"{extension_id}-other") as other:
        assert outcome(other.get("/chats/chat")) == (200, None)
        assert outcome(other.get("/chats/chat/data")) == (200, {})
        Chat(other, "chat").set("hp", 1)

    assert Chat(client, "chat").data() == {"hp": 45, "a/b": 1}
