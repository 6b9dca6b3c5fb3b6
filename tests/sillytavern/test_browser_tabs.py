"""Two tabs with one chat: conflicts, and a tab that is behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Route, expect

from tests.conftest import wait_for_equal
from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel
from tests.support.browser import Tab

TOOL = "SetValue"
SERVER = "**/api/plugins/valuetracker/**"
FEED = "**/api/plugins/valuetracker/events?*"


@contextmanager
def slow_feed(tab: Tab) -> Iterator[None]:
    """Hold back the changes of others; the tab gets them when the block ends."""
    waiting: list[Route] = []
    tab.page.route(FEED, lambda route: waiting.append(route))
    try:
        yield
    finally:
        for route in waiting:
            route.continue_()
        tab.page.unroute(FEED)


@contextmanager
def out_of_reach(tab: Tab) -> Iterator[None]:
    """Let the server not answer the tab inside the block."""
    tab.page.route(SERVER, lambda route: route.abort())
    try:
        yield
    finally:
        tab.page.unroute(SERVER)


def notices(panel: Panel, kind: str) -> list[str]:
    """Return the texts of the notices, without their buttons."""
    return panel.element.locator(f".vt-notice-{kind} > span").all_inner_texts()


def tells(panel: Panel, kind: str, *texts: str) -> None:
    """Wait until these notices are shown and no others."""
    wait_for_equal(lambda: notices(panel, kind), list(texts))


def reply(panel: Panel, model: Model, text: str, *, hp: int) -> None:
    model.call(TOOL, key="hp", value=hp)
    model.say(text)
    panel.tab.send("Go on.")
    panel.tab.wait_until(
        "(text) => SillyTavern.getContext().chat.at(-1).mes === text && rig.resting()", text
    )


@pytest.fixture
def panel(shared_panel: Panel) -> Panel:
    """These tests change nothing in the page but their chats."""
    return shared_panel


@pytest.fixture
def second(panel: Panel, shared_second: Panel) -> Panel:
    """Another tab, to open the same chat; hit points are 50, and there is some gold."""
    panel.add("hp", "50")
    panel.add("gold", "7")
    panel.tab.save()
    return shared_second


def test_a_value_that_two_tabs_change_at_once_can_be_chosen(panel: Panel, second: Panel) -> None:
    with slow_feed(second.tab):
        second.tab.open_character(panel.character)
        second.shows("gold", "7")
        panel.edit("hp", "49")
        panel.edit("gold", "8")
        panel.keeps({"hp": 49, "gold": 8})
        second.edit("hp", "48")
        second.edit("gold", "9")
        panel.keeps({"hp": 48, "gold": 9})
        assert notices(second, "conflict") == []

    # Who was later is told, of each value, what the other has made of it and what it is.
    tells(
        second,
        "conflict",
        "“hp” was also changed elsewhere, to 49. It is 48 now.",
        "“gold” was also changed elsewhere, to 8. It is 9 now.",
    )
    second.screenshot("conflicts")
    second.shows("hp", "48")
    panel.shows("hp", "48")
    panel.shows("gold", "9")

    second.element.get_by_text("Use 49").click()
    second.shows("hp", "49")
    panel.shows("hp", "49")
    second.element.locator(".vt-notice-conflict").get_by_text("Close").click()
    second.element.locator(".vt-notice-conflict").wait_for(state="detached")
    panel.keeps({"hp": 49, "gold": 9})
    # A person has chosen: no swipe takes it back.
    assert [one["anchor"] for one in panel.history("hp")] == [None] * 4
    assert notices(panel, "conflict") == []
    assert panel.tab.errors == second.tab.errors == []


def test_who_edits_a_value_sees_that_it_is_changed_elsewhere_meanwhile(
    panel: Panel, second: Panel
) -> None:
    second.tab.open_character(panel.character)
    second.shows("hp", "50")
    second.row("hp").locator(".vt-cell").click()
    second.row("hp").locator("input").fill("48")

    panel.edit("hp", "49")

    second.row("hp").get_by_text("The value was changed elsewhere and is 49 now.").wait_for()
    expect(second.row("hp").locator("input")).to_have_value("48")
    second.row("hp").locator(".vt-primary").click()
    second.shows("hp", "48")
    panel.shows("hp", "48")
    assert panel.tab.errors == second.tab.errors == []


def test_who_was_away_is_told_what_others_have_changed_meanwhile(panel: Panel) -> None:
    panel.add("hp", "50")
    panel.add("gold", "7")
    chat = panel.tab.context_value("chatMetadata")["integrity"]
    panel.keeps({"hp": 50, "gold": 7})

    with out_of_reach(panel.tab):
        panel.edit("gold", "8")
        panel.status("away")
        panel.edit("hp", "11")
        panel.shows("hp", "11")
        with panel.tavern.client(EXTENSION) as client:
            client.put(f"/chats/{chat}/data", json={"key": "hp", "value": 12})

    panel.status("online")
    tells(panel, "conflict", "“hp” was changed elsewhere and is 12 now. Here it was 11.")
    panel.shows("hp", "12")
    panel.screenshot("conflict")
    panel.element.get_by_text("Use 11").click()
    panel.shows("hp", "11")
    panel.keeps({"hp": 11, "gold": 8})
    assert (panel.history("hp")[-1]["actor"], panel.history("hp")[-1]["anchor"]) == ("user", None)


def test_values_that_cannot_be_read_are_not_said_to_be_none(panel: Panel) -> None:
    panel.add("hp", "50")
    panel.tab.save()
    with out_of_reach(panel.tab):
        panel.tab.open()
        panel.tab.open_character(panel.character)
        panel.status("away")
        panel.element.get_by_text("its values for this chat cannot be shown").wait_for()
        assert not panel.element.get_by_text("No values yet.").is_visible()
        away = panel.element.locator(".vt-notice-away")
        expect(away.first).to_contain_text("Until then, swiping")
        panel.screenshot("away")

    panel.shows("hp", "50")
    panel.element.get_by_text("its values for this chat cannot be shown").wait_for(state="hidden")


def test_a_tab_that_has_fallen_behind_takes_nothing_back_and_is_told(
    panel: Panel, second: Panel, model: Model
) -> None:
    second.tab.open_character(panel.character)
    second.shows("hp", "50")
    reply(panel, model, "You bleed.", hp=45)
    panel.shows("hp", "45")

    # At once, and before the player has done anything there.
    second.shows("hp", "45")
    stale = second.element.locator(".vt-notice-stale")
    tells(
        second,
        "stale",
        "This chat continued in another tab. The values shown are those of the other tab.",
    )
    second.screenshot("stale")
    stale.get_by_text("Reload").click()
    stale.wait_for(state="detached")
    second.tab.wait_until("() => SillyTavern.getContext().chat.at(-1).mes === 'You bleed.'")
    second.shows("hp", "45")

    # Who writes there all the same.
    reply(panel, model, "You fall.", hp=10)
    stale.wait_for()
    second.tab.send("Hm.")
    second.tab.swipe_right()
    panel.keeps({"hp": 10, "gold": 7})
    panel.shows("hp", "10")
    assert notices(panel, "stale") == []

    # And means it.
    stale.get_by_text("Continue here").click()
    stale.wait_for(state="detached")
    second.shows("hp", "45")
    panel.shows("hp", "45")
    panel.element.locator(".vt-notice-stale").wait_for()
    second.tab.send("Then so be it.")
    assert notices(second, "stale") == []
    # A chain of a moment ago is refused and told anew; the browser itself writes that in red.
    told = [error for error in second.tab.errors if "412 (Precondition Failed)" not in error]
    assert panel.tab.errors == told == []
