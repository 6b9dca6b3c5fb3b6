"""Every view of the inspector on the story of `valuetracker demo`."""

from __future__ import annotations

import re
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


def test_the_whole_past_is_reached_with_its_times(inspector: Inspector, http: httpx.Client) -> None:
    page = inspector.page
    chat = http.get("/chats").json()[0]["chatId"]
    path = f"/chats/{quote(chat, safe='')}"
    history = http.get(f"{path}/history?limit=1000").json()
    assert history["next"] is not None, "the demo has more than one page"
    while history["next"] is not None:
        page_after = {"limit": 1000, "cursor": history["next"]}
        history = http.get(f"{path}/history", params=page_after).json()
    oldest = history["items"][-1]
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    refused: list[str] = []
    page.on("response", lambda got: refused.append(got.url) if got.status >= 400 else None)

    past = f"#/extension/{EXTENSION}/chat/{quote(chat, safe='')}?tab=past"
    inspector.open(past)
    label = page.locator(".slider")
    expect(label).to_contain_text(re.compile(r"\(step (\d+) of the newest \1\)"))
    expect(page.locator(".values").first).to_be_visible()
    assert any("/state?at=" in each for each in asked)
    assert not any(each.endswith("at=") for each in asked)
    inspector.button("Show older changes").click()
    expect(label).to_contain_text(re.compile(r"\(step (\d+) of \1\)"))
    expect(inspector.button("Show older changes")).to_have_count(0)
    page.get_by_role("slider").focus()
    page.keyboard.press("Home")
    expect(label).to_contain_text(f"revision {oldest['revision']},")
    expect(label.locator("time")).to_have_attribute("datetime", oldest["at"])
    expect(label.locator("time")).to_have_text(re.compile(r"\d{4}.*\d:\d\d:\d\d"))
    inspector.shot("demo-whole-past")

    # An address that names an old revision leads to it.
    address = page.url
    inspector.open()
    inspector.open(address[address.index("#") :])
    expect(label).to_contain_text(f"revision {oldest['revision']},")
    assert refused == []


def test_keys_lead_from_the_search_to_what_is_found(
    inspector: Inspector, http: httpx.Client
) -> None:
    page = inspector.page
    instance = http.get("/instances").json()[0]
    names = {each["id"]: each["name"] for each in http.get("/characters").json()}
    name = names[instance["characterId"]]
    key = next(iter(http.get(f"/instances/{quote(instance['id'], safe='')}/data").json()))
    # There is one extension: the search need not be told which.
    box = page.get_by_label("Search names and values")
    for press in ("Enter", "ArrowDown"):
        inspector.open()
        expect(page.locator(".cards")).to_be_visible()
        box.fill(key)
        box.press(press)
        options = page.get_by_role("option")
        expect(options.first).to_have_attribute("aria-selected", "true")
        expect(page.get_by_role("listbox")).to_be_focused()
        assert f"/extension/{EXTENSION}/" in page.url
        page.keyboard.press("ArrowDown")
        expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    of = f"{instance['id']} of {name} in {instance['chatId']}"
    expect(options.filter(has_text=of).first).to_be_visible()
    inspector.shot("demo-search")
    box.fill("")
