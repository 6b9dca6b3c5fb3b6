"""Whose a value is: characters, the player's own character, and others, by any of their names."""

from __future__ import annotations

import re

from tests.conftest import wait_for_equal
from tests.sillytavern.model import Model, text_of
from tests.sillytavern.panel import EXTENSION, Panel

TOOL = "SetValue"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


def holders(panel: Panel) -> list[str]:
    """Return the characters whose values the server has for the open chat."""
    chat = panel.tab.context_value("chatMetadata")["integrity"]
    with panel.tavern.client(EXTENSION) as client:
        found = client.get(f"/chats/{chat}/state").json()["instances"]
    return [one["instance"]["characterId"] for one in found]


def test_the_player_has_one_holder_whatever_it_is_called(shared_panel: Panel, model: Model) -> None:
    panel, tab = shared_panel, shared_panel.tab
    me = tab.context_value("name1")
    avatar = tab.evaluate("async () => (await import('/scripts/personas.js')).user_avatar")
    panel.element.locator(".vt-add").click()
    offered = panel.element.locator(".vt-adding select").first.locator("option")
    wait_for_equal(offered.all_inner_texts, ["Chat", panel.character, me])
    panel.element.locator(".vt-adding").get_by_text("Cancel").click()

    tab.slash(f"/vt-set {me}.hp 50")
    panel.add("gold", "7", whose=me)
    model.call_many(
        (TOOL, {"key": "hp", "by": -1, "character": "{{user}}"}),
        (TOOL, {"key": "HP", "by": -1, "character": "User"}),
        (TOOL, {"key": "gold", "by": 5, "character": me.upper()}),
        (TOOL, {"key": "mood", "value": "wary", "character": panel.character.upper()}),
    )
    model.say("You bleed.")
    tab.send("I strike.")
    panel.shows("mood", "wary")
    panel.shows_all(
        {
            me: {"hp": "48", "gold": "12"},
            panel.character: {"mood": "wary"},
        }
    )
    changes = [f"{me}.hp -1", f"{me}.HP -1", f"{me}.gold +5", f"{panel.character}.mood = wary"]
    tab.wait_until(
        """(changes) => JSON.stringify(changes) === JSON.stringify([...document.querySelectorAll(
            '#chat > .mes:last-of-type .vt-badge span')].map((one) => one.textContent))""",
        changes,
    )
    assert tab.slash("/vt-get user.HP") == "48"
    assert tab.slash(f'/vt-inc key="{panel.character.upper()}.luck" 3') == "3"
    assert tab.slash("/vt-inc persona.hp") == "49"
    assert (
        tab.evaluate("() => SillyTavern.getContext().substituteParams('{{vt::{{user}}.hp}}')")
        == "49"
    )
    expected = sorted([f"persona:{avatar}", f"{panel.character}.png"])
    wait_for_equal(lambda: sorted(holders(panel)), expected)
    panel.screenshot("player")
    assert tab.errors == []


def test_nobody_sees_an_id(shared_panel: Panel, model: Model) -> None:
    panel, tab = shared_panel, shared_panel.tab
    panel.add("bag", '{"lamp":"lit"}', whose=panel.character)
    tab.slash("/vt-checkpoint Calm")
    model.call_many(
        (TOOL, {"key": "bag.lamp", "by": 1, "character": panel.character}),
        (TOOL, {"key": "mood", "value": "x", "character": "Zoe"}),
    )
    model.say("Hm.")
    tab.send("Go on.")
    panel.shows("mood", "x")
    told = "\n".join(text_of(one) for one in model.requests[-1]["messages"])
    assert "and has the type text, so nothing can be added to it." in told
    # The holder is gone after a restore: what changed still has its name.
    tab.slash("/vt-restore Calm")
    panel.stepped("Restoring changed", "Zoe.moodx → none")
    shown = panel.element.inner_text() + told + tab.page.locator("#chat").inner_text()
    assert not UUID.search(shown)
    assert tab.errors == []


def test_values_and_holders_are_renamed_moved_and_joined(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    me = tab.context_value("name1")
    tab.slash("/vt-set helth 50")
    tab.slash('/vt-set bag {"lamp":1}')
    tab.slash(f"/vt-set {me}.gold 7")
    panel.add("mood", "calm", whose=panel.character)
    panel.shows("gold", "7")

    # A typing error, and the wrong holder.
    row = panel.row("helth")
    row.locator(".vt-key").click()
    row.locator(".vt-move").click()
    row.locator(".vt-moving input").fill("hp")
    row.locator(".vt-moving select").select_option(me)
    panel.screenshot("moving")
    row.locator(".vt-moving .vt-primary").click()
    panel.shows("hp", "50")
    panel.shows_not("helth")
    panel.shows_all(
        {
            "Chat": {"bag": '{"lamp":1}'},
            me: {"gold": "7", "hp": "50"},
            panel.character: {"mood": "calm"},
        }
    )

    # A name that is taken is asked about, and nothing is lost unasked.
    tab.slash('/vt-set sack {"rope":2}')
    row = panel.row("sack")
    row.locator(".vt-key").click()
    row.locator(".vt-move").click()
    row.locator(".vt-moving input").fill("bag")
    row.locator(".vt-moving .vt-primary").click()
    row.get_by_text("“bag” already exists there").wait_for()
    panel.keeps({"bag": {"lamp": 1}, "sack": {"rope": 2}})
    row.locator(".vt-moving .vt-primary").click()
    panel.shows("bag", '{"lamp":1,"rope":2}')
    panel.keeps({"bag": {"lamp": 1, "rope": 2}})

    # Somebody who was given two names.
    panel.add("trust", "3", whose=panel.character)
    group = panel.element.locator(".vt-own .vt-group").filter(has_text="trust")
    group.locator(".vt-holder").click()
    group.locator(".vt-moving input").fill("The stranger")
    group.locator(".vt-rename").click()
    panel.element.get_by_text("The stranger").first.wait_for()
    tab.slash(f"/vt-set {me}.mood brave")
    panel.shows("mood", "brave")
    group.locator(".vt-holder").click()
    group.locator(".vt-moving select").select_option(me)
    group.locator(".vt-join").click()
    group.get_by_text("Both have mood").wait_for()
    panel.screenshot("joining")
    group.locator(".vt-join").click()
    panel.element.get_by_text("The stranger").first.wait_for(state="detached")
    expected = {"gold": "7", "hp": "50", "mood": "brave", "trust": "3"}
    wait_for_equal(lambda: panel.values.get(me), expected)
    assert tab.errors == []
