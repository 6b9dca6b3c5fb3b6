"""Restoring instances and characters: a new revision with a former state."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import (
    character,
    done,
    head,
    instance,
    make_instance,
    outcome,
    refused,
    set_value,
    values_of,
)


def restore(client: httpx.Client, revision: Any, what: str = "instances/sword") -> httpx.Response:
    return client.post(f"/{what}/restore", json={"revision": revision})


def restored(revision: int, changed: int) -> tuple[int, Any]:
    return 200, {"revision": revision, "changed": changed, "warnings": []}


def ops_of(client: httpx.Client, revision: int) -> list[tuple[str | None, str]]:
    events = client.get("/changes", params={"since": revision - 1}).json()["items"]
    return [(change["key"], change["op"]) for change in events[0]["changes"]]


def test_values_are_restored_as_one_revision(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "hilt": 1, "same": 1})
    done(client.put("/instances/sword/data/override", json={"edge": "dull", "new": 1, "same": 1}))

    answer = restore(client, 4)

    assert outcome(answer) == restored(6, 3)
    assert answer.headers["x-revision"] == "6"
    assert values_of(client) == '{"edge":"keen","same":1,"hilt":1}'
    assert head(client) == 6


def test_rows_changed_since_are_restored_even_if_equal(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "untouched": 1})
    set_value(client, "edge", "dull")
    set_value(client, "edge", "keen")

    answer = restore(client, 3)

    assert outcome(answer) == restored(6, 0)
    assert ops_of(client, 6) == [("edge", "restore")]


def test_restoring_an_unchanged_instance_makes_no_revision(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"})

    answer = restore(client, 2)

    assert outcome(answer) == restored(2, 0)
    assert answer.headers["x-revision"] == "2"


def test_a_deleted_instance_is_restored_with_its_values_and_character(
    client: httpx.Client,
) -> None:
    done(client.post("/characters", json={"id": "arthur", "name": "Arthur"}))
    make_instance(client, {"edge": "keen", "hilt": None})
    before = client.get("/instances/sword").json()
    done(client.delete("/characters/arthur"))

    answer = restore(client, 4)

    assert outcome(answer) == restored(6, 2)
    full = {"instance": instance("sword", "arthur"), "data": {"edge": "keen", "hilt": None}}
    assert outcome(client.get("/instances/sword")) == (200, full)
    assert (
        client.get("/instances/sword").json()["instance"]["createdAt"]
        == (before["instance"]["createdAt"])
    )
    assert client.get("/characters").json() == [character("arthur", "Arthur")]
    assert ops_of(client, 6) == [
        (None, "create_character"),
        (None, "create_instance"),
        ("edge", "restore"),
        ("hilt", "restore"),
    ]


def test_the_name_and_character_of_an_instance_are_restored(client: httpx.Client) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur", "name": "A"}))
    done(client.post("/instances", json={"id": "sword", "characterId": "uther", "name": "B"}))

    answer = restore(client, 1)

    assert outcome(answer) == restored(3, 0)
    assert client.get("/instances").json() == [instance("sword", "arthur", "A")]


def test_an_instance_in_another_chat_stays_there(client: httpx.Client) -> None:
    body = {"id": "sword", "characterId": "arthur"}
    done(client.post("/instances", json={**body, "chatId": "first"}))
    set_value(client, "edge", 1)
    done(client.post("/instances", json={**body, "chatId": "second"}))
    set_value(client, "edge", 2)

    answer = restore(client, 2)

    status, found = outcome(answer)
    assert (status, len(found.pop("warnings"))) == (200, 1)
    assert found == {"revision": 5, "changed": 1}
    full = {"instance": instance("sword", "arthur", chat_id="second"), "data": {"edge": 1}}
    assert outcome(client.get("/instances/sword")) == (200, full)


def test_a_character_is_restored_with_all_its_instances(client: httpx.Client) -> None:
    done(client.post("/characters", json={"id": "arthur", "name": "Arthur"}))
    make_instance(client, {"edge": 1})
    make_instance(client, {"boss": 1}, id="shield")
    make_instance(client, {"made": 1}, id="crown", character_id="smith")
    then = head(client)
    before = client.get("/characters/arthur", params={"at": then})
    done(client.post("/characters", json={"id": "arthur", "name": "King"}))
    set_value(client, "edge", 2)
    done(client.delete("/instances/shield"))
    make_instance(client, {"late": 1, "later": 2}, id="new")
    done(client.post("/instances", json={"id": "crown", "characterId": "arthur"}))

    answer = restore(client, then, "characters/arthur")

    assert outcome(answer) == restored(then + 8, 4)
    now = client.get("/characters/arthur").json()
    assert now["character"] == character("arthur", "Arthur")
    assert [each["data"] for each in now["instances"]] == [{"edge": 1}, {"boss": 1}]
    assert client.get("/instances").json() == [
        instance("sword", "arthur"),
        instance("crown", "smith"),
        instance("shield", "arthur"),
    ]
    assert client.get("/characters/arthur", params={"at": then}).content == before.content


def test_a_deleted_character_is_restored(client: httpx.Client) -> None:
    done(client.post("/characters", json={"id": "arthur", "name": "Arthur"}))
    make_instance(client, {"edge": 1})
    make_instance(client, {"edge": 2}, id="shield")
    done(client.delete("/characters/arthur"))

    answer = restore(client, 5, "characters/arthur")

    assert outcome(answer) == restored(7, 2)
    assert outcome(client.get("/characters/arthur")) == (
        200,
        {
            "character": character("arthur", "Arthur"),
            "instances": [
                {"instance": instance("sword", "arthur"), "data": {"edge": 1}},
                {"instance": instance("shield", "arthur"), "data": {"edge": 2}},
            ],
        },
    )


def test_an_instance_moved_to_another_character_since_is_moved_back(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    done(client.post("/instances", json={"id": "sword", "characterId": "uther"}))
    set_value(client, "edge", 2)

    answer = restore(client, 2, "characters/arthur")

    assert outcome(answer) == restored(5, 1)
    assert client.get("/characters/uther/instances").json() == []
    expected = {"instance": instance("sword", "arthur"), "data": {"edge": 1}}
    assert client.get("/characters/arthur").json()["instances"] == [expected]


def test_a_restore_can_itself_be_undone(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"})
    done(client.put("/instances/sword/data/override", json={"rust": True}))
    done(restore(client, 2))
    assert values_of(client) == '{"edge":"keen"}'

    answer = restore(client, 3)

    assert outcome(answer) == restored(5, 2)
    assert values_of(client) == '{"rust":true}'
    assert values_of(client, at=4) == '{"edge":"keen"}'


def test_a_restore_is_unanchored_and_has_an_actor(client: httpx.Client) -> None:
    make_instance(client)
    set_value(client, "edge", 1, x_message_id="m1")
    set_value(client, "edge", 2, x_message_id="m2")
    headers = {"x-message-id": "m3", "x-actor": "user"}

    done(client.post("/instances/sword/restore", json={"revision": 2}, headers=headers))

    item = client.get("/instances/sword/history?limit=1").json()["items"][0]
    del item["at"]
    assert item == {
        "revision": 4,
        "actor": "user",
        "instanceId": "sword",
        "key": "edge",
        "op": "restore",
        "before": 2,
        "after": 1,
        "anchor": None,
        "live": True,
    }


def test_a_removal_by_restore_is_logged_as_restore(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})

    done(restore(client, 1))

    assert ops_of(client, 3) == [("edge", "restore")]
    assert values_of(client) == "{}"


def test_a_restore_to_a_revision_before_the_creation_is_refused(client: httpx.Client) -> None:
    done(client.post("/characters", json={"id": "uther"}))
    make_instance(client, {"edge": 1})

    assert refused(restore(client, 1)) == (404, "instance_not_found", {})
    assert refused(restore(client, 0)) == (404, "instance_not_found", {})
    answer = restore(client, 1, "characters/arthur")
    assert refused(answer) == (404, "character_not_found", {})
    assert refused(restore(client, 3, "instances/none")) == (404, "instance_not_found", {})
    assert head(client) == 3


def test_an_instance_that_did_not_exist_at_the_revision_is_not_found(client: httpx.Client) -> None:
    make_instance(client, {"edge": 1})
    done(client.delete("/characters/arthur"))
    make_instance(client, {"edge": 2})

    assert refused(restore(client, 3)) == (404, "instance_not_found", {})
    answer = restore(client, 3, "characters/arthur")
    assert refused(answer) == (404, "character_not_found", {})
    assert values_of(client) == '{"edge":2}'


@pytest.mark.one_engine
@pytest.mark.parametrize("what", ["instances/sword", "characters/arthur"])
@pytest.mark.parametrize("revision", [-1, 1.0, "1", True, None, [1]])
def test_a_malformed_revision_is_refused(client: httpx.Client, what: str, revision: Any) -> None:
    make_instance(client)

    assert refused(restore(client, revision, what)) == (400, "invalid_body", {})
    assert refused(client.post(f"/{what}/restore", json={})) == (400, "invalid_body", {})
    assert head(client) == 1


@pytest.mark.parametrize("what", ["instances/sword", "characters/arthur"])
@pytest.mark.parametrize("revision", [2, 2**63, 2**64 - 1])
def test_a_future_revision_is_refused(client: httpx.Client, what: str, revision: int) -> None:
    make_instance(client)

    answer = restore(client, revision, what)

    assert refused(answer) == (400, "revision_unknown", {"current": 1})
