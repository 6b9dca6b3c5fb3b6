"""Odd, large, stale and wrong input to chats."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.answers import done, head, outcome, refused, send_target
from tests.support.chat import Chat, chat_record, furnish, reconciled

LETTERS = ["x", "é", "日", "🗡"]
ODD_IDS = [
    "Seraphina - 2026-01-31 @12h 30m 05s 123ms",
    "Branch #3 (copy)",
    "a/b",
    "/",
    "..a",
    "100%",
    "%2F",
    "a?b=c&d",
    "a+b",
    "a;b",
    "'\"\\`",
    "Ñandú",
    "N\u0303andu\u0301",
    "日本語の物語",
    "قصة",
    "🗡️ 👩‍👩‍👧",
    "__proto__",
    "null",
    "0",
    "open",
    "data",
    "state",
]


@pytest.mark.parametrize("id", ODD_IDS)
def test_a_chat_id_and_a_message_id_may_be_any_text(client: httpx.Client, id: str) -> None:
    chat = Chat(client, id)

    assert chat.open()["chatId"] == id
    chat.set("hp", 50)
    chat.set("hp", 45, id, id)

    assert outcome(client.get("/chats")) == (200, [chat_record(id, 3)])
    assert chat.as_of(id)["data"] == {"hp": 45}
    assert chat.reconcile((id, id)) == reconciled(3)
    assert chat.reconcile()["dormant"] == 1
    assert chat.data() == {"hp": 50}


def test_ids_are_never_normalised(client: httpx.Client) -> None:
    ids = ["Ñ", "N\u0303", "ñ", "n", "a b", "a  b", "a\u00a0b"]
    for number, id in enumerate(ids):
        Chat(client, id).set("hp", number)

    assert [each["chatId"] for each in client.get("/chats").json()] == ids
    assert [Chat(client, id).data() for id in ids] == [{"hp": n} for n in range(len(ids))]


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("length", [511, 512])
def test_ids_of_chats_messages_and_swipes_may_have_512_characters(
    client: httpx.Client, letter: str, length: int
) -> None:
    id = letter * length
    chat = Chat(client, id)

    chat.open()
    assert chat.reconcile((id, id)) == reconciled(2)
    done(chat.run({"op": "set", "key": "hp", "value": 1, "anchor": {"messageId": id, "swipe": id}}))

    assert chat.as_of(id)["data"] == {"hp": 1}


@pytest.mark.one_engine
@pytest.mark.parametrize("letter", LETTERS)
def test_ids_of_chats_may_not_be_longer(client: httpx.Client, letter: str) -> None:
    path = f"/chats/{quote(letter * 513)}"
    body = {"key": "hp", "value": 1}

    answers = [
        client.post(f"{path}/data", json=body),
        client.post(f"{path}/open", json={"client": "tab"}),
        client.get(path),
        client.get(f"{path}/data"),
        client.get(f"{path}/state"),
        client.delete(path),
    ]

    assert [refused(each)[:2] for each in answers] == [(400, "invalid_id")] * len(answers)
    assert outcome(client.get("/chats")) == (200, [])


@pytest.mark.one_engine
@pytest.mark.parametrize("segment", ["%20a", "a%20", "%00", "a%0Ab", "%7F", "%C2%85"])
def test_a_malformed_chat_id_is_refused(client: httpx.Client, segment: str) -> None:
    answer = send_target(client, "POST", f"/chats/{segment}/data", json={"key": "hp", "value": 1})

    assert refused(answer)[:2] == (400, "invalid_id")
    assert outcome(client.get("/chats")) == (200, [])


@pytest.mark.one_engine
@pytest.mark.parametrize("segment", ["%", "%zz", "%ff", "%C3"])
def test_a_malformed_escape_is_refused(client: httpx.Client, segment: str) -> None:
    answer = send_target(client, "POST", f"/chats/{segment}/data", json={"key": "hp", "value": 1})

    assert refused(answer)[:2] == (400, "invalid_path")


def test_an_encoded_slash_belongs_to_the_id(client: httpx.Client) -> None:
    Chat(client, "a/data").set("hp", 1)

    assert outcome(send_target(client, "GET", "/chats/a%2Fdata/data")) == (200, {"hp": 1})
    assert outcome(send_target(client, "GET", "/chats/a/data")) == (200, {})
    assert [each["chatId"] for each in client.get("/chats").json()] == ["a/data"]


# Anchors.

MALFORMED_ANCHORS: list[Any] = [
    None,
    {},
    "m1",
    [None],
    ["m1"],
    [{}],
    [{"swipe": "0"}],
    [{"messageId": None}],
    [{"messageId": 1}],
    [{"messageId": ""}],
    [{"messageId": " m1"}],
    [{"messageId": "a\nb"}],
    [{"messageId": "x" * 513}],
    [{"messageId": "m1", "swipe": True}],
    [{"messageId": "m1", "swipe": 1.5}],
    [{"messageId": "m1", "swipe": []}],
    [{"messageId": "m1", "swipe": ""}],
    [{"messageId": "m1", "swipe": "x" * 513}],
    [{"messageId": "m1", "hash": 5}],
    [{"messageId": "m1", "hash": ["h"]}],
]


@pytest.mark.one_engine
@pytest.mark.parametrize("anchors", MALFORMED_ANCHORS)
def test_malformed_anchors_are_refused(chat: Chat, anchors: Any) -> None:
    chat.set("hp", 45, "m0")

    answer = chat.send("POST", "/reconcile", {"anchors": anchors})

    assert refused(answer)[0] == 400
    assert (chat.data(), head(chat.client)) == ({"hp": 45}, 1)


@pytest.mark.one_engine
@pytest.mark.parametrize("body", [{}, [], {"anchors": [], "dryRun": "yes"}, {"dryRun": True}])
def test_a_malformed_reconcile_hides_nothing(chat: Chat, body: Any) -> None:
    chat.set("hp", 45, "m1")

    assert refused(chat.send("POST", "/reconcile", body)) == (400, "invalid_body", {})
    assert refused(chat.send("POST", "/reconcile"))[0] == 400
    assert chat.data() == {"hp": 45}


@pytest.mark.parametrize(
    "places",
    [("m1", "m1"), ("m1", "m2", "m1"), (("m1", "0"), ("m1", "1")), (("m1", 0), ("m1", "0"))],
)
def test_a_message_twice_is_refused(chat: Chat, places: tuple[Any, ...]) -> None:
    chat.set("hp", 45, "m0")

    assert refused(chat.post_reconcile(*places))[:2] == (400, "repeated_message")
    assert (chat.data(), head(chat.client)) == ({"hp": 45}, 1)


def test_an_unknown_chat_has_no_chain(chat: Chat) -> None:
    assert refused(chat.post_reconcile("m1")) == (404, "chat_not_found", {})
    assert outcome(chat.client.get("/chats")) == (200, [])


def test_a_chain_may_have_50_000_messages(chat: Chat) -> None:
    chain = [f"message {number}" for number in range(50_000)]
    chat.set("hp", 50)
    chat.set("hp", 45, chain[49_999])
    chat.set("gold", 1, chain[0])

    assert chat.reconcile(*chain) == reconciled(4)
    assert chat.reconcile(*chain) == reconciled(4)
    changed = [chat.difference("hp", before=45, after=50)]
    assert chat.reconcile(*chain[:25_000]) == reconciled(5, dormant=1, changed=changed)
    assert chat.set("hp", 40, chain[24_999]) == 6
    assert chat.as_of(chain[24_998])["data"] == {"hp": 50, "gold": 1}
    assert chat.as_of(chain[24_999])["data"] == {"hp": 40, "gold": 1}
    # The last message is visible again, and its change stands after the one written later.
    assert chat.reconcile(*chain)["revived"] == 1
    assert chat.data() == {"hp": 45, "gold": 1}


def test_a_chain_may_not_have_more_than_100_000(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    anchors = [{"messageId": str(number)} for number in range(100_001)]

    above = chat.send("POST", "/reconcile", {"anchors": anchors})

    assert refused(above)[:2] == (400, "too_many_anchors")
    assert (chat.data(), head(chat.client)) == ({"hp": 45}, 1)
    assert done(chat.send("POST", "/reconcile", {"anchors": anchors[:100_000]})) == 2
    assert chat.data() == {}


@pytest.mark.one_engine
@pytest.mark.parametrize("name", ["x-message-id", "x-swipe-id", "x-chat-id"])
@pytest.mark.parametrize("text", ["", "%", "%ff", "%00", "x" * 513, "%20m"])
def test_malformed_headers_are_refused_by_chats_too(chat: Chat, name: str, text: str) -> None:
    answer = chat.client.post(
        "/chats/chat/data", json={"key": "hp", "value": 1}, headers={name: text}
    )

    assert refused(answer) == (400, "invalid_header", {})
    assert outcome(chat.client.get("/chats")) == (200, [])


# Stale tabs, wrong chats, hidden places.


def test_a_stale_tab_does_not_write(client: httpx.Client) -> None:
    chat = furnish(client)
    seen = chat.etag()
    chat.instance("sword").set("hp", 1)

    answers = [
        chat.send("PUT", "/data/merge", {"hp": 2}, if_match=seen),
        chat.send("PUT", "/data/override", {}, if_match=seen),
        chat.send("DELETE", "/data", if_match=seen),
        chat.send("POST", "/restore", {"revision": 1}, if_match=seen),
        chat.send("DELETE", "", if_match=seen),
        chat.send("PATCH", "", {"chatId": "renamed"}, if_match=seen),
        chat.post_reconcile(if_match=seen),
    ]

    conflict = (412, "revision_conflict", {"expected": 5, "current": 6})
    assert [refused(each) for each in answers] == [conflict] * len(answers)
    assert (chat.data(), head(client)) == ({"hp": 50}, 6)


def test_a_write_to_a_hidden_place_can_be_retried(chat: Chat) -> None:
    chat.set("gold", 100)
    chat.increment("gold", -30, "m1")
    chat.reconcile()
    operation = {"op": "increment", "key": "gold", "by": -5}
    first = chat.run(operation, message="m1", idempotency_key="k")
    again = chat.run(operation, message="m1", idempotency_key="k")

    assert (done(first), done(again), again.content) == (4, 4, first.content)
    chat.reconcile("m1")
    assert chat.data() == {"gold": 65}


def test_the_same_write_at_another_place_is_another_request(chat: Chat) -> None:
    body = {"key": "hp", "value": 1}
    done(chat.send("POST", "/data", body, "m1", idempotency_key="k"))

    answer = chat.send("POST", "/data", body, "m2", idempotency_key="k")

    assert refused(answer) == (422, "idempotency_mismatch", {})


def test_a_batch_of_another_chat_changes_no_chain(client: httpx.Client) -> None:
    chat = furnish(client)
    Chat(client, "other").instance("shield")
    operations = [
        {"op": "set", "key": "hp", "value": 1, "anchor": {"messageId": "m1"}},
        {"op": "set", "key": "hp", "value": 1, "instanceId": "shield"},
    ]

    answer = chat.run(*operations)

    assert refused(answer) == (409, "chat_mismatch", {"index": 1})
    # m1 was not registered: a refused request leaves nothing.
    hidden = client.get("/chats/chat/state", params={"at": "message:m1"})
    assert refused(hidden) == (404, "message_not_found", {})


@pytest.mark.parametrize("method", ["PUT", "DELETE", "POST"])
@pytest.mark.parametrize("path", ["/chats/chat/state", "/chats/chat/history", "/chats"])
def test_a_route_that_only_reads_refuses_other_methods(
    client: httpx.Client, method: str, path: str
) -> None:
    furnish(client)

    assert refused(client.request(method, path, json={}))[:2] == (405, "method_not_allowed")


def test_checks_are_made_in_the_order_header_path_body_registration(
    client: httpx.Client,
) -> None:
    body = {"key": "hp", "value": 1}
    path = "/chats/chat/data"

    def ask(extension_id: str, path: str, body: Any) -> tuple[int, str]:
        headers = {"x-extension-id": extension_id}
        return refused(client.post(path, json=body, headers=headers))[:2]

    assert ask("no name", "/chats/%20/data", {}) == (400, "invalid_extension_id")
    assert ask("nobody-knows", "/chats/%20/data", body) == (400, "invalid_id")
    assert ask("nobody-knows", path, {}) == (400, "invalid_body")
    assert ask("nobody-knows", path, body) == (404, "extension_not_registered")
