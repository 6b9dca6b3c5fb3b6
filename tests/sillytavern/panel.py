"""The panel of the extension, as a player uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from playwright.sync_api import Locator

from tests.conftest import wait_for_equal
from tests.sillytavern.host import SillyTavern
from tests.support.browser import Tab

EXTENSION = "valuetracker-panel"

VALUES = """
() => Object.fromEntries([...document.querySelectorAll('.vt-own .vt-group')].map((group) => [
    group.querySelector('.vt-group-title').textContent,
    Object.fromEntries([...group.querySelectorAll('.vt-row')].map((row) => [
        row.dataset.key, row.querySelector('.vt-cell').textContent,
    ])),
]))
"""
STEP = """
() => document.querySelector('.vt-step').hidden ? null
    : [document.querySelector('.vt-step-title').textContent,
        ...[...document.querySelectorAll('.vt-step-list li')].map((one) => one.textContent)]
"""


def choose(tavern: SillyTavern, **settings: Any) -> None:
    """Write the settings of the extension for a SillyTavern that does not run yet."""
    file = tavern.data / "default-user/settings.json"
    kept = orjson.loads(file.read_bytes())
    kept.setdefault("extension_settings", {})["valuetracker"] = settings
    file.write_bytes(orjson.dumps(kept))


class Panel:
    """The panel in a tab. It is updated a moment after each action: wait for its content."""

    def __init__(self, tab: Tab, tavern: SillyTavern, character: str) -> None:
        self.tab = tab
        self.tavern = tavern
        self.character = character
        self.element = tab.page.locator("#vt_panel")

    def open(self) -> None:
        """Open the panel from the menu beside the input, unless it is open."""
        # SillyTavern places the menu when it opens, for the items that it has then, and closes it
        # when it clicks into its input.
        self.tab.page.locator("#vt_menu").wait_for(state="attached")
        self.tab.settle()
        if self.element.is_visible():
            return
        self.tab.page.click("#extensionsMenuButton")
        self.tab.page.click("#vt_menu")
        self.element.wait_for()

    def settings(self) -> None:
        """Open the settings of this extension among those of all extensions, or close them."""
        drawer = self.tab.page.locator("#rm_extensions_block")
        shown = drawer.is_visible()
        self.tab.page.locator("#extensions-settings-button .drawer-toggle").click()
        if shown:
            drawer.wait_for(state="hidden")
        else:
            # The inner drawer keeps its state; it is visible only after the outer one has opened.
            if self.tab.page.locator("#vt_settings .inline-drawer-icon.down").count():
                self.tab.page.locator("#vt_settings .inline-drawer-toggle").click()
            self.tab.page.locator(".vt-settings").wait_for()

    @property
    def values(self) -> dict[str, dict[str, str]]:
        """The visible text of each value, by group and key."""
        found: dict[str, dict[str, str]] = self.tab.evaluate(VALUES)
        return found

    @property
    def step(self) -> list[str] | None:
        """The changes of the last step: its title, and a line for each value."""
        found: list[str] | None = self.tab.evaluate(STEP)
        return found

    def shows(self, key: str, text: str) -> None:
        """Wait until the panel shows a text for a key."""
        self.tab.wait_until(
            """([key, text]) => [...document.querySelectorAll('.vt-own .vt-row')].some((row) =>
                row.dataset.key === key && row.querySelector('.vt-cell').textContent === text)""",
            [key, text],
        )

    def shows_all(self, values: dict[str, dict[str, str]]) -> None:
        """Wait until the panel shows these values and no others, by group and key."""
        wait_for_equal(lambda: self.values, values)

    def shows_not(self, key: str) -> None:
        self.row(key).wait_for(state="detached")

    def stepped(self, *lines: str) -> None:
        """Wait until the last step has these lines."""
        self.tab.wait_until(
            f"(expected) => JSON.stringify(({STEP})()) === JSON.stringify(expected)", list(lines)
        )

    def status(self, status: str) -> None:
        """Wait until the connection has this status."""
        self.element.locator(f'.vt-status[data-status="{status}"]').wait_for()

    def row(self, key: str) -> Locator:
        return self.element.locator(f".vt-own .vt-row[data-key={orjson.dumps(key).decode()}]")

    def edit(self, key: str, text: str, kind: str | None = None) -> None:
        """Edit a value in its row."""
        self.row(key).locator(".vt-cell").click()
        editor = self.row(key).locator(".vt-editor")
        if kind is not None:
            editor.locator(".vt-kind").select_option(kind)
        field = editor.locator(".vt-input > *")
        if kind == "switch":
            field.select_option(text)
        else:
            field.fill(text)
        editor.locator(".vt-primary").click()

    def add(self, key: str, text: str, whose: str = "") -> None:
        self.element.locator(".vt-add").click()
        form = self.element.locator(".vt-adding")
        form.locator("select").first.select_option(whose)
        form.locator("input").fill(key)
        form.locator(".vt-input > *").fill(text)
        form.locator(".vt-primary").click()
        form.locator(".vt-add").wait_for()

    def checkpoint(self, name: str) -> Locator:
        return self.element.locator(f".vt-checkpoint[data-name={orjson.dumps(name).decode()}]")

    def kept(self) -> dict[str, Any]:
        """Return the server's values of the open chat."""
        chat = self.tab.context_value("chatMetadata")["integrity"]
        with self.tavern.client(EXTENSION) as client:
            found: dict[str, Any] = client.get(f"/chats/{chat}/data").json()
        return found

    def keeps(self, values: dict[str, Any]) -> None:
        """Wait until the server has these values of the open chat and no others."""
        wait_for_equal(self.kept, values)

    def history(self, key: str) -> list[dict[str, Any]]:
        """Return the changes of a value of the chat, oldest first, without those of reconciling."""
        chat = self.tab.context_value("chatMetadata")["integrity"]
        with self.tavern.client(EXTENSION) as client:
            found = client.get(f"/chats/{chat}/history", params={"key": key, "order": "asc"})
        return [item for item in found.json()["items"] if item["op"] != "reconcile"]

    def screenshot(self, name: str = "") -> Path:
        return self.tab.screenshot(name)
