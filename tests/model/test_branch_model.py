"""
Branches and checkpoints in the chat model alone: the examples of the specification.

The right answer to each is known. Other tests compare the server with the model.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.model.chat_branches import BranchModel
from tests.model.chat_log import Missing, Step, data_of, processed_of, series_of

CHAT = "tale"
FORK = "fork"


@pytest.fixture
def model() -> BranchModel:
    return BranchModel()


def write(
    model: BranchModel, op: str, key: str, operand: Any = None, place: str = "", chat: str = CHAT
) -> Any:
    """Do one step on a chat's own data; a place is `message` or `message/swipe`."""
    return model.write(step(op, key, operand, place, chat))[0]


def step(op: str, key: str, operand: Any = None, place: str = "", chat: str = CHAT) -> Step:
    message, _, swipe = place.partition("/")
    return Step(op, key, operand, chat, None, (message, swipe or "0") if message else None)


def show(model: BranchModel, *places: str, chat: str = CHAT) -> Any:
    """Reconcile with these places."""
    pairs = (place.partition("/") for place in places)
    return model.reconcile(chat, {message: swipe or "0" for message, _, swipe in pairs})


def fork(model: BranchModel, chat: str = CHAT, name: str = FORK, **point: Any) -> None:
    """Make a branch; the ids of its instances are the parent's and the name of the branch."""
    found = model.point(chat, **point)
    model.branch(found, name, {id: f"{id} of {name}" for id in model.members(found)})


def values(model: BranchModel, chat: str = CHAT) -> dict[str, Any]:
    return data_of(model.now.values, model.now.names[chat])


def both(model: BranchModel) -> tuple[dict[str, Any], dict[str, Any]]:
    return values(model), values(model, FORK)


def as_of(model: BranchModel, message: str, chat: str = FORK) -> dict[str, Any]:
    return data_of(model.as_of(chat, message)[1], model.now.names[chat])


def write_story(model: BranchModel) -> None:
    """Set 50 at first; 45, 40 and 35 at the messages."""
    write(model, "set", "hp", 50)
    for number in (1, 2, 3):
        write(model, "set", "hp", 50 - 5 * number, f"m{number}")


# The point a branch begins at


def test_a_branch_begins_as_its_parent_was_at_the_point(model: BranchModel) -> None:
    write_story(model)
    model.checkpoint(CHAT, "here", "m1")
    show(model, "m2")

    fork(model, name="now")
    fork(model, name="revision", revision=3)
    fork(model, name="message", message="m2")
    model.branch(model.checkpoints[0, "here"], "checkpoint", {})

    found = {name: values(model, name) for name in ("now", "revision", "message", "checkpoint")}
    assert found == {
        "now": {"hp": 40},
        "revision": {"hp": 40},
        "message": {"hp": 40},
        "checkpoint": {"hp": 45},
    }
    chains = [list(model.now.chains[number]) for number in range(5)]
    assert chains == [["m2"], ["m2"], ["m1", "m2"], ["m2"], ["m1"]]


def test_a_point_must_exist(model: BranchModel) -> None:
    write_story(model)
    show(model, "m1")
    model.write(Step("set", "a", 1, "later"))

    for name, revision, message in (
        ("unknown", None, None),
        ("later", 1, None),
        (CHAT, None, "m2"),
        (CHAT, 2, "m3"),
    ):
        with pytest.raises(Missing):
            model.point(name, revision, message)


# Below the branch point


def test_messages_below_the_point_are_hidden_and_shown_in_parent_and_branch_alone(
    model: BranchModel,
) -> None:
    write_story(model)
    fork(model, message="m2")
    assert both(model) == ({"hp": 35}, {"hp": 40})

    report = show(model, "m1", chat=FORK)
    assert (report.dormant, report.revived) == (1, 0)
    assert both(model) == ({"hp": 35}, {"hp": 45})
    assert show(model).dormant == 3
    assert both(model) == ({"hp": 50}, {"hp": 45})
    assert show(model, "m1", "m2", chat=FORK).revived == 1
    assert both(model) == ({"hp": 50}, {"hp": 40})


def test_operators_are_replayed_on_a_branch(model: BranchModel) -> None:
    write(model, "set", "gold", 100)
    write(model, "increment", "gold", -30, "m1")
    write(model, "increment", "gold", 10)
    fork(model)
    write(model, "increment", "gold", 5, "m2", FORK)

    show(model, "m2", chat=FORK)
    assert both(model) == ({"gold": 80}, {"gold": 115})
    show(model, "m1", "m2", chat=FORK)
    assert both(model) == ({"gold": 80}, {"gold": 85})


def test_a_hidden_message_is_taken_over_if_it_stands_before_the_point(
    model: BranchModel,
) -> None:
    write_story(model)
    show(model, "m1", "m3")
    fork(model, message="m1")
    show(model, "m1")
    fork(model, name="later", message="m1")

    assert write(model, "set", "mp", 1, "m2", FORK) == {}
    assert model.dormant
    show(model, "m1", "m2", chat=FORK)
    assert values(model, FORK) == {"hp": 40, "mp": 1}
    # m3 stood behind the first point; later nothing visible followed m1.
    assert show(model, "m1", "m3", chat=FORK).revived == 0
    assert show(model, "m1", "m3", chat="later").revived == 1


def test_a_swipe_not_registered_at_the_point_is_new_on_the_branch(model: BranchModel) -> None:
    write(model, "set", "hp", 45, "m1/0")
    write(model, "set", "hp", 47, "m1/1")
    fork(model, revision=1)

    write(model, "set", "hp", 48, "m1/1", FORK)

    assert not model.dormant
    assert both(model) == ({"hp": 47}, {"hp": 48})


def test_changes_taken_over_stand_where_they_stood(model: BranchModel) -> None:
    write_story(model)
    write(model, "set", "mood", "after m3")
    fork(model)
    write(model, "set", "mood", "on the branch", chat=FORK)

    assert as_of(model, "m2") == as_of(model, "m2", CHAT) == {"hp": 40}
    assert as_of(model, "m3") == {"hp": 35, "mood": "on the branch"}
    assert model.now.stories[1] == ["m1", "m2", "m3"]


def test_a_branch_has_no_state_before_its_creation(model: BranchModel) -> None:
    write_story(model)
    fork(model)
    before, branched = model.past[-2], model.revision

    assert (1 in before.titles, data_of(before.values, 1)) == (False, {})
    assert model.branched_at(1) == branched == 5
    assert [change.revision for change in model.log if change.taken] == [1, 2, 3, 4]
    with pytest.raises(Missing):
        model.restore_chat(FORK, branched - 1)
    assert model.restore_chat(FORK, branched) == (0, 0)


def test_a_branch_of_a_branch_can_go_below_the_first(model: BranchModel) -> None:
    write_story(model)
    fork(model)
    write(model, "set", "hp", 30, "m4", FORK)
    fork(model, FORK, "deep", message="m4")

    show(model, "m1", "m4", chat="deep")
    show(model, "m1", chat="deep")
    assert (both(model), values(model, "deep")) == (({"hp": 35}, {"hp": 30}), {"hp": 45})


# Instances


def test_a_branch_gets_new_instances_with_the_same_past(model: BranchModel) -> None:
    model.put_instance("sword", chat=CHAT)
    model.write(Step("set", "edge", "keen", None, "sword", ("m1", "0")))
    model.write(Step("set", "edge", "dull", None, "sword", ("m2", "0")))
    model.put_instance("late", chat=CHAT)
    fork(model)
    model.delete_instance("sword")

    assert model.now.members(1) == ["sword of fork", "late of fork"]
    assert data_of(model.now.values, "sword of fork") == {"edge": "dull"}
    members, found = model.as_of(FORK, "m1")
    assert (members, data_of(found, "sword of fork")) == (["sword of fork"], {"edge": "keen"})
    show(model, "m1", chat=FORK)
    assert data_of(model.now.values, "sword of fork") == {"edge": "keen"}


def test_values_that_an_instance_brought_from_another_chat_stay(model: BranchModel) -> None:
    model.put_instance("sword", chat="other")
    model.write(Step("set", "a", 1, None, "sword", ("m1", "0")))
    model.write(Step("set", "b", 2, None, "sword", ("m2", "0")))
    show(model, "m1", chat="other")
    model.put_instance("sword", chat=CHAT)
    fork(model)

    show(model, chat="other")

    assert data_of(model.now.values, "sword of fork") == {"a": 1}


def test_a_point_stays_the_same_when_an_instance_leaves_the_chat(model: BranchModel) -> None:
    model.put_instance("sword", chat=CHAT)
    model.write(Step("set", "a", 1, None, "sword", ("m1", "0")))
    model.checkpoint(CHAT, "here", "m1")
    show(model)
    model.put_instance("sword", chat=None)

    model.branch(model.checkpoints[0, "here"], FORK, {"sword": "copy"})

    assert data_of(model.now.values, "sword") == {}
    assert data_of(model.now.values, "copy") == {"a": 1}


# Restores


def test_a_restore_before_the_point_names_the_same_changes(model: BranchModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1")
    write(model, "set", "hp", 40, "m2")
    model.restore_chat(CHAT, 2)
    fork(model)
    assert both(model) == ({"hp": 45}, {"hp": 45})

    show(model, "m2", chat=FORK)
    assert both(model) == ({"hp": 45}, {"hp": 50})


def test_a_restore_in_the_branch_names_changes_before_the_point(model: BranchModel) -> None:
    write_story(model)
    fork(model, message="m2")
    branched = model.revision
    write(model, "set", "hp", 30, "m4", FORK)
    assert model.restore_chat(FORK, branched) == (1, 0)

    show(model, "m1", "m4", chat=FORK)
    assert values(model, FORK) == {"hp": 45}
    show(model, "m4", chat=FORK)
    assert values(model, FORK) == {"hp": 50}


def test_a_change_pinned_by_a_restore_is_taken_over(model: BranchModel) -> None:
    write(model, "set", "hp", 45, "m2")
    show(model, "m1")
    model.restore_chat(CHAT, 1)
    # The message is back behind m1, but its old swipe counted as unanchored when restored.
    write(model, "set", "mp", 1, "m2/1")
    fork(model, message="m1")
    assert both(model) == ({"hp": 45, "mp": 1}, {"hp": 45})

    # The change counts because the restore names it, and not by itself.
    write(model, "set", "hp", 44, chat=FORK)
    fork(model, FORK, "deep")
    show(model, chat="deep")
    assert values(model, "deep") == {"hp": 44}


# Checkpoints


def test_a_chat_is_restored_to_a_checkpoint_of_a_message(model: BranchModel) -> None:
    write_story(model)
    assert model.checkpoint(CHAT, "here", "m2")
    assert not model.checkpoint(CHAT, "here")
    write(model, "set", "mood", "later")

    assert model.restore(model.checkpoints[0, "here"]) == (2, 0)

    assert values(model) == {"hp": 40}
    show(model, "m1", "m3")
    assert values(model) == {"hp": 45}
    show(model, "m3")
    assert values(model) == {"hp": 50}


def test_a_restore_removes_changes_after_the_message_even_older_ones(model: BranchModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1")
    write(model, "set", "mp", 1, "m2")
    show(model, "m2", "m1")
    model.checkpoint(CHAT, "here", "m2")

    assert model.restore(model.checkpoints[0, "here"]) == (1, 0)
    assert values(model) == {"hp": 50, "mp": 1}


def test_a_checkpoint_of_a_branch_may_be_before_its_creation(model: BranchModel) -> None:
    model.put_instance("sword", chat=CHAT)
    write_story(model)
    model.put_instance("late", chat=CHAT)
    fork(model)
    model.checkpoint(FORK, "here", "m1")
    model.delete_instance("sword of fork")

    model.restore(model.checkpoints[1, "here"])

    assert (both(model), model.now.members(1)) == (({"hp": 35}, {"hp": 45}), ["sword of fork"])
    assert model.now.members(0) == ["sword", "late"]


# Series and processed ids


def test_a_series_continues_from_the_highest_version_taken_over(model: BranchModel) -> None:
    def add(number: int, chat: str = CHAT, *place: str) -> int:
        anchor = (place[0], "0") if place else None
        return model.add_version(Step("set", "recap", number, chat, None, anchor, "series"))

    for number in (1, 2, 3, 4):
        add(number, CHAT, f"m{number}")
    # A late version at m1: it does not become current.
    assert add(5, CHAT, "m1") == 5
    show(model, "m1", "m2", "m3")
    fork(model, message="m2")

    assert series_of(model.now.values, 1) == {"recap": (2, {1: 1, 2: 2, 5: 5})}
    assert (add(6, FORK), add(6), add(7, FORK)) == (6, 6, 7)


def test_parent_and_branch_have_their_own_processed_ids_from_then_on(model: BranchModel) -> None:
    def claim(id: str, chat: str = CHAT, *place: str) -> bool:
        anchor = (place[0], "0") if place else None
        found = model.write(Step("claim", f"seen/{id}", None, chat, None, anchor, "processed"))
        return bool(found[0]["new"])

    assert claim("a", CHAT, "m1")
    assert claim("b", CHAT, "m2")
    fork(model, message="m1")

    assert [claim(id, FORK) for id in "abc"] == [False, True, True]
    assert processed_of(model.now.values, 0) == {"seen": ["a", "b"]}
    show(model, chat=FORK)
    assert processed_of(model.now.values, 1) == {"seen": ["b", "c"]}
