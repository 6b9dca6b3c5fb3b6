"""The panel in a group chat: the owner of each value, and a swipe undoes one member's change."""

from __future__ import annotations

import itertools

import pytest
from playwright.sync_api import expect

from tests.sillytavern.host import SillyTavern
from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel

TOOL = "SetValue"
NUMBERS = itertools.count(1)


@pytest.fixture
def panel(shared_panel: Panel) -> Panel:
    """These tests change nothing in the page but their chats."""
    return shared_panel


@pytest.fixture
def party(panel: Panel, parlour: SillyTavern) -> Panel:
    """The panel in a group chat of two, Ann and Ben with a number of their own."""
    number = next(NUMBERS)
    members = [parlour.create_character(f"{name} {number}") for name in ("Ann", "Ben")]
    parlour.create_group(f"Party {number}", *members, in_turn=True)
    panel.tab.open_group(f"Party {number}")
    return Panel(panel.tab, parlour, f"Party {number}")


def names_in(party: Panel) -> tuple[str, str]:
    number = party.character.split()[-1]
    return f"Ann {number}", f"Ben {number}"


def play(party: Panel, model: Model, **hit_points: int) -> None:
    """Send a message; both members reply in turn, and each sets its own hit points."""
    for name, hp in zip(names_in(party), hit_points.values(), strict=True):
        model.call(TOOL, key="hp", value=hp, character=name)
        model.say(f"{name} is hit.")
    party.tab.page.fill("#send_textarea", "Go on, both.")
    party.tab.page.click("#send_but")
    party.tab.wait_until(
        "(text) => SillyTavern.getContext().chat.at(-1).mes === text && rig.resting()",
        f"{names_in(party)[-1]} is hit.",
    )


def test_values_of_both_members_are_shown_and_a_swipe_takes_back_one_of_them(
    party: Panel, model: Model
) -> None:
    ann, ben = names_in(party)
    party.add("round", "1")
    party.add("hp", "50", whose=ann)
    party.add("hp", "60", whose=ben)
    party.tab.wait_until("() => document.querySelectorAll('.vt-own .vt-row').length === 3")
    party.shows_all({"Chat": {"round": "1"}, ann: {"hp": "50"}, ben: {"hp": "60"}})

    play(party, model, ann=45, ben=40)
    party.stepped("The last round changed", f"{ann}.hp50 → 45", f"{ben}.hp60 → 40")
    assert party.tab.chat[-1]["name"] == ben
    party.shows_all({"Chat": {"round": "1"}, ann: {"hp": "45"}, ben: {"hp": "40"}})
    party.screenshot("both")

    party.tab.swipe_right()
    party.stepped("The last swipe changed", f"{ben}.hp40 → 60")
    party.shows_all({"Chat": {"round": "1"}, ann: {"hp": "45"}, ben: {"hp": "60"}})
    party.screenshot("swiped")
    party.tab.swipe_left()
    party.stepped("The last swipe changed", f"{ben}.hp60 → 40")
    said = party.tab.evaluate(
        "(all) => all.map((one) => SillyTavern.getContext().substituteParams(one))",
        [f"{{{{vt::{name}.hp}}}}" for name in (ann, ben)],
    )
    assert said == ["45", "40"]
    assert party.tab.errors == []


def test_a_call_in_a_swipe_and_a_round_made_anew_count_once(party: Panel, model: Model) -> None:
    ann, ben = names_in(party)
    party.add("hp", "50", whose=ann)
    party.add("hp", "60", whose=ben)
    play(party, model, ann=45, ben=40)
    party.stepped("The last round changed", f"{ann}.hp50 → 45", f"{ben}.hp60 → 40")
    length = len(party.tab.chat)

    model.call(TOOL, key="hp", value=58, character=ben)
    model.say("Ben ducks.")
    party.tab.swipe_right()
    party.tab.wait_until(
        "() => SillyTavern.getContext().chat.at(-1).mes === 'Ben ducks.' && rig.resting()"
    )
    party.stepped("The last swipe changed", f"{ben}.hp40 → 58")
    assert party.tab.chat[-1]["name"] == ben
    assert len(party.tab.chat) == length

    for name, by in ((ann, -1), (ben, -2)):
        model.call(TOOL, key="hp", by=by, character=name)
        model.say(f"{name} is grazed.")
    party.tab.slash("/regenerate")
    party.tab.wait_until(
        "(text) => SillyTavern.getContext().chat.at(-1).mes === text && rig.resting()",
        f"{ben} is grazed.",
    )
    party.stepped("The last round changed", f"{ann}.hp50 → 49", f"{ben}.hp60 → 58")
    party.screenshot("anew")
    party.shows_all({ann: {"hp": "49"}, ben: {"hp": "58"}})
    assert len(party.tab.chat) == length
    assert [message["name"] for message in party.tab.chat][-3:] == ["User", ann, ben]
    assert party.tab.errors == []


def test_a_command_for_somebody_without_values_begins_theirs(party: Panel) -> None:
    ann, ben = names_in(party)
    assert party.tab.slash(f'/vt-set "{ben}.hp" 9') == "9"
    assert party.tab.slash(f'/vt-inc "{ann}.hp" 4') == "4"
    party.tab.wait_until("() => document.querySelectorAll('.vt-own .vt-row').length === 2")
    party.shows_all({ben: {"hp": "9"}, ann: {"hp": "4"}})
    assert party.tab.slash(f'/vt-get "{ben}.hp"') == "9"
    party.keeps({})

    # A value of the chat that is called like another: each macro means what stands beside it.
    chat = party.tab.context_value("chatMetadata")["integrity"]
    with party.tavern.client(EXTENSION) as client:
        client.put(f"/chats/{chat}/data", json={"key": f"{ben}.hp", "value": 1})
    party.shows(f"{ben}.hp", "1")
    for row in party.element.locator(".vt-own .vt-row").all():
        row.locator(".vt-key").click()
    codes = party.element.locator(".vt-macro code")
    expect(codes).to_have_count(3)
    macros = codes.all_inner_texts()
    said = party.tab.evaluate(
        "(all) => all.map((one) => SillyTavern.getContext().substituteParams(one))", macros
    )
    assert said == ["1", "9", "4"]
    assert party.tab.errors == []


def test_a_character_that_is_renamed_keeps_its_values(panel: Panel, model: Model) -> None:
    tab = panel.tab
    old, new = panel.character, f"{panel.character} the Wise"
    panel.add("hp", "30", whose=old)
    panel.shows("hp", "30")
    other = tab.chat_id
    tab.new_chat()
    panel.shows_not("hp")
    panel.add("hp", "20", whose=old)
    panel.shows("hp", "20")

    tab.slash(f"/rename-char silent=true chats=false {new}")
    tab.wait_until("(name) => SillyTavern.getContext().name2 === name && rig.resting()", new)
    tab.wait_until("(name) => document.querySelector('.vt-group-title')?.textContent === name", new)
    panel.shows_all({new: {"hp": "20"}})
    assert tab.slash(f'/vt-get "{new}.hp"') == "20"
    model.call(TOOL, key="hp", by=-5, character=new)
    model.say("Ouch.")
    tab.send("Take this.")
    panel.shows("hp", "15")
    panel.shows_all({new: {"hp": "15"}})
    panel.screenshot("renamed")

    tab.open_chat(other)
    panel.shows("hp", "30")
    panel.shows_all({new: {"hp": "30"}})
    assert tab.errors == []
