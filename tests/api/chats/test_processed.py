"""Processed ids: claimed once, with or without a lease; they follow the story."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, wait_for
from tests.support.answers import done, head, outcome, refused
from tests.support.chat import Chat

# Far longer than any test takes, and the shortest possible.
LONG, SHORT = 600_000, 1


def is_processed(chat: Chat, id: str) -> bool:
    body = chat.send("GET", f"/processed/seen/{id}").json()
    assert list(body) == ["processed"]
    return bool(body["processed"])


def test_ids_are_claimed_in_one_call(chat: Chat) -> None:
    first = chat.send("POST", "/processed/seen", {"ids": ["a", "b"]})
    second = chat.send("POST", "/processed/seen", {"ids": ["c", "b", "d"]})

    assert (outcome(first), first.headers["x-revision"]) == (
        (200, {"new": ["a", "b"], "seen": []}),
        "1",
    )
    assert (outcome(second), second.headers["x-revision"]) == (
        (200, {"new": ["c", "d"], "seen": ["b"]}),
        "2",
    )
    assert outcome(chat.send("GET", "/processed/seen")) == (200, {"ids": ["a", "b", "c", "d"]})
    assert [is_processed(chat, id) for id in ("a", "d", "e")] == [True, True, False]
    assert chat.state()["processed"] == {"seen": 4}


def test_a_claim_of_known_ids_makes_no_revision(chat: Chat) -> None:
    chat.claim("seen", "a", "b")

    answer = chat.send("POST", "/processed/seen", {"ids": ["b", "a"]})

    assert outcome(answer) == (200, {"new": [], "seen": ["b", "a"]})
    assert answer.headers["x-revision"] == "1"


def test_one_id_is_marked(chat: Chat) -> None:
    first = chat.send("PUT", "/processed/seen/a")
    again = chat.send("PUT", "/processed/seen/a")

    assert outcome(first) == (200, {"processed": True, "already": False})
    assert outcome(again) == (200, {"processed": True, "already": True})
    assert chat.processed("seen") == {"ids": ["a"]}
    assert chat.claim("seen", "a") == {"new": [], "seen": ["a"]}


def test_an_id_is_removed(chat: Chat) -> None:
    chat.claim("seen", "a", "b")

    answer = chat.send("DELETE", "/processed/seen/a")

    assert outcome(answer) == (200, {"success": True})
    assert chat.processed("seen") == {"ids": ["b"]}
    assert refused(chat.send("DELETE", "/processed/seen/a"))[:2] == (404, "processed_not_found")
    assert chat.claim("seen", "a") == {"new": ["a"], "seen": []}
    assert chat.processed("seen") == {"ids": ["b", "a"]}


def test_sets_and_chats_have_separate_ids(client: httpx.Client) -> None:
    one, two = Chat(client, "one"), Chat(client, "two")
    one.claim("seen", "a")

    assert one.claim("other", "a") == {"new": ["a"], "seen": []}
    assert two.claim("seen", "a") == {"new": ["a"], "seen": []}
    assert two.processed("other") == {"ids": []}
    assert one.state()["processed"] == {"seen": 1, "other": 1}


def test_data_routes_neither_show_nor_clear_processed_ids(chat: Chat) -> None:
    chat.claim("seen", "a")
    assert chat.data() == {}

    chat.set("seen/a", False)
    done(chat.send("PUT", "/data/override", {}))
    done(chat.send("DELETE", "/data"))

    assert is_processed(chat, "a")


def test_a_series_and_a_set_of_one_name_are_separate(chat: Chat) -> None:
    chat.add_version("same", "one")
    chat.claim("same", "1", "current")

    done(chat.send("DELETE", "/series/same"))

    assert chat.processed("same") == {"ids": ["1", "current"]}


def test_of_many_claims_at_once_one_gets_the_id(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    def claim(number: int) -> Any:
        with shared_server.client(extension_id) as mine:
            lease: dict[str, Any] = {"leaseMs": LONG} if number % 2 else {}
            return Chat(mine, "chat").claim("seen", "a", "b", **lease)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(claim, range(16)))

    assert sorted(len(each["new"]) for each in answers) == [0] * 15 + [2]
    assert all(each["new"] + each["seen"] == ["a", "b"] for each in answers)


# Leases.


def test_a_leased_claim_is_not_yet_processed_and_makes_no_revision(chat: Chat) -> None:
    chat.open()

    answer = chat.send("POST", "/processed/seen", {"ids": ["a"], "leaseMs": LONG})

    assert outcome(answer) == (200, {"new": ["a"], "seen": []})
    assert answer.headers["x-revision"] == "1"
    assert not is_processed(chat, "a")
    assert chat.processed("seen") == {"ids": []}
    assert (chat.state()["processed"], head(chat.client)) == ({}, 1)


def test_all_others_see_a_leased_claim(chat: Chat) -> None:
    chat.claim("seen", "a", leaseMs=LONG)

    assert chat.claim("seen", "a", "b", leaseMs=LONG) == {"new": ["b"], "seen": ["a"]}
    assert chat.claim("seen", "a", "c") == {"new": ["c"], "seen": ["a"]}


def test_a_leased_claim_is_confirmed(chat: Chat) -> None:
    chat.claim("seen", "a", leaseMs=LONG)

    answer = chat.send("PUT", "/processed/seen/a")

    assert outcome(answer) == (200, {"processed": True, "already": False})
    assert is_processed(chat, "a")
    assert chat.processed("seen") == {"ids": ["a"]}
    again = chat.send("PUT", "/processed/seen/a")
    assert outcome(again) == (200, {"processed": True, "already": True})


def test_an_unconfirmed_claim_lapses(chat: Chat) -> None:
    chat.claim("seen", "a", leaseMs=SHORT)

    again = wait_for(lambda: chat.claim("seen", "a", leaseMs=LONG)["new"])

    assert again == ["a"]
    # Now the second claimant has it.
    assert chat.claim("seen", "a") == {"new": [], "seen": ["a"]}


def test_an_id_with_a_lapsed_claim_can_be_claimed_without_a_lease(chat: Chat) -> None:
    chat.claim("seen", "a", leaseMs=SHORT)

    wait_for(lambda: chat.claim("seen", "a")["new"])

    assert is_processed(chat, "a")


def test_a_confirmed_claim_does_not_lapse(chat: Chat) -> None:
    chat.claim("seen", "a", "b", leaseMs=SHORT)
    done(chat.send("PUT", "/processed/seen/a"))

    # When the other claim has lapsed, this one would have lapsed, too.
    found = wait_for(lambda: chat.claim("seen", "a", "b", leaseMs=LONG)["new"])

    assert found == ["b"]
    assert is_processed(chat, "a")


def test_a_processed_id_is_not_leased(chat: Chat) -> None:
    chat.claim("seen", "a")

    assert chat.claim("seen", "a", leaseMs=SHORT) == {"new": [], "seen": ["a"]}
    assert is_processed(chat, "a")


# In a story.


def test_an_id_is_hidden_and_shown_with_its_message(chat: Chat) -> None:
    chat.claim("seen", "a", message="m1")
    done(chat.send("PUT", "/processed/seen/b", message="m2"))

    chat.reconcile("m1")
    assert chat.processed("seen") == {"ids": ["a"]}
    assert chat.claim("seen", "b", leaseMs=LONG)["new"] == ["b"]
    chat.reconcile()
    assert chat.processed("seen") == {"ids": []}
    chat.reconcile("m1", "m2")
    assert sorted(chat.processed("seen")["ids"]) == ["a", "b"]


def test_a_confirmed_claim_is_anchored_where_it_is_confirmed(chat: Chat) -> None:
    chat.open()
    chat.claim("seen", "a", message="m1", leaseMs=LONG)
    done(chat.send("PUT", "/processed/seen/a", message="m2"))

    chat.reconcile("m2")
    assert is_processed(chat, "a")
    chat.reconcile("m1")
    assert not is_processed(chat, "a")


# Malformed requests.


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"ids": None},
        {"ids": "a"},
        {"ids": []},
        {"ids": [1]},
        {"ids": [None]},
        {"ids": ["a", ""]},
        {"ids": ["x" * 513]},
        {"ids": ["a"], "leaseMs": "1"},
        {"ids": ["a"], "leaseMs": -1},
        {"ids": ["a"], "leaseMs": True},
        {"ids": ["a"], "leaseMs": 1.5},
    ],
)
def test_a_malformed_claim_is_refused(chat: Chat, body: Any) -> None:
    assert refused(chat.send("POST", "/processed/seen", body))[0] == 400
    assert (head(chat.client), chat.client.get("/chats").json()) == (0, [])


@pytest.mark.parametrize(("count", "status"), [(9_999, 200), (10_000, 200), (10_001, 400)])
def test_a_claim_may_name_10_000_ids(chat: Chat, count: int, status: int) -> None:
    ids = [f"id {number}" for number in range(count)]

    answer = chat.send("POST", "/processed/seen", {"ids": ids})

    assert answer.status_code == status
    assert chat.processed("seen") == {"ids": ids if status == 200 else []}


@pytest.mark.parametrize("id", ["x" * 512, "日" * 511, "a/b", "100%", "é 🗡️", "a?b#c"])
def test_an_id_may_be_any_text(chat: Chat, id: str) -> None:
    assert chat.claim("a/b set", id) == {"new": [id], "seen": []}

    assert chat.processed("a/b set") == {"ids": [id]}


def test_a_set_and_an_id_that_contain_slashes_are_kept_apart(chat: Chat) -> None:
    assert chat.claim("a/b", "c") == {"new": ["c"], "seen": []}
    assert chat.claim("a", "b/c") == {"new": ["b/c"], "seen": []}

    assert chat.state()["processed"] == {"a/b": 1, "a": 1}
    assert outcome(chat.send("DELETE", "/processed/a/b%2Fc")) == (200, {"success": True})
    assert (chat.processed("a"), chat.processed("a/b")) == ({"ids": []}, {"ids": ["c"]})
