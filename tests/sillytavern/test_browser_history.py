"""The history of a value, and the messages that are offered, however long the story is."""

from __future__ import annotations

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
    lines.nth(11).wait_for()
    assert (lines.count(), lines.first.inner_text().split("\n")[-1]) == (12, "28 → 29")
    assert not row.get_by_text("No changes recorded.").is_visible()
    row.locator(".vt-older").click()
    lines.nth(23).wait_for()
    panel.screenshot("older")
    row.locator(".vt-older").click()
    lines.nth(29).wait_for()
    assert lines.last.inner_text().split("\n")[-1] == "none → 0"
    row.locator(".vt-older").wait_for(state="hidden")
    # A new change is read, too.
    tab.slash("/vt-set hp 99")
    row.get_by_text("29 → 99").wait_for()
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
    assert select.input_value() == "300"
    select.select_option("earlier")
    select.select_option("1")
    panel.element.locator(".vt-checkpoint-form input").fill("Long ago")
    panel.element.locator(".vt-checkpoint-form").get_by_text("Create").click()
    panel.checkpoint("Long ago").get_by_text("as of #1").wait_for()
    assert tab.errors == []
