"""A browser follows the feed: it accepts deflate, and gets each change when it is made."""

from __future__ import annotations

from pathlib import Path

import httpx
from playwright.sync_api import Response, sync_playwright

from tests.conftest import running_server
from tests.support.browser import PATIENCE, launch
from valuetracker.settings import PREFIX

FOLLOW = """
(url) => {
    window.seen = [];
    window.source = new EventSource(url);
    source.addEventListener('change', (event) => seen.push(JSON.parse(event.data).revision));
    return new Promise((resolve, refuse) => {
        source.onopen = resolve;
        source.onerror = () => refuse(new Error('no feed'));
    });
}
"""
HAS_SEEN = "(revision) => window.seen.includes(revision)"


def test_a_browser_gets_each_change_when_it_is_made(tmp_path: Path) -> None:
    codings: list[str | None] = []

    def note(answer: Response) -> None:
        if "/events" in answer.url:
            codings.append(answer.headers.get("content-encoding"))

    with running_server(tmp_path) as server, sync_playwright() as playwright:
        server.register("demo")
        browser = launch(playwright)
        # The policy of the docs page forbids all requests, so it is switched off here.
        page = browser.new_context(bypass_csp=True).new_page()
        page.set_default_timeout(PATIENCE)
        page.on("response", note)
        page.goto(f"{server.url}{PREFIX}/docs")
        page.evaluate(FOLLOW, f"{PREFIX}/events?extensionId=demo&since=0")
        with server.client("demo") as client:
            for revision in range(1, 6):
                put_character(client, revision)
                page.wait_for_function(HAS_SEEN, arg=revision)
        seen = page.evaluate("window.seen")
        browser.close()

    assert seen == [1, 2, 3, 4, 5]
    assert codings == ["deflate"]


def put_character(client: httpx.Client, number: int) -> None:
    made = client.post("/characters", json={"id": f"c{number}", "name": "somebody"})
    assert made.headers["x-revision"] == str(number)
