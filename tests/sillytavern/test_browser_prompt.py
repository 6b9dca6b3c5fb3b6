"""Macros, slash commands and the values in the prompt, in a real browser."""

from __future__ import annotations

import pytest

from tests.sillytavern.conftest import OpenTab, StartTavern
from tests.sillytavern.model import Model
from tests.sillytavern.panel import EXTENSION, Panel, choose


@pytest.fixture
def panel(shared_panel: Panel) -> Panel:
    """These tests change nothing in the page but their chats."""
    return shared_panel


@pytest.fixture
def kept(panel: Panel) -> Panel:
    """A chat with some values, and some of its character."""
    panel.tab.slash("/vt-set hp 50")
    panel.tab.slash('/vt-set code "5"')
    panel.tab.slash('/vt-set bag ["lamp", {"coins": 3}]')
    panel.tab.slash("/vt-set a.b dotted")
    panel.tab.slash("/vt-set nobody null")
    panel.add("trick", "{{user}}")
    panel.add("mood", "wary", whose=panel.character)
    return panel


def test_macros_say_what_a_value_is(kept: Panel, model: Model) -> None:
    cases = {
        "{{vt::hp}}": "50",
        "{{vt::code}}": "5",
        "{{vt::bag}}": '["lamp",{"coins":3}]',
        "{{vt::bag.0}}": "lamp",
        "{{vt::bag.1.coins}}": "3",
        "{{vt::a.b}}": "dotted",
        "{{vt::nobody}}": "null",
        "{{vt::gone}}": "",
        "{{vt::gone::none}}": "none",
        "{{vt::gone::a::b}}": "a::b",
        "{{vt::hp::none}}": "50",
        "{{vt::constructor::none}}": "none",
        "{{vt::bag.9::none}}": "none",
        "{{vt::{{char}}.mood}}": "wary",
        f"{{{{vt::{kept.character}.mood}}}}": "wary",
        f"{{{{vt::{kept.character}.hp::none}}}}": "none",
        "{{vt::trick}}": "{ {user}}",
    }
    said = kept.tab.evaluate(
        "(all) => all.map((one) => SillyTavern.getContext().substituteParams(one))", list(cases)
    )
    assert dict(zip(cases, said, strict=True)) == cases

    # The server puts in the same; it does not know who {{char}} is.
    del cases["{{vt::{{char}}.mood}}"]
    chat = kept.tab.context_value("chatMetadata")["integrity"]
    with kept.tavern.client(EXTENSION) as client:
        for template, text in cases.items():
            rendered = client.post("/render", json={"template": template, "chatId": chat}).json()
            assert (template, rendered["text"]) == (template, text)

    # A name with what parts the path from the default: the macro that is recommended works.
    kept.add("a::b", "7")
    kept.row("a::b").locator(".vt-key").click()
    macro = kept.row("a::b").locator("code").inner_text()
    said = kept.tab.evaluate("(one) => SillyTavern.getContext().substituteParams(one)", macro)
    assert (macro, said) == ("{{vt::a::b}}", "7")

    kept.tab.send("I have {{vt::hp}} left.")
    assert "I have 50 left." in model.seen
    assert kept.tab.errors == []


def test_the_player_is_told_that_the_old_macros_know_none_of_values(kept: Panel) -> None:
    tab = kept.tab
    told = "Macros of values, {{vt::…}}, are not replaced"

    def choose_engine(new: bool) -> None:
        tab.evaluate(
            """(on) => {
                const box = document.getElementById('experimental_macro_engine');
                box.checked = on;
                box.dispatchEvent(new Event('input', { bubbles: true }));
            }""",
            new,
        )

    def said() -> str:
        return str(tab.evaluate("() => SillyTavern.getContext().substituteParams('{{vt::hp}}')"))

    try:
        choose_engine(False)
        assert said() == "{{vt::hp}}"
        kept.settings()
        tab.page.locator(".vt-settings").hover()
        tab.page.locator(".vt-settings").get_by_text(told).wait_for()
        kept.screenshot("settings")
        kept.settings()
        kept.row("hp").locator(".vt-key").click()
        kept.row("hp").get_by_text(told).wait_for()
    finally:
        # It is the setting of all tests, and SillyTavern saves it only after a while.
        choose_engine(True)
        tab.evaluate("async () => (await import('/script.js')).saveSettings()")
    assert said() == "50"
    kept.settings()
    tab.page.locator(".vt-settings").hover()
    tab.page.locator(".vt-settings").get_by_text(told).wait_for(state="hidden")
    kept.settings()
    assert tab.errors == []


def test_commands_read_and_write(kept: Panel) -> None:
    tab = kept.tab
    assert tab.slash("/vt-get hp") == "50"
    assert tab.slash("/vt-get default=none gone") == "none"
    assert tab.slash("/vt-get bag.1.coins") == "3"
    assert tab.slash(f'/vt-get key="{kept.character}.mood"') == "wary"
    assert tab.slash("/vt-inc hp -5") == "45"
    assert tab.slash("/vt-inc hp") == "46"
    assert tab.slash("/vt-inc bag.1.coins 2") == "5"
    assert tab.slash('/vt-set key="long name" some text') == "some text"
    assert tab.slash(f'/vt-set key="{kept.character}.mood" calm') == "calm"
    assert tab.slash("/vt-set as=text number 7") == "7"
    assert tab.slash("/vt-get number | /vt-set piped {{pipe}}") == "7"
    assert tab.slash('/vt-set "in \\"quotes\\"" 5') == "5"
    assert tab.slash('/vt-get "in \\"quotes\\""') == "5"
    assert tab.slash('/vt-set empty ""') == ""
    assert tab.slash("/vt-set bag.2 rope") == "rope"
    assert tab.slash("/vt-set bag.1.silver 1") == "1"
    kept.shows("mood", "calm")

    assert tab.slash("/vt-checkpoint Here") == "Here"
    tab.slash("/vt-set hp 1")
    assert '"hp"' in tab.slash("/vt-restore preview=true Here")
    assert tab.slash("/vt-get hp") == "1"
    assert tab.slash("/vt-restore Here") == "1"
    assert tab.slash("/vt-get hp") == "46"
    kept.checkpoint("Here").wait_for()
    assert tab.slash('/vt-checkpoint "And there"') == "And there"
    assert tab.slash("/vt-restore And there") == "0"
    assert tab.slash('/vt-restore "And there"') == "0"
    kept.keeps(
        {
            "hp": 46,
            "code": "5",
            "bag": ["lamp", {"coins": 5, "silver": 1}, "rope"],
            "a.b": "dotted",
            "nobody": None,
            "trick": "{{user}}",
            "long name": "some text",
            "number": "7",
            "piped": 7,
            'in "quotes"': 5,
            "empty": "",
        }
    )
    assert tab.errors == []


def test_a_command_that_cannot_be_done_says_so(kept: Panel) -> None:
    toast = kept.tab.page.locator(".toast-warning")

    for command, words in (
        ("/vt-inc hp much", "“much” is not a number."),
        ("/vt-inc code", "type"),
        ("/vt-set", "Name the value."),
        ("/vt-restore Nowhere", "Checkpoint not found"),
        ("/vt-checkpoint message=99", "There is no message 99."),
        ("/vt-set hp", "Give a value for “hp”"),
        ("/vt-set as=foo hp 1", "as=foo is not one of: json, text."),
        ("/vt-set follow=banana hp 1", "follow=banana is not one of: true, false."),
        ("/vt-restore preview=maybe Here", "preview=maybe is not one of"),
        ("/vt-set bag.9 7", "“bag” is a list of 2: use an index from 0 to 2, not 9."),
        ("/vt-set bag.first 7", "“bag” is a list of 2: use an index from 0 to 2, not first."),
        ("/vt-inc bag.0", "“bag.0” is not a number."),
        ("/vt-inc bag.1", "“bag.1” is not a number."),
        ("/vt-set hp 18446744073709551616", "too large to be kept exactly"),
        ('/vt-set hp {"n": 18446744073709551616}', "too large to be kept exactly"),
    ):
        assert kept.tab.slash(command) == ""
        toast.filter(has_text=words).first.wait_for()

    kept.keeps(
        {
            "hp": 50,
            "code": "5",
            "bag": ["lamp", {"coins": 3}],
            "a.b": "dotted",
            "nobody": None,
            "trick": "{{user}}",
        }
    )
    for command in ("get", "set", "inc", "checkpoint", "restore"):
        help = kept.tab.evaluate(
            """(name) => SillyTavern.getContext().SlashCommandParser.commands[name].helpString""",
            f"vt-{command}",
        )
        assert f" Example: /vt-{command}" in kept.tab.evaluate(
            "(html) => new DOMParser().parseFromString(html, 'text/html').body.textContent", help
        )


def test_the_model_is_told_what_the_player_has_chosen(
    start_tavern: StartTavern, open_tab: OpenTab, model: Model
) -> None:
    tavern = start_tavern(boot=False)
    choose(tavern, open=True, inject="all", depth=0)
    tavern.boot()
    tavern.create_character("Ada")
    tab = open_tab(tavern)
    tab.open_character("Ada")
    kept = Panel(tab, tavern, "Ada")
    kept.add("hp", "50")
    kept.add("code", '"5"')
    kept.add("name", "{{user}} & {{vt::hp}}")
    kept.add("mood", "wary", whose="Ada")
    kept.shows("mood", "wary")

    kept.tab.send("Hm.")
    assert "[Current values]\nhp: 50\ncode: 5" in model.seen
    # What a value says is never a macro, however often SillyTavern looks for some.
    assert "name: { {user}} & { {vt::hp}}" in model.seen
    assert f"{kept.character}.mood: wary" in model.seen

    kept.settings()
    kept.tab.page.locator(".vt-set-inject").select_option("chosen")
    kept.tab.page.locator(".vt-set-depth").fill("2")
    kept.tab.page.locator(".vt-set-depth").press("Tab")
    kept.tab.page.locator(".vt-set-role").select_option("User")
    kept.screenshot("settings")
    kept.settings()
    kept.row("mood").locator(".vt-key").click()
    kept.row("mood").get_by_label("Tell the model").check()
    kept.row("mood").locator(".vt-told").wait_for()
    kept.tab.send("And now?")

    told = [one for one in model.requests[-1]["messages"] if "[Current values]" in one["content"]]
    assert told == [{"role": "user", "content": f"[Current values]\n{kept.character}.mood: wary"}]
    assert model.requests[-1]["messages"].index(told[0]) == len(model.requests[-1]["messages"]) - 3
    assert kept.tab.errors == []

    kept.settings()
    kept.tab.page.locator(".vt-set-inject").select_option("off")
    kept.settings()
    kept.tab.send("And then?")
    assert "[Current values]" not in model.seen
