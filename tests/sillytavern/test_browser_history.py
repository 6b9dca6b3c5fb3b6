"""The history of a value, and the messages that are offered, however long the story is."""

from __future__ import annotations

from playwright.sync_api import APIResponse, Route, expect

from tests.conftest import PATIENCE_SECONDS
from tests.sillytavern.panel import EXTENSION, Panel

# Add messages to the open chat, as an imported one has them.
FILL = """
async (count) => {
    const { chat, saveChat, reloadCurrentChat } = SillyTavern.getContext();
    for (let index = 0; index < count; index++) {
        chat.push({ name: 'Old', is_user: false, mes: `Line ${index}.`, send_date: '', extra: {} });
    }
    await saveChat();
    await reloadCurrentChat();
}
"""


def test_an_old_change_is_found_and_more_are_offered(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    for hp in range(30):
        tab.slash(f"/vt-set hp {hp}")
    chat = tab.context_value("chatMetadata")["integrity"]
    with panel.tavern.client(EXTENSION) as client:
        for count in range(6):
            steps = [
                {"op": "set", "key": "steps", "value": count * 100 + step} for step in range(100)
            ]
            done = client.post(f"/chats/{chat}/batch", json={"operations": steps})
            assert done.status_code == 200, done.text
    panel.shows("steps", "599")

    row = panel.row("hp")
    row.locator(".vt-key").click()
    lines = row.locator(".vt-history li")
    expect(lines).to_have_count(12)
    expect(lines.first).to_contain_text("28 → 29")
    assert not row.get_by_text("No changes recorded.").is_visible()
    row.locator(".vt-older").click()
    expect(lines).to_have_count(24)
    panel.screenshot("older")
    row.locator(".vt-older").click()
    expect(lines).to_have_count(30)
    expect(lines.last).to_contain_text("none → 0")
    row.locator(".vt-older").wait_for(state="hidden")
    # A new change is read, too.
    tab.slash("/vt-set hp 99")
    row.get_by_text("29 → 99").wait_for()
    assert tab.errors == []


class Held:
    """Holds back the answer to the next request for an address. It is as old as the request."""

    def __init__(self, panel: Panel, url: str) -> None:
        self._page = panel.tab.page
        self._url = url
        self._held: list[tuple[Route, APIResponse]] = []
        self._page.route(url, self._hold)

    def _hold(self, route: Route) -> None:
        if self._held or route.request.method != "GET":
            route.continue_()
        else:
            self._held.append((route, route.fetch()))

    def wait(self) -> None:
        for _ in range(int(PATIENCE_SECONDS * 100)):
            if self._held:
                return
            # Playwright calls `_hold` while it waits.
            self._page.wait_for_timeout(10)
        raise AssertionError(f"nobody asked for {self._url}")

    def release(self) -> None:
        ((route, answer),) = self._held
        route.fulfill(response=answer)
        self._page.unroute(self._url)


def test_an_answer_that_comes_late_hides_nothing_that_came_after_it(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    tab.slash("/vt-set hp 50")
    row = panel.row("hp")
    row.locator(".vt-key").click()
    row.get_by_text("none → 50").wait_for()
    panel.element.get_by_text("None yet.").wait_for()

    history = Held(panel, "**/history?**")
    tab.slash("/vt-set hp 45")
    history.wait()
    tab.slash("/vt-set hp 40")
    panel.shows("hp", "40")
    points = Held(panel, "**/checkpoints")
    assert tab.slash("/vt-checkpoint First") == "First"
    points.wait()
    assert tab.slash("/vt-checkpoint Second") == "Second"
    # Time for another request to overtake the one that is held, if the panel sent one.
    tab.page.wait_for_timeout(800)
    history.release()
    points.release()
    # Time for a late answer to be drawn.
    tab.page.wait_for_timeout(500)

    panel.checkpoint("First").wait_for()
    panel.checkpoint("Second").wait_for()
    row.get_by_text("50 → 45").wait_for()
    row.get_by_text("45 → 40").wait_for()
    assert tab.errors == []


def test_every_message_can_be_saved(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    tab.evaluate(FILL, 300)
    tab.rest()
    panel.status("online")
    select = panel.element.locator(".vt-checkpoint-form select")
    tab.wait_until(
        "() => document.querySelector('.vt-checkpoint-form select').options.length === 51"
    )
    select.select_option("earlier")
    tab.wait_until(
        "() => document.querySelector('.vt-checkpoint-form select').options.length === 251"
    )
    expect(select).to_have_value("300")
    select.select_option("earlier")
    select.select_option("1")
    panel.element.locator(".vt-checkpoint-form input").fill("Long ago")
    panel.element.locator(".vt-checkpoint-form").get_by_text("Create").click()
    panel.checkpoint("Long ago").get_by_text("as of #1").wait_for()
    assert tab.errors == []
