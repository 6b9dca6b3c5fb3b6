"""Values, keys and names stay text: nothing in them is ever run."""

from __future__ import annotations

from urllib.parse import quote

from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel

EVIL = "<img src=x onerror=\"document.title='run'\">"


def test_an_image_that_would_run_something_stays_text_wherever_it_can_be_seen(
    panel: Panel, model: Model
) -> None:
    tab = panel.tab
    chat = tab.context_value("chatMetadata")["integrity"]
    tab.evaluate(
        """() => { window.evil = []; new MutationObserver((all) => {
            for (const { addedNodes } of all) for (const one of addedNodes)
                for (const image of [one, ...(one.querySelectorAll?.('img') ?? [])])
                    if (image.outerHTML?.startsWith('<img src="x"'))
                        evil.push(image.parentElement?.outerHTML);
        }).observe(document, {subtree: true, childList: true}); }"""
    )
    with panel.tavern.client(EXTENSION) as client:

        def put(key: str, value: object) -> None:
            client.put(f"/chats/{chat}/data", json={"key": key, "value": value})

        put(EVIL, EVIL)
        put("list", [EVIL, {EVIL: EVIL}])
        put("number", 1)
        client.post("/characters", json={"id": EVIL, "name": EVIL})
        instance = {"id": EVIL, "characterId": EVIL, "name": EVIL, "chatId": chat}
        client.post("/instances", json=instance)
        client.put(f"/instances/{quote(EVIL, safe='')}/data", json={"key": EVIL, "value": EVIL})
    with panel.tavern.client("evil") as client:
        client.post("/register", json={"extensionId": "evil"})
        client.put(f"/chats/{chat}/data", json={"key": EVIL, "value": EVIL})
    panel.shows(EVIL, EVIL)
    panel.shows("list", f'["{quoted(EVIL)}",{{"{quoted(EVIL)}":"{quoted(EVIL)}"}}]')

    # The rows, their details, their editors.
    for row in panel.element.locator(".vt-own .vt-row").all():
        row.locator(".vt-key").click()
        row.locator(".vt-body > :not([hidden])").first.wait_for()
    panel.screenshot("details")
    for row in panel.element.locator(".vt-own .vt-row").all():
        row.locator(".vt-cell").click()
        row.locator(".vt-editor").wait_for()
    panel.screenshot("editors")
    # A problem, a refusal.
    panel.row("number").locator(".vt-input input").fill(EVIL)
    panel.row("number").locator(".vt-primary").click()
    panel.row("number").locator(".vt-wrong").wait_for()
    panel.row("list").locator("textarea").fill(EVIL)
    panel.row("list").locator(".vt-primary").click()
    panel.row("list").locator(".vt-wrong").wait_for()
    tab.slash(f"/vt-restore {EVIL}")
    tab.slash(f"/vt-inc number {EVIL}")
    # A call of the model, the message about it, what the reply and a swipe have changed.
    model.call("SetValue", key=EVIL, value=f"{EVIL}!", character=EVIL)
    model.say("Said.")
    tab.send("Go on.")
    panel.stepped("The last reply changed", f"{EVIL}.{EVIL}{EVIL} → {EVIL}!")
    # Checkpoints, the messages they are as of, the preview.
    tab.slash(f"/vt-checkpoint {EVIL}")
    panel.checkpoint(EVIL).wait_for()
    tab.swipe_right()
    panel.stepped("The last swipe changed", f"{EVIL}.{EVIL}{EVIL}! → {EVIL}")
    panel.checkpoint(EVIL).locator(".vt-restore").click()
    panel.checkpoint(EVIL).locator(".vt-preview").wait_for()
    panel.screenshot("checkpoint")
    # The names that are completed in the input.
    tab.page.fill("#send_textarea", "")
    tab.page.locator("#send_textarea").press_sequentially("/vt-get key=")
    tab.page.locator(".autoComplete").first.wait_for()
    panel.screenshot("completion")
    tab.page.fill("#send_textarea", "")
    # Another extension's.
    tab.open()
    tab.open_character(panel.character)
    panel.element.locator(".vt-whose").select_option("evil")
    panel.element.locator(".vt-other .vt-row").wait_for()
    panel.element.locator(".vt-other .vt-key").click()

    assert tab.page.title() != "run"
    assert tab.evaluate("() => window.evil ?? []") == []
    assert panel.element.locator("img").count() == 0


def quoted(text: str) -> str:
    return text.replace('"', '\\"')
