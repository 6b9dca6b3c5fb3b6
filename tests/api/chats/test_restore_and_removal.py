"""Restores and removals in a story: the changes they name, and values that must stay removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.support.answers import done, head, outcome
from tests.support.chat import Chat, Values, reconciled, restored


def test_a_restore_names_the_changes_that_made_the_old_state(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    assert values.restore(3) == restored(5, 1)

    # m1 is hidden and m2 stays: 50, not 40.
    changed = [values.difference("hp", before=45, after=50)]
    assert values.chat.reconcile("m2") == reconciled(6, dormant=1, changed=changed)
    assert values.data() == {"hp": 50}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 45}


def test_a_restore_to_the_present_keeps_the_increments(values: Values) -> None:
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", 10, x_actor="user")

    assert values.restore(4) == restored(4, 0)

    values.chat.reconcile()
    assert values.data() == {"gold": 110}


def test_a_restore_replays_the_increments_it_names(values: Values) -> None:
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", 10, x_actor="user")
    values.increment("gold", 5, "m2")
    assert values.restore(4) == restored(6, 1)
    assert values.data() == {"gold": 80}

    values.chat.reconcile("m2")
    assert values.data() == {"gold": 110}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"gold": 80}


def test_a_change_hidden_at_the_restore_counts_as_unanchored(values: Values) -> None:
    chat = values.chat
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    chat.reconcile()
    assert values.restore(3) == restored(5, 1)
    assert values.data() == {"hp": 45}

    assert chat.reconcile() == reconciled(5)
    assert values.data() == {"hp": 45}
    chat.reconcile("m1")
    assert values.data() == {"hp": 45}
    chat.reconcile()
    assert values.data() == {"hp": 45}


def test_a_reconcile_with_an_unchanged_chain_never_undoes_a_restore(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    done(values.send("POST", "/restore", {"revision": 2}))

    assert values.chat.reconcile("m1", "m2") == reconciled(5)
    assert values.data() == {"hp": 50}


def test_a_restore_does_not_change_the_chain(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.chat.reconcile("m1", "m2")
    done(values.send("POST", "/restore", {"revision": 2}))

    # Both are still visible: the writes are live and do not change the chain.
    answer = values.send("POST", "/data", {"key": "hp", "value": 1}, "m1")
    assert (done(answer), "x-live" in answer.headers) == (6, False)
    assert values.chat.reconcile("m1", "m2") == reconciled(6)


def test_rows_changed_since_are_restored_even_if_the_value_is_equal(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 45, "m2")

    assert values.restore(3) == restored(5, 0)

    assert [each["op"] for each in values.history(key="hp")] == ["set", "set", "set", "restore"]
    values.chat.reconcile("m2")
    assert values.data() == {"hp": 50}


def test_a_restore_of_a_restore_names_the_same_changes(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    assert values.restore(3) == restored(5, 1)
    values.set("hp", 30, "m3")
    assert values.restore(5) == restored(7, 1)
    assert values.data() == {"hp": 45}

    values.chat.reconcile("m2", "m3")

    assert values.data() == {"hp": 50}


def test_changes_after_a_restore_are_applied_to_its_result(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    assert values.restore(3) == restored(5, 1)
    values.increment("hp", 1)
    values.increment("hp", 2, "m3")
    assert values.data() == {"hp": 48}

    values.chat.reconcile("m2", "m3")
    assert values.data() == {"hp": 53}
    values.chat.reconcile("m1", "m2")
    assert values.data() == {"hp": 46}


def test_a_key_restored_to_absence_stays_absent(values: Values) -> None:
    values.set("hp", 45, "m1")
    assert values.restore(1) == restored(3, 1)
    assert values.data() == {}

    values.chat.reconcile()
    values.chat.reconcile("m1")

    assert values.data() == {}


def test_a_restore_is_unanchored_whatever_the_request_says(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45)
    done(values.send("POST", "/restore", {"revision": 2}, "m1"))

    values.chat.reconcile()

    assert values.data() == {"hp": 50}


# Removals.

REMOVALS: list[tuple[str, str, Any]] = [
    ("DELETE", "/data/hp", None),
    ("DELETE", "/data", None),
    ("PUT", "/data/override", {}),
    ("PUT", "/data/remove", {"keys": ["hp"]}),
    ("PATCH", "/data", {"hp": None}),
]


@pytest.mark.parametrize(("method", "path", "body"), REMOVALS)
def test_a_removal_also_removes_dormant_changes(
    values: Values, method: str, path: str, body: Any
) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    assert values.data() == {}

    answer = values.send(method, path, body)

    assert done(answer) == 4
    assert values.chat.reconcile("m1") == reconciled(5, revived=1)
    assert values.data() == {}


@pytest.mark.parametrize("operation", [{"op": "remove", "key": "hp"}, {"op": "clear"}])
def test_a_removal_in_a_batch_also_removes_dormant_changes(
    values: Values, operation: dict[str, Any]
) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()

    assert done(values.run(operation)) == 4

    values.chat.reconcile("m1")
    assert values.data() == {}


def test_an_override_also_removes_dormant_changes_of_keys_it_does_not_name(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("mp", 1)
    values.chat.reconcile()
    done(values.send("PUT", "/data/override", {"mp": 2}))

    values.chat.reconcile("m1")

    assert values.data() == {"mp": 2}


@pytest.mark.parametrize("recreated_in", ["chat", None])
def test_a_deleted_instance_is_not_revived_by_a_swipe_back(
    client: httpx.Client, recreated_in: str | None
) -> None:
    chat = Chat(client, "chat")
    sword = chat.instance("sword")
    sword.set("hp", 45, "m1")
    sword.set("mp", 1)
    chat.reconcile()
    done(client.delete("/instances/sword"))
    body = {"id": "sword", "characterId": "arthur", "chatId": recreated_in}
    done(client.post("/instances", json=body))

    assert chat.reconcile("m1")["changed"] == []

    assert sword.data() == {}


def test_a_deleted_instance_stays_deleted(client: httpx.Client) -> None:
    chat = Chat(client, "chat")
    sword = chat.instance("sword")
    sword.set("hp", 50)
    sword.set("hp", 45, "m1")
    done(client.delete("/instances/sword"))

    assert chat.reconcile()["changed"] == []
    assert chat.reconcile("m1")["changed"] == []

    assert client.get("/instances/sword").status_code == 404
    assert sword.data() == {}


def test_a_removal_of_a_key_that_never_existed_touches_nothing(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    other = {"keys": ["mp"]}

    answer = values.send("PUT", "/data/remove", other)

    assert outcome(answer) == (200, {"success": True, "removedCount": 0})
    assert answer.headers["x-revision"] == "3"
    assert head(values.client) == 3


def test_a_removal_follows_the_story_like_any_change(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile("m2")
    done(values.send("PUT", "/data/remove", {"keys": ["hp"]}, "m2"))

    values.chat.reconcile("m1", "m2")
    assert values.data() == {}
    values.chat.reconcile("m1")
    assert values.data() == {"hp": 45}


def test_a_key_set_again_after_a_removal_starts_anew(values: Values) -> None:
    values.increment("gold", 100, "m1")
    values.chat.reconcile()
    done(values.send("DELETE", "/data"))
    values.increment("gold", 1)

    values.chat.reconcile("m1")

    assert values.data() == {"gold": 1}


# Compaction.


def test_a_reconcile_does_not_undo_folded_changes(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    done(values.client.post("/compact", json={"keep": {"revisions": 0}}))
    values.set("hp", 40, "m2")

    values.chat.reconcile("m1")
    assert values.data() == {"hp": 45}
    found = values.chat.reconcile()

    assert values.data() == {"hp": 45}
    assert len(found["warnings"]) == 1
    assert isinstance(found["warnings"][0], str)


def test_dormant_changes_below_the_cutoff_are_dropped(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.chat.reconcile()
    done(values.client.post("/compact", json={"keep": {"revisions": 0}}))

    found = values.chat.reconcile("m1")

    assert (found["revived"], found["changed"], values.data()) == (0, [], {"hp": 50})


@pytest.mark.parametrize("restarted", [False, True])
def test_removals_of_hidden_keys_are_logged_in_the_order_of_the_keys(
    tmp_path: Path, own_database: str, restarted: bool
) -> None:
    def remove(client: httpx.Client) -> None:
        chat = Chat(client, "chat")
        done(chat.send("DELETE", "/data"))
        assert [each["key"] for each in chat.history()][-3:] == ["a", "b", "c"]

    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            for key in ("c", "a", "b"):
                Chat(client, "chat").set(key, 1, "m1")
            Chat(client, "chat").reconcile()
            if not restarted:
                remove(client)
    if restarted:
        with (
            running_server(tmp_path, database=own_database) as server,
            server.client("demo") as client,
        ):
            remove(client)
