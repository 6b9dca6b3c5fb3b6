"""The SillyTavern of the tests: it boots, ends and boots again, and a player can use it."""

from __future__ import annotations

from typing import Any

import psutil

from tests.conftest import PATIENCE_SECONDS
from tests.sillytavern.conftest import OpenTab, StartTavern
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.model import Model
from tests.support.browser import Tab


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


def test_one_that_was_killed_boots_again_where_it_was(start_tavern: StartTavern) -> None:
    tavern = start_tavern(installed=False)
    url = tavern.url
    tavern.create_character("Ada")

    tavern.kill()
    tavern.boot()

    assert tavern.url == url
    with tavern.session() as session:
        found = session.post("/api/characters/all", json={}).json()
    assert "Ada" in [one["name"] for one in found]
    assert tavern.stop() == 0


def test_one_whose_tests_have_gone_ends(start_tavern: StartTavern) -> None:
    tavern = start_tavern()
    assert tavern.process is not None
    assert tavern.process.stdin is not None
    children = psutil.Process(tavern.process.pid).children(recursive=True)

    # As the system does it when this process is killed.
    tavern.process.stdin.close()

    assert tavern.process.wait(PATIENCE_SECONDS) == 0
    assert children
    assert psutil.wait_procs(children, PATIENCE_SECONDS)[1] == []


def test_two_people_have_accounts(
    shared_house: SillyTavern, open_tab: OpenTab, model: Model
) -> None:
    with shared_house.session("ada", "ada") as ada, shared_house.session("bob", "bob") as bob:
        people = [one.get("/api/users/me").json() for one in (ada, bob)]
        tab = open_tab(shared_house, session=ada)

    assert [(one["handle"], one["admin"]) for one in people] == [("ada", False), ("bob", False)]
    assert tab.evaluate("async () => (await fetch('/api/users/me')).json()") == people[0]
    assert tab.errors == []


def test_somebody_without_a_session_is_refused(shared_house: SillyTavern) -> None:
    with shared_house.session() as session:
        assert session.get("/api/users/me").status_code == 403
