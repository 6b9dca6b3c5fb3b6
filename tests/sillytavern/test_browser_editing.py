"""Small things a player meets while editing values."""

from __future__ import annotations

from tests.conftest import wait_for_equal
from tests.sillytavern.conftest import PHONE, OpenTab
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.panel import Panel

SELECTED = """
() => {
    const { selectionStart, selectionEnd, value } = document.activeElement;
    return [selectionStart, selectionEnd, value.length];
}
"""
# The width of the chat, as SillyTavern's settings have it.
WIDTH = "() => document.documentElement.style.getPropertyValue('--sheldWidth')"
SET_WIDTH = "(width) => document.documentElement.style.setProperty('--sheldWidth', width)"
LIGHT = """
async () => {
    const root = document.documentElement.style;
    const light = {
        BodyColor: 'rgb(40,40,40)', BlurTintColor: 'rgb(245,245,245)',
        ChatTintColor: 'rgb(250,250,250)', BorderColor: 'rgb(200,200,200)',
        QuoteColor: 'rgb(160,80,0)', EmColor: 'rgb(90,90,90)',
    };
    for (const [name, colour] of Object.entries(light)) {
        root.setProperty(`--SmartTheme${name}`, colour);
    }
    document.body.style.background = 'rgb(230,230,230)';
}
"""


def test_an_editor_selects_nothing_and_asks_about_broken_json(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    tab.slash('/vt-set bag {"lamp":1,"rope":{"length":5,"knots":[]}}')
    tab.slash("/vt-set hp 50")
    panel.shows("hp", "50")
    panel.row("hp").locator(".vt-cell").click()
    panel.row("hp").locator(".vt-editor input:focus").wait_for()
    wait_for_equal(lambda: tab.evaluate(SELECTED), [2, 2, 2])
    tab.page.keyboard.press("Escape")
    panel.row("bag").locator(".vt-cell").click()
    panel.row("bag").locator("textarea:focus").wait_for()
    font = tab.evaluate("() => getComputedStyle(document.activeElement).fontFamily")
    assert "mono" in font.lower()
    panel.screenshot("json")
    tab.page.keyboard.press("Escape")

    panel.element.locator(".vt-add").click()
    form = panel.element.locator(".vt-adding")
    form.locator("input").fill("note")
    form.locator(".vt-input > *").fill("{bad json")
    form.locator(".vt-primary").click()
    form.get_by_text("begins like a list or an object").wait_for()
    assert "note" not in panel.kept()
    form.locator(".vt-primary").click()
    panel.shows("note", "{bad json")

    # One change inside an object is shown as that change.
    tab.slash("/vt-checkpoint Before")
    tab.slash("/vt-set bag.rope.length 7")
    panel.row("bag").locator(".vt-key").click()
    panel.row("bag").get_by_text("rope.length: 5 → 7").wait_for()
    panel.checkpoint("Before").locator(".vt-restore").click()
    preview = panel.checkpoint("Before").locator(".vt-differences")
    preview.wait_for()
    wait_for_equal(preview.locator("li").all_inner_texts, ["bag.rope.length\n7 → 5"])
    panel.screenshot("inside")
    assert tab.errors == []


def test_a_removed_value_is_brought_back(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    for key in ("hp", "gold"):
        tab.slash(f"/vt-set {key} 5")
        panel.shows(key, "5")
        row = panel.row(key)
        row.locator(".vt-key").click()
        row.locator(".fa-trash-can").click()
        row.locator(".vt-danger").click()
        panel.shows_not(key)
    notice = panel.element.locator(".vt-notice-removed")
    notice.get_by_text("“gold” was removed.").wait_for()
    bin = panel.element.locator(".vt-bin")
    bin.get_by_text("Removed values (2)").click()
    panel.screenshot("bin")
    notice.locator(".vt-undo").click()
    panel.shows("gold", "5")
    bin.get_by_text("Removed values (1)").wait_for()
    bin.locator(".vt-bring-back").click()
    panel.shows("hp", "5")
    bin.wait_for(state="hidden")
    panel.keeps({"gold": 5, "hp": 5})
    assert tab.errors == []


CALLING = """
(on) => {
    const box = document.querySelector('#openai_function_calling');
    box.checked = on;
    box.dispatchEvent(new Event('input', { bubbles: true }));
}
"""


def test_notes_of_the_settings_are_true_at_once(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    panel.settings()
    note = tab.page.locator(".vt-tool-note")
    assert not note.is_visible()
    tab.evaluate(CALLING, False)
    note.wait_for()
    panel.screenshot("note")
    # It is the setting of all tests, and SillyTavern saves it only after a while.
    tab.evaluate(CALLING, True)
    note.wait_for(state="hidden")
    panel.settings()
    assert tab.errors == []


def test_the_bar_above_the_chat_stays_above_it(shared_panel: Panel) -> None:
    panel = shared_panel
    places = []
    before = panel.tab.evaluate(WIDTH)
    for width in (50, 58, 100):
        places.append(
            panel.tab.evaluate(
                """(width) => {
                    document.documentElement.style.setProperty('--sheldWidth', `${width}vw`);
                    const of = (name) => {
                        const place = document.querySelector(name).getBoundingClientRect();
                        const { left, right } = place;
                        return [Math.round(left), Math.round(right)];
                    };
                    return ['#sheld', '#top-bar', '#top-settings-holder'].map(of);
                }""",
                width,
            )
        )
    panel.screenshot("wide")
    panel.tab.evaluate(SET_WIDTH, before)
    assert [each for each in places if each[0] != each[1] or each[0] != each[2]] == []


def test_it_can_be_read_in_a_light_theme_and_on_a_phone(
    open_tab: OpenTab, parlour: SillyTavern
) -> None:
    parlour.create_character("Lux")
    for name, given in (
        ("light", {"locale": "de-DE"}),
        ("phone", {"viewport": PHONE, "is_mobile": True, "has_touch": True}),
    ):
        tab = open_tab(parlour, **given)
        tab.open_character("Lux")
        panel = Panel(tab, parlour, "Lux")
        if name == "light":
            tab.evaluate(LIGHT)
        else:
            panel.open()
        tab.slash("/vt-set hp 50")
        tab.slash("/vt-set User.gold 7")
        tab.slash(f"/vt-checkpoint {name}")
        panel.element.locator(".vt-notice-savepoint").wait_for()
        panel.shows("gold", "7")
        panel.row("gold").locator(".vt-key").click()
        panel.row("gold").locator(".vt-move").click()
        panel.row("gold").locator(".vt-moving select").wait_for()
        panel.screenshot(name)
        wide = tab.evaluate(
            """() => ['#vt_panel', '#vt_panel .vt-scroll'].filter((name) => {
                const { scrollWidth, clientWidth } = document.querySelector(name);
                return scrollWidth > clientWidth;
            })"""
        )
        assert wide == []
        assert tab.errors == []
