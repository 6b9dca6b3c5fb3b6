"""The inspector where something is in the way: tokens, a killed server, a great many keys."""

from __future__ import annotations

import signal
from pathlib import Path

import httpx
from playwright.sync_api import Browser, expect

from tests.conftest import PATIENCE_SECONDS, RunningServer, running_server
from tests.inspector.conftest import DESKTOP, Inspector
from tests.inspector.story import Teller, tell_story
from tests.system.conftest import RunProgram
from tests.system.conftest import run_program as run_program
from valuetracker.settings import PREFIX

RUN = "#/extension/demo/instance/run-1"


def test_tokens_are_made_asked_for_and_bound_to_what_they_allow(
    browser: Browser, tmp_path: Path
) -> None:
    with (
        running_server(tmp_path / "db") as server,
        httpx.Client(base_url=server.url + PREFIX, timeout=PATIENCE_SECONDS) as client,
    ):
        tell_story(client)
        context = browser.new_context(viewport=DESKTOP)
        inspector = Inspector(context, f"{server.url}/inspector/")
        page = inspector.page
        inspector.open("#/server")
        expect(page.locator(".chart")).to_have_count(4)
        inspector.see("Address to listen on.")
        inspector.shot("metrics-light")

        # The first token is an admin's; from then on this page needs one, too.
        inspector.button("Make a token…").click()
        page.get_by_label("Who it is for").fill("me")
        inspector.button("Make").click()
        admin = page.locator(".token").inner_text()
        inspector.button("Done").click()
        page.get_by_label("Token", exact=True).fill("vt_wrong")
        inspector.button("Open").click()
        expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        page.get_by_label("Token", exact=True).fill(admin)
        inspector.button("Open").click()
        inspector.see("do everything")
        inspector.button("Make a token…").click()
        page.get_by_label("Who it is for").fill("a reader")
        page.get_by_label("It may read all extensions").check()
        inspector.button("Make").click()
        reader = page.locator(".token").inner_text()
        inspector.button("Done").click()
        inspector.see("read all extensions")

        # It is kept in memory only. What a reader may not do is not offered.
        page.reload()
        page.get_by_label("Token", exact=True).fill(reader)
        inspector.button("Open").click()
        expect(page.locator("main h2", has_text="SillyTavern")).to_be_visible()
        expect(page.locator("main h2", has_text="Tokens")).to_have_count(0)
        expect(inspector.button("Back up now")).to_have_count(0)
        inspector.open(f"{RUN}/gold")
        inspector.see("80")
        expect(inspector.button("Edit")).to_have_count(0)
        expect(inspector.button("History")).to_be_visible()

        # A token that is revoked is asked for again.
        admins = {"authorization": f"Bearer {admin}"}
        listed = client.get("/tokens", headers=admins).json()
        (made,) = [each for each in listed if each["name"] == "a reader"]
        client.delete(f"/tokens/{made['id']}", headers=admins)
        page.reload()
        page.get_by_label("Token", exact=True).fill(reader)
        inspector.button("Open").click()
        expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        inspector.check()
        context.close()


def test_an_edit_survives_a_killed_server(browser: Browser, run_program: RunProgram) -> None:
    program = run_program()
    with program.client() as client:
        tell = tell_story(client)
        context = browser.new_context(viewport=DESKTOP)
        inspector = Inspector(context, f"{program.url}/inspector/")
        page = inspector.page
        inspector.open(f"{RUN}/gold")
        inspector.button("Edit").click()
        inspector.type_value("7777")
        before = tell("GET", "/instances/run-1/history?key=gold&limit=1").json()["items"][0]
        program.stop(signal.SIGKILL)

        inspector.button("Save").click()
        expect(page.locator(".lost")).to_be_visible()
        expect(page.locator(".editor .cm-content")).to_have_text("7777")
        inspector.shot("lost-light")
        run_program(port=program.url.rpartition(":")[2])

        inspector.told("Saved: gold")
        expect(page.locator(".lost")).to_have_count(0)
        expect(page.locator(".json")).to_have_text("7777")
        items = tell("GET", f"/instances/run-1/history?key=gold&after={before['revision']}").json()
        assert [each["after"] for each in items["items"]] == [7777]

        # The feed is back as well.
        tell("POST", "/instances/run-1/data", {"key": "gold", "value": 5})
        expect(page.locator(".json")).to_have_text("5")
        assert page.evaluate("() => window.violations") == []
        context.close()


def test_a_hundred_thousand_keys_and_five_thousand_messages(
    browser: Browser, server: RunningServer
) -> None:
    with httpx.Client(base_url=server.url + PREFIX, timeout=PATIENCE_SECONDS) as client:
        tell = Teller(client, "large")
        tell("POST", "/register", {"extensionId": "large"})
        tell("POST", "/instances", {"id": "i", "characterId": "c"})
        for start in range(0, 100_000, 10_000):
            values = {f"key-{number:06}": number for number in range(start, start + 10_000)}
            tell("PUT", "/instances/i/data/merge", values)
        for start in range(0, 5_000, 1_000):
            operations = [
                {
                    "op": "increment",
                    "key": "gold",
                    "by": 1,
                    "anchor": {"messageId": f"m{number}", "swipe": "0"},
                }
                for number in range(start, start + 1_000)
            ]
            tell("POST", "/chats/long/batch", {"operations": operations})
        context = browser.new_context(viewport=DESKTOP)
        inspector = Inspector(context, f"{server.url}/inspector/")
        page = inspector.page
        inspector.open("#/extension/large/instance/i")
        inspector.see("100,000 of 100,000 keys")
        pairs = page.locator(".pairs")
        pairs.focus()
        page.keyboard.press("End")
        expect(pairs).to_contain_text("key-099999")
        assert page.locator(".pair").count() < 100
        page.get_by_label("Filter keys and values").fill("key-05432")
        inspector.see("10 of 100,000 keys")

        inspector.open("#/extension/large/chat/long?tab=story")
        inspector.see("5,000 places")
        places = page.locator(".places")
        places.focus()
        page.keyboard.press("End")
        expect(places).to_contain_text("m4999")
        expect(page.locator(".changes")).to_contain_text("5000")
        assert page.locator(".place").count() < 100
        inspector.shot("long-story-light")
        inspector.check()
        context.close()
