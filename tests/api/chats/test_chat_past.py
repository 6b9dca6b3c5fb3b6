"""Every read of a chat takes `at`: a revision, a time, or a message."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, furnish

ROUTES = [
    "/state",
    "/data",
    "/data/hp",
    "/series/recap",
    "/series/recap/current",
    "/series/recap/1",
    "/processed/seen",
    "/processed/seen/a",
]


def read(chat: Chat, path: str, at: Any) -> Any:
    answer = chat.client.get(f"{chat.path}{path}", params={"at": at})
    assert answer.status_code == 200, answer.text
    return answer.json()


def story(client: httpx.Client) -> Chat:
    """Furnish a chat with five revisions, and add a value, a version and an id at m1 and at m2."""
    chat = furnish(client)
    for number in (1, 2):
        chat.set("hp", 50 - 5 * number, f"m{number}")
        chat.add_version("recap", f"Scene {number}", f"m{number}", scenes=number)
        chat.claim("seen", f"id {number}", message=f"m{number}")
    assert head(client) == 11
    return chat


def test_each_revision_reads_as_it_was(client: httpx.Client) -> None:
    chat = story(client)

    def versions(at: int) -> Any:
        found = read(chat, "/series/recap", at)
        return found["currentVersion"], [each["version"] for each in found["versions"]]

    assert [versions(at) for at in (0, 3, 4, 6, 7, 9, 10, 11)] == [
        (None, []),
        (None, []),
        (1, [1]),
        (1, [1]),
        (2, [1, 2]),
        (2, [1, 2]),
        (3, [1, 2, 3]),
        (3, [1, 2, 3]),
    ]
    second = {"version": 2, "content": "Scene 1", "createdAt": MOMENT, "scenes": 1}
    assert read(chat, "/series/recap/current", 9) == read(chat, "/series/recap/2", 7) == second
    assert [read(chat, "/processed/seen", at)["ids"] for at in (4, 5, 8, 11)] == [
        [],
        ["a"],
        ["a", "id 1"],
        ["a", "id 1", "id 2"],
    ]
    assert [read(chat, "/processed/seen/id 1", at)["processed"] for at in (7, 8)] == [False, True]
    assert [read(chat, "/data", at) for at in (1, 2, 6)] == [{}, {"hp": 50}, {"hp": 45}]
    assert read(chat, "/data/hp", 6) == {"hp": 45}


def test_as_of_a_message_each_route_agrees_with_the_state(client: httpx.Client) -> None:
    chat = story(client)

    for message, hp, count in (("m1", 45, 2), ("m2", 40, 3)):
        at = f"message:{message}"
        state = chat.as_of(message)
        assert read(chat, "/data", at) == read(chat, "/data/hp", at) == state["data"] == {"hp": hp}
        series = read(chat, "/series/recap", at)
        assert state["series"] == {"recap": {"currentVersion": count, "count": count}}
        assert (series["currentVersion"], len(series["versions"])) == (count, count)
        assert read(chat, "/series/recap/current", at) == series["versions"][-1]
        assert read(chat, f"/series/recap/{count}", at) == series["versions"][-1]
        assert len(read(chat, "/processed/seen", at)["ids"]) == state["processed"]["seen"] == count
    assert read(chat, "/processed/seen/id 2", "message:m1") == {"processed": False}
    assert read(chat, "/data/absent", "message:m1") == {}
    later = chat.client.get("/chats/chat/series/recap/3?at=message:m1")
    assert refused(later) == (404, "version_not_found", {})


def test_as_of_a_message_follows_the_story(client: httpx.Client) -> None:
    chat = story(client)
    path = "/chats/chat/data?at=message:m1"
    first = client.get(path)
    assert client.get(path, headers={"if-none-match": first.headers["etag"]}).status_code == 304

    chat.set("hp", 44, "m1", "1")

    assert read(chat, "/data", "message:m1") == {"hp": 44}
    assert read(chat, "/series/recap", "message:m1")["currentVersion"] == 1
    assert read(chat, "/processed/seen", "message:m1") == {"ids": ["a"]}
    chat.reconcile("m1", "m2")
    assert client.get(path).json() == first.json() == {"hp": 45}
    # The answer for a revision never changes.
    assert read(chat, "/series/recap", 11)["currentVersion"] == 3


def test_a_time_is_the_revision_recorded_by_then(client: httpx.Client) -> None:
    chat = story(client)

    for path in ROUTES:
        now = read(chat, path, "9999-01-01T00:00:00Z")
        assert now == chat.client.get(f"{chat.path}{path}").json()
    assert read(chat, "/series/recap", "2001-01-01T00:00:00Z")["versions"] == []
    assert read(chat, "/processed/seen", "2001-01-01T00:00:00Z") == {"ids": []}
    early = client.get("/chats/chat/series/recap/1?at=2001-01-01T00:00:00Z")
    assert refused(early) == (404, "version_not_found", {})


@pytest.mark.one_engine
@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("at", ["", "x", "-1", "message:", "message", "messages:m1"])
def test_a_malformed_moment_is_refused(chat: Chat, path: str, at: str) -> None:
    chat.set("hp", 50, "m1")

    assert refused(chat.client.get(f"{chat.path}{path}", params={"at": at}))[0] == 400


@pytest.mark.parametrize("path", ROUTES)
def test_a_moment_that_is_not_there_is_refused(client: httpx.Client, path: str) -> None:
    chat = story(client)
    chat.reconcile("m1")

    def ask(at: str, of: str = "chat") -> Any:
        return refused(client.get(f"/chats/{of}{path}", params={"at": at}))

    assert ask("99") == (400, "revision_unknown", {"current": 12})
    assert ask("message:m2") == (404, "message_not_found", {})
    assert ask("message:m1", of="nobody knows") == (404, "message_not_found", {})


def test_an_unknown_chat_has_an_empty_past(client: httpx.Client) -> None:
    story(client)

    def ask(path: str) -> Any:
        return client.get(f"/chats/unknown{path}?at=3").json()

    assert (ask("/data"), ask("/data/hp")) == ({}, {})
    assert ask("/series/recap") == {"currentVersion": None, "versions": []}
    assert (ask("/processed/seen"), ask("/processed/seen/a")) == (
        {"ids": []},
        {"processed": False},
    )


def test_the_past_of_a_purged_or_folded_chat_cannot_be_read(client: httpx.Client) -> None:
    chat = story(client)
    kept = [client.get(f"{chat.path}{path}?at=7").status_code for path in ROUTES]
    done(client.post("/compact", json={"keep": {"revisions": 2}}))
    folded = [refused(client.get(f"{chat.path}{path}?at=7")) for path in ROUTES]
    chat.purge()
    purged = [refused(client.get(f"{chat.path}{path}?at=11"))[:2] for path in ROUTES]

    assert kept == [200] * len(ROUTES)
    assert folded == [(410, "compacted", {"oldest": 9})] * len(ROUTES)
    assert purged == [(410, "compacted")] * len(ROUTES)


def test_another_extension_reads_as_of_a_message(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    story(client)

    with shared_server.client() as stranger:
        path = f"/cross-extension/chats/{extension_id}/chat/data"
        found = stranger.get(path, params={"at": "message:m1"})

    assert outcome(found) == (200, {"hp": 45})


def test_names_with_slashes_are_read_in_the_past(chat: Chat) -> None:
    name = "a/b%"
    chat.add_version(name, "one", "m1")
    chat.claim(name, "x/y", message="m1")
    chat.add_version(name, "two", "m2")

    path = quote(name, safe="")
    assert read(chat, f"/series/{path}", "message:m1")["currentVersion"] == 1
    assert read(chat, f"/processed/{path}", "message:m1") == {"ids": ["x/y"]}
    assert read(chat, f"/processed/{path}/{quote('x/y', safe='')}", 2) == {"processed": True}


@pytest.mark.one_engine
def test_an_instance_has_no_messages(chat: Chat) -> None:
    chat.instance("sword").set("hp", 7, "m1")

    answer = chat.client.get("/instances/sword/data?at=message:m1")

    assert refused(answer) == (400, "invalid_at", {})
