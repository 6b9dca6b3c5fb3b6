"""History: every change of an instance or a key, in pages, in both directions."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import MOMENT, done, instance, make_instance, outcome, refused, set_value

HISTORY = "/instances/sword/history"


def change(revision: int, op: str, key: str | None = "edge", **more: Any) -> dict[str, Any]:
    """Return one item of the history of `sword` as it should be."""
    return {
        "revision": revision,
        "at": MOMENT,
        "actor": "extension",
        "instanceId": "sword",
        "key": key,
        "op": op,
        "anchor": None,
        "live": True,
        **more,
    }


def structural(revision: int, op: str, character_id: str = "arthur", **more: Any) -> dict[str, Any]:
    return change(revision, op, None, characterId=character_id, chatId=None, **more)


def walk(client: httpx.Client, path: str = HISTORY, **params: Any) -> list[dict[str, Any]]:
    """Return all items, page after page."""
    items: list[dict[str, Any]] = []
    while True:
        answer = client.get(path, params=params)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        assert set(page) == {"items", "next"}
        assert len(page["items"]) <= params.get("limit", 100)
        items += page["items"]
        if page["next"] is None:
            return items
        assert isinstance(page["next"], str)
        assert page["items"]
        params["cursor"] = page["next"]


def test_every_change_of_an_instance_is_listed_newest_first(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"})
    set_value(client, "edge", "keen")
    set_value(client, "edge", None)
    done(client.delete("/instances/sword/data/edge"))

    answer = client.get(HISTORY)

    assert outcome(answer) == (
        200,
        {
            "items": [
                change(5, "remove", before=None),
                change(4, "set", before="keen", after=None),
                change(3, "set", before="keen", after="keen"),
                change(2, "set", after="keen"),
                structural(1, "create_instance", after=instance("sword", "arthur")),
            ],
            "next": None,
        },
    )


def test_the_history_of_a_key_has_no_change_of_another(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen", "hilt": "gold"})
    done(client.put("/instances/sword/data/override", json={"hilt": "horn"}))

    answer = client.get(HISTORY, params={"key": "edge"})

    items = [change(4, "remove", before="keen"), change(2, "set", after="keen")]
    assert outcome(answer) == (200, {"items": items, "next": None})


def test_each_change_names_its_operator(client: httpx.Client) -> None:
    make_instance(client)
    operations: list[dict[str, Any]] = [
        {"op": "set", "value": [1]},
        {"op": "append", "value": 2},
        {"op": "addToSet", "value": 2},
        {"op": "pull", "value": 1},
        {"op": "remove"},
        {"op": "increment", "by": 3},
        {"op": "set", "value": {"a": 1}},
        {"op": "merge", "value": {"b": 2}},
    ]
    batch = [{"instanceId": "sword", "key": "edge", **each} for each in operations]
    done(client.post("/batch", json={"operations": batch}))

    answer = client.get(HISTORY, params={"key": "edge", "order": "asc"})

    items = [
        change(2, "set", after=[1]),
        change(2, "append", before=[1], after=[1, 2]),
        change(2, "addToSet", before=[1, 2], after=[1, 2]),
        change(2, "pull", before=[1, 2], after=[2]),
        change(2, "remove", before=[2]),
        change(2, "increment", after=3),
        change(2, "set", before=3, after={"a": 1}),
        change(2, "merge", before={"a": 1}, after={"a": 1, "b": 2}),
    ]
    assert outcome(answer) == (200, {"items": items, "next": None})


def test_a_merge_patch_is_logged_as_merge_set_and_remove(client: httpx.Client) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur"}))
    values = {"edge": {"left": 1}, "hilt": "gold", "rust": True}
    done(client.put("/instances/sword/data/merge", json=values))
    patch = {"edge": {"right": 2}, "hilt": {"wood": "oak"}, "rust": None, "none": None}
    done(client.patch("/instances/sword/data", json=patch))

    answer = client.get(HISTORY, params={"after": 2, "order": "asc"})

    items = [
        change(3, "merge", before={"left": 1}, after={"left": 1, "right": 2}),
        change(3, "set", "hilt", before="gold", after={"wood": "oak"}),
        change(3, "remove", "rust", before=True),
    ]
    assert outcome(answer) == (200, {"items": items, "next": None})


def test_a_deleted_instance_keeps_its_history(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"})
    body = {"id": "sword", "characterId": "uther", "name": "Excalibur"}
    done(client.post("/instances", json=body))
    done(client.delete("/instances/sword"))

    answer = client.get(HISTORY, params={"after": 2})

    before = instance("sword", "uther", "Excalibur")
    items = [
        structural(4, "delete_instance", "uther", before=before),
        change(4, "remove", before="keen"),
        structural(3, "update_instance", "uther", before=instance("sword", "arthur"), after=before),
    ]
    assert outcome(answer) == (200, {"items": items, "next": None})


def test_a_change_has_its_actor_and_anchor_and_a_deletion_is_unanchored(
    client: httpx.Client,
) -> None:
    anchored = {"x_message_id": "m%201", "x_swipe_id": "2"}
    make_instance(client)
    set_value(client, "edge", 1, x_actor="user", **anchored)
    set_value(client, "edge", 2, x_message_id="m2")
    headers = {"x-message-id": "m3", "x-actor": "user"}
    done(client.delete("/instances/sword", headers=headers))

    answer = client.get(HISTORY, params={"key": "edge", "order": "asc"})

    first = {"messageId": "m 1", "swipe": "2"}
    items = [
        {**change(2, "set", after=1), "actor": "user", "anchor": first},
        {**change(3, "set", before=1, after=2), "anchor": {"messageId": "m2", "swipe": "0"}},
        {**change(4, "remove", before=2), "actor": "user"},
    ]
    assert outcome(answer) == (200, {"items": items, "next": None})


def test_an_unknown_instance_has_no_history(client: httpx.Client) -> None:
    assert outcome(client.get("/instances/none/history")) == (200, {"items": [], "next": None})


def fill(client: httpx.Client) -> list[tuple[int, str | None]]:
    """Make eleven revisions, some of several changes; return the changes, oldest first."""
    make_instance(client, {"a": 0})
    make_instance(client, {"a": "another's"}, id="shield")
    happened: list[tuple[int, str | None]] = [(1, None), (2, "a")]
    for number in range(7):
        keys = ["a", "b", "c"][: 1 + number % 3]
        revision = done(client.put("/instances/sword/data/merge", json=dict.fromkeys(keys, number)))
        happened += [(revision, key) for key in keys]
    return happened


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 15, 1000])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_lose_nothing_and_repeat_nothing(
    client: httpx.Client, limit: int, order: str
) -> None:
    happened = fill(client)

    items = walk(client, limit=limit, order=order)

    found = [(item["revision"], item["key"]) for item in items]
    assert found == (happened if order == "asc" else happened[::-1])


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_of_a_key_within_bounds(client: httpx.Client, order: str) -> None:
    happened = fill(client)

    items = walk(client, limit=2, order=order, key="b", after=6, before=11)

    wanted = [revision for revision, key in happened if key == "b" and 6 < revision < 11]
    assert len(wanted) > 1
    found = [item["revision"] for item in items]
    assert found == (wanted if order == "asc" else wanted[::-1])


def test_pages_read_while_others_write_lose_nothing(client: httpx.Client) -> None:
    happened = fill(client)
    first = client.get(HISTORY, params={"limit": 4}).json()
    set_value(client, "a", "later")

    rest = walk(client, limit=4, cursor=first["next"])

    found = [(item["revision"], item["key"]) for item in [*first["items"], *rest]]
    assert found == happened[::-1]


def test_a_page_has_a_hundred_items_by_default(client: httpx.Client) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur"}))
    values = {f"key {number}": number for number in range(150)}
    done(client.put("/instances/sword/data/merge", json=values))

    page = client.get(HISTORY).json()

    assert [item["after"] for item in page["items"]] == list(range(149, 49, -1))


def test_a_page_of_large_values_ends_early_and_nothing_is_left_out(client: httpx.Client) -> None:
    done(client.post("/instances", json={"id": "sword", "characterId": "arthur"}))
    for number in range(7):
        value = f"{number}" + "x" * (3 * 1024 * 1024)
        done(client.put("/instances/sword/data", json={"key": "edge", "value": value}))

    first = client.get(HISTORY).json()["items"]
    found = [
        [item["after"][0] for item in walk(client, order=order, key="edge")]
        for order in ("asc", "desc")
    ]

    assert 1 <= len(first) < 7
    assert found == [list("0123456"), list("6543210")]


def test_times_bound_a_history_like_the_revision_recorded_then(client: httpx.Client) -> None:
    happened = fill(client)
    newest = walk(client)[0]["at"]

    before = walk(client, before="2001-01-01T00:00:00Z")
    after = walk(client, after=newest)
    until = walk(client, before=newest, order="asc")

    assert (before, after) == ([], [])
    # A time stands for a revision, which is left out as a revision given as a number is.
    earlier = [each for each in happened if each[0] < happened[-1][0]]
    assert [(item["revision"], item["key"]) for item in until] == earlier


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("limit=0", "invalid_query"),
        ("limit=1001", "invalid_query"),
        ("limit=x", "invalid_query"),
        ("limit=-1", "invalid_query"),
        ("limit=1.0", "invalid_query"),
        ("limit=", "invalid_query"),
        ("limit=1&limit=2", "invalid_query"),
        ("order=x", "invalid_query"),
        ("order=DESC", "invalid_query"),
        ("cursor=x", "invalid_query"),
        ("cursor=-1", "invalid_query"),
        ("cursor=99999999999999999999", "invalid_query"),
        ("key=", "invalid_key"),
        ("key=%00", "invalid_key"),
        ("key=%ff", "invalid_query"),
        ("after=x", "invalid_at"),
        ("before=2026-13-01T00:00:00Z", "invalid_at"),
    ],
)
def test_a_malformed_query_is_refused(client: httpx.Client, query: str, code: str) -> None:
    make_instance(client)

    assert refused(client.get(f"{HISTORY}?{query}")) == (400, code, {})


@pytest.mark.one_engine
@pytest.mark.parametrize("query", ["limit=0", "after=soon", "order=up"])
def test_the_refusal_of_a_malformed_query_says_what_is_wrong(
    client: httpx.Client, query: str
) -> None:
    answer = client.get(f"{HISTORY}?{query}")

    assert answer.json()["error"].startswith(f"`{query.partition('=')[0]}`: ")


@pytest.mark.parametrize("query", ["after=2", "before=3", "after=99999999999999999999999"])
def test_a_revision_above_the_present_one_is_refused(client: httpx.Client, query: str) -> None:
    make_instance(client)

    assert refused(client.get(f"{HISTORY}?{query}")) == (400, "revision_unknown", {"current": 1})


def test_another_extension_reads_the_same_history(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    fill(client)

    with shared_server.client() as stranger:
        theirs = stranger.get(f"/cross-extension/instances/{extension_id}/sword/history?limit=5")

    assert theirs.content == client.get(f"{HISTORY}?limit=5").content


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("cursor", ["0-0", "16777216-7", "99999999999-0", f"{2**62}-0"])
def test_a_cursor_of_another_history_does_not_fail(
    client: httpx.Client, cursor: str, order: str
) -> None:
    make_instance(client)
    for number in range(3):
        set_value(client, "edge", number)

    for key in ({}, {"key": "edge"}, {"key": "nothing"}):
        answer = client.get(HISTORY, params={"cursor": cursor, "order": order, **key})

        assert answer.status_code == 200, answer.text
        assert len(answer.json()["items"]) <= 4
