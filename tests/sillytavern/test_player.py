"""The actions of a player in a running SillyTavern, as the extension's tests use them."""

from __future__ import annotations

import pytest

from tests.sillytavern.conftest import OpenTab
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.model import Model
from tests.support.browser import Tab

# A function that the model may call: it adds what it is given to the title of the page.
TOOL = """
() => SillyTavern.getContext().registerFunctionTool({
    name: 'NoteDown',
    description: 'Notes something down.',
    parameters: { type: 'object', properties: { text: { type: 'string' } } },
    action: async ({ text }) => { document.title += `[${text}]`; return `noted ${text}`; },
})
"""


@pytest.fixture
def tab(shared_tab: Tab) -> Tab:
    """These tests change nothing in the page but their chats."""
    return shared_tab


@pytest.fixture
def talk(tab: Tab, character: str) -> Tab:
    """A page with a greeting, a question and "Reply 1."."""
    tab.open_character(character)
    tab.send("Who are you?")
    assert tab.texts == ["Hello.", "Who are you?", "Reply 1."]
    return tab


def test_a_message_is_edited(talk: Tab) -> None:
    talk.edit(-1, "I am tired.")

    assert talk.texts == ["Hello.", "Who are you?", "I am tired."]
    assert ["message_edited", 2] in talk.events
    assert talk.errors == []


def test_a_reply_is_made_anew_again_and_again(talk: Tab) -> None:
    for _ in range(3):
        talk.regenerate()

    assert talk.texts == ["Hello.", "Who are you?", "Reply 4."]
    assert talk.errors == []


def test_a_reply_goes_on(talk: Tab, model: Model) -> None:
    model.say("And on.")

    talk.continue_()

    assert talk.texts == ["Hello.", "Who are you?", "Reply 1. And on."]
    assert talk.errors == []


def test_a_swipe_is_deleted(talk: Tab) -> None:
    talk.swipe_right()
    talk.swipe_right()
    talk.swipe_left()
    assert talk.texts[-1] == "Reply 2."

    talk.delete_swipe()

    assert talk.chat[-1]["swipes"] == ["Reply 1.", "Reply 3."]
    assert talk.errors == []


def test_a_branch_starts_at_an_earlier_message(talk: Tab) -> None:
    talk.send("And else?")
    origin = talk.chat_id

    branch = talk.branch(2)

    assert talk.texts == ["Hello.", "Who are you?", "Reply 1."]
    assert branch != origin
    assert talk.context_value("chatMetadata")["main_chat"] == origin
    talk.swipe_right()
    assert talk.texts[-1] == "Reply 3."
    talk.open_chat(origin)
    assert talk.texts == ["Hello.", "Who are you?", "Reply 1.", "And else?", "Reply 2."]
    assert talk.errors == []


def test_a_chat_is_renamed_closed_and_another_begun(talk: Tab, character: str) -> None:
    assert talk.rename_chat("The long night") == "The long night"
    assert len(talk.texts) == 3

    talk.new_chat()
    assert talk.texts == ["Hello."]

    talk.open_chat("The long night")
    assert len(talk.texts) == 3

    talk.close_chat()
    talk.open_character(character)
    assert len(talk.texts) == 3
    assert talk.errors == []


def test_a_second_tab_shows_the_same_chat(
    talk: Tab, open_tab: OpenTab, tavern: SillyTavern, character: str
) -> None:
    other = open_tab(tavern, beside=talk)

    other.open_character(character)

    assert other.chat == talk.chat
    assert other.errors == []


@pytest.mark.parametrize("streaming", [True, False], ids=["word by word", "at once"])
def test_the_model_calls_a_function(
    tab: Tab, character: str, model: Model, streaming: bool
) -> None:
    tab.open_character(character)
    tab.stream(streaming)
    tab.evaluate(TOOL)
    model.call("NoteDown", text=f"rain on {character}")
    model.say("It rains.")

    tab.send("How is the weather?")

    assert f"[rain on {character}]" in tab.page.title()
    assert "NoteDown" in model.tools
    assert [request["stream"] for request in model.requests] == [streaming, streaming]
    assert f"noted rain on {character}" in model.seen
    assert tab.texts[-1] == "It rains."
    assert tab.errors == []


def test_a_group_speaks(tab: Tab, tavern: SillyTavern, character: str) -> None:
    members = [tavern.create_character(f"{character} {half}") for half in ("left", "right")]
    tavern.create_group(character, *members)

    tab.open_group(character)
    tab.send(f"{character} left, who are you?")

    assert tab.chat[-1]["name"].startswith(character)
    assert tab.chat[-1]["mes"].startswith("Reply ")
    assert tab.errors == []


def test_a_model_that_fails_leaves_the_page_at_rest(talk: Tab, model: Model) -> None:
    model.fail()

    talk.send("And else?")

    assert talk.texts == ["Hello.", "Who are you?", "Reply 1.", "And else?"]
