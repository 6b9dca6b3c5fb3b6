"""Hashes: a message whose text changed is reported as stale, and its values are kept."""

from __future__ import annotations

from typing import Any

from tests.support.answers import head
from tests.support.chat import Values, reconciled


def hashed(message: str, hash: str | None, swipe: str = "0") -> dict[str, Any]:
    place = {"messageId": message, "swipe": swipe}
    return place if hash is None else {**place, "hash": hash}


def stale(values: Values, hash: str | None) -> Any:
    """Reconcile m1 with that hash, and return the stale messages."""
    return values.chat.reconcile(hashed("m1", hash))["stale"]


def test_another_hash_marks_a_message_stale_every_time(values: Values) -> None:
    values.set("hp", 45, "m1")

    found = [stale(values, hash) for hash in ("a", "b", "b", "c", "a", None, "b")]

    assert found == [[], ["m1"], ["m1"], ["m1"], [], [], ["m1"]]
    assert values.data() == {"hp": 45}


def test_recording_hashes_makes_no_revision(values: Values) -> None:
    values.set("hp", 45, "m1")

    assert values.chat.reconcile(hashed("m1", "a")) == reconciled(2)
    assert values.chat.reconcile(hashed("m1", "b")) == reconciled(2, stale=["m1"])
    assert head(values.client) == 2


def test_a_new_change_at_the_message_resets_its_hash(values: Values) -> None:
    values.set("hp", 45, "m1")
    assert [stale(values, "a"), stale(values, "b")] == [[], ["m1"]]
    values.set("mp", 1, "m1")

    assert [stale(values, "b"), stale(values, "a")] == [[], ["m1"]]


def test_a_change_at_another_message_does_not_reset_the_hash(values: Values) -> None:
    values.set("hp", 45, "m1")
    assert stale(values, "a") == []
    values.set("hp", 50)
    values.set("hp", 40, "m2")

    found = values.chat.reconcile(hashed("m1", "b"), hashed("m2", "z"))

    assert found["stale"] == ["m1"]


def test_each_swipe_has_a_hash_of_its_own(values: Values) -> None:
    values.set("hp", 45, "m1")
    assert stale(values, "a") == []
    values.set("hp", 47, "m1", "1")

    assert values.chat.reconcile(hashed("m1", "b", "1"))["stale"] == []
    assert values.chat.reconcile(hashed("m1", "a"))["stale"] == []
    assert values.chat.reconcile(hashed("m1", "b"))["stale"] == ["m1"]


def test_stale_messages_are_listed_in_the_order_of_the_chain(values: Values) -> None:
    for message in ("m3", "m1", "m2"):
        values.set("hp", 1, message)
    chain = ["m1", "m2", "m3"]
    assert values.chat.reconcile(*(hashed(each, "a") for each in chain))["stale"] == []

    found = values.chat.reconcile(hashed("m1", "b"), hashed("m2", "a"), hashed("m3", "b"))

    assert found["stale"] == ["m1", "m3"]


def test_a_dry_run_records_no_hash(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile(hashed("m1", "a"), dryRun=True)

    assert [stale(values, "b"), stale(values, "a")] == [[], ["m1"]]
