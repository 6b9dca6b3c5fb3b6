"""The docs page in a browser: its search, its side list and its keys, under its own policy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.conftest import RunningServer, running_server, wait_for_equal
from tests.support.browser import PATIENCE, launch
from valuetracker.settings import PREFIX

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# By how much the page is wider than the window.
OVERFLOW = "() => document.documentElement.scrollWidth - innerWidth"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder: Path = tmp_path_factory.mktemp("docs")
    with running_server(folder) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launch(playwright)
        yield browser
        browser.close()


@pytest.fixture(params=[WIDE, NARROW], ids=["wide", "narrow"])
def page(browser: Browser, server: RunningServer, request: pytest.FixtureRequest) -> Iterator[Page]:
    """The page in a wide and in a narrow window; it must log no error."""
    context = browser.new_context(viewport=request.param)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda said: errors.append(said.text))
    page.goto(f"{server.url}{PREFIX}/docs")
    yield page
    context.close()
    assert errors == []


def shown(page: Page) -> list[str]:
    """Return the headings of the routes that are shown, without what a screen reader adds."""
    found = page.locator("article.route:visible h3")
    return [each.removesuffix("#").strip() for each in found.all_inner_texts()]


def test_the_search_shows_the_routes_that_have_all_words(page: Page) -> None:
    everything = len(shown(page))

    page.locator("#search").press_sequentially("post branches")

    wait_for_equal(lambda: shown(page), ["POST /chats/{chat}/branches"])
    expect(page.locator("#found")).to_have_text("1 route")
    expect(page.locator("#ground-rules")).to_be_hidden()
    page.locator("#search").fill("")
    assert everything > 90
    wait_for_equal(lambda: len(shown(page)), everything)
    expect(page.locator("#ground-rules")).to_be_visible()


def test_fields_errors_and_records_are_found(page: Page) -> None:
    for words, seen in (
        ("leaseMs", "#post-chatschatprocessedset"),
        ("stale_claim", "#post-chatschatoperationsoperationcomplete"),
        ("OpenedChat", "#openedchat"),
        ("410 compacted", "#errors"),
    ):
        page.locator("#search").fill(words)

        expect(page.locator(seen)).to_be_visible()
        expect(page.locator("#post-ping-no-header")).to_be_hidden()


def test_the_search_says_that_nothing_matches(page: Page) -> None:
    page.locator("#search").fill("no such thing")

    expect(page.locator("#nothing")).to_be_visible()
    expect(page.locator("#found")).to_have_text("0 routes")


def test_keys_move_to_the_search_and_to_the_first_route(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("reconcile")
    page.keyboard.press("Enter")

    expect(page.locator("#post-chatschatreconcile")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page.locator("#search")).to_have_value("")
    expect(page.locator("#search")).to_be_focused()


def test_the_side_list_opens_a_route(page: Page) -> None:
    if page.locator("summary").is_visible():
        expect(page.locator("nav")).to_be_hidden()
        page.locator("summary").click()

    page.locator('nav a[href="#post-batch"]').click()

    expect(page.locator("#post-batch h3")).to_be_in_viewport()
    expect(page.locator('nav a[href="#post-batch"]')).to_have_attribute("aria-current", "true")


def test_the_arrow_keys_move_through_the_routes_that_were_found(page: Page) -> None:
    if page.locator("summary").is_visible():
        page.locator("summary").click()
    page.locator("#search").fill("lineage")

    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")

    expect(page.locator('nav a[href="#get-chatschatlineage"]')).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#search")).to_be_focused()


def test_a_link_to_a_hidden_part_ends_the_search(page: Page) -> None:
    page.locator("#search").fill("post batch")

    page.locator("#post-batch a[href='#batchanswer']").click()

    expect(page.locator("#batchanswer")).to_be_in_viewport()
    expect(page.locator("#search")).to_have_value("")


def test_nothing_is_wider_than_the_window(page: Page) -> None:
    assert page.evaluate(OVERFLOW) == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_colours_follow_the_system(browser: Browser, server: RunningServer, dark: bool) -> None:
    context = browser.new_context(color_scheme="dark" if dark else "light")
    page = context.new_page()
    page.goto(f"{server.url}{PREFIX}/docs")

    colour = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    context.close()

    brightest = max(int(each) for each in colour[4:-1].split(", "))
    assert (brightest < 64) is dark
