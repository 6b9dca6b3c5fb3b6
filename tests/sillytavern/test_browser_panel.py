"""The panel, used by a player in a real browser."""

from __future__ import annotations

from tests.sillytavern.browser import Tab
from tests.sillytavern.conftest import PHONE, OpenTab
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.panel import EXTENSION, Panel


def test_a_player_finds_the_panel_and_keeps_values_in_it(
    tab: Tab, tavern: SillyTavern, character: str
) -> None:
    panel = Panel(tab, tavern, character)
    tab.open_character(character)
    assert not panel.element.is_visible()

    panel.open()
    panel.status("online")
    panel.element.get_by_text("No values yet.").wait_for()
    panel.screenshot("empty")

    panel.add("hp", "50")
    panel.add("mood", "wary", whose=character)
    panel.add("code", '"5"')
    panel.edit("hp", "45")
    panel.shows("hp", "45")
    assert panel.values == {
        "Chat": {"hp": "45", "code": '"5"'},
        character: {"mood": "wary"},
    }
    # A number that was typed is one; text that looks like a number stays text.
    panel.edit("code", "6")
    panel.shows("code", '"6"')
    assert panel.kept() == {"hp": 45, "code": "6"}
    assert [(one["actor"], one["anchor"]) for one in panel.history("hp")] == [("user", None)] * 2

    panel.row("hp").locator("svg.vt-line").wait_for()
    panel.row("hp").locator(".vt-key").click()
    details = panel.row("hp").locator(".vt-body")
    assert "{{vt::hp}}" in details.inner_text()
    assert "50 → 45" in details.inner_text()
    panel.screenshot("values")

    panel.row("code").locator(".vt-key").click()
    panel.row("code").locator(".fa-trash-can").click()
    panel.row("code").locator(".vt-danger").click()
    panel.shows_not("code")
    assert panel.kept() == {"hp": 45}

    panel.element.locator(".vt-close").click()
    panel.element.wait_for(state="hidden")
    assert tab.errors == []


def test_what_is_not_of_its_kind_is_refused_and_nothing_is_changed(panel: Panel) -> None:
    panel.tab.slash("/vt-set hp 50")
    panel.tab.slash('/vt-set bag ["lamp"]')
    panel.shows("bag", '["lamp"]')
    editor = panel.row("hp").locator(".vt-editor")

    panel.edit("hp", "a lot")
    editor.get_by_text("This is not a number.").wait_for()
    panel.screenshot("not a number")
    editor.locator("input").fill("18446744073709551616")
    editor.locator(".vt-primary").click()
    editor.get_by_text("too large to be kept exactly").wait_for()
    editor.locator("input").press("Escape")
    panel.edit("bag", '["lamp", ')
    panel.row("bag").get_by_text("This is not JSON").wait_for()
    assert panel.kept() == {"hp": 50, "bag": ["lamp"]}

    # Somebody else's write does not take the text out of an editor.
    panel.tab.slash("/vt-set hp 51")
    panel.shows("hp", "51")
    assert panel.row("bag").locator("textarea").input_value() == '["lamp", '
    panel.row("bag").locator("textarea").fill('["lamp", {"__proto__": 1}]')
    panel.row("bag").locator(".vt-primary").click()
    panel.shows("bag", '["lamp",{"__proto__":1}]')
    assert panel.kept() == {"hp": 51, "bag": ["lamp", {"__proto__": 1}]}

    panel.edit("hp", "51", kind="text")
    panel.shows("hp", '"51"')
    panel.edit("bag", "true", kind="switch")
    panel.shows("bag", "Yes")
    assert panel.kept() == {"hp": "51", "bag": True}
    assert panel.tab.errors == []


def test_a_checkpoint_is_made_as_of_a_message_looked_at_restored_and_branched(
    panel: Panel,
) -> None:
    tab = panel.tab
    tab.send("One.")
    tab.slash("/vt-set follow=true hp 50")
    tab.send("Two.")
    tab.slash("/vt-set follow=true hp 40")
    tab.slash("/vt-set follow=true wounds 1")
    panel.shows("wounds", "1")

    form = panel.element.locator(".vt-checkpoint-form")
    form.locator("select").focus()
    form.locator("select").select_option("2")
    form.locator("input").fill("Before the fall")
    form.get_by_text("Create").click()
    panel.checkpoint("Before the fall").get_by_text("as of #2").wait_for()

    panel.checkpoint("Before the fall").locator(".vt-restore").click()
    preview = panel.checkpoint("Before the fall").locator(".vt-preview")
    preview.locator(".vt-differences").wait_for()
    assert preview.locator("li").all_inner_texts() == ["hp\n40 → 50", "wounds\n1 → none"]
    panel.screenshot("preview")
    assert panel.kept() == {"hp": 40, "wounds": 1}

    preview.locator(".vt-primary").click()
    panel.shows("hp", "50")
    panel.shows_not("wounds")
    panel.stepped("Restoring changed", "hp40 → 50", "wounds1 → none")

    tab.slash("/vt-set hp 7")
    before = tab.chat_id
    panel.checkpoint("Before the fall").locator(".vt-branch").click()
    tab.wait_until("(id) => SillyTavern.getContext().getCurrentChatId() !== id", before)
    tab.wait_until("() => SillyTavern.getContext().chat.length === 3 && rig.resting()")
    panel.shows("hp", "50")
    panel.screenshot("branch")

    tab.open_chat(before)
    panel.shows("hp", "7")
    panel.checkpoint("Before the fall").locator(".vt-remove").click()
    panel.checkpoint("Before the fall").wait_for(state="detached")
    assert tab.errors == []


def test_the_values_of_other_extensions_can_be_looked_at(panel: Panel) -> None:
    chat = panel.tab.context_value("chatMetadata")["integrity"]
    avatar = panel.tab.evaluate(
        """() => {
            const { characters, characterId } = SillyTavern.getContext();
            return characters[characterId].avatar;
        }"""
    )
    panel.tavern.register("outfits")
    with panel.tavern.client("outfits") as outfits:
        outfits.put(f"/chats/{chat}/data", json={"key": "season", "value": "winter"})
        outfits.post("/instances", json={"id": f"coat of {chat}", "characterId": avatar})
        outfits.put(
            f"/instances/coat of {chat}/data", json={"key": "top", "value": {"kind": "coat"}}
        )

    panel.tab.open()
    panel.tab.open_character(panel.character)
    panel.element.locator(".vt-whose").select_option("outfits")

    other = panel.element.locator(".vt-other")
    other.locator(".vt-row[data-key=top]").wait_for()
    assert other.locator(".vt-row").all_inner_texts() == ["season\nwinter", 'top\n{"kind":"coat"}']
    assert other.locator("button.vt-cell, .vt-add").count() == 0
    panel.screenshot()
    with panel.tavern.client("outfits") as outfits:
        outfits.put(f"/chats/{chat}/data", json={"key": "season", "value": "spring"})
    other.locator(".vt-row[data-key=season] .vt-cell", has_text="spring").wait_for()
    assert panel.tab.errors == []


def test_who_may_not_list_extensions_sees_their_own(
    shared_house: SillyTavern, open_tab: OpenTab
) -> None:
    with shared_house.session("ada", "ada") as ada:
        created = ada.post("/api/characters/create", json={"ch_name": "Ida", "first_mes": "Hi."})
        assert created.status_code == 200
        tab = open_tab(shared_house, session=ada)
    with shared_house.client(None, "ada", "ada") as client:
        client.post("/register", json={"extensionId": "outfits"})
    tab.open_character("Ida")
    panel = Panel(tab, shared_house, "Ida")
    panel.open()
    panel.add("hp", "5")
    panel.shows("hp", "5")

    assert not panel.element.locator(".vt-whose").is_visible()
    with shared_house.client(EXTENSION, "bob", "bob") as bob:
        bob.post("/register", json={"extensionId": EXTENSION})
        assert bob.get("/chats").json() == []


def test_two_tabs_are_in_step(panel: Panel, open_tab: OpenTab) -> None:
    other_tab = open_tab(panel.tavern, beside=panel.tab)
    other_tab.open_character(panel.character)
    other = Panel(other_tab, panel.tavern, panel.character)

    panel.add("hp", "50")
    other.shows("hp", "50")
    other.edit("hp", "49")
    panel.shows("hp", "49")

    # What the one does in the story is seen in the other.
    panel.tab.send("Hm.")
    panel.tab.slash("/vt-inc follow=true hp -9")
    other.shows("hp", "40")
    panel.tab.delete_last()
    other.shows("hp", "49")

    assert panel.tab.errors == other_tab.errors == []


def test_a_phone_has_room_for_it(open_tab: OpenTab, parlour: SillyTavern) -> None:
    parlour.create_character("Phoebe")
    tab = open_tab(parlour, viewport=PHONE, is_mobile=True, has_touch=True)
    tab.open_character("Phoebe")
    panel = Panel(tab, parlour, "Phoebe")
    panel.add("a rather long name of a value that somebody has thought of", "50")
    panel.add("story", "Once upon a time there was a lamp. " * 8)
    panel.add("mood", "calm", whose="Phoebe")
    panel.row("story").locator(".vt-key").tap()
    panel.screenshot("values")

    wide = tab.evaluate(
        """() => ['html', '#vt_panel', '#vt_panel .vt-scroll'].filter((name) => {
            const one = document.querySelector(name);
            return one.scrollWidth > one.clientWidth;
        })"""
    )
    small = tab.evaluate(
        """() => [...document.querySelectorAll('#vt_panel button')].filter((one) =>
            one.checkVisibility() && one.getBoundingClientRect().height < 28).length"""
    )
    assert (wide, small) == ([], 0)
    panel.edit("mood", "tired")
    panel.shows("mood", "tired")
    panel.row("mood").locator(".vt-cell").tap()
    panel.screenshot("editing")
    panel.element.locator(".vt-close").tap()
    panel.element.wait_for(state="hidden")
    assert tab.errors == []


def test_it_speaks_german(open_tab: OpenTab, parlour: SillyTavern) -> None:
    parlour.create_character("Ida")
    tab = open_tab(parlour, locale="de-DE")
    tab.open_character("Ida")
    panel = Panel(tab, parlour, "Ida")

    panel.element.get_by_text("Noch keine Werte.").wait_for()
    assert panel.element.locator(".vt-title").inner_text().split("\n") == ["Werte", "Verbunden"]
    panel.screenshot()
    assert tab.errors == []
