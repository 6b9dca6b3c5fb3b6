"""The panel, used by a player in a real browser."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import expect

from tests.conftest import wait_for, wait_for_equal
from tests.sillytavern.conftest import PHONE, OpenTab
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.panel import EXTENSION, Panel
from tests.support.browser import Tab

# The width of the chat, as SillyTavern's settings have it.
WIDTH = "() => document.documentElement.style.getPropertyValue('--sheldWidth')"
SET_WIDTH = "(width) => document.documentElement.style.setProperty('--sheldWidth', width)"


def comes_into_view(panel: Panel, selector: str) -> None:
    """Wait until the whole element is in the visible part of the panel."""
    panel.tab.wait_until(
        """(selector) => {
            const part = document.querySelector(`#vt_panel ${selector}`).getBoundingClientRect();
            const whole = document.querySelector('#vt_panel .vt-scroll').getBoundingClientRect();
            return part.height > 0 && part.top >= whole.top && part.bottom <= whole.bottom + 1;
        }""",
        selector,
    )


def gets_focus(panel: Panel, selector: str) -> None:
    """Wait until an element, or one in it, has the focus."""
    panel.tab.wait_until(
        "(selector) => document.activeElement.closest(`#vt_panel ${selector}`)", selector
    )


def test_the_panel_says_that_a_backup_failed_and_what_to_do(shared_panel: Panel) -> None:
    panel = shared_panel
    with panel.tavern.client() as client:
        settings = {each["name"]: each["value"] for each in client.get("/settings").json()}
        in_the_way = Path(settings["data_dir"]) / "backups"
        told = panel.element.get_by_text("The last backup of your values failed.")

        def back_up() -> str:
            job = client.post("/backup").json()["job"]
            wait_for(lambda: client.get(f"/jobs/{job}").json()["status"] != "running")
            return str(client.get(f"/jobs/{job}").json()["status"])

        in_the_way.write_text("no folder")
        try:
            assert back_up() == "failed"
            panel.tab.open()
            panel.tab.open_character(panel.character)
            panel.open()
            told.wait_for()
        finally:
            in_the_way.unlink()
        assert back_up() == "done"
        panel.tab.open()
        panel.tab.open_character(panel.character)
        panel.open()
        panel.status("online")
        told.wait_for(state="hidden")


def test_a_player_finds_the_panel_and_keeps_values_in_it(
    tab: Tab, tavern: SillyTavern, character: str
) -> None:
    panel = Panel(tab, tavern, character)
    tab.open_character(character)
    tab.page.locator("#vt_menu").wait_for(state="attached")
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
    panel.shows_all(
        {
            "Chat": {"hp": "45", "code": '"5"'},
            character: {"mood": "wary"},
        }
    )
    # A number that was typed is one; text that looks like a number stays text.
    panel.edit("code", "6")
    panel.shows("code", '"6"')
    panel.keeps({"hp": 45, "code": "6"})
    assert [(one["actor"], one["anchor"]) for one in panel.history("hp")] == [("user", None)] * 2

    panel.row("hp").locator(".vt-line svg").wait_for()
    panel.row("hp").locator(".vt-key").click()
    details = panel.row("hp").locator(".vt-body")
    expect(details).to_contain_text("{{vt::hp}}")
    expect(details).to_contain_text("50 → 45")
    panel.screenshot("values")

    panel.row("code").locator(".vt-key").click()
    panel.row("code").locator(".fa-trash-can").click()
    panel.row("code").locator(".vt-danger").click()
    panel.shows_not("code")
    panel.keeps({"hp": 45})

    panel.element.locator(".vt-close").click()
    panel.element.wait_for(state="hidden")
    assert tab.errors == []


def test_what_is_not_of_its_kind_is_refused_and_nothing_is_changed(shared_panel: Panel) -> None:
    panel = shared_panel
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
    panel.keeps({"hp": 50, "bag": ["lamp"]})

    # Somebody else's write does not take the text out of an editor.
    panel.tab.slash("/vt-set hp 51")
    panel.shows("hp", "51")
    assert panel.row("bag").locator("textarea").input_value() == '["lamp", '
    panel.row("bag").locator("textarea").fill('["lamp", {"__proto__": 1}]')
    panel.row("bag").locator(".vt-primary").click()
    panel.shows("bag", '["lamp",{"__proto__":1}]')
    panel.keeps({"hp": 51, "bag": ["lamp", {"__proto__": 1}]})

    panel.row("hp").locator(".vt-line svg").wait_for()
    panel.edit("hp", "51", kind="text")
    panel.shows("hp", '"51"')
    expect(panel.row("hp").locator(".vt-line svg")).to_have_count(0)
    panel.edit("bag", "true", kind="switch")
    panel.shows("bag", "Yes")
    panel.keeps({"hp": "51", "bag": True})
    assert panel.tab.errors == []


def test_a_checkpoint_is_made_as_of_a_message_looked_at_restored_and_branched(
    shared_panel: Panel,
) -> None:
    panel = shared_panel
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
    wait_for_equal(preview.locator("li").all_inner_texts, ["hp\n40 → 50", "wounds\n1 → none"])
    panel.screenshot("preview")
    panel.keeps({"hp": 40, "wounds": 1})
    # It can be seen where it opens, and says what would change by now.
    comes_into_view(panel, ".vt-preview")
    tab.slash("/vt-set follow=true hp 41")
    preview.get_by_text("41 → 50").wait_for()

    preview.locator(".vt-primary").click()
    panel.shows("hp", "50")
    panel.shows_not("wounds")
    panel.stepped("Restoring changed", "hp41 → 50", "wounds1 → none")
    preview.wait_for(state="hidden")
    panel.row("hp").locator(".vt-key").click()
    panel.row("hp").get_by_text("restored · ").wait_for()

    tab.slash("/vt-set hp 7")
    before = tab.chat_id
    panel.checkpoint("Before the fall").locator(".vt-branch").click()
    tab.wait_until("(id) => SillyTavern.getContext().getCurrentChatId() !== id", before)
    tab.wait_until("() => SillyTavern.getContext().chat.length === 3 && rig.resting()")
    panel.shows("hp", "50")
    panel.screenshot("branch")

    tab.open_chat(before)
    panel.shows("hp", "7")
    checkpoint = panel.checkpoint("Before the fall")
    checkpoint.locator(".vt-remove").click()
    checkpoint.get_by_text("Remove “Before the fall”? The values stay.").wait_for()
    checkpoint.locator(".vt-asking").get_by_text("Cancel").click()
    checkpoint.locator(".vt-remove").click()
    checkpoint.locator(".vt-danger").click()
    checkpoint.wait_for(state="detached")
    # What was typed for one chat is not offered in another.
    form.locator("input").fill("Before the duel")
    tab.new_chat()
    panel.element.get_by_text("No values yet.").wait_for()
    expect(form.locator("input")).to_have_value("")
    assert tab.errors == []


def test_the_values_of_other_extensions_can_be_looked_at(shared_panel: Panel) -> None:
    panel = shared_panel
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
    wait_for_equal(
        other.locator(".vt-row").all_inner_texts, ["season\nwinter", 'top\n{"kind":"coat"}']
    )
    expect(other.locator("button.vt-cell, .vt-add")).to_have_count(0)
    panel.screenshot()
    with panel.tavern.client("outfits") as outfits:
        outfits.put(f"/chats/{chat}/data", json={"key": "season", "value": "spring"})
    other.locator(".vt-row[data-key=season] .vt-cell", has_text="spring").wait_for()
    panel.element.locator(".vt-whose").select_option("")
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


def test_two_tabs_are_in_step(shared_panel: Panel, shared_second: Panel) -> None:
    panel, other = shared_panel, shared_second
    other.tab.open_character(panel.character)

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

    assert panel.tab.errors == other.tab.errors == []


def test_the_keyboard_is_enough_and_swipes_nothing(shared_panel: Panel) -> None:
    panel = shared_panel
    tab = panel.tab
    panel.tavern.register("outfits")
    tab.slash("/vt-set hp 50")
    tab.slash("/vt-set mood calm")
    tab.send("Hm.")
    panel.shows("mood", "calm")
    swipes = len(tab.chat[-1]["swipes"])
    tab.settle()
    name, cell = panel.row("hp").locator(".vt-key"), panel.row("hp").locator(".vt-cell")

    name.focus()
    for key in ("ArrowRight", "ArrowLeft", "Enter"):
        tab.page.keyboard.press(key)
    panel.row("hp").locator(".vt-history").wait_for()
    gets_focus(panel, ".vt-row[data-key=hp] .vt-key")
    # The question stays while other values change, and so does what has the focus.
    panel.row("hp").locator(".fa-trash-can").click()
    tab.slash("/vt-set mood tired")
    panel.shows("mood", "tired")
    panel.row("hp").get_by_text("Remove “hp”?").wait_for()
    tab.wait_until("() => document.activeElement.textContent === 'Cancel'")
    tab.page.keyboard.press("Enter")
    panel.row("hp").locator(".vt-asking").wait_for(state="hidden")

    cell.focus()
    tab.slash("/vt-set hp 51")
    panel.shows("hp", "51")
    gets_focus(panel, ".vt-row[data-key=hp] .vt-cell")
    tab.page.keyboard.press("Enter")
    gets_focus(panel, ".vt-editor")
    # The cursor is at the end: what is typed is added.
    tab.page.keyboard.press("Backspace")
    tab.page.keyboard.type("2")
    tab.page.keyboard.press("Enter")
    panel.shows("hp", "52")
    panel.row("hp").locator(".vt-editor").wait_for(state="detached")
    gets_focus(panel, ".vt-row[data-key=hp] .vt-cell")
    tab.page.keyboard.press("Enter")
    gets_focus(panel, ".vt-editor")
    tab.page.keyboard.press("Escape")
    panel.row("hp").locator(".vt-editor").wait_for(state="detached")
    gets_focus(panel, ".vt-row[data-key=hp] .vt-cell")

    panel.element.locator(".vt-add").focus()
    tab.page.keyboard.press("Enter")
    gets_focus(panel, ".vt-adding")
    tab.page.keyboard.type("gold")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.type("7")
    tab.page.keyboard.press("Enter")
    panel.shows("gold", "7")
    panel.element.locator(".vt-add:focus").wait_for()
    panel.row("hp").locator(".fa-trash-can").click()
    tab.wait_until("() => document.activeElement.textContent === 'Cancel'")
    tab.page.keyboard.press("Tab")
    tab.page.keyboard.press("Enter")
    panel.shows_not("hp")
    panel.row("mood").locator(".vt-key:focus").wait_for()

    tab.open()
    tab.open_character(panel.character)
    panel.element.locator(".vt-whose").wait_for()
    tab.settle()
    panel.element.locator(".vt-whose").focus()
    for key in ("ArrowRight", "ArrowLeft"):
        tab.page.keyboard.press(key)
    tab.rest()
    assert len(tab.chat[-1]["swipes"]) == swipes
    assert tab.errors == []


def test_what_somebody_types_stays_when_the_value_goes(shared_panel: Panel) -> None:
    panel = shared_panel
    tab = panel.tab
    tab.send("Hm.")
    tab.slash("/vt-set follow=true wounds 1")
    panel.shows("wounds", "1")
    panel.row("wounds").locator(".vt-cell").click()
    panel.row("wounds").locator("input").fill("23")

    tab.swipe_right()
    panel.row("wounds").get_by_text("The value was removed elsewhere.").wait_for()
    expect(panel.row("wounds").locator("input")).to_have_value("23")
    panel.keeps({})
    panel.row("wounds").locator(".vt-primary").click()
    panel.shows("wounds", "23")
    panel.row("wounds").locator(".vt-editor").wait_for(state="detached")
    panel.keeps({"wounds": 23})

    # Who leaves it lets it go.
    tab.slash("/vt-set follow=true gone 1")
    panel.shows("gone", "1")
    panel.row("gone").locator(".vt-cell").click()
    tab.swipe_left()
    panel.row("gone").get_by_text("The value was removed elsewhere.").wait_for()
    panel.row("gone").get_by_text("Cancel").click()
    panel.shows_not("gone")
    assert tab.errors == []


def test_many_values_are_folded_and_found(shared_panel: Panel) -> None:
    panel, tab = shared_panel, shared_panel.tab
    chat = tab.context_value("chatMetadata")["integrity"]
    search = panel.element.locator(".vt-search")
    visible = panel.element.locator(".vt-own .vt-row:visible")
    assert not search.is_visible()
    with panel.tavern.client(EXTENSION) as client:
        many = {f"item {index}": f"in room {index % 7}" for index in range(200)}
        client.put(f"/chats/{chat}/data/merge", json=many)
    panel.shows("item 199", "in room 3")

    # The other sections are not far.
    panel.element.get_by_text("None yet.").wait_for()
    expect(visible).to_have_count(12)
    comes_into_view(panel, ".vt-add")
    comes_into_view(panel, ".vt-checkpoint-form")
    panel.screenshot("folded")
    panel.element.get_by_text("Show all 200").click()
    panel.row("item 199").wait_for()
    expect(visible).to_have_count(200)
    panel.element.get_by_text("Show fewer").click()
    expect(visible).to_have_count(12)

    search.fill("ITEM 19")
    panel.row("item 199").wait_for()
    expect(visible).to_have_count(11)
    panel.screenshot("found")
    search.fill("room 6")
    panel.row("item 6").wait_for()
    expect(visible).to_have_count(28)
    search.fill("nowhere")
    panel.element.get_by_text("No name or value contains that").wait_for()
    expect(visible).to_have_count(0)
    search.fill("")
    panel.row("item 0").wait_for()
    panel.element.locator(".vt-fold").click()
    panel.row("item 0").wait_for(state="hidden")
    expect(visible).to_have_count(0)
    panel.element.locator(".vt-fold").click()
    panel.row("item 0").wait_for()
    assert tab.errors == []


def test_a_phone_has_room_for_it(open_tab: OpenTab, parlour: SillyTavern) -> None:
    parlour.create_character("Phoebe")
    tab = open_tab(parlour, viewport=PHONE, is_mobile=True, has_touch=True)
    tab.open_character("Phoebe")
    panel = Panel(tab, parlour, "Phoebe")
    tab.page.locator("#vt_menu").wait_for(state="attached")
    # It lies over the chat, and was open on another screen.
    assert not panel.element.is_visible()
    panel.open()
    long = "a rather long name of a value that somebody has thought of"
    panel.add(long, "50")
    panel.add("story", "Once upon a time there was a lamp. " * 8)
    panel.add("mood", "calm", whose="Phoebe")
    panel.row("story").locator(".vt-key").tap()
    panel.screenshot("values")

    wide = tab.evaluate(
        """() => ['html', '#vt_panel', '#vt_panel .vt-scroll', '#vt_panel .vt-key > span'].filter(
            (name) => [...document.querySelectorAll(name)].some((one) =>
                one.scrollWidth > one.clientWidth || (one.matches('span')
                    && one.scrollHeight > one.clientHeight + 1)))"""
    )
    small = tab.evaluate(
        """() => [...document.querySelectorAll('#vt_panel :is(button, label, select, input)')]
            .filter((one) => one.type !== 'checkbox' && one.checkVisibility()
                && one.getBoundingClientRect().height < 40)
            .map((one) => one.outerHTML)"""
    )
    assert (wide, small) == ([], [])
    panel.edit("mood", "tired")
    panel.shows("mood", "tired")
    panel.row("mood").locator(".vt-cell").tap()
    panel.screenshot("editing")
    panel.element.locator(".vt-close").tap()
    panel.element.wait_for(state="hidden")
    assert tab.errors == []


def test_a_wide_chat_makes_room_for_it(shared_panel: Panel) -> None:
    panel = shared_panel
    gaps = []
    before = panel.tab.evaluate(WIDTH)
    for width in (50, 58, 100):
        gap = panel.tab.evaluate(
            """(width) => {
                document.documentElement.style.setProperty('--sheldWidth', `${width}vw`);
                const chat = document.querySelector('#sheld').getBoundingClientRect();
                const panel = document.querySelector('#vt_panel').getBoundingClientRect();
                return [chat.left >= 0, Math.round(panel.left - chat.right)];
            }""",
            width,
        )
        gaps.append(gap)
    panel.screenshot()
    panel.tab.evaluate(SET_WIDTH, before)

    assert gaps == [[True, 0]] * 3


def test_it_speaks_german(open_tab: OpenTab, parlour: SillyTavern) -> None:
    parlour.create_character("Ida")
    tab = open_tab(parlour, locale="de-DE")
    tab.open_character("Ida")
    panel = Panel(tab, parlour, "Ida")

    panel.element.get_by_text("Noch keine Werte.").wait_for()
    panel.status("online")
    wait_for_equal(panel.element.locator(".vt-title").inner_text, "Werte\nVerbunden")
    panel.screenshot()
    assert tab.errors == []
