"""
The inspector in Chromium, on a server that its tests share.

All tests of a file use one page. Every page watches for errors in its console and for violations of
its policy; there must be none. Screenshots are kept in `.cache/screenshots/inspector`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Locator,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.conftest import PATIENCE_SECONDS, RunningServer, running_server
from tests.inspector.story import Teller, tell_hostile_story, tell_story
from tests.support.browser import PATIENCE, SCREENSHOTS, launch
from valuetracker.http.pages import FOLDER
from valuetracker.settings import PREFIX

SHOTS = SCREENSHOTS / "inspector"
WATCH = """
window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => {
    window.violations.push(`${event.violatedDirective}: ${event.blockedURI}`);
});
"""
DESKTOP = ViewportSize(width=1280, height=860)
PHONE = ViewportSize(width=390, height=800)
AXE = Path(__file__).resolve().parent.parent.parent / "inspector/node_modules/axe-core/axe.min.js"


class Inspector:
    """One page of the inspector, with the actions of a person."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.url = url
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.add_init_script(WATCH)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda said: self.errors.append(said.text) if said.type == "error" else None,
        )

    def open(self, address: str = "") -> None:
        """Show a view: the address begins with `#/`."""
        if self.page.url.startswith(self.url):
            self.page.evaluate("(to) => { location.hash = to || '#/'; }", address)
        else:
            self.page.goto(self.url + address)
        self.page.locator(".bar").wait_for()

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()

    @property
    def pane(self) -> Locator:
        return self.page.locator("main")

    def see(self, text: str | re.Pattern[str]) -> None:
        """Wait until the pane shows a text."""
        expect(self.pane).to_contain_text(text)

    def told(self, text: str) -> None:
        """Wait until a notice says a text."""
        expect(self.page.locator(".notices")).to_contain_text(text)

    def type_value(self, text: str) -> None:
        """Replace the text in the editor."""
        editor = self.page.locator(".editor .cm-content").last
        editor.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def shot(self, name: str) -> None:
        self.page.screenshot(path=SHOTS / f"{name}.png", animations="disabled")

    def check(self) -> None:
        """Nothing may have been refused by the policy, or failed."""
        assert self.page.evaluate("() => window.violations") == []
        assert self.page.evaluate("() => window.ran") is None
        # A refusal that a test provokes is an error of the network in the console.
        assert [each for each in self.errors if "Failed to load resource" not in each] == []

    def accessible(self) -> None:
        """Axe must find nothing serious in what is shown."""
        self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            """async () => (await axe.run()).violations
                .filter((each) => ['serious', 'critical'].includes(each.impact))
                .map((each) => [each.id, each.nodes.map((node) => node.html).slice(0, 3)])"""
        )
        assert found == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert (FOLDER / "index.html").exists(), "build the inspector: `make .cache/inspector/ready`"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("inspector"), http="fast") as server:
        yield server


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url + PREFIX, timeout=PATIENCE_SECONDS) as client:
        tell_story(client)
        tell_hostile_story(client)
        yield client


@pytest.fixture
def tell(http: httpx.Client) -> Teller:
    return Teller(http, "demo")


@pytest.fixture(scope="module")
def shared(browser: Browser, server: RunningServer, http: httpx.Client) -> Iterator[Inspector]:
    context = browser.new_context(viewport=DESKTOP, color_scheme="light")
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    inspector = Inspector(context, f"{server.url}/inspector/")
    yield inspector
    context.close()


@pytest.fixture
def inspector(shared: Inspector) -> Iterator[Inspector]:
    """The shared page, at its beginning."""
    shared.open()
    yield shared
    shared.check()
