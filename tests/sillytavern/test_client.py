"""The client library in a SillyTavern that really runs, as an extension author uses it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sillytavern.conftest import OpenTab
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.model import Model
from tests.support.browser import Tab

NUMBERS = itertools.count(1)

# `vt` in the page is the author's; what it saw of the value when a prompt was built is `prompts`.
CONNECT = """
async (extensionId) => {
    const { ValueTracker } = await import('/api/plugins/valuetracker/client/valuetracker.js');
    globalThis.vt = await ValueTracker.connect({ extensionId, probeMs: [200, 500] });
    globalThis.told = { errors: [], conflicts: [], stale: [], moved: [] };
    vt.on('error', (error) => told.errors.push(String(error)));
    vt.on('conflict', ({ key, mine, theirs }) => told.conflicts.push([key, mine, theirs]));
    vt.on('stale', (what) => told.stale.push(what));
    vt.on('moved', (what) => told.moved.push(what));
    globalThis.prompts = [];
    const { eventSource, eventTypes } = SillyTavern.getContext();
    globalThis.notePrompt = (_, dryRun) => {
        if (!dryRun) prompts.push(vt.chat.state.hp ?? null);
    };
    eventSource.on(eventTypes.GENERATE_AFTER_DATA, notePrompt);
}
"""
DISCONNECT = """
async () => {
    const { eventSource, eventTypes, unregisterFunctionTool } = SillyTavern.getContext();
    eventSource.removeListener(eventTypes.GENERATE_AFTER_DATA, notePrompt);
    unregisterFunctionTool('SetHitPoints');
    await vt.close();
}
"""
TOOL = """
() => SillyTavern.getContext().registerFunctionTool({
    name: 'SetHitPoints',
    description: 'Sets the hit points.',
    parameters: { type: 'object', properties: { hp: { type: 'number' } } },
    action: async ({ hp }) => { vt.chat.state.hp = hp; await vt.chat.saved; return 'done'; },
})
"""


class Author:
    """An extension in a tab, made for one test."""

    def __init__(self, tab: Tab, extension_id: str) -> None:
        self.tab = tab
        tab.evaluate(CONNECT, extension_id)

    def edit(self, **values: Any) -> None:
        self.tab.evaluate("(all) => vt.chat.edit((state) => Object.assign(state, all))", values)

    def write(self, **values: Any) -> None:
        self.tab.evaluate(
            "async (all) => { Object.assign(vt.chat.state, all); await vt.chat.saved; }", values
        )

    @property
    def state(self) -> Any:
        return self.tab.evaluate("() => vt.chat.snapshot().data")

    @property
    def prompts(self) -> list[Any]:
        found: list[Any] = self.tab.evaluate("() => prompts")
        return found

    def told(self, what: str) -> list[Any]:
        found: list[Any] = self.tab.evaluate("(what) => told[what]", what)
        return found

    def wait_for(self, **values: Any) -> None:
        self.tab.wait_until(
            """(all) => vt.hasChat && Object.entries(all).every(([key, value]) =>
                (vt.chat.state[key] ?? null) === value)""",
            values,
        )


@pytest.fixture
def tab(shared_tab: Tab) -> Tab:
    """These tests change nothing in the page but their chats."""
    return shared_tab


@pytest.fixture
def author(tab: Tab, character: str) -> Iterator[Author]:
    tab.open_character(character)
    author = Author(tab, f"client-{next(NUMBERS)}")
    author.edit(hp=50)
    yield author
    tab.evaluate(DISCONNECT)


@pytest.fixture(params=["streamed", "at once"])
def talking(author: Author, request: pytest.FixtureRequest) -> Author:
    author.tab.stream(request.param == "streamed")
    return author


def test_swipes_of_every_kind(talking: Author) -> None:
    tab = talking.tab
    tab.send("Go on.")
    talking.write(hp=45)

    tab.swipe_right()
    assert talking.prompts == [50, 50]
    talking.write(hp=47)
    tab.swipe_left()
    talking.wait_for(hp=45)
    tab.swipe_right()
    talking.wait_for(hp=47)
    tab.delete_swipe()
    talking.wait_for(hp=45)

    assert talking.tab.errors == []


def test_a_function_the_model_calls_belongs_to_the_reply(talking: Author, model: Model) -> None:
    tab = talking.tab
    tab.evaluate(TOOL)
    tab.evaluate(
        "() => { SillyTavern.getContext().chatCompletionSettings.function_calling = true; }"
    )
    model.call("SetHitPoints", hp=45)
    tab.send("Hit me.")
    talking.wait_for(hp=45)

    tab.swipe_right()
    assert talking.prompts[-1] == 50
    assert talking.state == {"hp": 50}
    tab.swipe_left()
    talking.wait_for(hp=45)
    assert talking.told("errors") == []


def test_a_swipe_that_fails(author: Author, model: Model) -> None:
    tab = author.tab
    tab.send("Go on.")
    author.write(hp=45)
    model.fail()

    tab.message(-1).locator(".swipe_right").click()
    author.wait_for(hp=50)

    author.wait_for(hp=45)


def test_delete_edit_regenerate_continue(author: Author) -> None:
    tab = author.tab
    for hp in (40, 30):
        tab.send("Go on.")
        author.write(hp=hp)
    tab.evaluate(
        "() => { globalThis.reports = []; vt.on('reconciled', (one) => reports.push(one)); }"
    )
    tab.edit(-1, "Changed.")
    tab.wait_until("() => reports.some(({ stale }) => stale.includes(vt.chat.messageId(4)))")
    assert author.state == {"hp": 30}

    tab.delete_last(3)
    author.wait_for(hp=50)
    tab.delete_last(1)
    tab.send("Again.")
    for _ in range(3):
        before = author.state["hp"]
        assert before in (50, 45)
        author.write(hp=45)
        tab.regenerate()
        assert author.prompts[-1] == 50
    author.write(hp=45)
    tab.continue_()
    assert author.state == {"hp": 45}
    assert author.told("errors") == []


def test_branch_rename_and_back(author: Author) -> None:
    tab = author.tab
    for hp in (40, 30):
        tab.send("Go on.")
        author.write(hp=hp)
    parent = tab.chat_id

    tab.branch(2)
    author.wait_for(hp=40)
    tab.swipe_right()
    author.wait_for(hp=50)
    author.write(hp=20)
    tab.rename_chat("Elsewhere")
    author.wait_for(hp=20)
    tab.open_chat(parent)
    author.wait_for(hp=30)
    assert author.told("errors") == []


def test_a_group(author: Author, tavern: SillyTavern, character: str) -> None:
    tab = author.tab
    tab.send("Go on.")
    author.write(hp=40)
    members = [tavern.create_character(f"{character} {half}") for half in ("left", "right")]
    tavern.create_group(f"Group of {character}", *members)

    tab.open_group(f"Group of {character}")
    author.wait_for(hp=None)
    author.edit(hp=7)
    tab.send(f"{character} left, who are you?")
    author.write(hp=6)
    tab.swipe_right()
    author.wait_for(hp=7)
    # SillyTavern opens nothing else while it saves, which it does a second after a swipe.
    tab.save()
    tab.open_character(character)
    author.wait_for(hp=40)
    assert author.told("errors") == []


# Wait until an expression that asks the server is true.
UNTIL = """
async (expression) => {
    const ask = new Function(`return (async () => ${expression})()`);
    while (!await ask()) await new Promise((resolve) => setTimeout(resolve, 50));
}
"""
# The example of the README of the library.
README_EXAMPLE = """
() => {
    globalThis.seen = [];
    const draw = (chat) => { if (chat) seen.push(['chat', chat.state.hp]); };
    vt.onChat(draw, { defaults: { hp: 100 } });
    vt.onMessage((index) => {
        const { mes } = SillyTavern.getContext().chat[index];
        const damage = Number(/(\\d+) damage/.exec(mes)?.[1]);
        if (damage) vt.chat.state.hp -= damage;
        seen.push([index, damage || 0]);
    });
}
"""


def test_the_example_of_the_readme_in_a_group_whose_greetings_do_damage(
    author: Author, tavern: SillyTavern, model: Model
) -> None:
    tab = author.tab
    number = next(NUMBERS)
    members = [
        tavern.create_character(f"{name} G{number}", first_message=greeting)
        for name, greeting in (("Ann", "You take 5 damage."), ("Ben", "You take 7 damage."))
    ]
    tavern.create_group(f"Fight {number}", *members, in_turn=True)
    tab.evaluate(README_EXAMPLE)

    tab.open_group(f"Fight {number}")
    author.wait_for(hp=88)
    # The chat first, then its messages in their order.
    assert tab.evaluate("() => seen") == [["chat", 50], ["chat", 100], [0, 5], [1, 7]]
    tab.delete_last(1)
    author.wait_for(hp=95)
    assert author.told("errors") == []
    assert tab.errors == []


def test_a_chat_whose_file_is_deleted_is_archived(
    author: Author, tavern: SillyTavern, character: str
) -> None:
    tab = author.tab
    first = tab.chat_id
    chat = tab.evaluate("() => vt.chat.id")
    tab.new_chat()
    author.edit(hp=1)
    kept = tab.evaluate("() => vt.chat.id")

    tab.evaluate(
        """async (name) => {
            const { deleteCharacterChatByName } = await import('/script.js');
            await deleteCharacterChatByName(SillyTavern.getContext().characterId, name);
        }""",
        first,
    )
    tab.evaluate(
        UNTIL,
        f"(await vt.request('GET', '/chats')).body.every(({{ chatId }}) => chatId !== '{chat}')",
    )
    listed = tab.evaluate("async () => (await vt.request('GET', '/chats')).body")
    assert [one["chatId"] for one in listed] == [kept]
    assert author.state == {"hp": 1}
    assert tab.errors == []


def test_quick_writes_are_one_request_and_the_prompt_has_them(author: Author) -> None:
    tab = author.tab
    sent: list[Any] = []
    tab.page.on(
        "request",
        lambda request: sent.append(request.post_data_json) if "/batch" in request.url else None,
    )
    tab.evaluate(
        """async () => {
            for (let hp = 49; hp >= 40; hp--) {
                vt.chat.state.hp = hp;
                await new Promise((resolve) => setTimeout(resolve, 0));
            }
        }"""
    )
    tab.evaluate(UNTIL, "(await vt.reading(vt.extensionId).data()).hp === 40")
    assert [[one["op"], one["value"]] for body in sent for one in body["operations"]] == [
        ["set", 40],
    ]

    # Nothing waits when a prompt is built.
    tab.evaluate("() => { vt.chat.state.hp = 30; }")
    tab.send("Go on.")
    assert author.prompts == [30]
    assert author.state == {"hp": 30}
    assert tab.errors == []


def test_ids_are_in_the_file(author: Author) -> None:
    tab = author.tab
    tab.send("Go on.")
    author.write(hp=45)
    tab.swipe_right()
    tab.save()
    extension_id = tab.evaluate("() => vt.extensionId")
    name = tab.context_value("name2")

    tab.open()
    tab.open_character(name)
    again = Author(tab, extension_id)
    again.wait_for(hp=50)
    tab.swipe_left()
    again.wait_for(hp=45)
    kept = tab.evaluate(
        "() => SillyTavern.getContext().chat.map(({ extra }) => extra.valuetracker)"
    )
    assert all(set(ids) == {"messageId", "swipeId"} for ids in kept)


def test_many_tabs_are_in_step_and_leave_connections_free(
    author: Author, open_tab: OpenTab, tavern: SillyTavern
) -> None:
    tab = author.tab
    tab.save()
    extension_id = tab.evaluate("() => vt.extensionId")
    name = tab.context_value("name2")
    others = []
    for _ in range(3):
        other = open_tab(tavern, beside=tab)
        other.open_character(name)
        others.append(Author(other, extension_id))
    # As many extensions again in the first tab.
    tab.evaluate(
        """async (ids) => { globalThis.more = await Promise.all(
            ids.map((extensionId) => vt.constructor.connect({ extensionId }))); }""",
        [f"{extension_id}-{number}" for number in range(3)],
    )

    author.edit(hp=12)
    for one in others:
        one.wait_for(hp=12)
    others[-1].edit(hp=13)
    author.wait_for(hp=13)
    assert author.tab.evaluate("async () => (await fetch('/csrf-token')).status") == 200
    held = tab.evaluate(
        """async () => (await navigator.locks.query()).held
            .filter(({ name }) => name.startsWith('valuetracker:feed')).length"""
    )
    assert held == 2
    tab.evaluate("async () => { await Promise.all(more.map((one) => one.close())); }")


FOLLOW = """
async ([ids, polls]) => {
    globalThis.followed = { events: [], gone: [] };
    if (!polls) {
        // The tracker's own feed would take the last connection that a browser opens for feeds.
        await vt.close();
        globalThis.vt = await vt.constructor.connect({ extensionId: vt.extensionId, feed: false });
    }
    await vt.follow(ids, ({ extensionId, changes }) => {
        followed.events.push([extensionId, changes.at(-1).key]);
    }, { onGone: (id) => followed.gone.push(id) });
}
"""
OPENED = """
() => performance.getEntriesByType('resource')
    .filter(({ name }) => name.includes('/cross-extension/') && name.includes('since='))
    .map(({ initiatorType }) => initiatorType)
"""


@pytest.mark.parametrize("polls", [False, True], ids=["with a feed", "by polling"])
def test_a_page_follows_several_extensions(
    author: Author, tavern: SillyTavern, polls: bool
) -> None:
    tab = author.tab
    ids = [f"{tab.evaluate('() => vt.extensionId')}-{name}" for name in ("outfits", "weather")]
    for extension_id in ids:
        tavern.register(extension_id)
    tab.evaluate("() => performance.clearResourceTimings()")
    tab.evaluate(FOLLOW, [ids, polls])

    for extension_id, key in zip(ids, ("hat", "rain"), strict=True):
        with tavern.client(extension_id) as client:
            written = client.put("/chats/c/data", json={"key": key, "value": 1})
            assert written.status_code == 200, written.text
        tab.wait_until("(id) => followed.events.some(([from]) => from === id)", extension_id)
    with tavern.client(ids[0]) as client:
        client.request("DELETE", "/register", json={"extensionId": ids[0]})
    tab.wait_until("() => followed.gone.length === 1")

    assert tab.evaluate("() => followed") == {
        "events": [[ids[0], "hat"], [ids[1], "rain"]],
        "gone": [ids[0]],
    }
    # A stream is listed when it has ended; a page at once.
    assert bool(tab.evaluate(OPENED)) is polls
    assert tab.errors == []


def test_text_in_messages(author: Author) -> None:
    tab = author.tab
    tab.send("Draw a cat.")
    insert = "() => vt.chat.insertOnce(2, { id: 'cat', content: '<b class=\"cat\">cat</b>' })"

    assert tab.evaluate(insert)["inserted"] is True
    assert tab.evaluate(insert)["already"] is True
    tab.message(2).locator(".custom-cat", has_text="cat").wait_for()
    # It comes back by itself after an edit, and if another extension wipes the message.
    tab.edit(2, "Wiped.")
    tab.message(2).locator(".custom-cat", has_text="cat").wait_for()
    assert tab.texts[2].startswith("Wiped.<!-- vt:")
    tab.evaluate(
        """async () => {
            const { chat, eventSource, eventTypes, updateMessageBlock } = SillyTavern.getContext();
            Object.assign(chat[2], { mes: 'Rewritten.', extra: {} });
            updateMessageBlock(2, chat[2]);
            await eventSource.emit(eventTypes.MESSAGE_UPDATED, 2);
        }"""
    )
    tab.wait_until("() => SillyTavern.getContext().chat[2].mes.startsWith('Rewritten.<!-- vt:')")
    tab.message(2).locator(".custom-cat", has_text="cat").wait_for()
    report = tab.evaluate("() => vt.chat.reconcileMessage(2)")
    assert report == {"missingCount": 0, "restoredCount": 0, "errors": []}
