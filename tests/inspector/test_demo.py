"""Every view of the inspector on the story of `valuetracker demo`."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import expect

from tests.conftest import PATIENCE_SECONDS, RunningServer
from tests.inspector.conftest import Inspector
from valuetracker.cli.demo import EXTENSION, fill
from valuetracker.settings import PREFIX

TABS = ("", "history", "compare", "past", "story", "branches", "series", "operations")


@pytest.fixture(scope="module")
def http(server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"x-extension-id": EXTENSION}
    with httpx.Client(
        base_url=server.url + PREFIX, headers=headers, timeout=PATIENCE_SECONDS
    ) as client:
        fill(client)
        yield client


def test_every_view_shows_the_demo(inspector: Inspector, http: httpx.Client) -> None:
    page = inspector.page
    chats = http.get("/chats").json()
    instances = http.get("/instances").json()
    revision = http.get("/chats").headers["etag"]
    (chat,) = [each["chatId"] for each in chats if each["parent"] is None][:1]
    instance = next(each["id"] for each in instances if each["chatId"] == chat)
    keys = list(http.get(f"/instances/{quote(instance, safe='')}/data").json())
    root = f"#/extension/{EXTENSION}"
    holder = f"{root}/instance/{quote(instance, safe='')}"

    views = [("extension", root), ("values", holder)]
    views += [(tab or "chat", f"{root}/chat/{quote(chat, safe='')}?tab={tab}") for tab in TABS]
    views += [
        (f"key-{number}", f"{holder}/{quote(key, safe='')}?tab=history")
        for number, key in enumerate(keys[:4])
    ]
    for name, view in views:
        inspector.open(view)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator(".loading")).to_have_count(0)
        expect(page.locator("main .failure")).to_have_count(0)
        if name.startswith("key-"):
            expect(page.locator("main .scroll tbody tr").first).to_be_visible()
        inspector.shot(f"demo-{name}")

    # All of this was looking: nothing was made.
    assert http.get("/chats").headers["etag"] == revision
