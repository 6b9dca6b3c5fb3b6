"""
A real SillyTavern with the plugin and the extension, a scripted model, and Chromium.

All tests of the folder share `tavern`, and each creates a `character` of its own. A test that
kills, installs or removes something boots another SillyTavern with `start_tavern`. `tab` is a page
of `tavern`; `open_tab` opens more. A page takes seconds to load, so tests that change nothing in
it but their chats use `shared_tab` or `shared_panel`: all of the folder use the same page. What
else they change, such as a setting, they change back. `shared_second` is a second tab beside it.

Shared fixtures end with this folder, not with the session: while playwright runs, its event loop
counts as running, and no test elsewhere could start one. For the same reason no test of this folder
is a coroutine.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.sillytavern.host import SillyTavern
from tests.sillytavern.installation import install
from tests.sillytavern.model import Model
from tests.sillytavern.panel import Panel, choose
from tests.support.browser import Tab, launch, log_in

NUMBERS = itertools.count(1)

StartTavern = Callable[..., SillyTavern]
OpenTab = Callable[..., Tab]


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="package")
def shared_model() -> Iterator[Model]:
    model = Model()
    yield model
    model.close()


@pytest.fixture
def model(shared_model: Model) -> Model:
    """The model that every SillyTavern of this folder uses, without a script."""
    shared_model.reset()
    return shared_model


@pytest.fixture(scope="package")
def tavern(tmp_path_factory: pytest.TempPathFactory, shared_model: Model) -> Iterator[SillyTavern]:
    """A SillyTavern with the plugin and the extension, for one user."""
    tavern = SillyTavern(tmp_path_factory.mktemp("tavern"), model_url=shared_model.url)
    try:
        install(tavern.server)
        tavern.boot()
        yield tavern
    finally:
        tavern.end()


@pytest.fixture(scope="package")
def parlour(tmp_path_factory: pytest.TempPathFactory, shared_model: Model) -> Iterator[SillyTavern]:
    """
    Like `tavern`, but the panel is open, and the model sets values and gets all values.

    Nothing moves in it, and few of SillyTavern's own extensions run; in `tavern` all do.
    """
    tavern = SillyTavern(tmp_path_factory.mktemp("parlour"), model_url=shared_model.url)
    tavern.be_quick()
    choose(tavern, open=True, tool=True, inject="all", depth=0)
    try:
        install(tavern.server)
        tavern.boot()
        yield tavern
    finally:
        tavern.end()


@pytest.fixture
def panel(open_tab: OpenTab, parlour: SillyTavern) -> Panel:
    """The panel in a page of `parlour`, with the chat of a new character."""
    return panel_with_guest(open_tab(parlour), parlour)


def panel_with_guest(tab: Tab, parlour: SillyTavern) -> Panel:
    name = f"Guest {next(NUMBERS)}"
    parlour.create_character(name)
    tab.open_character(name)
    return Panel(tab, parlour, name)


@pytest.fixture(scope="package")
def shared_house(
    tmp_path_factory: pytest.TempPathFactory, shared_model: Model
) -> Iterator[SillyTavern]:
    """A SillyTavern with accounts: `default-user` is an admin; `ada` and `bob` are not."""
    tavern = SillyTavern(
        tmp_path_factory.mktemp("house"), model_url=shared_model.url, accounts=True
    )
    try:
        install(tavern.server)
        tavern.boot()
        tavern.create_account("ada", "ada")
        tavern.create_account("bob", "bob")
        yield tavern
    finally:
        tavern.end()


@pytest.fixture
def start_tavern(
    tmp_path_factory: pytest.TempPathFactory, shared_model: Model
) -> Iterator[StartTavern]:
    """Boot a SillyTavern for one test; `installed=False`: without plugin, `boot=False`: stopped."""
    with ExitStack() as stack:

        def start(*, installed: bool = True, boot: bool = True, **given: Any) -> SillyTavern:
            folder = tmp_path_factory.mktemp("own-tavern")
            tavern = SillyTavern(folder, **{"model_url": shared_model.url, **given})
            stack.callback(tavern.end)
            if installed:
                install(tavern.server)
            if boot:
                tavern.boot()
            return tavern

        yield start


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture
def open_tab(chromium: Browser, request: pytest.FixtureRequest, model: Model) -> Iterator[OpenTab]:
    """
    Open a page of a SillyTavern and wait until it is ready.

    Each page has its own browser profile, unless it is `beside` another tab. Its cookies come from
    `session`. Other arguments go to playwright's context (`viewport`, `locale`).
    """
    name = name_of(request.node)
    with ExitStack() as stack:

        def open_tab(
            tavern: SillyTavern,
            *,
            beside: Tab | None = None,
            session: httpx.Client | None = None,
            **given: Any,
        ) -> Tab:
            if beside is None:
                context = chromium.new_context(**{"viewport": DESKTOP, **given})
                stack.callback(context.close)
            else:
                context = beside.context
            if session is not None:
                log_in(context, session, tavern.url)
            tab = Tab(context, tavern.url, f"{name}-{next(NUMBERS)}" if beside else name)
            stack.callback(tab.page.close)
            stack.push(partial(show_failure, tab, request.node))
            tab.open()
            return tab

        yield open_tab


def name_of(test: pytest.Item) -> str:
    return re.sub(r"\W+", "-", test.name).strip("-")


def show_failure(tab: Tab, test: pytest.Item, *_: object) -> None:
    if FAILED in test.stash and not tab.page.is_closed():
        print(f"The page said {tab.errors}; it looked like {tab.screenshot('failed')}")


DESKTOP = ViewportSize(width=1280, height=900)
PHONE = ViewportSize(width=390, height=844)
# A shared page is loaded anew after this many tests: it keeps what it has shown.
MOST_TESTS = 25


@pytest.fixture
def tab(open_tab: OpenTab, tavern: SillyTavern) -> Tab:
    return open_tab(tavern)


SharedTabs = dict[tuple[str, bool], Tab]


@pytest.fixture(scope="package")
def shared_tabs(chromium: Browser) -> Iterator[SharedTabs]:
    """The pages that tests share, by their URLs, and whether they are beside another one."""
    tabs: SharedTabs = {}
    yield tabs
    for tab in tabs.values():
        tab.context.close()


@contextmanager
def shared(
    tabs: SharedTabs,
    tavern: SillyTavern,
    request: pytest.FixtureRequest,
    beside: Tab | None = None,
) -> Iterator[Tab]:
    """Lend a shared page to a test. If the test fails, the next one gets a new page."""
    chromium: Browser = request.getfixturevalue("chromium")
    key = tavern.url, beside is not None
    tab = tabs.pop(key, None)
    if tab is None or tab.page.is_closed() or tab.lent == MOST_TESTS:
        if tab is not None and beside is None:
            tab.context.close()
        elif tab is not None:
            tab.page.close()
        context = beside.context if beside else chromium.new_context(viewport=DESKTOP)
        tab = Tab(context, tavern.url, "")
        tab.open()
    tab.name = name_of(request.node)
    tab.lent += 1
    yield tab
    if FAILED in request.node.stash:
        show_failure(tab, request.node)
        tab.context.close()
    else:
        tab.reset()
        tabs[key] = tab


@pytest.fixture
def shared_tab(
    shared_tabs: SharedTabs, tavern: SillyTavern, model: Model, request: pytest.FixtureRequest
) -> Iterator[Tab]:
    """Like `tab`, for tests that change nothing in the page but their chats."""
    with shared(shared_tabs, tavern, request) as tab:
        yield tab


@pytest.fixture
def shared_panel(
    shared_tabs: SharedTabs, parlour: SillyTavern, model: Model, request: pytest.FixtureRequest
) -> Iterator[Panel]:
    """Like `panel`, for tests that change nothing in the page but their chats."""
    with shared(shared_tabs, parlour, request) as tab:
        yield panel_with_guest(tab, parlour)


@pytest.fixture
def shared_second(
    shared_tabs: SharedTabs, shared_panel: Panel, request: pytest.FixtureRequest
) -> Iterator[Panel]:
    """A second tab of the same browser, without a chat."""
    tavern = shared_panel.tavern
    with shared(shared_tabs, tavern, request, beside=shared_panel.tab) as tab:
        yield Panel(tab, tavern, shared_panel.character)


@pytest.fixture
def character(tavern: SillyTavern) -> str:
    """The name of a new character in `tavern`."""
    name = f"Character {next(NUMBERS)}"
    tavern.create_character(name)
    return name
