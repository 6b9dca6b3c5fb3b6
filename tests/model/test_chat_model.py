"""
The chat model alone, and the server compared with it.

The first are the examples of the specification, whose right answers are known. The tests make
a short run of the second; with VALUETRACKER_SOAK=1 it is long.
"""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.conftest import RunningServer
from tests.model.chat_folding import FoldingComparison
from tests.model.chat_log import (
    Conflict,
    Missing,
    Row,
    Step,
    data_of,
    processed_of,
    series_of,
)
from tests.model.chat_model import ChatModel
from tests.model.values_model import leave_values_out
from valuetracker.store.tx import log_writer

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
# Fewer on PostgreSQL: the engines differ in how they read and write rows, not in the verbs.
EXAMPLES = {"sqlite": 1_000 if SOAK else 40, "postgresql": 1_000 if SOAK else 12}
SETTINGS = settings(
    stateful_step_count=100 if SOAK else 40,
    derandomize=not SOAK,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
EXTENSIONS = itertools.count()
CHAT = "tale"


def test_the_server_agrees_with_the_chat_model(
    shared_server: RunningServer, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Stories are short here, so keyframes must be frequent to be tested.
    monkeypatch.setattr(log_writer, "FRAME_CHANGES", 3)
    leave_values_out(monkeypatch)

    class Here(FoldingComparison):
        def __init__(self) -> None:
            name = f"chat-model-{next(EXTENSIONS)}"
            shared_server.register(name)
            super().__init__(shared_server.client(name))

    examples = settings(SETTINGS, max_examples=EXAMPLES[engine_name])
    run_state_machine_as_test(Here, settings=examples)


@pytest.fixture
def model() -> ChatModel:
    return ChatModel()


def write(model: ChatModel, op: str, key: str, operand: Any = None, place: str = "") -> Any:
    """Do one step on the chat's own data; a place is `message` or `message/swipe`."""
    return model.write(step(op, key, operand, place))[0]


def step(op: str, key: str, operand: Any = None, place: str = "") -> Step:
    message, _, swipe = place.partition("/")
    return Step(op, key, operand, CHAT, None, (message, swipe or "0") if message else None)


def show(model: ChatModel, *places: str) -> Any:
    """Reconcile with these places."""
    pairs = (place.partition("/") for place in places)
    return model.reconcile(CHAT, {message: swipe or "0" for message, _, swipe in pairs})


def values(model: ChatModel) -> dict[str, Any]:
    return data_of(model.now.values, model.now.names[CHAT])


def as_of(model: ChatModel, message: str) -> dict[str, Any]:
    return data_of(model.as_of(CHAT, message)[1], model.now.names[CHAT])


# Values follow the story


def test_a_swipe_brings_its_own_value(model: ChatModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1/0")
    show(model)
    assert values(model) == {"hp": 50}

    write(model, "set", "hp", 47, "m1/1")
    assert values(model) == {"hp": 47}

    report = show(model, "m1/0")
    assert values(model) == {"hp": 45}
    assert (report.dormant, report.revived) == (1, 1)
    assert report.changed == [(Row("data", 0, "hp"), 47, 45)]


def test_operators_are_replayed_as_operators(model: ChatModel) -> None:
    write(model, "set", "gold", 100)
    write(model, "increment", "gold", -30, "m1")
    write(model, "increment", "gold", 10)

    show(model)
    assert values(model) == {"gold": 110}

    show(model, "m1")
    assert values(model) == {"gold": 80}


def test_deleting_messages_brings_back_the_state_before_them(model: ChatModel) -> None:
    for number in (1, 2, 3, 4):
        write(model, "set", "hp", number, f"m{number}")
        place = (f"m{number}", "0")
        model.add_version(Step("set", "recap", number, CHAT, None, place, "series"))
        model.write(Step("claim", f"seen/{number}", None, CHAT, None, place, "processed"))
    write(model, "set", "mood", "a person's")

    show(model, "m1")

    assert values(model) == {"hp": 1, "mood": "a person's"}
    assert series_of(model.now.values, 0) == {"recap": (1, {1: 1})}
    assert processed_of(model.now.values, 0) == {"seen": ["1"]}
    added = Step("set", "recap", 5, CHAT, None, ("m5", "0"), "series")
    assert model.add_version(added) == 5


def test_a_write_to_a_hidden_place_is_dormant(model: ChatModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1/0")
    write(model, "set", "hp", 47, "m1/1")

    assert write(model, "increment", "hp", 1, "m1/0") == {"value": 47}
    assert model.dormant
    assert write(model, "append", "hp", "not a list", "m1/0") == {"value": 47}
    assert model.past[-2].values == model.now.values

    report = show(model, "m1/0")
    assert values(model) == {"hp": 46}
    assert [change.op for change in report.conflicts] == ["append"]


def test_a_conflict_undoes_the_request_and_its_places(model: ChatModel) -> None:
    write(model, "set", "hp", "much", "m1")

    with pytest.raises(Conflict):
        model.write(step("set", "mp", 1, "m2"), step("increment", "hp", 1, "m2"))

    assert (values(model), model.revision) == ({"hp": "much"}, 1)
    assert model.now.chains[0] == {"m1": "0"}


def test_a_new_swipe_of_a_hidden_message_shows_it_again_at_the_end(model: ChatModel) -> None:
    write(model, "set", "a", 1, "m1")
    write(model, "set", "b", 2, "m2")
    show(model, "m2")
    write(model, "set", "c", 3, "m1/1")

    assert list(model.now.chains[0].items()) == [("m2", "0"), ("m1", "1")]
    assert model.now.stories[0] == ["m2", "m1"]
    assert values(model) == {"b": 2, "c": 3}


def test_only_a_chain_that_differs_takes_a_revision(model: ChatModel) -> None:
    write(model, "set", "a", 1, "m1")
    show(model, "m1", "m2")
    assert model.revision == 2

    model.reconcile(CHAT, {"m1": "0", "m2": "0"}, {"m1": "hash"})
    model.reconcile(CHAT, {}, dry_run=True)
    assert (model.revision, values(model)) == (2, {"a": 1})

    show(model, "m2", "m1")
    assert model.revision == 3
    with pytest.raises(Missing):
        model.reconcile("unknown", {})


def test_an_edited_message_is_stale_until_something_new_is_anchored_there(
    model: ChatModel,
) -> None:
    write(model, "set", "a", 1, "m1")

    def stale(text: str) -> list[str]:
        return model.reconcile(CHAT, {"m1": "0"}, {"m1": text}).stale

    assert [stale(text) for text in ("h1", "h1", "h2", "h2", "h1")] == [[], [], ["m1"], ["m1"], []]
    write(model, "set", "b", 1, "m1")
    assert [stale(text) for text in ("h2", "h1")] == [[], ["m1"]]
    assert values(model) == {"a": 1, "b": 1}


# Restoring


def test_a_restored_value_still_follows_the_story(model: ChatModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1")
    write(model, "set", "hp", 40, "m2")
    assert model.restore_chat(CHAT, 2) == (1, 0)
    assert values(model) == {"hp": 45}

    show(model, "m1", "m2")
    assert values(model) == {"hp": 45}
    show(model, "m2")
    assert values(model) == {"hp": 50}


def test_a_restore_to_now_still_follows_the_story(model: ChatModel) -> None:
    write(model, "set", "gold", 100)
    write(model, "increment", "gold", -30, "m1")
    write(model, "increment", "gold", 10)
    assert model.restore_chat(CHAT, model.revision) == (0, 0)
    assert not model.touched

    show(model)
    assert values(model) == {"gold": 110}


def test_a_change_hidden_when_it_is_restored_counts_as_unanchored(model: ChatModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1")
    show(model)
    model.restore_chat(CHAT, 2)
    assert values(model) == {"hp": 45}

    show(model, "m1")
    show(model)
    assert values(model) == {"hp": 45}


def test_a_restore_brings_instances_back_and_removes_later_ones(model: ChatModel) -> None:
    model.put_instance("old", chat=CHAT)
    model.write(Step("set", "a", 1, None, "old", ("m1", "0")))
    before = model.revision
    model.delete_instance("old")
    model.put_instance("new", chat=CHAT)
    model.write(Step("set", "b", 2, None, "new"))

    assert model.restore_chat(CHAT, before) == (2, 0)
    assert model.now.instances == {"old": 0}
    assert data_of(model.now.values, "old") == {"a": 1}
    show(model)
    assert data_of(model.now.values, "old") == {}


# Removing


def test_a_swipe_back_does_not_revive_a_key_removed_meanwhile(model: ChatModel) -> None:
    model.put_instance("sword", chat=CHAT)
    model.write(Step("set", "edge", "keen", None, "sword", ("m1", "0")))
    show(model)
    model.delete_instance("sword")
    model.put_instance("sword", chat=CHAT)

    show(model, "m1")

    assert data_of(model.now.values, "sword") == {}


def test_removing_a_key_that_never_existed_touches_nothing(model: ChatModel) -> None:
    assert write(model, "remove", "a", place="m1") == {"removed": False}
    assert (model.revision, model.now.names) == (0, {})


def test_keys_are_in_the_order_of_their_last_creation(model: ChatModel) -> None:
    model.write(step("set", "a", 1), step("set", "b", 2), step("remove", "a"), step("set", "a", 3))
    assert list(values(model)) == ["b", "a"]

    write(model, "override", "", {"c": 4, "b": 5})
    assert list(values(model).items()) == [("b", 5), ("c", 4)]


# Binding


def test_an_instance_that_leaves_a_chat_keeps_live_changes_and_drops_dormant_ones(
    model: ChatModel,
) -> None:
    model.put_instance("sword", chat=CHAT)
    model.write(Step("set", "a", 1, None, "sword", ("m1", "0")))
    model.write(Step("set", "b", 2, None, "sword", ("m2", "0")))
    show(model, "m1")
    model.put_instance("sword", chat=None)

    report = show(model, "m2")

    assert (report.dormant, report.revived) == (0, 0)
    assert data_of(model.now.values, "sword") == {"a": 1}


def test_an_anchor_without_a_chat_never_flips(model: ChatModel) -> None:
    model.put_instance("sword")
    model.write(Step("set", "a", 1, None, "sword", ("m1", "0")))
    model.write(Step("set", "b", 1, CHAT, "sword", ("m1", "0")))

    show(model)

    assert data_of(model.now.values, "sword") == {"a": 1}


def test_a_renamed_chat_is_found_by_both_ids(model: ChatModel) -> None:
    write(model, "set", "a", 1, "m1")
    assert model.rename(CHAT, "saga")
    assert model.rename("saga", "saga")
    assert model.revision == 2

    show(model)
    assert values(model) == data_of(model.now.values, model.now.names["saga"]) == {}
    model.write(Step("set", "x", 1, "other"))
    assert not model.rename("other", CHAT)


# As of a message


def test_the_state_as_of_a_message(model: ChatModel) -> None:
    write(model, "set", "hp", 50)
    write(model, "set", "hp", 45, "m1")
    write(model, "set", "mood", "after m1")
    write(model, "set", "hp", 40, "m2")
    write(model, "set", "mood", "after m2")

    assert as_of(model, "m1") == {"hp": 45, "mood": "after m1"}
    assert as_of(model, "m2") == {"hp": 40, "mood": "after m2"}
    show(model, "m2")
    with pytest.raises(Missing):
        as_of(model, "m1")


def test_a_message_shown_again_does_not_limit_what_came_before_it(model: ChatModel) -> None:
    write(model, "set", "a", 1, "m1")
    write(model, "set", "b", 2, "m2")
    show(model, "m2")
    write(model, "set", "mood", "after m2")
    write(model, "set", "a", 3, "m1/1")

    assert list(model.now.chains[0]) == ["m2", "m1"]
    assert as_of(model, "m2") == {"b": 2, "mood": "after m2"}


# Series


def test_the_current_version_is_the_last_one_set_if_it_is_live(model: ChatModel) -> None:
    for number in (1, 2, 3):
        place = (f"m{number}", "0")
        model.add_version(Step("set", "recap", number, CHAT, None, place, "series"))
    model.write(Step("set", "recap/current", 1, CHAT, None, None, "series"))
    assert series_of(model.now.values, 0)["recap"][0] == 1

    show(model, "m2", "m3")
    assert series_of(model.now.values, 0) == {"recap": (3, {2: 2, 3: 3})}
    show(model)
    assert series_of(model.now.values, 0) == {}
