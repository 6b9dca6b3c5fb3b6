"""The rig itself: a player talks, swipes and deletes in a SillyTavern that really runs."""

from __future__ import annotations

from typing import Any

from tests.sillytavern.browser import Tab
from tests.sillytavern.model import Model


def message(name: str, text: str, *swipes: str, is_user: bool = False) -> dict[str, Any]:
    swipes = swipes or (text,)
    return {
        "name": name,
        "is_user": is_user,
        "is_system": False,
        "mes": text,
        "swipe_id": swipes.index(text),
        "swipes": list(swipes),
    }


def test_a_player_sends_swipes_and_deletes(tab: Tab, character: str, model: Model) -> None:
    tab.open_character(character)
    greeting = message(character, "Hello.")
    question = message("User", "Who are you?", is_user=True)
    assert tab.chat == [greeting]

    model.say("I am calm.", "Nobody.")
    tab.send("Who are you?")
    assert tab.chat == [greeting, question, message(character, "I am calm.")]
    assert model.seen.endswith("Who are you?")

    tab.swipe_right()
    assert tab.chat[2] == message(character, "Nobody.", "I am calm.", "Nobody.")

    tab.swipe_left()
    assert tab.chat[2] == message(character, "I am calm.", "I am calm.", "Nobody.")

    tab.delete_last(2)
    assert tab.chat == [greeting]
    assert tab.errors == []
    assert tab.screenshot().exists()
