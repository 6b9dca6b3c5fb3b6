"""A person uses the inspector: finds, reads, edits, goes back."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import RunningServer
from tests.inspector.conftest import DESKTOP, PHONE, Inspector
from tests.inspector.story import CHAT, HOSTILE, LARGEST, WHAT_IF, Teller
from valuetracker.settings import PREFIX

RUN = "#/extension/demo/instance/run-1"
CHAT_ADDRESS = f"#/extension/demo/chat/{quote(CHAT, safe='')}"


def test_everything_is_found_in_the_tree_by_keys_and_by_search(inspector: Inspector) -> None:
    page = inspector.page
    card = page.locator(".cards li", has_text="demo")
    expect(card).to_contain_text("healthy")
    expect(card).to_contain_text(re.compile(r"\d+ keys, 2 instances, 1 character"))
    inspector.shot("extensions-light")
    card.get_by_role("link").click()
    inspector.see("Extension demo")
    tree = page.get_by_role("tree")
    expect(tree).to_contain_text(CHAT)

    # Walk down from the extension: the pane follows.
    tree.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    selected = page.locator('[role="treeitem"][aria-selected="true"]')
    expect(selected).to_contain_text("Chats")
    page.keyboard.press("ArrowDown")
    expect(selected).to_contain_text(CHAT)
    expect(page.locator("main h1")).to_have_text(CHAT)
    page.keyboard.press("ArrowRight")
    expect(selected).to_have_attribute("aria-expanded", "true")
    expect(tree).to_contain_text("run-1")
    page.keyboard.press("ArrowDown")
    expect(page.locator("main h1")).to_have_text("run-1")
    page.keyboard.press("ArrowRight")
    expect(tree).to_contain_text("gold")
    page.keyboard.press("ArrowRight")
    expect(page.locator("main h1")).to_have_text("gold")
    inspector.shot("tree-light")

    # Search over names and values; the address leads back to what was found.
    page.get_by_label("Search names and values").fill("frightened OR")
    expect(page.locator(".found")).to_have_text("0 found")
    page.get_by_label("Search names and values").fill("lamp")
    found = page.get_by_role("option")
    expect(found.first).to_contain_text("bag")
    found.first.click()
    expect(page.locator("main h1")).to_have_text("bag")
    assert "q=lamp" in page.url
    other = Inspector(page.context, inspector.url)
    other.page.goto(page.url)
    expect(other.page.get_by_role("option").first).to_contain_text("bag")
    expect(other.page.locator("main h1")).to_have_text("bag")
    other.check()
    other.page.close()
    page.get_by_label("Search names and values").fill("")


def test_values_are_exact_and_edited_with_care(inspector: Inspector, tell: Teller) -> None:
    page = inspector.page
    inspector.open(RUN)
    pairs = page.locator(".pairs")
    expect(pairs).to_contain_text(str(LARGEST))
    expect(pairs.locator(".pair", has_text="nothing")).to_contain_text("null")
    expect(pairs.locator(".pair", has_text="empty text")).to_contain_text('"" empty text')
    expect(pairs.locator(".pair", has_text="empty list")).to_contain_text("empty list []")
    inspector.open(f"{RUN}/no%20such%20key")
    inspector.see("absent")
    inspector.open(f"{RUN}/bag")
    # Keys that look like numbers keep their place.
    expect(page.locator(".json")).to_contain_text(re.compile("rope.*lamp.*1: b.*0: a", re.S))

    # Text that is not JSON is told while it is typed, and refused, with the place of the error.
    inspector.button("Edit").click()
    inspector.type_value('{"rope": 1,\n "lamp": oops}')
    inspector.see("Line 2, column 10")
    inspector.type_value('{"rope":}')
    inspector.see("Line 1, column 9")
    inspector.button("Save").click()
    inspector.see("Line 1, column 9")
    inspector.shot("edit-error-light")
    inspector.type_value(f'{{"rope": {LARGEST}, "half": 1.50}}')
    inspector.button("Save").click()
    inspector.told("Saved: bag")
    expect(page.locator(".json")).to_contain_text(str(LARGEST))
    stored = tell("GET", "/instances/run-1/data/bag").text
    assert f'"rope":{LARGEST}' in stored
    history = tell("GET", "/instances/run-1/history?key=bag&limit=1").json()["items"][0]
    assert history["actor"] == "user"

    page.locator(".notices").get_by_role("button", name="Undo").click()
    inspector.told("bag is as it was before")
    expect(page.locator(".json")).to_contain_text("lamp")

    # A value that the server refuses stays in the editor.
    inspector.button("Edit").click()
    inspector.type_value(f"[{LARGEST}0]")
    inspector.button("Save").click()
    expect(page.locator("main .failure")).to_contain_text(re.compile("number|integer", re.I))
    expect(page.locator(".editor .cm-content")).to_have_text(f"[{LARGEST}0]")
    inspector.button("Cancel").click()

    for label, expected in [
        ("Copy value", '"rope": 1'),
        ("Copy path", "/instances/run-1/data/bag"),
        ("Copy as fetch", '"x-extension-id":"demo"'),
        ("Copy as macro", "{{vt::Seraphina.bag}}"),
    ]:
        page.evaluate("() => navigator.clipboard.writeText('')")
        inspector.button(label).click()
        page.wait_for_function("async () => (await navigator.clipboard.readText()) !== ''")
        assert expected in page.evaluate("() => navigator.clipboard.readText()")

    # A new key, removed again, and back by undo.
    inspector.open(RUN)
    inspector.button("Add a key").click()
    page.get_by_label("Key", exact=True).fill("silver")
    page.get_by_label("Value, as JSON").evaluate(
        """(area) => {
            // So much text takes long to draw.
            area.hidden = true;
            area.value = JSON.stringify('x'.repeat(8 * 1024 * 1024));
            area.dispatchEvent(new Event('input', { bubbles: true }));
        }"""
    )
    inspector.button("Add").click()
    expect(page.get_by_role("dialog").locator(".failure")).to_contain_text("large")
    page.locator("dialog textarea").evaluate("(area) => { area.hidden = false; area.value = ''; }")
    page.get_by_label("Value, as JSON").fill("12")
    inspector.button("Add").click()
    inspector.told("Added: silver")
    expect(page.locator("main h1")).to_have_text("silver")
    inspector.button("Remove").click()
    inspector.told("Removed: silver")
    inspector.see("absent")
    page.locator(".notice", has_text="Removed").get_by_role("button", name="Undo").click()
    expect(page.locator(".json")).to_have_text("12")

    # Nothing is offered that would change something while Read-only is on.
    page.get_by_role("switch", name="Read-only").check()
    expect(inspector.button("Edit")).to_have_count(0)
    expect(inspector.button("Remove")).to_have_count(0)
    inspector.open(RUN)
    expect(inspector.button("Add a key")).to_have_count(0)
    page.get_by_role("switch", name="Read-only").uncheck()


def test_a_second_window_changes_what_the_first_edits(inspector: Inspector, tell: Teller) -> None:
    page = inspector.page
    inspector.open(f"{RUN}/mood")
    before = json.dumps(tell("GET", "/instances/run-1/data/mood").json()["mood"])
    expect(page.locator(".json")).to_contain_text(before.strip('"'))
    inspector.button("Edit").click()
    inspector.type_value('"mine"')
    tell("POST", "/instances/run-1/data", {"key": "mood", "value": "theirs"})

    inspector.button("Save").click()
    inspector.see("Somebody else changed this value")
    expect(page.locator(".editor .cm-content").first).to_contain_text('"theirs"')
    expect(page.locator(".editor .cm-content").last).to_contain_text('"mine"')
    inspector.shot("conflict-light")
    inspector.button("Save mine").click()
    inspector.told("Saved: mood")
    assert tell("GET", "/instances/run-1/data/mood").json() == {"mood": "mine"}

    # A change of the other window is seen at once, without a reload.
    tell("POST", "/instances/run-1/data", {"key": "mood", "value": "changed elsewhere"})
    expect(page.locator(".json")).to_contain_text("changed elsewhere")


def test_the_past_is_read_compared_and_restored(inspector: Inspector, tell: Teller) -> None:
    page = inspector.page
    inspector.open(f"{RUN}/gold?tab=history")
    page.locator(".chart canvas").wait_for()
    rows = page.locator("main .scroll tbody tr")
    expect(rows.first).to_contain_text("80")
    expect(rows.first).to_contain_text("m2 · swipe 0")
    expect(rows.first).to_contain_text("live")
    inspector.shot("history-light")
    rows.first.get_by_role("button", name="Compare").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator(".cm-content").first).to_have_text("85")
    expect(dialog.locator(".cm-content").last).to_have_text("80")
    dialog.get_by_role("button", name="Close").click()

    # Restore one key: first what would change.
    rows.nth(1).get_by_role("button", name="Restore").click()
    expect(dialog).to_contain_text("1 value would change")
    dialog.get_by_role("button", name="Restore").click()
    inspector.told("Restored revision")
    assert tell("GET", "/instances/run-1/data/gold").json() == {"gold": 85}
    page.locator(".notices").get_by_role("button", name="Undo").last.click()
    inspector.told("The restore was undone")
    assert tell("GET", "/instances/run-1/data/gold").json() == {"gold": 80}

    # Others than numbers are steps.
    inspector.open(f"{RUN}/mood?tab=history")
    page.locator(".chart canvas").wait_for()

    # The history of the chat shows a batch as one.
    inspector.open(f"{CHAT_ADDRESS}?tab=history")
    group = page.locator(".group", has_text="at message m1")
    expect(group.first).to_contain_text("location")
    expect(group.first).to_contain_text("frightened")
    group.first.get_by_role("button", name="Compare").click()
    expect(page.locator("main tbody")).to_contain_text("frightened")
    inspector.button("With now").click()
    expect(page.locator("main tbody")).to_contain_text("place 0")

    # The slider shows the values of then.
    inspector.open(f"{RUN}?tab=past")
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".values")).to_have_count(1)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".values")).to_contain_text("gold")
    expect(page.locator(".values")).not_to_contain_text("bag")
    inspector.open(f"{CHAT_ADDRESS}?tab=past")
    page.get_by_label("by message").check()
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".slider")).to_contain_text("message m0")
    expect(page.locator(".values").first).to_contain_text("place 0")
    expect(page.get_by_label("run-1", exact=True)).to_contain_text("95")
    inspector.shot("slider-light")


def test_the_story_of_a_chat_is_shown_and_looking_makes_nothing(
    inspector: Inspector, tell: Teller
) -> None:
    page = inspector.page
    revision = tell("GET", "/chats").headers["etag"]
    inspector.open(f"{CHAT_ADDRESS}?tab=story")
    places = page.locator(".place")
    expect(places.nth(2)).to_contain_text("m2")
    expect(page.locator(".place", has_text="swipe 1")).to_contain_text("dormant")
    expect(page.locator(".place", has_text="swipe 0").nth(2)).to_contain_text("live")
    places.nth(1).click()
    expect(page.locator(".changes")).to_contain_text("frightened")
    inspector.shot("story-light")
    inspector.tab("Branches")
    graph = page.locator(".graph")
    expect(graph).to_contain_text("save point before the duel")
    expect(graph.get_by_role("link")).to_have_count(2)
    expect(graph).to_contain_text("from message m1")
    inspector.shot("branches-light")
    graph.locator("circle").last.click()
    expect(page.locator("main h1")).to_have_text(WHAT_IF)
    inspector.open(f"{CHAT_ADDRESS}?tab=series")
    inspector.see("Series recap: 2 versions")
    expect(page.locator(".editor .cm-content").last).to_contain_text("A wolf came")
    page.get_by_text("Processed ids").click()
    inspector.see("scene-1")
    assert tell("GET", "/chats").headers["etag"] == revision

    inspector.open(f"{CHAT_ADDRESS}?tab=operations")
    row = page.locator("main tbody tr")
    voice = row.filter(has_text="voice-1")
    expect(voice).to_contain_text("pending")
    voice.get_by_role("button", name="Cancel").click()
    expect(voice).to_contain_text("cancelled")
    voice.get_by_role("button", name="Delete").click()
    expect(voice).to_have_count(0)
    claim = tell(
        "POST", f"/chats/{CHAT}/operations/claim", {"types": ["portrait"], "leaseMs": 60000}
    )
    claimed = claim.json()
    inspector.open(f"{CHAT_ADDRESS}?tab=series")
    inspector.tab("Operations")
    portrait = row.filter(has_text="portrait-1")
    expect(portrait).to_contain_text("s left")
    tell("POST", f"/chats/{CHAT}/operations/portrait-1/fail", {"claim": claimed["claim"]})
    expect(portrait).to_contain_text("failed")
    portrait.get_by_role("button", name="Retry").click()
    expect(portrait).to_contain_text("pending")
    inspector.shot("operations-light")


def test_the_server_is_watched_and_cared_for(
    inspector: Inspector, http: httpx.Client, tell: Teller
) -> None:
    page = inspector.page
    inspector.open("#/feed?extension=demo")
    inspector.see("demo: live")
    tell("POST", "/instances/run-1/data", {"key": "feed", "value": "uno"})
    inspector.see("uno")
    inspector.button("Pause").click()
    tell("POST", "/instances/run-1/data", {"key": "feed", "value": "second"})
    inspector.see("1 new")
    expect(inspector.pane).not_to_contain_text("second")
    inspector.button("Go on").click()
    inspector.see("second")
    page.get_by_label("Filter").fill("uno")
    expect(page.locator(".group")).to_have_count(1)
    inspector.shot("feed-light")

    inspector.open("#/")
    inspector.button("Register").click()
    page.get_by_label("Id", exact=True).fill("short-lived")
    page.get_by_role("dialog").get_by_role("button", name="Register").click()
    inspector.told("short-lived is registered")
    inspector.button("Verify").click()
    inspector.see("everything is sound")
    inspector.button("Purge…").click()
    purge = page.get_by_role("dialog").get_by_role("button", name="Purge")
    expect(purge).to_be_disabled()
    page.get_by_label("to confirm").fill("short-lived")
    purge.click()
    inspector.told("was purged")
    assert "short-lived" not in [each["id"] for each in http.get("/extensions").json()]

    inspector.open("#/extension/demo")
    with page.expect_download() as waiting:
        inspector.button("Export").click()
    exported = waiting.value.path()
    assert exported.read_text().startswith('{"type":"valuetracker"')
    inspector.button("Import…").click()
    page.get_by_label("File of an export").set_input_files(exported)
    inspector.button("Try without changing anything").click()
    expect(page.get_by_role("dialog")).to_contain_text("The file would bring")
    inspector.button("Import").click()
    inspector.told("Imported")

    # One chat, to give to a friend.
    inspector.open(CHAT_ADDRESS)
    with page.expect_download() as waiting:
        inspector.button("Export this chat").click()
    assert WHAT_IF not in waiting.value.path().read_text()

    inspector.open("#/server")
    inspector.button("Back up now").click()
    inspector.see("Backup: done")
    row = page.locator("main tbody tr").first
    expect(row).to_contain_text("manual")
    row.get_by_role("button", name="Verify").click()
    inspector.see("everything is sound")
    inspector.shot("server-light")

    # A restored backup is a new incarnation: editing and undo go on.
    row.get_by_role("button", name="Restore…").click()
    page.locator("dialog select").select_option("demo")
    page.get_by_label("to confirm").fill("demo")
    page.get_by_role("dialog").get_by_role("button", name="Restore").click()
    inspector.see(re.compile("restore: done", re.I))
    inspector.open(f"{RUN}/gold")
    inspector.button("Edit").click()
    inspector.type_value("11")
    inspector.button("Save").click()
    expect(page.locator(".json")).to_have_text("11")
    saved = page.locator(".notice", has_text="Saved: gold")
    saved.get_by_role("button", name="Undo").click()
    expect(page.locator(".json")).to_have_text("80")
    inspector.open("#/server")
    inspector.button("Back up now").wait_for()
    expect(row).to_contain_text("manual")
    row.get_by_role("button", name="Delete").click()
    inspector.told("was deleted")

    inspector.open("#/api?filter=caller")
    page.locator("details.route", has_text="/caller").locator("summary").click()
    inspector.button("Send").click()
    expect(page.get_by_label("Answer")).to_contain_text('"admin": true')
    inspector.button("Copy as curl").click()
    page.wait_for_function("async () => (await navigator.clipboard.readText()).startsWith('curl')")
    inspector.shot("api-light")


def test_hostile_text_is_text_everywhere(inspector: Inspector) -> None:
    page = inspector.page
    name = quote(HOSTILE, safe="")
    instance, chat = f"#/extension/hostile/instance/{name}", f"#/extension/hostile/chat/{name}"
    views = [
        "#/extension/hostile",
        f"#/extension/hostile/character/{name}",
        *[f"{instance}{rest}" for rest in ("", "?tab=history", "?tab=compare", "?tab=past")],
        *[f"{instance}/{name}{rest}" for rest in ("", "?tab=history")],
        *[
            f"{chat}?tab={tab}"
            for tab in (
                "",
                "history",
                "compare",
                "past",
                "story",
                "branches",
                "series",
                "operations",
            )
        ],
        f"#/extension/hostile?q={quote('img')}",
    ]
    for view in views:
        inspector.open(view)
        expect(page.locator("main")).to_contain_text(
            "hostile" if "/i" not in view and "/c" not in view else "<img"
        )
        expect(page.locator(".loading")).to_have_count(0)
    inspector.open(f"{instance}/{name}")
    inspector.button("Edit").click()
    expect(page.locator(".editor .cm-content")).to_contain_text("<img")
    inspector.button("Cancel").click()
    assert page.locator("img").count() == 0
    inspector.shot("hostile-light")


def test_what_is_not_there_is_said(inspector: Inspector, http: httpx.Client) -> None:
    tell = Teller(http, "gone")
    tell("POST", "/register", {"extensionId": "gone"})
    tell("POST", "/chats/old/data", {"key": "a", "value": 1})
    tell("POST", "/chats/old/data", {"key": "a", "value": 2})
    tell("DELETE", "/chats/old")
    tell("POST", "/instances", {"id": "i", "characterId": "c"})
    for number in range(5):
        tell("POST", "/instances/i/data", {"key": "n", "value": number})
    tell("POST", "/compact", {"keep": {"revisions": 1}})
    inspector.page.reload()
    inspector.open("#/extension/gone/chat/old")
    inspector.see("archived: it cannot be changed")
    inspector.open("#/extension/gone/chat/old/a")
    inspector.button("Edit").click()
    inspector.type_value("3")
    inspector.button("Save").click()
    expect(inspector.page.locator("main .failure")).to_contain_text("archived")
    inspector.button("Cancel").click()
    inspector.open("#/extension/gone/instance/i?tab=compare&from=3")
    expect(inspector.page.locator("main .failure")).to_be_visible()
    inspector.open("#/extension/gone/instance/i/n?tab=history")
    inspector.see("4")
    tell("DELETE", "/register", {"extensionId": "gone"})
    inspector.open("#/extension/gone/instance/i")
    failure = inspector.page.locator("main .failure").first
    expect(failure).to_contain_text("Register the extension first")
    inspector.open("#/extension/demo/instance/nobody")
    inspector.see("there is none now")


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_it_fits_a_phone_and_a_desk_in_both_colours(
    browser: Browser, server: RunningServer, http: httpx.Client, colours: str
) -> None:
    context = browser.new_context(viewport=PHONE, color_scheme=colours)  # type: ignore[arg-type]
    inspector = Inspector(context, f"{server.url}{PREFIX}/inspector/")
    page = inspector.page
    for name, address in [
        ("extensions", "#/"),
        ("values", RUN),
        ("value", f"{RUN}/bag"),
        ("history", f"{RUN}/gold?tab=history"),
        ("story", f"{CHAT_ADDRESS}?tab=story"),
        ("branches", f"{CHAT_ADDRESS}?tab=branches"),
        ("server", "#/server"),
        ("api", "#/api"),
    ]:
        for kind, size in [("phone", PHONE), ("desktop", DESKTOP)]:
            page.set_viewport_size(size)
            inspector.open(address)
            expect(page.locator(".loading")).to_have_count(0)
            inspector.shot(f"{kind}-{name}-{colours}")
            wider = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert wider <= 0, (name, kind)
        inspector.accessible()
    page.set_viewport_size(PHONE)
    page.get_by_role("button", name="Contents").click()
    expect(page.get_by_role("tree")).to_be_visible()
    inspector.shot(f"phone-tree-{colours}")
    page.get_by_role("button", name="Colours: system").click()
    page.get_by_role("button", name="Colours: light").click()
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert max(int(each) for each in re.findall(r"\d+", background)) < 64
    inspector.check()
    context.close()
