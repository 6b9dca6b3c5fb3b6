"""The model's calls belong to the visible story: in the chat, and in every prompt that it gets."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.conftest import wait_for, wait_for_equal
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.model import Model, text_of
from tests.sillytavern.panel import Panel

TOOL = "SetValue"
NUMBERS = itertools.count(1)
STREAMING = pytest.mark.parametrize("streaming", [True, False], ids=["word by word", "at once"])


@pytest.fixture
def panel(shared_panel: Panel) -> Panel:
    """These tests change nothing in the page but their chats."""
    return shared_panel


def calls_in(request: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the parameters and the result of each call in a prompt."""
    results = {
        one["tool_call_id"]: text_of(one) for one in request["messages"] if one["role"] == "tool"
    }
    return [
        (call["function"]["arguments"], results[call["id"]])
        for message in request["messages"]
        for call in message.get("tool_calls", [])
    ]


def told(model: Model, request: int = -1) -> list[str]:
    """Return the results of the calls in a prompt."""
    return [result for _, result in calls_in(model.requests[request])]


def values_told(model: Model, request: int = -1) -> str:
    """Return the current values in a prompt."""
    texts = map(text_of, model.requests[request]["messages"])
    return next((text for text in texts if text.startswith("[Current values]")), "")


def badge(panel: Panel, index: int) -> list[str]:
    """Return the changes that a message names."""
    return panel.tab.message(index).locator(".vt-badge span").all_inner_texts()


def shows_badge(panel: Panel, *changes: str) -> None:
    """Wait until the last message names these changes, and no others."""
    panel.tab.wait_until(
        """(changes) => JSON.stringify(changes) === JSON.stringify([...document.querySelectorAll(
            '#chat > .mes:last-of-type .vt-badge span')].map((one) => one.textContent))""",
        list(changes),
    )


def new_swipe(panel: Panel, text: str) -> None:
    panel.tab.swipe_right()
    panel.tab.wait_until(
        "(text) => SillyTavern.getContext().chat.at(-1).mes === text && rig.resting()", text
    )


@STREAMING
def test_after_a_swipe_the_prompt_has_the_calls_of_the_visible_swipe(
    panel: Panel, model: Model, streaming: bool
) -> None:
    tab = panel.tab
    tab.stream(streaming)
    model.call_many(
        (TOOL, {"key": "hp", "value": 42}),
        (TOOL, {"key": "gold", "value": 12}),
        (TOOL, {"key": "mood", "value": "wary"}),
    )
    model.say("Reply A.")
    tab.send("I strike.")
    panel.shows("hp", "42")
    assert told(model) == ["hp is now 42.", "gold is now 12.", "mood is now wary."]
    assert tab.texts[1:] == ["I strike.", "Reply A."]
    shows_badge(panel, "hp = 42", "gold = 12", "mood = wary")
    panel.screenshot("first")

    model.call(TOOL, key="hp", value=30)
    model.say("Reply B.")
    before = len(model.requests)
    new_swipe(panel, "Reply B.")
    assert told(model, before) == []
    assert values_told(model, before) == ""
    assert told(model, before + 1) == ["hp is now 30."]
    assert values_told(model, before + 1) == "[Current values]\nhp: 30"
    assert [len(one["swipes"]) for one in tab.chat] == [1, 1, 2]
    shows_badge(panel, "hp = 30")
    panel.screenshot("swiped")

    tab.send("And now?")
    assert told(model) == ["hp is now 30."]
    assert values_told(model) == "[Current values]\nhp: 30"
    assert [one["role"] for one in model.requests[-1]["messages"]][-6:] == [
        *("user", "assistant", "tool", "assistant", "user", "system"),
    ]

    # Back to the first swipe, after a reload.
    tab.delete_last(2)
    tab.save()
    tab.open()
    tab.open_character(panel.character)
    shows_badge(panel, "hp = 30")
    tab.swipe_left()
    panel.shows("hp", "42")
    shows_badge(panel, "hp = 42", "gold = 12", "mood = wary")
    tab.send("And now?")
    assert told(model) == ["hp is now 42.", "gold is now 12.", "mood is now wary."]
    assert values_told(model) == "[Current values]\nhp: 42\ngold: 12\nmood: wary"
    wait_for_equal(lambda: badge(panel, 2), ["hp = 42", "gold = 12", "mood = wary"])
    assert tab.errors == []


@STREAMING
def test_a_reply_and_a_swipe_may_call_several_times_before_their_text(
    panel: Panel, model: Model, streaming: bool
) -> None:
    tab = panel.tab
    tab.stream(streaming)
    tab.slash("/vt-set hp 50")
    for text in ("Reply A.", "Reply B."):
        model.call(TOOL, key="hp", by=-5)
        model.call(TOOL, key="gold", value=7)
        model.say(text)
    tab.send("I strike.")
    assert told(model) == ["hp is now 45.", "gold is now 7."]
    assert values_told(model) == "[Current values]\nhp: 45\ngold: 7"
    shows_badge(panel, "hp -5", "gold = 7")

    new_swipe(panel, "Reply B.")
    assert told(model) == ["hp is now 45.", "gold is now 7."]
    assert values_told(model) == "[Current values]\nhp: 45\ngold: 7"
    shows_badge(panel, "hp -5", "gold = 7")
    assert [len(one["swipes"]) for one in tab.chat] == [1, 1, 2]
    panel.keeps({"hp": 45, "gold": 7})

    tab.send("And now?")
    assert told(model) == ["-5 was added to hp.", "gold is now 7."]
    assert tab.errors == []


@STREAMING
def test_a_reply_that_only_calls_leaves_a_message_that_names_its_changes(
    panel: Panel, model: Model, streaming: bool
) -> None:
    tab = panel.tab
    tab.stream(streaming)
    for _ in range(2):
        model.call(TOOL, key="hp", value=42)
        model.say("")
    tab.send("I strike.")
    panel.shows("hp", "42")
    assert tab.texts[1:] == ["I strike.", ""]
    shows_badge(panel, "hp = 42")

    before = len(model.requests)
    tab.swipe_right()
    # The call, and then its text, which is empty.
    wait_for(lambda: len(model.requests) == before + 2)
    tab.settle()
    shows_badge(panel, "hp = 42")
    assert [len(one["swipes"]) for one in tab.chat] == [1, 1, 2]
    panel.screenshot("only calls")
    model.say("Reply.")
    tab.send("And now?")
    assert told(model) == ["hp is now 42."]
    panel.keeps({"hp": 42})
    assert tab.errors == []


@STREAMING
def test_calls_after_a_text_belong_to_that_text(
    panel: Panel, model: Model, streaming: bool
) -> None:
    tab = panel.tab
    tab.stream(streaming)
    model.call_many((TOOL, {"key": "hp", "value": 42}), text="You swing.")
    model.say("It hits.")
    tab.send("I strike.")
    assert tab.texts[1:] == ["I strike.", "You swing.", "It hits."]
    wait_for_equal(lambda: badge(panel, 2), ["hp = 42"])
    assert badge(panel, 3) == []
    roles = [one["role"] for one in model.requests[-1]["messages"]]
    assert roles[-5:] == ["user", "assistant", "assistant", "tool", "system"]

    # The swipe of the text after it changes nothing.
    new_swipe(panel, "Reply 1.")
    panel.shows("hp", "42")
    assert told(model) == ["hp is now 42."]
    # In a swipe a text beside the calls is the whole reply.
    tab.delete_last(1)
    model.call_many((TOOL, {"key": "hp", "value": 30}), text="You miss.")
    new_swipe(panel, "You miss.")
    shows_badge(panel, "hp = 30")
    panel.shows("hp", "30")
    assert tab.texts[1:] == ["I strike.", "You miss."]
    tab.send("And now?")
    assert told(model) == ["hp is now 30."]
    panel.keeps({"hp": 30})
    assert tab.errors == []


def test_prompts_agree_with_the_values_after_regenerate_edit_branch_and_delete(
    panel: Panel, model: Model
) -> None:
    tab = panel.tab
    tab.slash("/vt-set hp 50")
    for by, text in ((-5, "A cut."), (-3, "A scratch.")):
        model.call(TOOL, key="hp", by=by)
        model.say(text)
        tab.send("I strike.")
    panel.shows("hp", "42")
    origin = tab.chat_id

    tab.edit(-1, "A small scratch.")
    model.call(TOOL, key="hp", by=-1)
    model.say("A bruise.")
    before = len(model.requests)
    tab.regenerate()
    assert told(model, before) == ["-5 was added to hp."]
    assert values_told(model, before) == "[Current values]\nhp: 45"
    assert told(model) == ["-5 was added to hp.", "hp is now 44."]
    shows_badge(panel, "hp -1")

    tab.branch(2)
    panel.shows("hp", "45")
    shows_badge(panel, "hp -5")
    tab.send("And here?")
    assert told(model) == ["-5 was added to hp."]
    assert values_told(model) == "[Current values]\nhp: 45"

    # The first reply is deleted: the second one is counted from the beginning.
    tab.open_chat(origin)
    panel.shows("hp", "44")
    tab.slash("/cut 1-2")
    panel.shows("hp", "49")
    tab.send("And now?")
    assert told(model) == ["-1 was added to hp."]
    assert values_told(model) == "[Current values]\nhp: 49"
    assert tab.errors == []


@STREAMING
def test_the_changes_of_a_reply_that_fails_are_taken_back_and_the_player_is_told(
    panel: Panel, model: Model, streaming: bool
) -> None:
    tab = panel.tab
    tab.stream(streaming)
    told_player = tab.page.locator(".toast-warning", has_text="taken back: hp -1")
    tab.slash("/vt-set hp 41")
    model.call(TOOL, key="hp", by=-1)
    model.fail()
    tab.send("I strike.")
    told_player.wait_for()
    panel.shows("hp", "41")
    assert tab.texts[1:] == ["I strike."]
    panel.keeps({"hp": 41})
    panel.screenshot("failed")
    tab.evaluate("() => toastr.remove()")

    # The same again, without a new message: nothing of the first attempt is in the prompt.
    model.call(TOOL, key="hp", by=-1)
    model.say("You bleed.")
    before = len(model.requests)
    tab.generation(lambda: tab.page.click("#send_but"))
    assert told(model, before) == []
    assert values_told(model, before) == "[Current values]\nhp: 41"
    panel.shows("hp", "40")
    assert tab.texts[1:] == ["I strike.", "You bleed."]
    assert told_player.count() == 0

    # A swipe that fails after its call goes back to the swipe before.
    model.call(TOOL, key="hp", by=-9)
    model.fail()
    tab.swipe_right()
    tab.page.locator(".toast-warning", has_text="taken back: hp -9").wait_for()
    panel.shows("hp", "40")
    tab.wait_until("() => SillyTavern.getContext().chat.at(-1).swipe_id === 0 && rig.resting()")
    shows_badge(panel, "hp -1")
    tab.send("And now?")
    assert told(model) == ["-1 was added to hp."]
    panel.keeps({"hp": 40})


def say_in_group(panel: Panel, text: str, last: str) -> None:
    """Send a message to a group and wait for the last reply of the round."""
    panel.tab.page.fill("#send_textarea", text)
    panel.tab.page.click("#send_but")
    panel.tab.wait_until(
        "(text) => SillyTavern.getContext().chat.at(-1).mes === text && rig.resting()", last
    )


@STREAMING
def test_in_a_group_each_speaker_keeps_its_own_calls(
    panel: Panel, parlour: SillyTavern, model: Model, streaming: bool
) -> None:
    tab = panel.tab
    tab.stream(streaming)
    number = next(NUMBERS)
    ann, ben, cid = names = [f"{name} C{number}" for name in ("Ann", "Ben", "Cid")]
    members = [parlour.create_character(name) for name in names]
    parlour.create_group(f"Circle {number}", *members, in_turn=True)
    tab.open_group(f"Circle {number}")
    model.call(TOOL, key="hp", value=45, character=ann)
    model.say("Ann is hit.")
    model.call(TOOL, key="hp", value=40, character=ben)
    model.say("Ben is hit.", "Cid looks on.")
    say_in_group(panel, "Go on.", "Cid looks on.")
    panel.stepped("The last round changed", f"{ann}.hpnone → 45", f"{ben}.hpnone → 40")
    assert told(model) == ["hp is now 45.", "hp is now 40."]
    wait_for_equal(
        lambda: [badge(panel, index) for index in (-3, -2, -1)],
        [[f"{ann}.hp = 45"], [f"{ben}.hp = 40"], []],
    )
    panel.screenshot("round")

    # All of the round are made anew, each once.
    length = len(tab.chat)
    model.say("Ann dodges.")
    model.call(TOOL, key="hp", value=39, character=ben)
    model.say("Ben is hit again.", "Cid still looks on.")
    before = len(model.requests)
    tab.slash("/regenerate")
    tab.wait_until(
        """() => SillyTavern.getContext().chat.at(-1).mes === 'Cid still looks on.'
            && rig.resting()"""
    )
    assert len(tab.chat) == length
    assert [one["name"] for one in tab.chat[-3:]] == [ann, ben, cid]
    assert told(model, before) == []
    assert values_told(model, before) == ""
    assert told(model) == ["hp is now 39."]
    panel.stepped("The last round changed", f"{ben}.hpnone → 39")

    # Ben's reply is the last one, and is swiped.
    tab.delete_last(1)
    model.call(TOOL, key="hp", value=60, character=ben)
    model.say("Ben ducks.")
    before = len(model.requests)
    new_swipe(panel, "Ben ducks.")
    assert told(model, before) == []
    assert told(model) == ["hp is now 60."]
    assert values_told(model) == f"[Current values]\n{ben}.hp: 60"
    assert tab.chat[-1]["name"] == ben
    shows_badge(panel, f"{ben}.hp = 60")
    model.fail()
    tab.page.fill("#send_textarea", "And now?")
    tab.generation(lambda: tab.page.click("#send_but"))
    assert told(model) == ["hp is now 60."]


def test_calls_of_other_functions_stay_in_the_message_about_calls(
    panel: Panel, model: Model
) -> None:
    tab = panel.tab
    tab.evaluate(
        """async () => SillyTavern.getContext().registerFunctionTool({
            name: 'Dice', displayName: 'Dice', description: 'Rolls a die.',
            parameters: { type: 'object', properties: {} }, action: async () => 'A six.',
        })"""
    )
    try:
        model.call_many((TOOL, {"key": "hp", "value": 42}), ("Dice", {}))
        model.say("You roll.")
        tab.send("I strike.")
        assert sorted(told(model)) == ["A six.", "hp is now 42."]
        _, _, line, reply = tab.chat
        assert "A six." in line["mes"]
        assert TOOL not in line["mes"]
        assert reply["mes"] == "You roll."
        shows_badge(panel, "hp = 42")
        tab.message(2).get_by_text("Tool calls: Dice").wait_for()
        panel.screenshot()
        new_swipe(panel, "Reply 1.")
        assert told(model) == ["A six."]
    finally:
        tab.evaluate("async () => SillyTavern.getContext().unregisterFunctionTool('Dice')")
    assert tab.errors == []


def test_the_history_of_a_deleted_reply_is_shown_as_undone(panel: Panel, model: Model) -> None:
    tab = panel.tab
    model.call(TOOL, key="hp", value=42)
    model.say("You bleed.")
    tab.send("I strike.")
    panel.edit("hp", "50")
    panel.row("hp").locator(".vt-key").click()
    items = panel.row("hp").locator(".vt-history li")
    items.filter(has_text="you").wait_for()
    items.filter(has_text="message 2").wait_for()

    # The value stays: the player has set it since.
    tab.delete_last(1)
    panel.row("hp").locator(".vt-history li.vt-dormant", has_text="undone").wait_for()
    panel.shows("hp", "50")
    panel.screenshot()
    assert tab.errors == []


def described(model: Model) -> str:
    """Return what the last prompt says about the names of values."""
    (tool,) = model.requests[-1]["tools"]
    return str(tool["function"]["parameters"]["properties"]["key"]["description"])


def test_a_value_keeps_its_type_whatever_the_model_sends(panel: Panel, model: Model) -> None:
    tab = panel.tab
    # The first "40" is a number: the next call adds to it.
    model.call(TOOL, key="hp", value="40")
    model.call(TOOL, key="hp", by=-5)
    model.say("You bleed.")
    tab.send("I strike.")
    assert 'for example "hp".' in described(model)
    assert "There are: hp (number): 35." in described(model)
    panel.keeps({"hp": 35})

    tab.slash("/vt-set mood wary")
    tab.slash(f'/vt-set "{panel.character}.bag" ["lamp"]')
    model.call_many(
        (TOOL, {"key": "hp", "value": "34"}),
        (TOOL, {"key": "hp", "value": "many"}),
        (TOOL, {"key": "mood", "value": 5}),
        (TOOL, {"key": "mood", "by": 1}),
        (TOOL, {"key": "bag", "value": "rope", "character": panel.character}),
    )
    model.say("You stagger.")
    before = len(model.requests)
    tab.send("I strike again.")
    assert told(model, before + 1)[2:] == [
        "hp is now 34.",
        "Nothing was set: hp is 34 and has the type number. "
        "Send a value of this type; only the player can change the type.",
        "Nothing was set: mood is wary and has the type text. "
        "Send a value of this type; only the player can change the type.",
        "Nothing was set: mood is wary and has the type text, so nothing can be added to it. "
        "Only the player can change the type.",
        'Nothing was set: bag is ["lamp"] and has the type list. '
        "Send a value of this type; only the player can change the type.",
    ]
    assert described(model).endswith(
        f'There are: hp (number): 34; mood (text): wary; bag of {panel.character} (list): ["lamp"].'
    )
    shows_badge(panel, "hp = 34")
    panel.keeps({"hp": 34, "mood": "wary"})

    # A player may, and is told.
    tab.slash("/vt-set mood 5")
    tab.page.locator(".toast-info", has_text="The kind of “mood” was Text and is Number").wait_for()
    model.call(TOOL, key="mood", by=1)
    tab.send("And now?")
    panel.shows("mood", "6")
    assert tab.errors == []
