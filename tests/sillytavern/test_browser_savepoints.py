"""Save points of the panel, in a real browser."""

from __future__ import annotations

from typing import Any

import orjson
from playwright.sync_api import Locator, Route, expect

from tests.conftest import wait_for, wait_for_equal
from tests.sillytavern.conftest import OpenTab
from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel

LISTS = "**/api/plugins/valuetracker/chats/*/checkpoints"


def test_a_save_point_made_elsewhere_is_listed_at_once(
    shared_panel: Panel, shared_second: Panel, open_tab: OpenTab
) -> None:
    panel = shared_panel
    panel.add("hp", "50")
    panel.tab.save()
    third = open_tab(panel.tavern, beside=panel.tab)
    others = [shared_second, Panel(third, panel.tavern, panel.character)]
    for other in others:
        other.tab.open_character(panel.character)
        other.shows("hp", "50")
        other.element.get_by_text("None yet.").wait_for()

    # Creating one takes no revision. The third tab polls: the browser opens two feeds at most.
    panel.tab.slash("/vt-checkpoint Before the duel")
    for each in (panel, *others):
        each.checkpoint("Before the duel").wait_for()
    others[1].checkpoint("Before the duel").locator(".vt-remove").click()
    others[1].checkpoint("Before the duel").locator(".vt-danger").click()
    for each in (panel, *others):
        each.checkpoint("Before the duel").wait_for(state="detached")

    # Another program makes one.
    chat = panel.tab.context_value("chatMetadata")["integrity"]
    with panel.tavern.client(EXTENSION) as client:
        client.post(f"/chats/{chat}/checkpoints", json={"name": "By hand"})
    panel.checkpoint("By hand").wait_for()
    assert [each.tab.errors for each in (panel, *others)] == [[], [], []]


def test_a_list_that_could_not_be_read_is_read_again(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    panel.element.get_by_text("None yet.").wait_for()
    failed: list[str] = []

    def refuse(route: Route) -> None:
        if route.request.method != "GET" or len(failed) == 2:
            route.continue_()
            return
        failed.append(route.request.url)
        body = {"error": "Something went wrong.", "code": "internal_error"}
        route.fulfill(status=500, json=body)

    tab.page.route(LISTS, refuse)
    tab.slash("/vt-checkpoint Before the duel")
    panel.checkpoint("Before the duel").wait_for()
    assert len(failed) == 2
    tab.page.unroute(LISTS)

    # The messages are offered with their texts, whether or not anything is read.
    tab.page.route(LISTS, lambda route: route.abort())
    tab.send("Who are you?")
    tab.wait_until(
        """() => document.querySelector('.vt-checkpoint-form select').textContent
            .includes('Reply 1.')"""
    )
    tab.page.unroute(LISTS)


# Make a lorebook with entries of an extension among them, and bind the chat to it.
BIND = """
async (name) => {
    const { saveWorldInfo, updateWorldInfoList, chatMetadata, saveMetadata } =
        SillyTavern.getContext();
    const entries = {};
    for (const [uid, comment] of ['The inn', '_registry_character', '__operation_queue'].entries())
        entries[uid] = { uid, comment, key: [comment], content: '', displayIndex: uid };
    await saveWorldInfo(name, { entries }, true);
    await updateWorldInfoList();
    chatMetadata.world_info = name;
    await saveMetadata();
}
"""
BOUND = "() => SillyTavern.getContext().chatMetadata.world_info"


def world(panel: Panel, name: str) -> dict[str, Any]:
    file = panel.tavern.data / f"default-user/worlds/{name}.json"
    found: dict[str, Any] = orjson.loads(file.read_bytes())["entries"]
    return found


def told(panel: Panel, what: str) -> Locator:
    return panel.element.locator(".vt-notice-savepoint", has_text=what)


def begin(panel: Panel, name: str) -> None:
    """Begin a chat from a save point."""
    before = panel.tab.chat_id
    panel.checkpoint(name).locator(".vt-branch").click()
    panel.tab.wait_until(
        "(id) => SillyTavern.getContext().getCurrentChatId() !== id && rig.resting()", before
    )


def test_a_save_point_copies_the_lorebook_and_tells_what_it_has(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    name = f"World of {panel.character}"
    tab.evaluate(BIND, name)
    tab.slash("/vt-set hp 50")
    tab.slash(f'/vt-set key="{panel.character}.mood" calm')
    tab.send("Hello!")
    origin = tab.chat_id

    tab.slash("/vt-checkpoint Before the duel")
    notice = told(panel, "Saved “Before the duel”.")
    for part in ("as of #2 · 2 values · ", "bytes", "(3 entries)"):
        expect(notice).to_contain_text(part)
    panel.screenshot("saved")

    begin(panel, "Before the duel")
    branched = told(panel, "This chat began with “Before the duel”")
    expect(branched).to_contain_text("2 values")
    expect(branched.locator(".vt-problem, .vt-faint")).to_have_count(0)
    tab.wait_until(f"(name) => ({BOUND})() !== name", name)
    copy = tab.evaluate(BOUND)
    comments = ["The inn", "_registry_character", "__operation_queue"]
    assert [one["comment"] for one in world(panel, copy).values()] == comments
    assert {one["uid"] for one in world(panel, copy).values()}.isdisjoint({0, 1, 2})
    panel.screenshot("branched")

    # The original has its own, and the branch stays bound to what the player chooses.
    tab.open_chat(origin)
    wait_for_equal(lambda: tab.evaluate(BOUND), name)
    with_own = tab.evaluate("() => SillyTavern.getContext().chatMetadata.main_chat")
    assert with_own is None
    panel.tavern.data.joinpath(f"default-user/worlds/{copy}.json").unlink()
    begin(panel, "Before the duel")
    told(panel, "Warning: ").wait_for()
    wait_for_equal(lambda: tab.evaluate(BOUND), copy)
    panel.screenshot("warned")
    assert tab.errors == []


def test_the_switch_keeps_the_lorebook_out(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    name = f"World of {panel.character}"
    tab.evaluate(BIND, name)
    panel.settings()
    tab.page.locator(".vt-set-lorebook").uncheck()
    panel.settings()
    tab.slash("/vt-set hp 50")
    tab.slash("/vt-checkpoint Alone")
    notice = told(panel, "Saved “Alone”.")
    notice.wait_for()
    assert "lorebook" not in notice.inner_text()
    begin(panel, "Alone")
    told(panel, "This chat began with “Alone”").wait_for()
    wait_for_equal(lambda: tab.evaluate(BOUND), name)
    panel.row("hp").locator(".vt-key").click()
    panel.row("hp").get_by_text("start of this chat").wait_for()
    panel.settings()
    tab.page.locator(".vt-set-lorebook").check()
    panel.settings()
    assert tab.errors == []


def test_operations_are_counted_and_waited_for(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    tab.slash("/vt-set hp 50")
    chat = tab.context_value("chatMetadata")["integrity"]
    panel.shows("hp", "50")
    with panel.tavern.client(EXTENSION) as client:
        wait_for(lambda: client.get(f"/chats/{chat}/data").json() == {"hp": 50})
        for id, type in (("a", "recap"), ("b", "recap"), ("c", "scan")):
            client.post(f"/chats/{chat}/operations", json={"id": id, "type": type})
        form = panel.element.locator(".vt-checkpoint-form")
        form.locator("input").fill("Later")
        form.get_by_text("Create").click()
        pending = panel.element.locator(".vt-notice-pending")
        pending.get_by_text("3 operations are running: recap 2, scan 1.").wait_for()
        client.patch(f"/chats/{chat}/operations/c", json={"stage": "half"})
        pending.get_by_text("recap 2, scan 1 (half).").wait_for()
        client.post(f"/chats/{chat}/operations/a/cancel")
        pending.get_by_text("2 operations are running: recap 1, scan 1 (half).").wait_for()
        panel.screenshot("pending")
        pending.locator(".vt-when-ready").click()
        panel.checkpoint("Later").get_by_text("waiting").wait_for()
        for id in ("b", "c"):
            client.post(f"/chats/{chat}/operations/{id}/cancel")
    told(panel, "Saved “Later”.").wait_for()
    panel.checkpoint("Later").locator(".vt-restore").wait_for()

    # Restored, it is told with what it had.
    tab.slash("/vt-set hp 7")
    assert tab.slash("/vt-restore Later") == "1"
    told(panel, "Restored “Later” of ").get_by_text("1 changed · 1 value").wait_for()
    panel.shows("hp", "50")
    # The browser itself writes a refusal in red.
    assert [error for error in tab.errors if "409 (Conflict)" not in error] == []


def test_a_save_point_leads_to_its_message(shared_panel: Panel, model: Model) -> None:
    panel, tab = shared_panel, shared_panel.tab
    model.call("SetValue", key="hp", value=50)
    model.say("You bleed.")
    tab.send("I strike.")
    for _ in range(6):
        model.say("And on. " * 60)
        tab.send("And then?")
    # A line about calls is no message to a player.
    calls = [one for one in tab.evaluate(CALLS) if one]
    offered = panel.element.locator(".vt-checkpoint-form option")
    expect(offered).to_have_count(len(tab.chat) - len(calls))
    tab.slash("/vt-checkpoint message=1 The beginning")
    panel.element.get_by_text("Save points").wait_for()
    panel.checkpoint("The beginning").locator(".vt-jump").click()
    tab.wait_until(
        """() => {
            const { top, bottom } = document.querySelector('#chat .mes[mesid="1"]')
                .getBoundingClientRect();
            return top >= 0 && bottom <= innerHeight;
        }"""
    )
    expect(panel.checkpoint("The beginning").locator(".vt-jump")).to_have_text("as of #1")
    assert tab.errors == []


CALLS = "() => SillyTavern.getContext().chat.map((one) => one.extra?.tool_invocations?.length > 0)"
