"""Templates: `{{vt::…}}` resolved by the server."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import outcome, refused
from valuetracker import macros


def render(client: httpx.Client, template: str, **where: str) -> tuple[int, Any]:
    return outcome(client.post("/render", json={"template": template, **where}))


@pytest.fixture
def chat(client: httpx.Client) -> httpx.Client:
    client.post("/chats/quest/open", json={"client": "tab"})
    client.put("/chats/quest/data/merge", json={"gold": 3, "name": "Camelot"})
    client.post("/characters", json={"id": "arthur.png", "name": "Arthur"})
    for instance, character, name in (
        ("i1", "arthur.png", None),
        ("i2", "persona:me.png", "Jo"),
        ("i3", "merlin.png", "Arthur"),
    ):
        body = {"id": instance, "characterId": character, "chatId": "quest", "name": name}
        made = client.post("/instances", json={k: v for k, v in body.items() if v is not None})
        assert made.status_code == 200, made.text
        client.put(f"/instances/{instance}/data/merge", json={"hp": int(instance[1:]), "who": name})
    return client


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{vt::gold}} in {{vt::name}}", "3 in Camelot"),
        ("{{vt::Arthur.hp}} {{vt::arthur.hp}}", "1 1"),
        ("{{vt::Arthur 2.hp}}", "3"),
        ("{{vt::arthur.png.hp}} {{vt::i1.hp}}", "1 1"),
        ("{{vt::Jo.hp}}{{vt::{{user}}.hp}}{{vt::User.hp}}{{vt::me.png.hp::no}}", "2222"),
        ("{{vt::Arthur.who}}", "null"),
        ("{{vt::Lancelot.hp::gone}} {{char}}", "gone {{char}}"),
    ],
)
def test_values_of_a_chat_are_put_in(chat: httpx.Client, template: str, text: str) -> None:
    status, body = render(chat, template, chatId="quest")

    assert (status, body["text"]) == (200, text)
    assert body["missing"] == (["Lancelot.hp"] if "Lancelot" in template else [])


def test_values_of_an_instance_are_put_in_without_a_name(chat: httpx.Client) -> None:
    assert render(chat, "{{vt::hp}} {{vt::gold::none}}", instanceId="i3") == (
        200,
        {"text": "3 none", "missing": ["gold"]},
    )


def test_with_two_personas_nobody_is_the_user(chat: httpx.Client) -> None:
    body = {"id": "i4", "characterId": "persona:you.png", "chatId": "quest"}
    chat.post("/instances", json=body)

    assert render(chat, "{{vt::User.hp::?}}", chatId="quest")[1]["text"] == "?"
    assert render(chat, "{{vt::Jo.hp}}", chatId="quest")[1]["text"] == "2"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "invalid_body"),
        ({"template": "x"}, 400, "invalid_body"),
        ({"template": "x", "chatId": "a", "instanceId": "b"}, 400, "invalid_body"),
        ({"template": 5, "chatId": "a"}, 400, "invalid_body"),
        ({"template": "x", "chatId": ""}, 400, "invalid_id"),
        ({"template": "x", "chatId": "nowhere"}, 404, "chat_not_found"),
        ({"template": "x", "instanceId": "nobody"}, 404, "instance_not_found"),
    ],
)
def test_bad_requests_are_refused(
    client: httpx.Client, body: dict[str, Any], status: int, code: str
) -> None:
    assert refused(client.post("/render", json=body))[:2] == (status, code)


def test_a_template_that_is_too_long_or_yields_too_much_is_refused(chat: httpx.Client) -> None:
    long = chat.post(
        "/render", json={"template": "x" * (macros.TEMPLATE_LENGTH + 1), "chatId": "quest"}
    )
    chat.put("/chats/quest/data/merge", json={"book": "x" * 900_000})
    much = chat.post("/render", json={"template": "{{vt::book}}" * 30, "chatId": "quest"})

    assert refused(long)[:2] == (400, "invalid_body")
    assert refused(much)[:2] == (413, "value_too_large")


def test_it_changes_nothing(chat: httpx.Client, extension_id: str) -> None:
    before = chat.get(f"/extensions/{extension_id}").json()["revision"]

    render(chat, "{{vt::gold}}", chatId="quest")

    assert chat.get(f"/extensions/{extension_id}").json()["revision"] == before
