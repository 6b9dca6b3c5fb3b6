"""Values follow the story: swipes, deletions, branches, in a real browser."""

from __future__ import annotations

import pytest

from tests.sillytavern.model import Model, text_of
from tests.sillytavern.panel import Panel

TOOL = "SetValue"


def hit(model: Model, text: str, *, hp: int) -> None:
    """Script a reply that sets the hit points and then has a text."""
    model.call(TOOL, key="hp", value=hp)
    model.say(text)


def swipe(panel: Panel, text: str) -> None:
    """Make a new swipe. If it starts with a call, its text comes after the call."""
    panel.tab.swipe_right()
    panel.tab.wait_until(
        "(text) => SillyTavern.getContext().chat.at(-1).mes === text && rig.resting()", text
    )


def seen_in(model: Model, request: int) -> str:
    """Return all text of a request to the model."""
    return "\n".join(map(text_of, model.requests[request]["messages"]))


@pytest.fixture
def panel(shared_panel: Panel) -> Panel:
    """These tests change nothing in the page but their chats."""
    return shared_panel


@pytest.fixture
def fight(panel: Panel, model: Model) -> Panel:
    """Hit points were 50; the reply to "I strike." has set them to 45."""
    panel.tab.slash("/vt-set hp 50")
    hit(model, "You bleed.", hp=45)
    panel.tab.send("I strike.")
    panel.shows("hp", "45")
    return panel


def test_a_call_of_the_model_sets_a_value_that_belongs_to_its_reply(
    fight: Panel, model: Model
) -> None:
    assert fight.tab.texts[-1] == "You bleed."
    assert TOOL in model.tools
    fight.stepped("The last reply changed", "hp50 → 45")
    fight.keeps({"hp": 45})
    by_hand, by_model = fight.history("hp")
    assert (by_hand["actor"], by_hand["anchor"]) == ("user", None)
    ids = fight.tab.evaluate(
        "() => SillyTavern.getContext().chat.map((one) => one.extra.valuetracker.messageId)"
    )
    assert (by_model["actor"], by_model["anchor"]["messageId"]) == ("extension", ids[-1])
    assert len(set(ids)) == len(ids)
    assert fight.tab.errors == []
    fight.screenshot()


def test_fields_that_the_model_leaves_empty_mean_nothing(panel: Panel, model: Model) -> None:
    for key, value in (("hp", 50), ("gold", 10), ("lamp", 1)):
        panel.tab.slash(f"/vt-set {key} {value}")
    model.call_many(
        (TOOL, {"key": "hp", "value": None, "by": -5, "character": None}),
        (TOOL, {"key": "gold", "value": "", "by": 5, "character": ""}),
        (TOOL, {"key": "silver", "by": None}),
        (TOOL, {"key": "hp", "by": "some"}),
        (TOOL, {"key": "gold", "value": "", "by": None}),
        (TOOL, {"key": "lamp", "value": None, "by": None, "character": None}),
        (TOOL, {"key": "x" * 2000, "value": 1}),
        (TOOL, {"key": "two\nlines", "value": 1}),
    )
    model.say("You bleed.")

    panel.tab.send("I strike.")

    told = [text_of(one) for one in model.requests[-1]["messages"] if one["role"] == "tool"]
    assert told == [
        "hp is now 45.",
        "gold is now 15.",
        'Nothing was set: "value" or "by" is missing.',
        'Nothing was set: "by" is not a number.',
        'Nothing was set: "value" is empty, and gold is a number.',
        "lamp is removed.",
        *['Nothing was set: "key" is too long, or not on one line.'] * 2,
    ]
    panel.stepped("The last reply changed", "gold10 → 15", "hp50 → 45", "lamp1 → none")
    panel.keeps({"hp": 45, "gold": 15})
    assert panel.tab.errors == []


def test_the_last_step_tells_what_was_done_and_nothing_else(fight: Panel, model: Model) -> None:
    tab = fight.tab
    hit(model, "A scratch.", hp=48)
    swipe(fight, "A scratch.")
    fight.stepped("The last swipe changed", "hp45 → 48")

    tab.delete_swipe()
    fight.shows("hp", "45")
    fight.stepped("The last deletion changed", "hp48 → 45")

    # Made anew, it does the same.
    hit(model, "You bleed again.", hp=45)
    tab.regenerate()
    fight.stepped("The new reply changed", "hp50 → 45")
    tab.regenerate()
    # Nothing that the reply before did is a change of this one.
    fight.shows("hp", "50")
    fight.stepped("The new reply changed")

    # What the server refuses was not done.
    tab.slash("/vt-inc follow=true hp 9")
    fight.stepped("The new reply changed", "hp50 → 59")
    tab.slash("/vt-set mood calm")
    tab.slash("/vt-inc follow=true mood")
    tab.page.locator(".toast-warning").first.wait_for()
    fight.shows("mood", "calm")
    fight.stepped("The new reply changed", "hp50 → 59")


@pytest.mark.parametrize("streaming", [True, False], ids=["word by word", "at once"])
def test_a_new_swipe_begins_with_the_old_value_and_swiping_back_brings_the_other(
    fight: Panel, model: Model, streaming: bool
) -> None:
    fight.tab.stream(streaming)
    hit(model, "A scratch.", hp=48)
    before = len(model.requests)
    swipe(fight, "A scratch.")

    # One message with two swipes: what was called for the first is not told for the second.
    assert [len(one["swipes"]) for one in fight.tab.chat] == [1, 1, 2]
    assert "hp is now 45" not in seen_in(model, before) + seen_in(model, before + 1)
    assert "hp: 50" in seen_in(model, before)
    assert "hp: 45" not in seen_in(model, before)
    fight.shows("hp", "48")
    fight.stepped("The last swipe changed", "hp45 → 48")
    fight.screenshot("new swipe")
    fight.tab.open()
    fight.tab.open_character(fight.character)
    fight.stepped("The last reply changed", "hp50 → 48")

    fight.tab.swipe_left()
    fight.shows("hp", "45")
    fight.stepped("The last swipe changed", "hp48 → 45")

    fight.tab.swipe_right()
    fight.shows("hp", "48")
    fight.keeps({"hp": 48})
    assert fight.tab.errors == []


def test_what_deleted_messages_did_is_undone_and_an_edit_undoes_nothing(
    fight: Panel, model: Model
) -> None:
    length = len(fight.tab.chat)
    hit(model, "You fall.", hp=10)
    fight.tab.send("I strike again.")
    fight.shows("hp", "10")
    fight.edit("hp", "11")
    fight.shows("hp", "11")
    fight.tab.slash("/vt-set follow=true wounds 2")
    fight.shows("wounds", "2")

    fight.tab.edit(-1, "You fall, hard.")
    fight.shows("wounds", "2")
    fight.keeps({"hp": 11, "wounds": 2})

    # The question and the reply.
    assert len(fight.tab.chat) - length == 2
    fight.tab.delete_last(2)

    fight.shows_not("wounds")
    # What a person has set stays.
    fight.keeps({"hp": 11})
    fight.screenshot("deleted")
    assert fight.tab.errors == []


def test_a_reply_made_anew_five_times_counts_once(panel: Panel, model: Model) -> None:
    panel.tab.slash("/vt-set gold 100")
    for text in ("You pay.", "You pay again."):
        model.call(TOOL, key="gold", by=-30)
        model.say(text)
    panel.tab.send("I buy a lamp.")
    panel.shows("gold", "70")

    panel.tab.regenerate()
    for round in range(4):
        model.call(TOOL, key="gold", by=-30)
        model.say(f"You pay, for the {round + 2}. time.")
        panel.tab.regenerate()

    panel.shows("gold", "70")
    assert panel.tab.texts[-1] == "You pay, for the 5. time."
    # The greeting, the question and the reply.
    assert len(panel.tab.chat) == 3
    panel.keeps({"gold": 70})
    assert len([item for item in panel.history("gold") if item["live"]]) == 2
    panel.screenshot()
    assert panel.tab.errors == []


def test_a_branch_has_the_values_of_its_message_and_goes_its_own_way(
    fight: Panel, model: Model
) -> None:
    origin = fight.tab.chat_id
    reply = len(fight.tab.chat) - 1
    hit(model, "You fall.", hp=10)
    fight.tab.send("I strike again.")
    fight.shows("hp", "10")

    fight.tab.branch(reply)
    fight.shows("hp", "45")
    hit(model, "You dodge.", hp=50)
    swipe(fight, "You dodge.")
    fight.shows("hp", "50")
    fight.tab.swipe_left()
    fight.shows("hp", "45")
    fight.screenshot("branch")

    fight.tab.open_chat(origin)
    fight.shows("hp", "10")
    assert fight.tab.errors == []


def test_a_branch_from_a_checkpoint_has_its_values_whatever_was_swiped_since(
    fight: Panel, model: Model
) -> None:
    tab = fight.tab
    origin = tab.chat_id
    told = tab.page.locator(".toast-info", has_text="The values are those of “Wounded”.")

    def branch(text: str) -> None:
        fight.checkpoint("Wounded").locator(".vt-branch").click()
        tab.wait_until(
            """([origin, text]) => SillyTavern.getContext().getCurrentChatId() !== origin
                && SillyTavern.getContext().chat.at(-1)?.mes === text && rig.resting()""",
            [origin, text],
        )
        fight.shows("hp", "45")

    tab.slash("/vt-checkpoint Wounded")
    hit(model, "A scratch.", hp=48)
    swipe(fight, "A scratch.")
    fight.shows("hp", "48")

    # The swipe of then is still there, and shown.
    branch("You bleed.")
    fight.keeps({"hp": 45})
    assert told.count() == 0
    tab.open_chat(origin)
    fight.shows("hp", "48")

    # It is gone: the values are those of then, and the player is told that the text is not.
    tab.swipe_left()
    tab.delete_swipe()
    assert tab.texts[-1] == "A scratch."
    fight.shows("hp", "48")
    branch("A scratch.")
    told.wait_for()
    fight.keeps({"hp": 45})
    fight.screenshot("branch")
    hit(model, "You fall.", hp=10)
    tab.send("And now?")
    fight.shows("hp", "10")
    tab.swipe_right()
    fight.shows("hp", "45")
    tab.open_chat(origin)
    fight.shows("hp", "48")
    assert tab.errors == []


def test_a_chat_that_is_renamed_keeps_its_values(fight: Panel) -> None:
    fight.tab.rename_chat(f"The duel of {fight.character}")

    fight.shows("hp", "45")
    fight.edit("hp", "44")
    fight.shows("hp", "44")
    fight.tab.new_chat()
    fight.shows_not("hp")
    fight.tab.open_chat(f"The duel of {fight.character}")
    fight.shows("hp", "44")
    assert fight.tab.errors == []


COPY = """
async (name) => {
    const { characters, characterId, chatId, getRequestHeaders } = SillyTavern.getContext();
    const { name: ch_name, avatar: avatar_url } = characters[characterId];
    const headers = getRequestHeaders();
    const ask = (path, more) => fetch(path, {
        method: 'POST', headers, body: JSON.stringify({ ch_name, avatar_url, ...more }),
    });
    const chat = await (await ask('/api/chats/get', { file_name: chatId })).json();
    await ask('/api/chats/save', { file_name: name, chat, force: true });
}
"""


def test_a_copied_file_has_the_values_and_each_goes_on_alone(fight: Panel, model: Model) -> None:
    original = fight.tab.chat_id
    fight.tab.save()
    name = f"{original} imported"
    fight.tab.evaluate(COPY, name)

    fight.tab.open_chat(name)
    fight.shows("hp", "45")
    fight.tab.slash("/vt-set hp 7")
    fight.shows("hp", "7")
    fight.tab.open_chat(original)

    fight.shows("hp", "45")
    fight.keeps({"hp": 45})
    fight.tab.open_chat(name)
    fight.shows("hp", "7")
    assert fight.tab.errors == []
