"""The state of a chat: now, at a revision, at a time, and as of a message."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.conftest import wait_for
from tests.support.answers import done, instance, outcome, refused
from tests.support.chat import Chat, Values, chat_state, furnish
from valuetracker.store.tx import log_writer


def part(values: Values, state: Any) -> Any:
    """Return these values out of a whole state of the chat."""
    if values.instance_id is None:
        return state["data"]
    found = [each for each in state["instances"] if each["instance"]["id"] == values.instance_id]
    return found[0]["data"]


def as_of(values: Values, *messages: str) -> list[Any]:
    return [part(values, values.chat.as_of(message)) for message in messages]


def test_the_state_now_and_at_each_revision(client: httpx.Client) -> None:
    chat = furnish(client)
    sword = instance("sword", "arthur", chat_id="chat")
    empty = [{"instance": sword, "data": {}}]
    full = [{"instance": sword, "data": {"hp": 7}}]
    recap = {"recap": {"currentVersion": 1, "count": 1}}

    states = [chat.state(at) for at in range(1, 6)]

    assert states == [
        chat_state("chat", 1, instances=empty),
        chat_state("chat", 2, instances=empty, data={"hp": 50}),
        chat_state("chat", 3, instances=full, data={"hp": 50}),
        chat_state("chat", 4, instances=full, data={"hp": 50}, series=recap),
        chat_state("chat", 5, instances=full, data={"hp": 50}, series=recap, processed={"seen": 1}),
    ]
    assert chat.state() == states[-1]


def test_before_its_creation_a_chat_has_no_state(chat: Chat) -> None:
    done(chat.client.post("/characters", json={"id": "arthur"}))
    chat.set("hp", 50)

    assert (chat.state(0), chat.state(1)) == (None, None)
    assert chat.state(2) == chat_state("chat", 2, data={"hp": 50})


def test_the_state_at_a_time_is_that_of_the_revision_recorded_then(values: Values) -> None:
    def now() -> str:
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    values.set("hp", 50)
    event = values.client.get("/changes?since=1").json()["items"][0]
    wait_for(lambda: now() > event["at"])
    values.set("hp", 45)

    state = values.chat.state(event["at"])

    assert state == values.chat.state(2)
    assert part(values, state) == {"hp": 50}
    assert values.chat.state("2001-01-01T00:00:00Z") is None
    assert values.chat.state("9999-01-01T00:00:00Z") == values.chat.state()


@pytest.mark.one_engine
@pytest.mark.parametrize("at", ["x", "", "-1", "1.5", "message:", "message", "messages:m1"])
def test_a_malformed_moment_is_refused(chat: Chat, at: str) -> None:
    chat.set("hp", 50, "m1")

    answer = chat.client.get("/chats/chat/state", params={"at": at})

    assert refused(answer)[0] == 400


def test_a_future_revision_is_refused(chat: Chat) -> None:
    chat.set("hp", 50)

    answer = chat.client.get("/chats/chat/state?at=2")

    assert refused(answer) == (400, "revision_unknown", {"current": 1})


# As of a message.


def test_the_state_as_of_each_message_is_that_after_it(values: Values) -> None:
    values.set("hp", 50)
    for number in (1, 2, 3):
        values.set("hp", 50 - 5 * number, f"m{number}")

    assert as_of(values, "m1", "m2", "m3") == [{"hp": 45}, {"hp": 40}, {"hp": 35}]


def test_the_state_as_of_the_last_message_is_the_present(client: httpx.Client) -> None:
    chat = furnish(client)
    chat.set("hp", 45, "m1")

    assert chat.as_of("m1") == chat.state()


def test_a_persons_edit_belongs_to_the_message_it_was_made_after(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("after m1", 1, x_actor="user")
    values.set("hp", 40, "m2")
    values.set("after m2", 1, x_actor="user")
    values.set("hp", 35, "m3")

    assert as_of(values, "m1", "m2", "m3") == [
        {"hp": 45, "after m1": 1},
        {"hp": 40, "after m1": 1, "after m2": 1},
        {"hp": 35, "after m1": 1, "after m2": 1},
    ]


def test_a_reconcile_registers_a_message_too(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.chat.reconcile("m1", "m2")
    values.set("late", 1)

    assert as_of(values, "m1", "m2") == [{"hp": 45}, {"hp": 45, "late": 1}]


def test_increments_are_replayed_without_those_of_later_messages(values: Values) -> None:
    values.set("gold", 100)
    values.increment("gold", -30, "m1")
    values.increment("gold", -20, "m2")
    values.increment("gold", 10)

    assert as_of(values, "m1", "m2") == [{"gold": 70}, {"gold": 60}]


def test_a_late_change_at_an_early_message_counts_there(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    values.set("hp", 44, "m1")

    assert as_of(values, "m1", "m2") == [{"hp": 44}, {"hp": 40}]


def test_only_the_visible_swipe_counts(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 47, "m1", "1")
    values.set("hp", 30, "m2")

    assert as_of(values, "m1") == [{"hp": 47}]
    values.chat.reconcile("m1", "m2")
    assert as_of(values, "m1") == [{"hp": 45}]


def test_the_order_is_that_of_the_chain(values: Values) -> None:
    values.set("a", 1, "m1")
    values.set("b", 1, "m2")
    values.chat.reconcile("m2", "m1")

    assert as_of(values, "m2", "m1") == [{"b": 1}, {"a": 1, "b": 1}]
    # The edit stands at m1, which is last now.
    values.set("late", 1)
    assert as_of(values, "m2", "m1") == [{"b": 1}, {"a": 1, "b": 1, "late": 1}]


def test_a_message_shown_again_does_not_bound_those_registered_after_it(values: Values) -> None:
    values.set("a", 1, "m1")
    values.set("b", 1, "m2")
    values.set("c", 1, "m3")
    values.chat.reconcile("m1", "m3")
    values.set("late", 1)
    values.set("d", 1, "m2", "1")

    assert as_of(values, "m3") == [{"a": 1, "c": 1, "late": 1}]
    assert as_of(values, "m2") == [{"a": 1, "c": 1, "late": 1, "d": 1}]


def test_an_edit_goes_where_its_message_goes(values: Values) -> None:
    values.set("a", 1, "m1")
    values.set("b", 1, "m2")
    values.set("between", 1)
    values.set("c", 1, "m3")
    values.chat.reconcile("m1", "m3")
    values.set("d", 1, "m2", "1")

    # m2 stands behind m3 now, and so does the edit that was made when it was last.
    assert as_of(values, "m1") == [{"a": 1}]
    assert as_of(values, "m3") == [{"a": 1, "c": 1}]


def test_a_hidden_message_bounds_nothing(values: Values) -> None:
    values.set("a", 1, "m1")
    values.set("b", 1, "m2")
    values.set("edit", 1)
    values.chat.reconcile("m1")

    assert as_of(values, "m1") == [{"a": 1, "edit": 1}]


@pytest.mark.parametrize("message", ["m2", "unknown", "M1", "0"])
def test_a_message_that_is_not_visible_is_not_found(chat: Chat, message: str) -> None:
    chat.set("hp", 45, "m1")
    chat.set("hp", 40, "m2")
    chat.reconcile("m1")

    answer = chat.client.get("/chats/chat/state", params={"at": f"message:{message}"})

    assert refused(answer) == (404, "message_not_found", {})


def test_a_message_of_another_chat_is_not_found(client: httpx.Client) -> None:
    Chat(client, "other").set("hp", 1, "m1")
    Chat(client, "chat").set("hp", 1, "m2")

    answer = client.get("/chats/chat/state", params={"at": "message:m1"})

    assert refused(answer) == (404, "message_not_found", {})


@pytest.mark.parametrize("message", ["a:b", "message:m1", "7", "日本 語", "a/b?c#d&e=%41"])
def test_a_message_id_may_be_any_text(chat: Chat, message: str) -> None:
    chat.set("hp", 45, message)
    chat.set("hp", 40, "next")

    assert chat.as_of(message)["data"] == {"hp": 45}


def test_series_and_processed_ids_are_those_of_the_message(chat: Chat) -> None:
    for number in (1, 2):
        chat.add_version("recap", f"Chapter {number}", f"m{number}")
        chat.claim("seen", f"id {number}", message=f"m{number}")

    state = chat.as_of("m1")

    assert state["series"] == {"recap": {"currentVersion": 1, "count": 1}}
    assert state["processed"] == {"seen": 1}
    assert chat.state()["series"] == {"recap": {"currentVersion": 2, "count": 2}}
    assert chat.state()["processed"] == {"seen": 2}


def test_instances_are_those_that_existed_before_the_next_message(chat: Chat) -> None:
    chat.set("hp", 45, "m1")
    chat.instance("between")
    deleted = chat.instance("deleted")
    deleted.set("edge", 1)
    chat.set("hp", 40, "m2")
    chat.instance("late")
    done(chat.client.delete("/instances/deleted"))

    def instances(state: Any) -> list[tuple[str, Any]]:
        return [(each["instance"]["id"], each["data"]) for each in state["instances"]]

    assert instances(chat.as_of("m1")) == [("between", {}), ("deleted", {"edge": 1})]
    assert instances(chat.as_of("m2")) == [("between", {}), ("late", {})]


def test_a_restore_made_after_the_next_message_does_not_count(values: Values) -> None:
    values.set("hp", 50)
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")
    done(values.send("POST", "/restore", {"revision": 2}))

    assert as_of(values, "m1", "m2") == [{"hp": 45}, {"hp": 50}]


def test_reading_as_of_a_message_changes_nothing(values: Values) -> None:
    values.set("hp", 45, "m1")
    values.set("hp", 40, "m2")

    values.chat.as_of("m1")

    assert values.data() == {"hp": 40}
    assert outcome(values.client.get("/changes?since=3")) == (200, {"items": [], "next": 3})


@pytest.mark.parametrize("before", range(4))
def test_a_keyframe_may_fall_into_the_middle_of_a_reconcile(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    monkeypatch.setattr(log_writer, "FRAME_CHANGES", 4)
    chat = Chat(client, "chat")
    both = [chat.instance("sword"), chat.instance("shield")]
    for each in both:
        done(each.send("PUT", "/data/merge", {"a": 0, "b": 0}))
    for number in range(before):
        both[0].set("other", number)
    for key in ("a", "b"):
        for each in both:
            each.set(key, 5, "m1")

    # The chain changes from one swipe to the other and back: two entries for each.
    revision = chat.reconcile()["revision"]

    now = [each.data() for each in both]
    assert [(data["a"], data["b"]) for data in now] == [(0, 0), (0, 0)]
    assert [each.data(revision) for each in both] == now
    assert [each.data(revision - 1)["a"] for each in both] == [5, 5]


def test_of_a_restore_only_changes_before_the_next_message_count(values: Values) -> None:
    values.set("xp", 1, "m1")
    revision = values.increment("xp", 5, "m2")
    values.set("xp", 0)
    assert values.restore(revision)[0] == 200
    assert as_of(values, "m1", "m2") == [{"xp": 1}, {"xp": 6}]

    values.chat.reconcile("m2", "m1")

    assert as_of(values, "m2", "m1") == [{"xp": 5}, {"xp": 1}]
    assert values.data() == {"xp": 1}
