"""The extension while its server is away: killed under it, or never there."""

from __future__ import annotations

import os
import shutil
import signal

from tests.conftest import wait_for
from tests.sillytavern.conftest import OpenTab, StartTavern
from tests.sillytavern.panel import Panel, choose
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

    panel.add("hp", "50")
    panel.edit("hp", "45")
    panel.shows("hp", "45")
    tab.send("Hm.")
    assert panel.element.get_by_text("Checkpoints need the server.").is_visible()
    assert tab.page.locator("#toast-container > *").count() == 0
    panel.screenshot()

    tab.save()
    tab.open()
    tab.open_character("Ada")
    panel.shows("hp", "45")
