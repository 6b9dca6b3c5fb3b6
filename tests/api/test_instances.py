"""Instances over HTTP."""

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
    refused_as,
    values_of,
)
from valuetracker.errors import (
    CharacterNotFound,
    InstanceNotFound,
    InvalidBody,
    InvalidId,
    InvalidName,
    InvalidQuery,
)


def put(client: httpx.Client, **body: Any) -> httpx.Response:
    return client.post("/instances", json=body)


def test_an_instance_is_created(client: httpx.Client) -> None:
    client.post("/characters", json={"id": "arthur", "name": "Arthur"})

    answer = put(client, id="sword", characterId="arthur", name="Excalibur", chatId="the lake")

    assert outcome(answer) == (200, instance("sword", "arthur", "Excalibur", "the lake"))
    assert answer.headers["x-revision"] == "2"
    assert outcome(client.get("/instances/sword")) == (200, {"instance": answer.json(), "data": {}})
    assert outcome(client.get("/characters")) == (200, [character("arthur", "Arthur")])


def test_an_unknown_character_is_created_with_its_instance(client: httpx.Client) -> None:
    answer = put(client, id="sword", characterId="arthur")

    assert outcome(answer) == (200, instance("sword", "arthur"))
    assert answer.headers["x-revision"] == "1"
    assert outcome(client.get("/characters")) == (200, [character("arthur", None)])


@pytest.mark.parametrize(
    "body", [{}, {"name": ""}, {"name": None}, {"name": "Excalibur"}, {"chatId": "the lake"}]
)
def test_an_upsert_that_changes_nothing_makes_no_revision(
    client: httpx.Client, body: dict[str, Any]
) -> None:
    old = put(client, id="sword", characterId="arthur", name="Excalibur", chatId="the lake")

    answer = put(client, id="sword", characterId="arthur", **body)

    assert outcome(answer) == outcome(old)
    assert answer.headers["x-revision"] == old.headers["x-revision"]


@pytest.mark.parametrize(
    ("body", "chat_id"),
    [({}, "the lake"), ({"chatId": None}, None), ({"chatId": "the stone"}, "the stone")],
)
def test_a_chat_is_kept_unless_another_or_none_is_named(
    client: httpx.Client, body: dict[str, Any], chat_id: str | None
) -> None:
    put(client, id="sword", characterId="arthur", chatId="the lake")

    answer = put(client, id="sword", characterId="arthur", **body)

    assert outcome(answer) == (200, instance("sword", "arthur", None, chat_id))
    assert outcome(client.get("/instances")) == (200, [instance("sword", "arthur", None, chat_id)])


def test_a_renamed_instance_keeps_its_position(client: httpx.Client) -> None:
    old = put(client, id="sword", characterId="arthur", name="Caliburn")
    put(client, id="shield", characterId="arthur")

    answer = put(client, id="sword", characterId="arthur", name="Excalibur")

    assert outcome(answer) == (200, instance("sword", "arthur", "Excalibur"))
    assert answer.json()["createdAt"] == old.json()["createdAt"]
    assert outcome(client.get("/instances")) == (
        200,
        [instance("sword", "arthur", "Excalibur"), instance("shield", "arthur")],
    )


def test_another_character_id_moves_an_instance_with_its_values(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    client.get("/characters/arthur")

    answer = put(client, id="sword", characterId="mordred")

    assert outcome(answer) == (200, instance("sword", "mordred"))
    assert outcome(client.get("/characters/arthur")) == (
        200,
        {"character": character("arthur"), "instances": []},
    )
    assert outcome(client.get("/characters/mordred")) == (
        200,
        {
            "character": character("mordred"),
            "instances": [{"instance": instance("sword", "mordred"), "data": {"edge": "keen"}}],
        },
    )


def test_a_moved_instance_stays_when_its_old_character_is_deleted(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    put(client, id="sword", characterId="mordred")

    answer = client.delete("/characters/arthur")

    assert outcome(answer) == DONE
    assert values_of(client) == '{"edge":"keen"}'


def test_an_instance_is_read_with_its_values(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "weight": 2}, "sword")

    answer = client.get("/instances/sword")

    assert outcome(answer) == (
        200,
        {"instance": instance("sword", "arthur"), "data": {"edge": "keen", "weight": 2}},
    )


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_an_unknown_instance_is_not_found(client: httpx.Client, method: str) -> None:
    answer = client.request(method, "/instances/nothing")

    assert outcome(answer) == refusal(InstanceNotFound())
    assert answer.json()["error"] == "Instance not found"


def test_an_instance_is_deleted_and_its_character_stays(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.delete("/instances/sword")

    assert outcome(answer) == DONE
    assert answer.headers["x-revision"] == "3"
    assert outcome(client.get("/instances/sword")) == refusal(InstanceNotFound())
    assert values_of(client) == "{}"
    assert outcome(client.get("/characters")) == (200, [character("arthur")])


def test_a_deleted_instance_that_is_created_again_is_empty_and_last(client: httpx.Client) -> None:
    put(client, id="sword", characterId="arthur", name="Excalibur", chatId="the lake")
    client.post("/instances/sword/data", json={"key": "edge", "value": "keen"})
    put(client, id="shield", characterId="arthur")
    client.delete("/instances/sword")

    answer = put(client, id="sword", characterId="arthur")

    assert outcome(answer) == (200, instance("sword", "arthur"))
    assert values_of(client) == "{}"
    assert outcome(client.get("/instances")) == (
        200,
        [instance("shield", "arthur"), instance("sword", "arthur")],
    )


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ({}, ["sword", "shield", "staff"]),
        ({"characterId": "arthur"}, ["sword", "shield"]),
        ({"characterId": "merlin"}, ["staff"]),
        ({"chatId": "a/b ?&é"}, ["sword", "staff"]),
        ({"characterId": "arthur", "chatId": "a/b ?&é"}, ["sword"]),
        ({"characterId": "nobody"}, []),
        ({"chatId": "nowhere"}, []),
        ({"characterId": "ARTHUR"}, []),
        ({"unknown": "arthur"}, ["sword", "shield", "staff"]),
    ],
)
def test_instances_are_listed_by_character_and_chat(
    client: httpx.Client, query: dict[str, str], ids: list[str]
) -> None:
    put(client, id="sword", characterId="arthur", chatId="a/b ?&é")
    put(client, id="shield", characterId="arthur")
    put(client, id="staff", characterId="merlin", chatId="a/b ?&é")
    everything = {each["id"]: each for each in client.get("/instances").json()}

    answer = client.get("/instances", params=query)

    assert outcome(answer) == (200, [everything[id] for id in ids])


@pytest.mark.parametrize("id", ["arthur", "nobody"])
def test_the_instances_of_a_character_are_also_listed_below_its_path(
    client: httpx.Client, id: str
) -> None:
    make_instance(client, id="sword")
    make_instance(client, id="staff", character_id="merlin")

    answer = client.get(f"/characters/{id}/instances")

    assert outcome(answer) == outcome(client.get("/instances", params={"characterId": id}))
    assert outcome(answer) == (200, [instance("sword", "arthur")] if id == "arthur" else [])


def test_all_instances_of_a_character_are_deleted(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    make_instance(client, id="shield")
    make_instance(client, {"glow": True}, "staff", character_id="merlin")

    answer = client.delete("/characters/arthur/instances")

    assert outcome(answer) == (200, {"success": True, "deletedCount": 2})
    assert outcome(client.get("/instances")) == (200, [instance("staff", "merlin")])
    assert values_of(client, "sword") == "{}"
    assert outcome(client.get("/characters")) == (200, [character("arthur"), character("merlin")])


def test_deleting_the_instances_of_an_unknown_character_deletes_none(client: httpx.Client) -> None:
    client.post("/characters", json={"id": "arthur"})

    answer = client.delete("/characters/nobody/instances")

    assert outcome(answer) == (200, {"success": True, "deletedCount": 0})
    assert answer.headers["x-revision"] == "1"
    assert outcome(client.get("/characters/nobody")) == refusal(CharacterNotFound())


@pytest.mark.parametrize(
    ("body", "missing"),
    [({}, "id"), ({"characterId": "arthur"}, "id"), ({"id": "sword"}, "characterId")],
)
def test_an_instance_needs_an_id_and_a_character(
    client: httpx.Client, body: dict[str, Any], missing: str
) -> None:
    answer = client.post("/instances", json=body)

    assert outcome(answer) == refusal(InvalidBody(f"`{missing}` is required."))
    assert outcome(client.get("/characters")) == (200, [])


@pytest.mark.one_engine
@pytest.mark.parametrize("value", [5, True, [], {}])
@pytest.mark.parametrize("field", ["id", "characterId", "chatId", "name"])
def test_ids_and_names_must_be_strings(client: httpx.Client, field: str, value: Any) -> None:
    body = {"id": "sword", "characterId": "arthur", field: value}

    answer = client.post("/instances", json=body)

    refusals = {
        "id": InvalidId("The instance id must be a string."),
        "characterId": InvalidId("The character id must be a string."),
        "chatId": InvalidId("The chat id must be a string."),
        "name": InvalidName("The name must be a string."),
    }
    assert outcome(answer) == refusal(refusals[field])
    assert outcome(client.get("/instances")) == (200, [])
    assert outcome(client.get("/characters")) == (200, [])


@pytest.mark.parametrize("field", ["id", "characterId"])
def test_null_is_no_id(client: httpx.Client, field: str) -> None:
    body = {"id": "sword", "characterId": "arthur", field: None}

    answer = client.post("/instances", json=body)

    noun = "instance" if field == "id" else "character"
    assert outcome(answer) == refusal(InvalidId(f"The {noun} id must be a string."))


@pytest.mark.parametrize("name", ["characterId", "chatId"])
def test_a_filter_must_be_a_valid_id_given_once(client: httpx.Client, name: str) -> None:
    twice = client.get("/instances", params=[(name, "a"), (name, "a")])
    empty = client.get("/instances", params={name: ""})

    assert outcome(twice) == refusal(InvalidQuery(f"The query names {name} more than once."))
    assert outcome(empty) == refused_as(empty, InvalidId)
