"""Restoring one key of an instance or a chat."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.api.chats.points import branch_off, values_in
from tests.api.chats.queue import Queue
from tests.support.answers import done, head, outcome, refused
from tests.support.chat import Chat, Values, restored


def post(values: Values, key: str, revision: Any, **more: Any) -> httpx.Response:
    headers = more.pop("headers", {})
    path = f"/data/{quote(key, safe='')}/restore"
    return values.send("POST", path, {"revision": revision, **more}, **headers)


def test_one_key_is_restored_and_the_others_stay(values: Values) -> None:
    values.set("hp", 50)
    values.set("mp", 1)
    values.set("hp", 40)
    values.set("mp", 2)

    answer = post(values, "hp", 3)

    assert outcome(answer) == restored(6, 1)
    assert answer.headers["x-revision"] == "6"
    assert values.text() == '{"hp":50,"mp":2}'
    assert values.data(at=5) == {"hp": 40, "mp": 2}
    assert [each["op"] for each in values.history(key="hp")] == ["set", "set", "restore"]
    assert [each["op"] for each in values.history(key="mp")] == ["set", "set"]


def test_a_restored_key_follows_the_story(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")

    assert outcome(post(values, "hp", 3)) == restored(5, 1)

    assert values.data() == {"hp": 45}
    values.chat.reconcile("m2")
    assert values.data() == {"hp": 50}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 45}


def test_where_it_was_absent_the_key_is_removed(values: Values) -> None:
    values.set("other", 1)
    values.set("hp", 50)

    assert outcome(post(values, "hp", 2)) == restored(4, 1)

    assert values.data() == {"other": 1}
    # And it can be brought back.
    assert outcome(post(values, "hp", 3)) == restored(5, 1)
    assert values.data() == {"other": 1, "hp": 50}


def test_before_its_holder_existed_the_key_was_absent(values: Values) -> None:
    values.set("hp", 50)

    assert outcome(post(values, "hp", 0)) == restored(3, 1)
    assert values.data() == {}


def test_before_a_branch_existed_its_keys_were_absent(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    branch = values_in(values, branch_off(values.chat))

    assert outcome(post(branch, "hp", 3)) == restored(5, 1)

    # Changes that the branch took over from its parent do not bring the key back.
    branch.chat.reconcile()
    branch.chat.reconcile("m1")
    assert (branch.data(), values.data()) == ({}, {"hp": 45})


def test_where_a_message_had_removed_it_the_key_follows_that_message(values: Values) -> None:
    values.set("hp", 50)
    done(values.send("DELETE", "/data/hp", message="m1"))
    values.set("hp", 40)

    assert outcome(post(values, "hp", 3)) == restored(5, 1)

    assert values.data() == {}
    values.chat.reconcile()
    assert values.data() == {"hp": 50}


def test_a_removed_key_comes_back(values: Values) -> None:
    values.set("hp", None)
    done(values.send("DELETE", "/data/hp"))

    assert outcome(post(values, "hp", 2)) == restored(4, 1)
    assert values.data() == {"hp": None}


def test_a_removed_key_that_is_restored_to_absence_stays_absent(values: Values) -> None:
    values.set("other", 1)
    values.set("hp", 45, "m1")
    values.chat.reconcile()

    assert outcome(post(values, "hp", 2)) == restored(5, 0)

    values.chat.reconcile("m1")
    assert values.data() == {"other": 1}


def test_restoring_an_unchanged_key_makes_no_revision(values: Values) -> None:
    values.set("hp", 50)
    values.set("mp", 1)

    assert outcome(post(values, "hp", 2)) == restored(3, 0)
    assert head(values.client) == 3


def test_a_dry_run_changes_nothing(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 40)
    changes = [values.difference("hp", before=40, after=50)]
    tried = {"revision": 3, "changed": 1, "warnings": [], "changes": changes}

    assert outcome(post(values, "hp", 2, dryRun=True)) == (200, tried)
    assert (values.data(), head(values.client)) == ({"hp": 40}, 3)


def test_active_operations_do_not_matter(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 40)
    Queue(values.chat).add("a")

    assert outcome(post(values, "hp", 2)) == restored(4, 1)


def test_if_match_is_that_of_the_key(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 40)
    values.set("mp", 1)

    stale = post(values, "hp", 2, headers={"if_match": '"2"'})
    assert refused(stale) == (412, "revision_conflict", {"expected": 2, "current": 3})
    # The other key has changed since, which does not matter.
    assert outcome(post(values, "hp", 2, headers={"if_match": '"3"'})) == restored(5, 1)


def test_a_stale_tab_cannot_restore_a_key(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 40)
    stale, foreign = values.chat.session("tab"), Chat(values.client, "other").session("tab")
    chat_id = {"x_chat_id": "other"}

    assert refused(post(values, "hp", 2, headers={"x_session": stale}))[1] == "stale_session"
    assert refused(post(values, "hp", 2, headers={"x_session": foreign}))[1] == "chat_mismatch"
    assert refused(post(values, "hp", 2, headers=chat_id))[1] == "chat_mismatch"
    values.chat.archive()
    assert refused(post(values, "hp", 2))[1] == "chat_archived"
    assert values.data() == {"hp": 40}


def test_a_repeated_restore_is_done_once(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 40)
    key = {"idempotency_key": "k"}
    first = post(values, "hp", 2, headers=key)
    values.set("hp", 30)

    again = post(values, "hp", 2, headers=key)

    assert (again.content, values.data()) == (first.content, {"hp": 30})


@pytest.mark.parametrize("key", ["a/b", "restore", "ö %2F", "__proto__", "override"])
def test_a_key_may_be_any_text(values: Values, key: str) -> None:
    values.set(key, 1)
    values.set(key, 2)

    assert outcome(post(values, key, 2)) == restored(4, 1)
    assert values.data() == {key: 1}


def test_what_does_not_exist_is_not_restored(chat: Chat) -> None:
    sword = chat.instance("sword")
    sword.set("hp", 7)
    chat.set("hp", 50)

    assert refused(post(sword, "mp", 2)) == (404, "data_key_not_found", {})
    assert refused(post(chat, "mp", 3)) == (404, "data_key_not_found", {})
    unknown = Values(chat.client, "chat", "nobody")
    assert refused(post(unknown, "hp", 2)) == (404, "instance_not_found", {})
    assert refused(post(Chat(chat.client, "nowhere"), "hp", 2)) == (404, "chat_not_found", {})
    empty = Chat(chat.client, "empty")
    empty.open()
    assert refused(post(empty, "hp", 2)) == (404, "data_key_not_found", {})
    done(chat.client.delete("/instances/sword"))
    assert refused(post(sword, "hp", 2)) == (404, "instance_not_found", {})


def test_a_revision_that_cannot_be_read_is_refused(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 40)

    assert refused(post(values, "hp", 4)) == (400, "revision_unknown", {"current": 3})
    done(values.client.post("/compact", json={"keep": {"revisions": 0}}))
    assert refused(post(values, "hp", 2)) == (410, "compacted", {"oldest": 3})


@pytest.mark.one_engine
@pytest.mark.parametrize("body", [{}, [], {"revision": "2"}, {"revision": -1}, {"revision": None}])
def test_a_malformed_restore_is_refused(values: Values, body: Any) -> None:
    values.set("hp", 50)

    answer = values.send("POST", "/data/hp/restore", body)

    assert refused(answer) == (400, "invalid_body", {})
    assert head(values.client) == 2


def test_a_series_cannot_be_restored_by_a_data_route(chat: Chat) -> None:
    chat.add_version("recap", "Once")

    assert refused(post(chat, "recap/1", 1))[:2] == (404, "data_key_not_found")
