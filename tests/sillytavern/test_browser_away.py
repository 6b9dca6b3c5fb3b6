"""The extension while its server is away: killed under it, or never there."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from playwright.sync_api import Route

from tests.conftest import wait_for
from tests.sillytavern.conftest import OpenTab, StartTavern
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.panel import EXTENSION, Panel, choose
from tests.sillytavern.processes import server_pids


def test_a_server_that_is_killed_and_comes_back_loses_nothing(
    start_tavern: StartTavern, open_tab: OpenTab
) -> None:
    tavern = start_tavern(boot=False)
    choose(tavern, open=True)
    tavern.boot()
    tavern.create_character("Ada")
    tab = open_tab(tavern)
    tab.open_character("Ada")
    panel = Panel(tab, tavern, "Ada")
    panel.add("hp", "50")
    panel.shows("hp", "50")
    panel.status("online")

    # It cannot be started again until this is mended.
    config = tavern.server / "plugins/valuetracker/config.json"
    config.write_text('{"python": "/nowhere/python"}')
    for pid in server_pids(tavern):
        os.kill(pid, signal.SIGKILL)
    panel.edit("hp", "44")
    panel.status("away")
    panel.shows("hp", "44")
    panel.element.locator(".vt-notice-away").wait_for()
    panel.element.get_by_text("The Python that runs the server was not found.").wait_for()
    panel.screenshot("away")
    # The story goes on.
    tab.send("Are you there?")
    panel.add("alone", "true")
    panel.shows("alone", "Yes")
    assert tab.evaluate("() => SillyTavern.getContext().substituteParams('{{vt::hp}}')") == "44"

    config.unlink()
    wait_for(lambda: server_pids(tavern))
    panel.status("online")
    panel.element.locator(".vt-notice-away").wait_for(state="detached")
    wait_for(lambda: panel.kept() == {"hp": 44, "alone": True})
    panel.edit("hp", "43")
    wait_for(lambda: panel.kept() == {"hp": 43, "alone": True})
    panel.screenshot("back")


def test_without_the_plugin_values_are_kept_with_the_chat(
    start_tavern: StartTavern, open_tab: OpenTab
) -> None:
    tavern = start_tavern(boot=False)
    shutil.rmtree(tavern.server / "plugins/valuetracker")
    choose(tavern, open=True)
    tavern.boot()
    tavern.create_character("Ada")
    tab = open_tab(tavern)
    tab.open_character("Ada")
    panel = Panel(tab, tavern, "Ada")
    panel.status("away")
    panel.element.get_by_text("Set enableServerPlugins to true in config.yaml").wait_for()

    panel.add("hp", "50")
    panel.edit("hp", "45")
    panel.shows("hp", "45")
    tab.send("Hm.")
    assert panel.element.get_by_text("Save points need the server.").is_visible()
    assert tab.page.locator("#toast-container > *").count() == 0
    panel.screenshot()

    tab.save()
    tab.open()
    tab.open_character("Ada")
    panel.shows("hp", "45")


SERVER = "**/api/plugins/valuetracker/**"


@pytest.mark.parametrize("language", ["en-US", "de-DE"])
def test_each_reason_has_a_sentence_and_one_can_try_now(
    parlour: SillyTavern, open_tab: OpenTab, language: str
) -> None:
    tab = open_tab(parlour, locale=language)
    name = f"Ann {language}"
    parlour.create_character(name)
    tab.open_character(name)
    panel = Panel(tab, parlour, name)
    panel.status("online")
    reason = "starting"

    def answer(route: Route) -> None:
        away = {"error": "Away.", "code": "server_away", "hint": None}
        route.fulfill(status=503, json={**away, "details": {"reason": reason}})

    tab.page.route(SERVER, answer)
    tab.slash("/vt-set hp 5")
    panel.status("away")
    sentences = set()
    for reason in REASONS:
        panel.element.locator(".vt-retry").click()
        shown = panel.element.locator(".vt-why", has_text=REASONS[reason][language == "de-DE"])
        shown.wait_for()
        sentences.add(shown.inner_text())
    assert len(sentences) == len(REASONS)
    panel.screenshot("away")
    tab.page.unroute(SERVER)
    # The next attempt would be in half a minute.
    panel.element.locator(".vt-retry").click()
    panel.status("online")
    wait_for(lambda: panel.kept() == {"hp": 5})


REASONS = {
    "python_missing": ("Python that runs the server", "Das Python, das den Server"),
    "package_missing": ("no longer has Value Tracker", "hat Value Tracker nicht mehr"),
    "in_use": ("using the same data", "benutzt dieselben Daten"),
    "settings": ("settings of the plugin", "Einstellungen des Plugins"),
    "ended": ("has stopped", "hat aufgehört"),
    "unreachable": ("Check that it is running", "Prüfe, ob er läuft"),
    "starting": ("The server is starting", "Der Server startet"),
}


def test_a_damaged_database_is_called_so(start_tavern: StartTavern, open_tab: OpenTab) -> None:
    tavern = start_tavern(boot=False)
    choose(tavern, open=True)
    tavern.boot()
    tavern.create_character("Ada")
    tavern.register(EXTENSION)
    tavern.stop()
    (file,) = tavern.folder.rglob(f"{EXTENSION}.db")
    content = bytearray(file.read_bytes())
    content[4096:] = bytes(len(content) - 4096)
    file.write_bytes(content)
    tavern.boot()
    tab = open_tab(tavern)
    tab.open_character("Ada")
    panel = Panel(tab, tavern, "Ada")
    panel.element.get_by_text("The database with the values is damaged").wait_for()
    panel.screenshot("damaged")
