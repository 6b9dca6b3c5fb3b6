"""The records of branches: new ids, history, lineage, and changes of the parent."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    branch_off,
    copied_instance,
    lineage,
    lineage_item,
    make_checkpoint,
    origin,
    post_branch,
    values_in,
)
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, Values, chat_record, furnish

# New instances.


def test_instances_have_new_ids_and_name_the_old_ones(chat: Chat) -> None:
    for id in ("sword", "shield"):
        chat.instance(id).set("of", id)
    body = {"id": "sword", "characterId": "arthur", "name": "Excalibur"}
    done(chat.client.post("/instances", json=body))

    ids = post_branch(chat).json()["instances"]

    assert list(ids) == ["sword", "shield"]
    assert len({*ids, *ids.values()}) == 4
    for old, name in (("sword", "Excalibur"), ("shield", None)):
        found = chat.client.get(f"/instances/{ids[old]}")
        record = copied_instance(ids[old], old, name=name)
        assert outcome(found) == (200, {"instance": record, "data": {"of": old}})
        assert chat.client.get(f"/instances/{old}").json()["instance"]["chatId"] == "chat"
    listed = chat.client.get("/instances", params={"chatId": "branch"}).json()
    assert [each["id"] for each in listed] == [*ids.values()]


def test_only_the_instances_of_the_point_are_taken_over(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.instance("sword").set("edge", "keen")
    chat.set("hp", 40, "m2")
    chat.instance("late")
    done(chat.client.delete("/instances/sword"))

    then = post_branch(chat, "then", messageId="m1").json()["instances"]
    now = post_branch(chat, "now").json()["instances"]

    assert (list(then), list(now)) == (["sword"], ["late"])
    assert chat.client.get(f"/instances/{then['sword']}/data").json() == {"edge": "keen"}


def test_an_instance_of_the_longest_id_gets_another(chat: Chat) -> None:
    chat.instance("x" * 256)

    ids = post_branch(chat).json()["instances"]

    assert list(ids) == ["x" * 256]
    assert chat.client.get(f"/instances/{ids['x' * 256]}").json()["instance"]["origin"] == "x" * 256


# History and feed.


def test_the_history_of_a_branch_has_one_change_per_key(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.set("hp", 45, "m1")
    branch = branch_off(chat)
    new = branch.state()["instances"][0]["instance"]["id"]

    found = branch.history()

    assert {(each["revision"], each["chatId"], each["actor"]) for each in found} == {
        (7, "branch", "extension")
    }
    assert sorted(each["op"] for each in found if each["key"] is None) == [
        "create_chat",
        "create_instance",
    ]
    values = [each for each in found if each["key"] is not None]
    assert {each["op"] for each in values} == {"branch"}
    assert sorted((each["key"], str(each["instanceId"]), each.get("space")) for each in values) == [
        ("hp", "None", None),
        ("hp", new, None),
        ("recap/1", "None", "series"),
        ("recap/current", "None", "series"),
        ("seen/a", "None", "processed"),
    ]
    assert next(each for each in values if each["key"] == "hp" and not each["instanceId"]) == {
        "revision": 7,
        "at": MOMENT,
        "actor": "extension",
        "chatId": "branch",
        "instanceId": None,
        "key": "hp",
        "op": "branch",
        "after": 45,
        "anchor": None,
        "live": True,
    }


def test_a_key_without_a_value_is_not_in_the_history_of_a_branch(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    branch = values_in(values, branch_off(values.chat))
    now = head(values.client)

    assert branch.history(key="hp") == []
    branch.chat.reconcile("m1")
    found = [(each["op"], each["revision"], each["after"]) for each in branch.history(key="hp")]
    assert found == [("reconcile", now + 1, 45)]


def test_before_its_creation_a_branch_has_no_state(client: httpx.Client) -> None:
    chat = furnish(client)
    ids = post_branch(chat).json()["instances"]
    branch, sword = Chat(client, "branch"), Values(client, "branch", ids["sword"])

    assert [branch.state(at) for at in (0, 3, 5)] == [None] * 3
    assert [branch.data(at) for at in (0, 3, 5, 6)] == [{}, {}, {}, {"hp": 50}]
    assert [sword.data(at) for at in (3, 5, 6)] == [{}, {}, {"hp": 7}]
    before = client.get(f"/instances/{ids['sword']}?at=5")
    assert refused(before)[:2] == (404, "instance_not_found")


def test_the_feed_has_one_event_for_a_branch(client: httpx.Client) -> None:
    chat = furnish(client)
    branch_off(chat)

    events = client.get("/changes", params={"since": 5}).json()["items"]

    assert [(each["revision"], each["chatId"], each["anchor"]) for each in events] == [
        (6, "branch", None)
    ]
    changes = events[0]["changes"]
    assert sorted(each["op"] for each in changes) == [
        *["branch"] * 5,
        "create_chat",
        "create_instance",
    ]
    assert {each["chatId"] for each in changes} == {"branch"}
    assert client.get("/changes", params={"since": 5, "chatId": "chat"}).json()["items"] == []


# Lineage.


def test_the_lineage_of_a_branch_of_a_branch(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    make_checkpoint(chat)
    branch = branch_off(chat, messageId="m1")
    branch.set("hp", 40, "m2")
    deep = branch_off(branch, "deep")
    branch_off(chat, "second", checkpoint="here")

    assert lineage(deep) == {
        "chatId": "deep",
        "ancestors": [lineage_item("branch"), lineage_item("chat", "m1")],
        "branches": [],
    }
    assert lineage(branch) == {
        "chatId": "branch",
        "ancestors": [lineage_item("chat", "m1")],
        "branches": [lineage_item("deep")],
    }
    assert lineage(chat) == {
        "chatId": "chat",
        "ancestors": [],
        "branches": [lineage_item("branch", "m1"), lineage_item("second", checkpoint="here")],
    }


def test_an_unknown_chat_has_no_lineage(chat: Chat) -> None:
    assert lineage(chat) is None
    assert outcome(chat.client.get("/chats")) == (200, [])


def test_the_record_of_a_branch_names_its_parent(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    branch_off(chat, messageId="m1")

    record = {**chat_record("branch", 2), "parent": "chat", "origin": origin(messageId="m1")}
    assert outcome(chat.client.get("/chats")) == (200, [chat_record("chat", 1), record])
    assert outcome(chat.client.get("/chats/branch")) == (200, record)


def test_a_parent_that_is_renamed_is_shown_under_its_new_id(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    branch = branch_off(chat, messageId="m1")

    chat.rename("renamed")

    for record in (branch.state(), branch.open(), branch.send("GET", "").json()):
        assert record["parent"] == "renamed"
        assert record["origin"] == origin("renamed", messageId="m1")
    assert lineage(branch)["ancestors"] == [lineage_item("renamed", "m1")]
    assert lineage(chat)["branches"] == [lineage_item("branch", "m1")]


def test_a_branch_that_is_renamed_is_shown_under_its_new_id(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    branch_off(chat, messageId="m1").rename("renamed")

    assert lineage(chat)["branches"] == [lineage_item("renamed", "m1")]


@pytest.mark.parametrize("ending", ["archive", "purge"])
def test_a_branch_does_not_need_its_parent(values: Values, ending: str) -> None:
    chat = values.chat
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    branch = values_in(values, branch_off(chat))
    history = branch.history()

    getattr(chat, ending)()

    assert (branch.data(), branch.history()) == ({"hp": 40}, history)
    branch.chat.reconcile("m1")
    assert branch.data() == {"hp": 45}
    branch.chat.reconcile("m1", "m2")
    assert branch.data() == {"hp": 40}
    deep = values_in(branch, branch_off(branch.chat, "deep", messageId="m1"))
    assert deep.data() == {"hp": 45}


def test_a_parent_does_not_need_its_branch(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.instance("sword").set("hp", 7)
    branch = branch_off(chat)

    branch.purge()

    assert (chat.data(), lineage(chat)["branches"]) == ({"hp": 45}, [])
    assert chat.client.get("/instances/sword/data").json() == {"hp": 7}
    assert [each["id"] for each in chat.client.get("/instances").json()] == ["sword"]


def test_compaction_keeps_the_values_of_a_branch(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    branch = values_in(values, branch_off(values.chat))
    done(values.client.post("/compact", json={"keep": {"revisions": 0}}))

    found = branch.chat.reconcile()

    # As in any chat: the value was folded, and there is no older one.
    assert (branch.data(), len(found["warnings"])) == ({"hp": 45}, 1)


# Refusals.

MALFORMED: list[Any] = [
    {},
    [],
    {"chatId": None},
    {"chatId": 5},
    {"chatId": ""},
    {"chatId": " b"},
    {"chatId": "x" * 513},
    {"chatId": "b", "from": "m1"},
    {"chatId": "b", "from": []},
    {"chatId": "b", "from": {"messageId": 5}},
    {"chatId": "b", "from": {"revision": "1"}},
    {"chatId": "b", "from": {"revision": -1}},
    {"chatId": "b", "from": {"revision": True}},
    {"chatId": "b", "from": {"checkpoint": 5}},
    {"chatId": "b", "from": {"messageId": "m1", "revision": 1}},
    {"chatId": "b", "from": {"messageId": "m1", "checkpoint": "here"}},
    {"chatId": "b", "from": {"checkpoint": "here", "revision": 1}},
]


@pytest.mark.one_engine
@pytest.mark.parametrize("body", MALFORMED)
def test_a_malformed_branch_is_refused(chat: Chat, body: Any) -> None:
    chat.set("hp", 45, "m1")

    assert refused(chat.send("POST", "/branches", body))[0] == 400
    assert head(chat.client) == 1


def test_a_point_that_does_not_exist_is_refused(chat: Chat) -> None:
    done(chat.client.post("/characters", json={"id": "arthur"}))
    chat.set("hp", 45, "m1")
    chat.set("hp", 40, "m2")
    chat.reconcile("m1")

    def ask(**point: Any) -> Any:
        return refused(post_branch(chat, **point))

    assert ask(messageId="m2") == (404, "message_not_found", {})
    assert ask(messageId="nobody knows") == (404, "message_not_found", {})
    assert ask(checkpoint="nobody knows") == (404, "checkpoint_not_found", {})
    assert ask(revision=5) == (400, "revision_unknown", {"current": 4})
    # Revision 2 created the chat.
    assert ask(revision=1) == (404, "chat_not_found", {})
    assert [each["chatId"] for each in chat.client.get("/chats").json()] == ["chat"]


def test_an_existing_chat_is_not_overwritten(chat: Chat) -> None:
    chat.set("hp", 45)
    Chat(chat.client, "other").set("hp", 1)
    Chat(chat.client, "other").rename("renamed")
    Chat(chat.client, "archived").set("hp", 1)
    Chat(chat.client, "archived").archive()
    now = head(chat.client)

    for chat_id in ("chat", "other", "renamed", "archived"):
        assert refused(post_branch(chat, chat_id))[:2] == (409, "chat_exists"), chat_id
    assert (head(chat.client), Chat(chat.client, "renamed").data()) == (now, {"hp": 1})


def test_an_unknown_chat_has_no_branches(chat: Chat) -> None:
    assert refused(post_branch(chat)) == (404, "chat_not_found", {})
    assert outcome(chat.client.get("/chats")) == (200, [])


def test_a_branch_that_is_asked_for_twice_is_made_once(chat: Chat) -> None:
    chat.instance("sword")

    first = post_branch(chat, headers={"idempotency_key": "k"})
    again = post_branch(chat, headers={"idempotency_key": "k"})

    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    assert len(chat.client.get("/instances").json()) == 2


def test_a_stale_tab_does_not_branch(chat: Chat) -> None:
    chat.set("hp", 45)
    stale = chat.session("tab")
    other = Chat(chat.client, "other").session("tab")

    ended = post_branch(chat, headers={"x_session": stale})
    foreign = post_branch(chat, headers={"x_session": other})

    assert refused(ended)[:2] == (409, "stale_session")
    assert refused(foreign)[:2] == (409, "chat_mismatch")
