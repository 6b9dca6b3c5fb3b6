"""Characters over HTTP."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import (
    DONE,
    character,
    instance,
    make_instance,
    outcome,
    refusal,
    values_of,
)
from valuetracker.errors import CharacterNotFound, InvalidBody, InvalidId, InvalidName


def test_a_fresh_extension_has_no_characters(client: httpx.Client) -> None:
    assert outcome(client.get("/characters")) == (200, [])


def test_a_character_is_created(client: httpx.Client) -> None:
    answer = client.post("/characters", json={"id": "Seraphina.png", "name": "Seraphina"})

    assert outcome(answer) == (200, character("Seraphina.png", "Seraphina"))
    assert answer.json()["createdAt"] == answer.json()["updatedAt"]
    assert answer.headers["x-revision"] == "1"
    assert outcome(client.get("/characters")) == (200, [answer.json()])


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": None}])
def test_a_character_may_have_no_name(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post("/characters", json={"id": "arthur", **body})

    assert outcome(answer) == (200, character("arthur", None))


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": None}, {"name": "Arthur"}])
def test_an_absent_or_equal_name_changes_nothing_and_makes_no_revision(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    old = client.post("/characters", json={"id": "arthur", "name": "Arthur"})

    answer = client.post("/characters", json={"id": "arthur", **body})

    assert outcome(answer) == outcome(old)
    assert answer.headers["x-revision"] == old.headers["x-revision"]


def test_another_name_renames_a_character_and_keeps_its_position(client: httpx.Client) -> None:
    old = client.post("/characters", json={"id": "arthur", "name": "Wart"})
    client.post("/characters", json={"id": "merlin"})

    answer = client.post("/characters", json={"id": "arthur", "name": "Arthur"})

    assert outcome(answer) == (200, character("arthur", "Arthur"))
    assert answer.json()["createdAt"] == old.json()["createdAt"]
    assert answer.headers["x-revision"] == "3"
    assert outcome(client.get("/characters")) == (
        200,
        [character("arthur", "Arthur"), character("merlin")],
    )


def test_characters_are_listed_in_the_order_of_their_creation(client: httpx.Client) -> None:
    for id in ("b", "a", "c"):
        client.post("/characters", json={"id": id})
    client.delete("/characters/b")
    client.post("/characters", json={"id": "b"})

    answer = client.get("/characters")

    assert outcome(answer) == (200, [character("a"), character("c"), character("b")])


def test_a_character_is_read_with_its_instances_and_their_values(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "weight": 2}, "sword")
    make_instance(client, id="shield")
    make_instance(client, {"glow": True}, "staff", character_id="merlin")

    answer = client.get("/characters/arthur")

    assert outcome(answer) == (
        200,
        {
            "character": character("arthur"),
            "instances": [
                {"instance": instance("sword", "arthur"), "data": {"edge": "keen", "weight": 2}},
                {"instance": instance("shield", "arthur"), "data": {}},
            ],
        },
    )


def test_reads_of_a_character_show_the_last_writes(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    client.get("/characters/arthur")
    client.post("/instances/sword/data", json={"key": "edge", "value": "dull"})
    client.post("/instances", json={"id": "shield", "characterId": "arthur"})

    answer = client.get("/characters/arthur")

    assert answer.json()["instances"] == [
        {"instance": instance("sword", "arthur"), "data": {"edge": "dull"}},
        {"instance": instance("shield", "arthur"), "data": {}},
    ]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_unknown_character_is_not_found(client: httpx.Client, method: str) -> None:
    answer = client.request(method, "/characters/nobody")

    assert outcome(answer) == refusal(CharacterNotFound())
    assert answer.json()["error"] == "Character not found"


def test_deleting_a_character_deletes_its_instances_and_values(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    make_instance(client, {"glow": True}, "staff", character_id="merlin")

    answer = client.delete("/characters/arthur")

    assert outcome(answer) == DONE
    assert answer.headers["x-revision"] == "5"
    assert outcome(client.get("/characters/arthur")) == refusal(CharacterNotFound())
    assert outcome(client.get("/characters")) == (200, [character("merlin")])
    assert outcome(client.get("/instances")) == (200, [instance("staff", "merlin")])
    assert values_of(client, "sword") == "{}"
    assert values_of(client, "staff") == '{"glow":true}'


def test_a_deleted_character_that_is_created_again_is_empty(client: httpx.Client) -> None:
    client.post("/characters", json={"id": "arthur", "name": "Arthur"})
    make_instance(client, {"edge": "keen"}, "sword")
    client.delete("/characters/arthur")

    answer = client.post("/characters", json={"id": "arthur"})

    assert outcome(answer) == (200, character("arthur", None))
    assert outcome(client.get("/characters/arthur")) == (
        200,
        {"character": character("arthur"), "instances": []},
    )


@pytest.mark.parametrize("body", [{}, {"name": "Arthur"}])
def test_a_character_needs_an_id(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post("/characters", json=body)

    assert outcome(answer) == refusal(InvalidBody("`id` is required."))


@pytest.mark.parametrize("id", [None, 5, True, [], {}])
def test_an_id_must_be_a_string(client: httpx.Client, id: Any) -> None:
    answer = client.post("/characters", json={"id": id})

    assert outcome(answer) == refusal(InvalidId("The character id must be a string."))


@pytest.mark.parametrize("name", [5, True, [], {}])
def test_a_name_must_be_a_string(client: httpx.Client, name: Any) -> None:
    answer = client.post("/characters", json={"id": "arthur", "name": name})

    assert outcome(answer) == refusal(InvalidName("The name must be a string."))
    assert outcome(client.get("/characters")) == (200, [])


def test_unknown_fields_are_ignored(client: httpx.Client) -> None:
    answer = client.post("/characters", json={"id": "arthur", "createdAt": "never", "x": [1]})

    assert outcome(answer) == (200, character("arthur"))


def test_the_extensions_do_not_see_each_other(client: httpx.Client) -> None:
    client.post("/register", json={"extensionId": "onlooker"})
    make_instance(client, {"edge": "keen"}, "sword")

    other = {"x-extension-id": "onlooker"}

    assert outcome(client.get("/characters", headers=other)) == (200, [])
    assert outcome(client.get("/instances/sword/data", headers=other)) == (200, {})
