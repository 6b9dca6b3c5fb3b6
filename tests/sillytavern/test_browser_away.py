"""The extension while its server is away: killed under it, or never there."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

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
    panel.keeps({"hp": 44, "alone": True})
    panel.edit("hp", "43")
    panel.keeps({"hp": 43, "alone": True})
    panel.screenshot("back")


def test_with_plugins_switched_off_values_are_kept_with_the_chat(
    start_tavern: StartTavern, open_tab: OpenTab
) -> None:
    tavern = start_tavern(boot=False, config={"enableServerPlugins": False})
    choose(tavern, open=True)
    tavern.boot()
    tavern.create_character("Ada")
    tab = open_tab(tavern)
    tab.open_character("Ada")
    panel = Panel(tab, tavern, "Ada")
    panel.status("away")
    panel.element.get_by_text("config.yaml has enableServerPlugins: true").wait_for()

    panel.add("hp", "50")
    panel.edit("hp", "45")
    panel.shows("hp", "45")
    tab.send("Hm.")
    panel.element.get_by_text("Save points need the server.").wait_for()
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
    answer: dict[str, Any] = away("starting")
    tab.page.route(SERVER, lambda route: route.fulfill(**answer))
    tab.slash("/vt-set hp 5")
    panel.status("away")
    sentences = set()
    for case, english, german in REASONS:
        answer = case
        panel.element.locator(".vt-retry").click()
        text = german if language == "de-DE" else english
        shown = panel.element.locator(".vt-why", has_text=text)
        shown.wait_for()
        sentences.add(shown.inner_text())
    assert len(sentences) == len(REASONS)
    panel.screenshot("away")
    tab.page.unroute(SERVER)
    # The server is of another version when it is back.
    tab.page.route(HEALTH, lambda route: route.fulfill(json=MISMATCH))
    # The next attempt would be in half a minute.
    panel.element.locator(".vt-retry").click()
    panel.status("online")
    panel.keeps({"hp": 5})
    notice = panel.element.locator(".vt-notice-versions")
    notice.wait_for()
    panel.screenshot("versions")
    tab.page.unroute(HEALTH)
    notice.locator(".vt-retry").click()
    notice.wait_for(state="detached")


def away(reason: str) -> dict[str, Any]:
    """Return an answer of the plugin."""
    error = {"error": "Away.", "code": "server_away", "hint": None, "details": {"reason": reason}}
    return {"status": 503, "json": error}


# Answers, and a part of the sentence for each. The plugin's and SillyTavern's real answers are in
# plugin/diagnosis.test.js.
REASONS = [
    (away("python_missing"), "Python that runs the server", "Das Python, das den Server"),
    (away("package_missing"), "no longer has Value Tracker", "hat Value Tracker nicht mehr"),
    (away("in_use"), "using the same data", "benutzt dieselben Daten"),
    (away("settings"), "settings of the plugin", "Einstellungen des Plugins"),
    (away("ended"), "has stopped", "hat aufgehört"),
    (away("unreachable"), "Check that it is running", "Prüfe, ob er läuft"),
    (away("starting"), "The server is starting", "Der Server startet"),
    ({"status": 404, "body": "<h1>No</h1>"}, "does not run the plugin", "führt das Plugin nicht"),
    ({"status": 403, "body": "<h1>No</h1>"}, "asks for a login", "verlangt eine Anmeldung"),
    (
        {"status": 200, "body": "<h1>Hi</h1>", "headers": {"x-vt-plugin": "1"}},
        "its port is taken",
        "Sein Port ist belegt",
    ),
]
HEALTH = "**/api/plugins/valuetracker/st/health"
MISMATCH = {"alerts": ["plugin_mismatch"], "versions": {"plugin": {"bundled": "9.0.0"}}}


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
