"""Using checkpoints: validate, restore, compare."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.api.chats.points import (
    VALID,
    back_at,
    branch_off,
    diff_checkpoint,
    get_checkpoint,
    make_checkpoint,
    restore_checkpoint,
    send_checkpoint,
    statuses,
    validate,
)
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, Values, furnish, reconciled, restored


def timeless(state: Any) -> Any:
    """Return a state without its revision and times of updates, which a restore changes."""
    for each in state["instances"]:
        assert each["instance"].pop("updatedAt") == MOMENT
    return {**state, "revision": None}


def write_story(values: Values) -> None:
    """Set 50 at first; 45, 40 and 35 at the messages; revisions 2 to 5."""
    values.set("hp", 50)
    for number in (1, 2, 3):
        values.set("hp", 50 - 5 * number, f"m{number}")


# Validating.


@pytest.mark.parametrize("point", [{}, {"messageId": "m1"}])
def test_a_checkpoint_is_valid_whatever_changed_later(
    client: httpx.Client, point: dict[str, str]
) -> None:
    chat = furnish(client)
    chat.set("hp", 45, "m1")
    chat.set("hp", 40, "m2")
    made = make_checkpoint(chat, **point)
    assert validate(chat) == VALID

    chat.set("hp", 1, "m1", "1")
    chat.reconcile()
    done(chat.send("DELETE", "/data"))
    done(chat.send("DELETE", "/series/recap"))
    done(client.delete("/instances/sword"))
    now = head(client)

    assert validate(chat) == VALID
    assert (get_checkpoint(chat), head(client)) == (made, now)


def test_the_actual_values_are_compared_with_the_expected_ones(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat, expect={"lorebook": "world", "messageCount": 100, "theme": {"a": [1]}})

    assert validate(chat, lorebook="world", messageCount=100, theme={"a": [1]}) == VALID
    others: dict[str, Any] = {"lorebook": "other", "messageCount": 99, "theme": {"a": [2]}}
    for name, other in others.items():
        actual: dict[str, Any] = {"lorebook": "world", "messageCount": 100, name: other}
        found = validate(chat, **actual)
        assert (found["success"], found["validated"], found["errors"]) == (True, True, [])
        assert len(found["warnings"]) == 1, name
        assert name in found["warnings"][0]
    both = validate(chat, lorebook="other", messageCount=99)
    assert (both["success"], len(both["warnings"])) == (True, 2)


@pytest.mark.parametrize(("expected", "actual"), [(0, 100), (0, 0), (100, 100)])
def test_a_count_is_compared_only_if_messages_were_expected(
    chat: Chat, expected: int, actual: int
) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat, expect={"messageCount": expected})

    assert validate(chat, messageCount=actual) == VALID


def test_no_message_where_some_were_expected_is_a_warning(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat, expect={"messageCount": 100})

    found = validate(chat, messageCount=0)

    assert (found["success"], found["errors"]) == (True, [])
    assert found["warnings"] == ["messageCount was expected to be 100 and is 0."]


def test_without_expected_values_nothing_is_compared(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)

    assert validate(chat, lorebook="world", messageCount=5) == VALID


@pytest.mark.one_engine
@pytest.mark.parametrize("body", [[], {"actual": []}, {"actual": "x"}])
def test_a_malformed_validation_is_refused(chat: Chat, body: Any) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)

    answer = send_checkpoint(chat, "POST", verb="/validate", body=body)

    assert refused(answer) == (400, "invalid_body", {})


# Restoring.


def test_a_chat_is_restored_to_a_checkpoint_with_all_it_holds(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)
    before = timeless(chat.state())
    series, processed = chat.series("recap"), chat.processed("seen")
    chat.set("hp", 45)
    chat.add_version("recap", "Twice")
    chat.claim("seen", "b")
    chat.instance("shield").set("boss", 1)
    done(client.delete("/instances/sword"))
    now = head(client)

    answer = restore_checkpoint(chat)

    # hp, recap/2, recap/current, seen/b, the shield's boss and the sword's hp.
    assert outcome(answer) == back_at(now + 1, 6)
    assert (answer.headers["x-revision"], head(client)) == (str(now + 1), now + 1)
    assert timeless(chat.state()) == before
    assert (chat.series("recap"), chat.processed("seen")) == (series, processed)
    assert refused(client.get("/instances/shield")) == (404, "instance_not_found", {})
    assert client.get("/instances/sword").json()["data"] == {"hp": 7}
    # The counter is not restored.
    assert chat.add_version("recap", "Thrice") == 3


def test_a_chat_is_restored_to_a_checkpoint_of_a_message(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat, messageId="m1")
    values.set("hp", 30, "m4")

    assert outcome(restore_checkpoint(values.chat)) == back_at(7, 1)

    assert values.data() == {"hp": 45}
    assert values.data(at=6) == {"hp": 30}
    assert [each["op"] for each in values.history(key="hp")][-1] == "restore"


def test_a_restored_value_still_follows_the_story(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat, messageId="m2")
    done(restore_checkpoint(values.chat))
    assert values.data() == {"hp": 40}

    # The chain is unchanged: it has all three messages.
    assert values.chat.reconcile("m1", "m2", "m3") == reconciled(6)
    values.chat.reconcile("m1", "m3")
    assert values.data() == {"hp": 45}
    values.chat.reconcile("m3")
    assert values.data() == {"hp": 50}
    values.chat.reconcile("m1", "m2", "m3")
    assert values.data() == {"hp": 40}


def test_a_change_hidden_since_is_restored_as_unanchored(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat)
    values.chat.reconcile("m1")
    assert values.data() == {"hp": 45}

    assert outcome(restore_checkpoint(values.chat)) == back_at(7, 1)

    assert values.data() == {"hp": 35}
    values.chat.reconcile("m1")
    assert values.data() == {"hp": 35}


def test_a_dry_run_answers_what_would_change_and_changes_nothing(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat, messageId="m1")
    values.set("mp", 1)
    before, now = values.chat.state(), head(values.client)

    answer = restore_checkpoint(values.chat, dryRun=True)

    changes = [
        values.difference("mp", before=1),
        values.difference("hp", before=35, after=45),
    ]
    assert outcome(answer) == back_at(now, 2, changes=changes)
    assert (values.chat.state(), head(values.client)) == (before, now)
    assert outcome(restore_checkpoint(values.chat)) == back_at(now + 1, 2)
    assert values.data() == {"hp": 45}


def test_restoring_the_present_state_makes_no_revision(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)

    assert outcome(restore_checkpoint(chat)) == back_at(5, 0)
    assert head(client) == 5


def test_a_restore_can_be_undone(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)
    chat.set("hp", 45, "m1")
    chat.instance("shield").set("boss", 1)
    done(client.delete("/instances/sword"))
    later, now = timeless(chat.state()), head(client)
    done(restore_checkpoint(chat))
    assert chat.data() == {"hp": 50}

    assert chat.restore(now) == restored(now + 2, 3)

    assert timeless(chat.state()) == later
    assert statuses(chat) == [("here", "ready")]
    # And it can be done again.
    assert outcome(restore_checkpoint(chat)) == back_at(now + 3, 3)
    assert chat.data() == {"hp": 50}


def test_an_instance_that_is_in_another_chat_now_stays_there(chat: Chat) -> None:
    chat.instance("sword").set("hp", 7)
    make_checkpoint(chat)
    moved = Chat(chat.client, "other").instance("sword")
    moved.set("hp", 8)

    answer = restore_checkpoint(chat)

    assert (answer.status_code, len(answer.json()["warnings"])) == (200, 1)
    assert "sword" in answer.json()["warnings"][0]
    found = chat.client.get("/instances/sword").json()
    assert (found["instance"]["chatId"], found["data"]) == ("other", {"hp": 8})


def test_a_stale_tab_cannot_restore(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)
    seen, stale = chat.etag(), chat.session("tab")
    chat.set("hp", 45)
    foreign = Chat(chat.client, "other").session("tab")

    def ask(**headers: str) -> Any:
        return refused(restore_checkpoint(chat, headers=headers))

    conflict = (412, "revision_conflict", {"expected": 1, "current": 2})
    assert ask(if_match=seen) == conflict
    assert ask(x_session=stale)[:2] == (409, "stale_session")
    assert ask(x_session=foreign)[:2] == (409, "chat_mismatch")
    chat.archive()
    assert ask()[:2] == (409, "chat_archived")
    assert chat.data() == {"hp": 45}


def test_a_repeated_restore_is_done_once(chat: Chat) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)
    chat.set("hp", 45)
    first = restore_checkpoint(chat, headers={"idempotency_key": "k"})
    chat.set("hp", 40)

    again = restore_checkpoint(chat, headers={"idempotency_key": "k"})

    assert (done(again), again.content, chat.data()) == (3, first.content, {"hp": 40})


@pytest.mark.one_engine
@pytest.mark.parametrize("body", [[], {"dryRun": "yes"}, {"dryRun": 1}])
def test_a_malformed_restore_changes_nothing(chat: Chat, body: Any) -> None:
    chat.set("hp", 50)
    make_checkpoint(chat)
    chat.set("hp", 45)

    answer = send_checkpoint(chat, "POST", verb="/restore", body=body)

    assert refused(answer) == (400, "invalid_body", {})
    assert chat.data() == {"hp": 45}


# Comparing.


def test_a_difference_covers_the_chat_with_its_instances(client: httpx.Client) -> None:
    chat = furnish(client)
    make_checkpoint(chat)
    assert diff_checkpoint(chat) == []
    chat.set("hp", 45)
    chat.set("new", None)
    chat.instance("shield").set("boss", 1)
    done(client.delete("/instances/sword"))
    chat.claim("seen", "b")

    found = diff_checkpoint(chat)

    assert found == client.get("/chats/chat/diff?from=5").json()
    assert [each for each in found if "space" not in each] == [
        {"instanceId": None, "key": "hp", "before": 50, "after": 45},
        {"instanceId": "sword", "key": "hp", "before": 7},
        {"instanceId": None, "key": "new", "after": None},
        {"instanceId": "shield", "key": "boss", "after": 1},
    ]
    processed = [each for each in found if each.get("space") == "processed"]
    assert [(each["key"], each["instanceId"], "before" in each) for each in processed] == [
        ("seen/b", None, False)
    ]


def test_a_difference_is_from_the_message_of_the_checkpoint(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat, messageId="m1")

    assert diff_checkpoint(values.chat) == [values.difference("hp", before=45, after=35)]
    values.chat.reconcile()
    assert diff_checkpoint(values.chat) == [values.difference("hp", before=45, after=50)]
    values.set("hp", 45)
    assert diff_checkpoint(values.chat) == []


# A checkpoint and its chat do not change each other.


def test_no_later_write_changes_the_checkpoint(values: Values) -> None:
    write_story(values)
    make_checkpoint(values.chat, messageId="m2")

    values.set("hp", 1, "m2")
    values.set("hp", 2, "m1", "1")
    values.set("late", 1)
    values.chat.reconcile("m3")

    assert validate(values.chat) == VALID
    branch = branch_off(values.chat, checkpoint="here")
    data = branch.state()["instances"][0]["data"] if values.instance_id else branch.data()
    assert data == {"hp": 40}


def test_no_change_of_the_checkpoint_changes_the_chat(client: httpx.Client) -> None:
    chat = furnish(client)
    before = chat.state()
    make_checkpoint(chat)
    validate(chat, lorebook="other")
    diff_checkpoint(chat)
    branch = branch_off(chat, checkpoint="here")
    branch.set("hp", 1)
    branch.add_version("recap", "other")
    done(branch.send("DELETE", "/processed/seen/a"))
    branch.purge()
    done(send_checkpoint(chat, "DELETE"))

    assert chat.state() == before


def test_a_checkpoint_of_an_archived_chat_can_be_validated_but_not_restored(
    client: httpx.Client,
) -> None:
    chat = furnish(client)
    make_checkpoint(chat, name="there")
    chat.archive()

    assert validate(chat, "there") == VALID
    answer = chat.send("POST", "/checkpoints/there/restore")
    assert refused(answer)[:2] == (409, "chat_archived")
