"""The past of a chat with its instances: history, differences, restoring."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, furnish, restored


def item(revision: int, op: str, instance_id: str | None, **more: Any) -> dict[str, Any]:
    """Return one item of the history of the key `hp` in `chat`, as it should be."""
    return {
        "revision": revision,
        "at": MOMENT,
        "actor": "extension",
        "chatId": "chat",
        "instanceId": instance_id,
        "key": "hp",
        "op": op,
        "anchor": None,
        "live": True,
        **more,
    }


def test_the_history_of_a_key_covers_the_chat_and_its_instances(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.set("hp", 45, "m1", "2", x_actor="user")
    chat.reconcile()

    answer = client.get("/chats/chat/history?key=hp")

    place = {"messageId": "m1", "swipe": "2"}
    items = [
        item(7, "reconcile", None, before=45, after=50),
        item(6, "set", None, before=50, after=45, actor="user", anchor=place, live=False),
        item(3, "set", "sword", after=7),
        item(2, "set", None, after=50),
    ]
    assert outcome(answer) == (200, {"items": items, "next": None})


def test_a_history_has_structure_series_and_processed_ids_too(client: httpx.Client) -> None:
    chat = furnish(client)

    found = chat.history()

    assert {each["chatId"] for each in found} == {"chat"}
    structure = sorted(each["op"] for each in found if each["key"] is None)
    assert structure == ["create_chat", "create_instance"]
    assert {each["revision"] for each in found if each["key"] is None} == {1}
    spaces = [
        (each["revision"], each.get("space"), each["key"], each["instanceId"])
        for each in found
        if each["key"] is not None
    ]
    assert sorted(spaces, key=str) == [
        (2, None, "hp", None),
        (3, None, "hp", "sword"),
        (4, "series", "recap/1", None),
        (4, "series", "recap/current", None),
        (5, "processed", "seen/a", None),
    ]


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_history_is_read_in_pages_within_bounds(client: httpx.Client, order: str) -> None:
    chat = furnish(client)
    for number in range(7):
        (chat if number % 2 else chat.instance("sword")).set("mp", number)
    whole = chat.history(order=order, after=5)
    assert [each["after"] for each in whole] == (
        list(range(7)) if order == "asc" else [*reversed(range(7))]
    )

    pages: list[Any] = []
    params: dict[str, Any] = {"order": order, "after": 5, "limit": 3}
    while True:
        page = client.get("/chats/chat/history", params=params).json()
        pages += page["items"]
        if page["next"] is None:
            break
        assert len(page["items"]) == 3
        params["cursor"] = page["next"]

    assert pages == whole


def test_the_history_of_an_instance_is_its_own(client: httpx.Client) -> None:
    furnish(client)

    found = client.get("/instances/sword/history?key=hp").json()["items"]

    expected = item(3, "set", "sword", after=7)
    del expected["chatId"]
    assert found == [expected]


def test_a_difference_covers_the_chat_with_its_instances(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.set("hp", 45)
    chat.set("new", None)
    chat.instance("shield").set("boss", 1)
    done(client.delete("/instances/sword"))

    forth = client.get("/chats/chat/diff?from=5")

    assert outcome(forth) == (
        200,
        [
            {"instanceId": None, "key": "hp", "before": 50, "after": 45},
            {"instanceId": "sword", "key": "hp", "before": 7},
            {"instanceId": None, "key": "new", "after": None},
            {"instanceId": "shield", "key": "boss", "after": 1},
        ],
    )
    assert outcome(client.get("/chats/chat/diff?from=5&to=5")) == (200, [])
    assert outcome(client.get("/chats/chat/diff?from=1&to=3")) == (
        200,
        [
            {"instanceId": None, "key": "hp", "after": 50},
            {"instanceId": "sword", "key": "hp", "after": 7},
        ],
    )


def test_a_difference_names_series_and_processed_ids(client: httpx.Client) -> None:
    furnish(client)

    found = client.get("/chats/chat/diff?from=3").json()

    spaces = sorted((each["space"], each["key"], each["instanceId"]) for each in found)
    assert spaces == [
        ("processed", "seen/a", None),
        ("series", "recap/1", None),
        ("series", "recap/current", None),
    ]


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", (400, "invalid_query", {})),
        ("from=x", (400, "invalid_at", {})),
        ("from=6", (400, "revision_unknown", {"current": 5})),
    ],
)
def test_a_malformed_difference_is_refused(client: httpx.Client, query: str, expected: Any) -> None:
    furnish(client)

    assert refused(client.get(f"/chats/chat/diff?{query}")) == expected


# Restoring.


def timeless(state: Any) -> Any:
    """Return a state without its revision and times of updates, which any restore changes."""
    assert set(state) >= {"revision", "instances"}
    for each in state["instances"]:
        assert each["instance"].pop("updatedAt") == MOMENT
    return {**state, "revision": None}


def test_a_chat_is_restored_with_its_instances(client: httpx.Client) -> None:
    chat = furnish(client)
    before = timeless(chat.state())
    chat.set("hp", 45)
    chat.instance("shield").set("boss", 1)
    done(client.delete("/instances/sword"))
    now = head(client)

    assert chat.restore(5) == restored(now + 1, 3)

    assert timeless(chat.state()) == before
    assert refused(client.get("/instances/shield")) == (404, "instance_not_found", {})
    assert head(client) == now + 1


def test_a_chat_is_restored_with_its_series_and_processed_ids(client: httpx.Client) -> None:
    chat = furnish(client)
    series, processed = chat.series("recap"), chat.processed("seen")
    chat.add_version("recap", "Twice")
    chat.claim("seen", "b")
    done(chat.send("DELETE", "/processed/seen/a"))

    done(chat.send("POST", "/restore", {"revision": 5}))

    assert (chat.series("recap"), chat.processed("seen")) == (series, processed)
    # The counter is not restored.
    assert chat.add_version("recap", "Thrice") == 3


def test_a_restore_changes_no_other_chat(client: httpx.Client) -> None:
    chat, other = furnish(client), Chat(client, "other")
    shield = other.instance("shield")
    for values in (chat, other, shield):
        values.set("hp", 1)

    assert chat.restore(5) == restored(10, 1)

    assert (chat.data(), other.data(), shield.data()) == ({"hp": 50}, {"hp": 1}, {"hp": 1})


def test_an_instance_that_is_in_another_chat_now_stays_there(chat: Chat) -> None:
    chat.instance("sword")
    Chat(chat.client, "other").instance("sword")

    answer = chat.send("POST", "/restore", {"revision": 1})

    status, body = outcome(answer)
    assert (status, len(body["warnings"]), body["changed"]) == (200, 1, 0)
    assert chat.client.get("/instances/sword").json()["instance"]["chatId"] == "other"


def test_a_restore_can_be_undone(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.set("hp", 45)
    later = timeless(chat.state())
    assert chat.restore(1)[0] == 200
    assert chat.data() == {}

    assert chat.restore(6)[0] == 200

    assert timeless(chat.state()) == later


def test_a_chat_cannot_be_restored_to_a_revision_before_its_creation(chat: Chat) -> None:
    done(chat.client.post("/characters", json={"id": "arthur"}))
    chat.set("hp", 50)

    for revision in (0, 1):
        answer = chat.send("POST", "/restore", {"revision": revision})
        assert refused(answer) == (404, "chat_not_found", {})
    future = chat.send("POST", "/restore", {"revision": 3})
    assert refused(future) == (400, "revision_unknown", {"current": 2})
