"""Series: numbered versions of one thing, which follow the story."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat

NONE: dict[str, Any] = {"currentVersion": None, "versions": []}


def version(number: int, content: Any, **meta: Any) -> dict[str, Any]:
    return {"version": number, "content": content, "createdAt": MOMENT, **meta}


def add_versions(chat: Chat) -> None:
    """Add three versions; the last one is current."""
    for content in ("one", "two", "three"):
        chat.add_version("recap", content)


def current(chat: Chat) -> Any:
    """Return the current version; all routes must agree about it."""
    found = chat.series("recap")["currentVersion"]
    one = chat.send("GET", "/series/recap/current")
    if found is None:
        assert refused(one)[:2] == (404, "version_not_found")
    else:
        assert one.json()["version"] == found
        assert chat.state()["series"]["recap"]["currentVersion"] == found
    return found


def numbers(chat: Chat) -> list[int]:
    return [each["version"] for each in chat.series("recap")["versions"]]


def test_a_version_is_added_and_becomes_current(chat: Chat) -> None:
    first = chat.send("POST", "/series/recap", {"content": "one", "sceneCount": 2, "tags": []})
    second = chat.send("POST", "/series/recap", {"content": {"b": None, "a": 1}})

    assert (outcome(first), first.headers["x-revision"]) == ((201, {"version": 1}), "1")
    assert (outcome(second), second.headers["x-revision"]) == ((201, {"version": 2}), "2")
    one = version(1, "one", sceneCount=2, tags=[])
    two = version(2, {"b": None, "a": 1})
    assert outcome(chat.send("GET", "/series/recap")) == (
        200,
        {"currentVersion": 2, "versions": [one, two]},
    )
    assert outcome(chat.send("GET", "/series/recap/1")) == (200, one)
    assert outcome(chat.send("GET", "/series/recap/2")) == (200, two)
    assert outcome(chat.send("GET", "/series/recap/current")) == (200, two)
    assert chat.state()["series"] == {"recap": {"currentVersion": 2, "count": 2}}


@pytest.mark.parametrize("content", [None, False, 0, "", [], {}, 2**64 - 1, {"z": 1, "a": [{}]}])
def test_content_is_any_json(chat: Chat, content: Any) -> None:
    assert chat.add_version("recap", content) == 1

    assert chat.series("recap")["versions"] == [version(1, content)]


def test_an_absent_series_is_empty_and_an_absent_version_not_found(chat: Chat) -> None:
    add_versions(chat)

    assert outcome(chat.send("GET", "/series/other")) == (200, NONE)
    for path in ("/series/recap/4", "/series/recap/0", "/series/other/1", "/series/other/current"):
        assert refused(chat.send("GET", path))[:2] == (404, "version_not_found"), path
    unknown = Chat(chat.client, "unknown")
    assert refused(unknown.send("GET", "/series/recap/1"))[:2] == (404, "version_not_found")


def test_an_earlier_version_is_made_current(chat: Chat) -> None:
    add_versions(chat)

    answer = chat.send("PUT", "/series/recap/current", {"version": 1})

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, {"currentVersion": 1}), "4")
    assert (current(chat), numbers(chat)) == (1, [1, 2, 3])
    # A version added next is current again.
    assert (chat.add_version("recap", "four"), current(chat)) == (4, 4)


@pytest.mark.parametrize("number", [0, 4, 2**40])
def test_an_unknown_version_cannot_be_made_current(chat: Chat, number: int) -> None:
    add_versions(chat)

    answer = chat.send("PUT", "/series/recap/current", {"version": number})

    assert refused(answer)[:2] == (404, "version_not_found")
    assert (current(chat), head(chat.client)) == (3, 3)


def test_when_the_current_version_is_deleted_the_highest_left_is_current(chat: Chat) -> None:
    add_versions(chat)

    answer = chat.send("DELETE", "/series/recap/3")

    assert outcome(answer) == (200, {"success": True, "currentVersion": 2})
    assert (current(chat), numbers(chat)) == (2, [1, 2])
    done(chat.send("PUT", "/series/recap/current", {"version": 1}))
    deleted = chat.send("DELETE", "/series/recap/1")
    assert outcome(deleted) == (200, {"success": True, "currentVersion": 2})


def test_deleting_another_version_leaves_the_current_one(chat: Chat) -> None:
    add_versions(chat)

    answer = chat.send("DELETE", "/series/recap/1")

    assert outcome(answer) == (200, {"success": True, "currentVersion": 3})
    assert (current(chat), numbers(chat)) == (3, [2, 3])
    assert refused(chat.send("DELETE", "/series/recap/1"))[:2] == (404, "version_not_found")
    assert head(chat.client) == 4


def test_deleting_the_last_version_leaves_none(chat: Chat) -> None:
    chat.add_version("recap", "one")

    answer = chat.send("DELETE", "/series/recap/1")

    assert outcome(answer) == (200, {"success": True, "currentVersion": None})
    assert chat.series("recap") == NONE
    assert current(chat) is None


def test_a_series_is_cleared(chat: Chat) -> None:
    add_versions(chat)
    chat.add_version("other", "stays")

    answer = chat.send("DELETE", "/series/recap")

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, {"clearedCount": 3}), "5")
    assert chat.series("recap") == NONE
    assert chat.series("other")["currentVersion"] == 1
    assert outcome(chat.send("DELETE", "/series/recap")) == (200, {"clearedCount": 0})
    assert head(chat.client) == 5


def test_version_numbers_are_never_used_again(chat: Chat) -> None:
    add_versions(chat)
    chat.send("DELETE", "/series/recap/3")
    assert chat.add_version("recap", "four") == 4
    chat.send("DELETE", "/series/recap")

    assert chat.add_version("recap", "five") == 5
    assert chat.series("recap") == {"currentVersion": 5, "versions": [version(5, "five")]}


def test_each_series_of_each_chat_has_its_own_numbers(client: httpx.Client) -> None:
    one, two = Chat(client, "one"), Chat(client, "two")

    assert [one.add_version("recap", "x"), one.add_version("recap", "y")] == [1, 2]
    assert [one.add_version("other", "x"), two.add_version("recap", "x")] == [1, 1]
    assert one.state()["series"] == {
        "recap": {"currentVersion": 2, "count": 2},
        "other": {"currentVersion": 1, "count": 1},
    }


def test_data_routes_neither_show_nor_clear_nor_overwrite_versions(chat: Chat) -> None:
    add_versions(chat)
    before = chat.series("recap")
    assert chat.data() == {}

    for key in ("recap", "recap/1", "recap/current", "series"):
        chat.set(key, "data")
    done(chat.send("PUT", "/data/override", {"recap/2": "data"}))
    done(chat.send("PUT", "/data/remove", {"keys": ["recap/2", "recap/1"]}))
    done(chat.send("DELETE", "/data"))
    done(chat.run({"op": "clear"}))

    assert chat.series("recap") == before


@pytest.mark.parametrize("name", ["a/b", "日本 語", "current", "1", "100%", "a?b#c", "__proto__"])
def test_the_name_of_a_series_may_be_any_text(chat: Chat, name: str) -> None:
    assert chat.add_version(name, "one") == 1

    assert chat.series(name)["versions"] == [version(1, "one")]
    assert chat.state()["series"] == {name: {"currentVersion": 1, "count": 1}}


def test_a_series_is_not_confused_with_a_version_of_another(chat: Chat) -> None:
    chat.add_version("a", "one")
    chat.add_version("a/1", "another")
    chat.add_version("a/current", "a third")

    done(chat.send("DELETE", "/series/a"))

    assert chat.series("a") == NONE
    assert chat.series("a/1")["versions"] == [version(1, "another")]
    assert chat.series("a/current")["versions"] == [version(1, "a third")]


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"note": "no content"},
        [],
        {"content": 1, "version": 5},
        {"content": 1, "createdAt": "2026-01-01T00:00:00.000Z"},
    ],
)
def test_a_malformed_version_is_refused(chat: Chat, body: Any) -> None:
    assert refused(chat.send("POST", "/series/recap", body))[0] == 400
    assert (head(chat.client), chat.client.get("/chats").json()) == (0, [])


@pytest.mark.one_engine
@pytest.mark.parametrize("number", ["1", 1.5, True, None, [1], {}])
def test_a_malformed_number_is_refused(chat: Chat, number: Any) -> None:
    add_versions(chat)

    answer = chat.send("PUT", "/series/recap/current", {"version": number})

    assert refused(answer) == (400, "invalid_body", {})
    assert (current(chat), head(chat.client)) == (3, 3)


def test_a_repeated_addition_is_done_once(chat: Chat) -> None:
    first = chat.send("POST", "/series/recap", {"content": 1}, idempotency_key="k")
    again = chat.send("POST", "/series/recap", {"content": 1}, idempotency_key="k")

    assert outcome(first) == outcome(again) == (201, {"version": 1})
    assert again.headers["idempotency-replayed"] == "true"
    assert numbers(chat) == [1]


# In a story.


def test_a_version_is_hidden_and_shown_with_its_message(chat: Chat) -> None:
    chat.add_version("recap", "one", "m1")
    chat.add_version("recap", "two", "m2")
    both = chat.series("recap")

    chat.reconcile("m1")

    assert chat.series("recap") == {"currentVersion": 1, "versions": [version(1, "one")]}
    assert current(chat) == 1
    chat.reconcile("m1", "m2")
    assert chat.series("recap") == both
    chat.reconcile()
    assert chat.series("recap") == NONE


def test_the_counter_does_not_roll_back(chat: Chat) -> None:
    chat.add_version("recap", "one", "m1")
    chat.add_version("recap", "two", "m2")
    chat.reconcile("m1")

    assert chat.add_version("recap", "another two", "m3") == 3

    assert numbers(chat) == [1, 3]


def test_the_choice_of_a_version_is_undone_with_its_message(chat: Chat) -> None:
    chat.add_version("recap", "one")
    chat.add_version("recap", "two", "m1")
    done(chat.send("PUT", "/series/recap/current", {"version": 1}, "m2"))
    assert current(chat) == 1

    chat.reconcile("m1")
    assert current(chat) == 2
    chat.reconcile()
    assert current(chat) == 1
    chat.reconcile("m1", "m2")
    assert current(chat) == 1


def test_current_is_the_last_one_set_if_it_is_live_else_the_highest_live(chat: Chat) -> None:
    chat.add_version("recap", "one")
    chat.add_version("recap", "two", "m1")
    chat.add_version("recap", "three")
    done(chat.send("PUT", "/series/recap/current", {"version": 2}))
    assert current(chat) == 2

    chat.reconcile()
    assert (current(chat), numbers(chat)) == (3, [1, 3])
    chat.reconcile("m1")
    assert (current(chat), numbers(chat)) == (2, [1, 2, 3])


def test_a_deletion_at_a_hidden_message_is_undone(chat: Chat) -> None:
    add_versions(chat)
    before = chat.series("recap")
    done(chat.send("DELETE", "/series/recap", message="m1"))
    assert chat.series("recap") == NONE

    chat.reconcile()

    assert chat.series("recap") == before
