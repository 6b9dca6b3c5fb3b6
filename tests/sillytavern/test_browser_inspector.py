"""The inspector below the path of the plugin, in the browser of a player."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import expect

from tests.inspector.conftest import Inspector
from tests.sillytavern.panel import EXTENSION, Panel
from valuetracker.settings import PREFIX

LARGEST = 2**64 - 1


def test_a_player_looks_and_after_a_switch_edits_exactly(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    chat = tab.context_value("chatMetadata")["integrity"]
    tab.slash("/vt-set gold 80")
    panel.shows("gold", "80")
    inspector = Inspector(tab.context, f"{tab.url.rstrip('/')}{PREFIX}/inspector/")
    page = inspector.page
    inspector.open(f"#/extension/{EXTENSION}/chat/{quote(chat, safe='')}/gold")
    expect(page.locator(".json")).to_have_text("80")

    switch = page.get_by_role("switch", name="Read-only")
    expect(switch).to_be_checked()
    expect(inspector.button("Edit")).to_have_count(0)
    inspector.shot("sillytavern-light")
    switch.uncheck()
    inspector.button("Edit").click()
    inspector.type_value(str(LARGEST))
    inspector.button("Save").click()
    inspector.told("Saved: gold")
    expect(page.locator(".json")).to_have_text(str(LARGEST))
    panel.shows("gold", str(LARGEST))

    # A change in the chat is seen here at once, and the way back leads through the same path.
    tab.slash("/vt-set gold 81")
    expect(page.locator(".json")).to_have_text("81")
    page.goto(f"{tab.url.rstrip('/')}{PREFIX}/inspector")
    expect(page.locator(".cards")).to_contain_text(EXTENSION)
    inspector.check()
    page.close()
