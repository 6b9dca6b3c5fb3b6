"""
The golden rules of chat metadata, as far as the server can keep them.

1. Fetch metadata once per chat session. 2. Save every time you mutate. 3. Cache the
reference. 4. Don't store references across chat changes. 5. Use idempotency markers.
6. Run reconciliation after insertion.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.conftest import running_server
from tests.support.answers import done, head, instance, outcome, refused
from tests.support.chat import Chat, furnish, reconciled

NODE = {"text": "a cat", "messageId": "m1", "index": 0}


def registry(**nodes: Any) -> dict[str, Any]:
    return {"promptRegistry": {"nodes": nodes, "imageToPromptId": {}, "rootPromptIds": [*nodes]}}


def test_rule_1_one_fetch_per_chat_session_returns_the_whole_state(client: httpx.Client) -> None:
    furnish(client)

    body = Chat(client, "chat").open(defaults=registry())

    assert body["data"] == {"hp": 50, **registry()}
    assert body["instances"] == [
        {"instance": instance("sword", "arthur", chat_id="chat"), "data": {"hp": 7}}
    ]
    assert body["series"] == {"recap": {"currentVersion": 1, "count": 1}}
    assert body["processed"] == {"seen": 1}
    # No other request is needed: each part equals the answer of its own route.
    assert body["data"] == client.get("/chats/chat/data").json()
    assert body["instances"] == [client.get("/instances/sword").json()]


def test_rule_1_the_structure_is_made_on_first_access_and_only_then(client: httpx.Client) -> None:
    first = Chat(client, "chat").open(defaults=registry())
    Chat(client, "chat").set("promptRegistry", registry(a=NODE)["promptRegistry"])

    second = Chat(client, "chat").open(defaults=registry())

    assert (first["created"], first["data"]) == (True, registry())
    assert (second["created"], second["data"]) == (False, registry(a=NODE))


def test_rule_2_every_mutation_is_saved_by_its_own_answer(
    tmp_path: Path, own_database: str
) -> None:
    expected: dict[str, Any] = {}
    for number in range(3):
        with running_server(tmp_path, database=own_database) as server:
            server.register("demo")
            with server.client("demo") as client:
                chat = Chat(client, "chat")
                assert chat.data() == expected
                assert chat.set(f"key {number}", number) == number + 1
                expected[f"key {number}"] = number

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        assert Chat(client, "chat").data() == expected


def test_rule_2_many_mutations_are_saved_once(chat: Chat) -> None:
    answer = chat.run(
        *({"op": "set", "key": f"prompt {number}", "value": number} for number in range(100))
    )

    assert done(answer) == 1
    events = chat.client.get("/changes?since=0&key=prompt%2099").json()["items"]
    assert [each["revision"] for each in events] == [1]
    assert len(chat.data()) == 100


def test_rule_2_a_save_that_fails_half_way_saves_nothing(chat: Chat) -> None:
    chat.set("hp", "text")

    answer = chat.run(
        {"op": "set", "key": "first", "value": 1}, {"op": "increment", "key": "hp", "by": 1}
    )

    assert refused(answer) == (409, "type_conflict", {"index": 1})
    assert (chat.data(), head(chat.client)) == ({"hp": "text"}, 1)


def test_rule_3_a_fetched_answer_stays_valid_until_something_changes(chat: Chat) -> None:
    session = chat.session()
    chat.set("hp", 50, x_session=session)
    seen = chat.etag()

    for _ in range(3):
        assert chat.send("GET", "/data", if_none_match=seen).status_code == 304
    for number in range(10):
        chat.set("hp", number, x_session=session)
    assert outcome(chat.send("GET", "/data", if_none_match=seen)) == (200, {"hp": 9})


def test_rule_3_the_feed_tells_a_cache_what_others_changed(chat: Chat) -> None:
    body = chat.open()
    chat.set("hp", 50)
    chat.set("hp", 45, "m1")
    chat.reconcile()

    cache = dict(body["data"])
    params = {"since": body["revision"], "chatId": "chat"}
    for event in chat.client.get("/changes", params=params).json()["items"]:
        for change in event["changes"]:
            cache[change["key"]] = change["after"]

    assert cache == chat.data() == {"hp": 50}


def test_rule_4_a_reference_kept_across_a_chat_change_writes_nothing(
    client: httpx.Client,
) -> None:
    old, new = Chat(client, "chat A"), Chat(client, "chat B")
    kept = old.session("tab")
    new.session("tab")

    to_old = old.send("POST", "/data", {"key": "hp", "value": 1}, x_session=kept)
    to_new = new.send("POST", "/data", {"key": "hp", "value": 1}, x_session=kept)

    assert refused(to_old)[:2] == (409, "stale_session")
    assert refused(to_new)[:2] == (409, "stale_session")
    assert (old.data(), new.data(), head(client)) == ({}, {}, 2)


def test_rule_4_a_value_of_one_chat_is_never_saved_to_another(client: httpx.Client) -> None:
    chat = furnish(client)
    other = Chat(client, "other")
    session = other.session()

    direct = chat.send("PUT", "/data/merge", {"hp": 1}, x_session=session)
    by_instance = client.post(
        "/instances/sword/data", json={"key": "hp", "value": 1}, headers={"x-chat-id": "other"}
    )

    assert refused(direct)[:2] == (409, "chat_mismatch")
    assert refused(by_instance)[:2] == (409, "chat_mismatch")
    assert (chat.data(), other.data()) == ({"hp": 50}, {})


def test_pitfall_0_a_body_that_is_missing_never_clears_anything(chat: Chat) -> None:
    chat.set("hp", 50)

    statuses = [
        chat.client.put(f"/chats/chat/data/{verb}").status_code
        for verb in ("override", "merge", "remove")
    ]

    assert (statuses, chat.data()) == ([400, 400, 400], {"hp": 50})


def test_rule_5_an_insertion_that_is_repeated_happens_once(chat: Chat) -> None:
    operation = {"op": "append", "key": "images", "value": "cat.png"}
    marker = "promptId=abc123,imageUrl=cat.png"

    answers = [
        chat.run(operation, message="m1", idempotency_key=marker.replace(",", "%2C"))
        for _ in range(3)
    ]

    assert {answer.content for answer in answers} == {answers[0].content}
    assert chat.data() == {"images": ["cat.png"]}
    assert head(chat.client) == 1


def test_rule_5_an_id_that_was_inserted_before_is_known(chat: Chat) -> None:
    assert chat.claim("inserted", "abc123 cat.png") == {"new": ["abc123 cat.png"], "seen": []}
    assert chat.claim("inserted", "abc123 cat.png") == {"new": [], "seen": ["abc123 cat.png"]}


def test_rule_6_reconciling_after_an_insertion_finds_nothing_to_do(chat: Chat) -> None:
    chat.set("images", ["cat.png"], "m1")

    assert chat.reconcile("m1") == reconciled(1)
    assert chat.reconcile("m1") == reconciled(1)


def test_rule_6_reconciling_restores_lost_values(chat: Chat) -> None:
    chat.set("images", ["cat.png"], "m1")
    chat.claim("inserted", "cat.png", message="m1")
    chat.reconcile()
    assert (chat.data(), chat.processed("inserted")) == ({}, {"ids": []})

    chat.reconcile("m1")

    assert chat.data() == {"images": ["cat.png"]}
    assert chat.processed("inserted") == {"ids": ["cat.png"]}


def test_rule_6_a_modified_message_is_reported(chat: Chat) -> None:
    chat.set("images", ["cat.png"], "m1")
    chat.reconcile({"messageId": "m1", "hash": "as detected"})

    found = chat.reconcile({"messageId": "m1", "hash": "as it is now"})

    assert found == reconciled(1, stale=["m1"])
    assert chat.data() == {"images": ["cat.png"]}
