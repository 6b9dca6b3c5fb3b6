"""Renaming a chat: the old id keeps working, and answers have the new one."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import done, head, instance, outcome, refused
from tests.support.chat import Chat, chat_record, furnish, reconciled


def rename(chat: Chat, chat_id: Any, **headers: str) -> httpx.Response:
    return chat.send("PATCH", "", {"chatId": chat_id}, **headers)


def test_a_rename_answers_the_chat_under_its_new_id(client: httpx.Client) -> None:
    chat = furnish(client)

    answer = rename(chat, "new name")

    assert (outcome(answer), answer.headers["x-revision"]) == (
        (200, chat_record("new name", 6)),
        "6",
    )
    assert outcome(client.get("/chats")) == (200, [chat_record("new name", 6)])


def test_both_ids_read_the_same_answer_with_the_new_id(client: httpx.Client) -> None:
    chat = furnish(client)
    renamed = chat.rename("renamed")

    for path in ("", "/state", "/data", "/data/hp", "/history", "/series/recap"):
        old, new = chat.send("GET", path), renamed.send("GET", path)
        assert (old.status_code, old.content) == (200, new.content)
    assert chat.state()["chatId"] == "renamed"
    assert chat.state()["data"] == {"hp": 50}
    assert {each["chatId"] for each in chat.history()} == {"renamed"}


def test_both_ids_write_to_the_same_chat(client: httpx.Client) -> None:
    chat = furnish(client)
    renamed = chat.rename("renamed")

    chat.set("by the old id", 1)
    renamed.set("by the new id", 2)

    expected = {"hp": 50, "by the old id": 1, "by the new id": 2}
    assert (chat.data(), renamed.data()) == (expected, expected)
    assert [each["chatId"] for each in client.get("/chats").json()] == ["renamed"]


def test_instances_have_the_new_id(client: httpx.Client) -> None:
    furnish(client).rename("renamed")

    sword = instance("sword", "arthur", chat_id="renamed")
    assert outcome(client.get("/instances")) == (200, [sword])
    for chat_id in ("chat", "renamed"):
        found = client.get("/instances", params={"chatId": chat_id})
        assert outcome(found) == (200, [sword])
    assert outcome(client.get("/instances/sword")) == (200, {"instance": sword, "data": {"hp": 7}})


def test_values_follow_the_story_under_the_new_id(chat: Chat) -> None:
    chat.set("hp", 50)
    chat.set("hp", 45, "m1")
    renamed = chat.rename("renamed")

    changed = [chat.difference("hp", before=45, after=50)]
    assert renamed.reconcile() == reconciled(4, dormant=1, changed=changed)
    assert chat.reconcile("m1")["revived"] == 1
    assert renamed.as_of("m1")["data"] == {"hp": 45}


def test_a_chat_can_be_renamed_again_and_all_old_ids_work(chat: Chat) -> None:
    chat.set("hp", 50)
    second = chat.rename("second")
    third = second.rename("third")

    assert [each.data() for each in (chat, second, third)] == [{"hp": 50}] * 3
    assert chat.state()["chatId"] == "third"
    # By a former id as well.
    assert chat.rename("fourth").data() == {"hp": 50}


def test_a_chat_can_be_renamed_to_a_former_id_of_its_own(chat: Chat) -> None:
    chat.set("hp", 50)
    renamed = chat.rename("renamed")

    assert outcome(rename(renamed, "chat")) == (200, chat_record("chat", 3))

    assert (chat.data(), renamed.data()) == ({"hp": 50}, {"hp": 50})
    assert [each["chatId"] for each in chat.client.get("/chats").json()] == ["chat"]


def test_renaming_a_chat_to_its_present_id_changes_nothing(chat: Chat) -> None:
    chat.set("hp", 50)

    answer = rename(chat, "chat")

    assert (outcome(answer), answer.headers["x-revision"]) == ((200, chat_record("chat", 1)), "1")


def test_an_existing_chat_is_not_overwritten(chat: Chat) -> None:
    other = Chat(chat.client, "other")
    chat.set("hp", 50)
    other.set("hp", 1)

    assert refused(rename(chat, "other"))[:2] == (409, "chat_exists")

    assert (chat.data(), other.data(), head(chat.client)) == ({"hp": 50}, {"hp": 1}, 2)


def test_a_former_id_of_another_chat_is_taken(chat: Chat) -> None:
    other = Chat(chat.client, "other")
    chat.set("hp", 50)
    other.set("hp", 1)
    other.rename("other still")

    assert refused(rename(chat, "other"))[:2] == (409, "chat_exists")
    assert other.data() == {"hp": 1}


def test_an_archived_chat_is_neither_renamed_nor_overwritten(chat: Chat) -> None:
    other = Chat(chat.client, "other")
    chat.set("hp", 50)
    other.set("hp", 1)
    other.archive()

    assert refused(rename(chat, "other"))[:2] == (409, "chat_exists")
    assert refused(rename(other, "new"))[:2] == (409, "chat_archived")


def test_a_former_id_used_by_a_new_chat_leads_to_the_new_chat(chat: Chat) -> None:
    chat.set("hp", 50)
    renamed = chat.rename("renamed")
    chat.open(fresh=True)

    # The id belongs to a new chat now, so the old chat cannot have it back.
    assert refused(rename(renamed, "chat"))[:2] == (409, "chat_exists")
    assert (chat.data(), renamed.data()) == ({}, {"hp": 50})


def test_an_unknown_chat_is_not_found(chat: Chat) -> None:
    assert refused(rename(chat, "renamed")) == (404, "chat_not_found", {})
    assert outcome(chat.client.get("/chats")) == (200, [])


def test_the_feed_has_an_event_for_a_rename(chat: Chat) -> None:
    chat.set("hp", 50)
    chat.rename("renamed")

    event = chat.client.get("/changes?since=1").json()["items"][0]

    assert [(each["op"], each["key"], each["chatId"]) for each in event["changes"]] == [
        ("rename_chat", None, "renamed")
    ]


def test_a_rename_is_guarded_and_done_once(chat: Chat) -> None:
    chat.set("hp", 50)
    chat.set("hp", 45)

    stale = rename(chat, "renamed", if_match='"1"')
    assert refused(stale) == (412, "revision_conflict", {"expected": 1, "current": 2})
    first = rename(chat, "renamed", if_match='"2"', idempotency_key="k")
    again = rename(chat, "renamed", if_match='"2"', idempotency_key="k")

    assert (done(first), done(again), again.content) == (3, 3, first.content)


@pytest.mark.one_engine
@pytest.mark.parametrize("chat_id", [None, 5, "", " blank", "blank ", "a\x00b", "a\nb", "x" * 513])
def test_a_malformed_id_is_refused(chat: Chat, chat_id: Any) -> None:
    chat.set("hp", 50)

    assert refused(rename(chat, chat_id))[0] == 400
    assert refused(chat.send("PATCH", "", {}))[0] == 400
    assert head(chat.client) == 1


@pytest.mark.parametrize(
    "chat_id", ["x" * 512, "日" * 512, "a/b", "Ünder @ #1?", "100%", "__proto__"]
)
def test_the_new_id_may_be_any_text(chat: Chat, chat_id: str) -> None:
    chat.set("hp", 50)

    assert chat.rename(chat_id).data() == {"hp": 50}


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_a_chat_can_be_renamed_to_the_id_of_a_purged_chat(
    client: httpx.Client, order: tuple[str, str]
) -> None:
    for name in order:
        Chat(client, name).set("of", name)
    Chat(client, "old").purge()

    taken = Chat(client, "new").rename("old")

    assert taken.data() == {"of": "new"}
    assert Chat(client, "new").data() == {"of": "new"}
