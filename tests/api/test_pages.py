"""Lists in pages: with `limit` they answer `items` and `next`, and take it back as `cursor`."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import done, outcome, refused
from tests.support.chat import Chat

LISTS = [
    "/characters",
    "/instances",
    "/instances?characterId=arthur",
    "/instances?chatId=story",
    "/instances?characterId=arthur&chatId=story",
    "/characters/arthur/instances",
    "/chats",
    "/cross-extension/characters/{ext}",
    "/cross-extension/instances/{ext}?characterId=arthur",
    "/cross-extension/characters/{ext}/arthur/instances",
    "/cross-extension/chats/{ext}",
]
EMPTY: dict[str, Any] = {"items": [], "next": None}


@pytest.fixture(params=LISTS)
def path(request: pytest.FixtureRequest, extension_id: str) -> str:
    """The path of each list, with a query to which more is added."""
    path = str(request.param).replace("{ext}", extension_id)
    return path + ("&" if "?" in path else "?")


def fill(client: httpx.Client, first: int, count: int = 7) -> None:
    """Create so many characters, instances of Arthur in a chat, and chats, and some others."""
    for number in range(first, first + count):
        done(client.post("/characters", json={"id": f"character {number}"}))
        story = {"id": f"sword {number}", "characterId": "arthur", "chatId": "story"}
        done(client.post("/instances", json=story))
        done(client.post("/instances", json={"id": f"shield {number}", "characterId": "uther"}))
        Chat(client, f"chat {number}").set("k", number)


def ids(items: list[dict[str, Any]]) -> list[str]:
    return [str(each.get("id", each.get("chatId"))) for each in items]


def pages(client: httpx.Client, path: str, limit: int, cursor: str = "") -> list[list[Any]]:
    """Return the items of all pages, from a cursor on."""
    found: list[list[Any]] = []
    while True:
        answer = client.get(f"{path}limit={limit}{cursor}")
        assert answer.status_code == 200, answer.text
        assert set(answer.json()) == {"items", "next"}
        found.append(answer.json()["items"])
        if answer.json()["next"] is None:
            return found
        cursor = f"&cursor={answer.json()['next']}"


def test_the_pages_together_are_the_list(client: httpx.Client, path: str) -> None:
    fill(client, 0)
    whole = client.get(path).json()
    assert len(whole) >= 7

    for limit in (1, 3, 1000):
        found = pages(client, path, limit)

        assert [each for page in found for each in page] == whole
        assert [len(page) for page in found[:-1]] == [limit] * (len(found) - 1)
        assert len(found[-1]) <= limit


def test_a_full_page_is_the_last_one_if_nothing_follows(client: httpx.Client, path: str) -> None:
    fill(client, 0)
    whole = client.get(path).json()

    answer = client.get(f"{path}limit={len(whole)}")

    assert outcome(answer) == (200, {"items": whole, "next": None})


def test_what_is_created_or_deleted_meanwhile_moves_no_page(
    client: httpx.Client, path: str
) -> None:
    fill(client, 0)
    whole = client.get(path).json()
    first = client.get(f"{path}limit=4").json()

    # One that was seen, the last that was seen, and one to come.
    seen, to_come = ids(whole)[:4], ids(whole)[4:]
    gone = [next(id for id in seen if id.endswith("0")), seen[-1], to_come[-1]]
    for id in gone:
        for noun in ("characters", "instances", "chats"):
            client.delete(f"/{noun}/{id}")
    fill(client, 7, 2)
    rest = [each for page in pages(client, path, 2, f"&cursor={first['next']}") for each in page]

    now = ids(client.get(path).json())
    assert not set(gone) & set(now)
    assert ids(first["items"]) == seen
    # Each that stayed is seen once, and so is each that came.
    assert [id for id in [*seen, *ids(rest)] if id not in gone] == now
    assert not set(gone) & set(ids(rest))


def test_an_empty_list_is_an_empty_page(client: httpx.Client, path: str) -> None:
    assert outcome(client.get(f"{path}limit=5")) == (200, EMPTY)


def test_a_limit_that_is_no_number_from_1_to_1000_is_refused(
    client: httpx.Client, path: str
) -> None:
    for limit in ("0", "1001", "-1", "1.5", "", "many", "9" * 30):
        answer = client.get(f"{path}limit={limit}")

        assert refused(answer)[:2] == (400, "invalid_query")


def test_a_cursor_that_no_page_answered_is_refused(client: httpx.Client, path: str) -> None:
    for query in ("limit=2&cursor=words", "limit=2&cursor=-1", "cursor=1"):
        assert refused(client.get(path + query))[:2] == (400, "invalid_query")


def test_a_page_has_an_etag_and_is_read_again_after_a_write(
    client: httpx.Client, path: str
) -> None:
    fill(client, 0)
    first = client.get(f"{path}limit=100")
    unchanged = client.get(f"{path}limit=100", headers={"if-none-match": first.headers["etag"]})
    fill(client, 7, 1)

    assert unchanged.status_code == 304
    assert client.get(f"{path}limit=100").json()["items"] == client.get(path).json()


def test_a_page_shows_the_present_chat_of_its_instances(client: httpx.Client) -> None:
    fill(client, 0, 2)
    done(Chat(client, "story").send("PATCH", "", {"chatId": "tale"}))

    answer = client.get("/instances?chatId=tale&limit=1").json()

    assert [(each["id"], each["chatId"]) for each in answer["items"]] == [("sword 0", "tale")]
    assert outcome(client.get("/instances?chatId=unknown&limit=1")) == (200, EMPTY)
