"""
Makes pictures of the parts of the panel, to look at: `.cache/screenshots/gallery`.

    python -m tests.sillytavern.gallery

Each part is shown in SillyTavern's default theme, in a light one, and on a phone in German.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

from tests.sillytavern.conftest import DESKTOP, PHONE
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.installation import install
from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel, choose
from tests.sillytavern.test_browser_away import away
from tests.sillytavern.test_browser_editing import LIGHT
from tests.sillytavern.test_browser_savepoints import BIND
from tests.support.browser import SCREENSHOTS, Tab, launch

GALLERY = SCREENSHOTS / "gallery"
SERVER = "**/api/plugins/valuetracker/**"
TOOL = "SetValue"
LOOKS: dict[str, dict[str, Any]] = {
    "default": {"viewport": DESKTOP},
    "light": {"viewport": DESKTOP},
    "phone": {"viewport": PHONE, "is_mobile": True, "has_touch": True, "locale": "de-DE"},
}


def main() -> None:
    GALLERY.mkdir(parents=True, exist_ok=True)
    model = Model()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        tavern = SillyTavern(Path(folder) / "tavern", model_url=model.url)
        try:
            choose(tavern, open=True, tool=True, inject="all", depth=0)
            install(tavern.server)
            tavern.boot()
            browser = launch(playwright)
            for look, given in LOOKS.items():
                model.reset()
                Tour(browser, tavern, model, look, given).walk()
            browser.close()
        finally:
            tavern.end()
            model.close()


class Tour:
    """One look: a chat in which each part of the panel is shown once."""

    def __init__(
        self, browser: Browser, tavern: SillyTavern, model: Model, look: str, given: dict[str, Any]
    ) -> None:
        self.look = look
        self.model = model
        self.tavern = tavern
        self.tab = Tab(browser.new_context(**given), tavern.url, look)
        self.tab.open()
        name = f"Wren of {look}"
        tavern.create_character(name, "*Wren waves from the market gate.* There you are!")
        self.panel = Panel(self.tab, tavern, name)
        self.tab.open_character(name)
        if look == "light":
            self.tab.evaluate(LIGHT)
        if look == "phone":
            self.panel.open()

    def show(self, name: str) -> None:
        # Toasts and notices fade in.
        self.tab.page.wait_for_timeout(700)
        path = GALLERY / f"{name}-{self.look}.png"
        self.tab.page.screenshot(path=path, animations="disabled")
        print(path)

    def walk(self) -> None:
        self.values()
        self.chat()
        self.save_points()
        self.forms()
        self.settings()
        self.reasons()
        self.tab.context.close()

    def values(self) -> None:
        tab, panel = self.tab, self.panel
        for hp in range(50, 20, -1):
            tab.slash(f"/vt-set hp {hp}")
        tab.slash("/vt-set User.gold 12")
        tab.slash(f'/vt-set "{panel.character}.mood" cheerful')
        tab.slash('/vt-set bag {"lamp":1,"rope":{"length":5}}')
        tab.slash("/vt-set bag.rope.length 7")
        panel.shows("mood", "cheerful")
        panel.row("hp").locator(".vt-key").click()
        panel.row("hp").locator(".vt-older").wait_for()
        self.show("history")
        panel.row("hp").locator(".vt-key").click()
        panel.row("bag").locator(".vt-key").click()
        panel.row("bag").get_by_text("rope.length: 5 → 7").wait_for()
        self.show("change-inside")
        panel.row("bag").locator(".vt-key").click()

    def chat(self) -> None:
        tab, panel, model = self.tab, self.panel, self.model
        self.close_on_phone()
        model.call_many(
            (TOOL, {"key": "hp", "by": -3}),
            (TOOL, {"key": "mood", "value": "worried", "character": panel.character}),
        )
        model.say("*You slip on a wet plank.*")
        tab.send("How do we get across the river?")
        self.show("badge")
        model.call(TOOL, key="hp", by=-9)
        model.fail()
        tab.send("I jump!")
        tab.page.locator(".toast-warning").wait_for()
        self.show("taken-back")
        tab.evaluate("() => toastr.remove()")
        self.open_on_phone()

    def save_points(self) -> None:
        tab, panel = self.tab, self.panel
        tab.evaluate(BIND, f"World of {self.look}")
        tab.slash("/vt-checkpoint Before the ferry")
        panel.element.locator(".vt-notice-savepoint").wait_for()
        self.show("saved")
        tab.slash("/vt-set hp 3")
        panel.checkpoint("Before the ferry").locator(".vt-restore").click()
        panel.checkpoint("Before the ferry").locator(".vt-preview").wait_for()
        self.show("preview")
        panel.checkpoint("Before the ferry").locator(".vt-preview .vt-primary").click()
        panel.shows("hp", "18")
        self.show("restored")

        chat = tab.context_value("chatMetadata")["integrity"]
        with self.tavern.client(EXTENSION) as client:
            for id, type in (("a", "recap"), ("b", "recap"), ("c", "scan")):
                client.post(f"/chats/{chat}/operations", json={"id": id, "type": type})
            form = panel.element.locator(".vt-checkpoint-form")
            form.locator("input").fill("Later")
            form.locator(".vt-button").click()
            panel.element.locator(".vt-notice-pending").wait_for()
            self.show("pending")
            panel.element.locator(".vt-when-ready").click()
            for id in ("a", "b", "c"):
                client.post(f"/chats/{chat}/operations/{id}/cancel")
        panel.checkpoint("Later").locator(".vt-branch").wait_for()
        origin = tab.chat_id
        panel.checkpoint("Later").locator(".vt-branch").click()
        tab.wait_until(
            "(id) => SillyTavern.getContext().getCurrentChatId() !== id && rig.resting()", origin
        )
        panel.element.locator(".vt-notice-savepoint").wait_for()
        self.show("branched")

    def forms(self) -> None:
        panel = self.panel
        panel.row("gold").locator(".vt-key").click()
        panel.row("gold").locator(".vt-move").click()
        panel.row("gold").locator(".vt-moving select").wait_for()
        self.show("move")
        panel.row("gold").locator(".vt-key").click()
        group = panel.element.locator(".vt-own .vt-group").filter(has_text="mood")
        group.locator(".vt-holder").click()
        group.locator(".vt-moving select").wait_for()
        self.show("holder")
        group.locator(".vt-holder").click()
        panel.row("bag").locator(".vt-cell").click()
        self.show("editor")
        self.tab.page.keyboard.press("Escape")
        panel.row("bag").locator(".vt-key").click()
        panel.row("bag").locator(".fa-trash-can").click()
        panel.row("bag").locator(".vt-danger").click()
        panel.shows_not("bag")
        panel.element.locator(".vt-bin summary").click()
        self.show("bin")

    def settings(self) -> None:
        self.close_on_phone()
        self.panel.settings()
        self.show("settings")
        self.panel.settings()
        self.open_on_phone()

    def reasons(self) -> None:
        tab, panel = self.tab, self.panel
        tab.page.route(SERVER, lambda route: route.fulfill(**away("python_missing")))
        tab.slash("/vt-set hp 5")
        panel.status("away")
        panel.element.locator(".vt-why", has_text="valuetracker sillytavern install").wait_for()
        self.show("reason")
        tab.page.unroute(SERVER)

    def close_on_phone(self) -> None:
        """On a phone the panel covers the page."""
        if self.look == "phone":
            self.panel.element.locator(".vt-close").click()

    def open_on_phone(self) -> None:
        if self.look == "phone":
            self.panel.open()


if __name__ == "__main__":
    main()
