"""
Chromium on the page of a SillyTavern, with the actions of a player.

Each action is done the way a player does it. It returns once the page is at rest: nothing is being
generated, swiped or saved.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, expect

from tests.conftest import PATIENCE_SECONDS
from tests.sillytavern.host import BOOT_SECONDS, REPOSITORY

SCREENSHOTS = REPOSITORY / ".cache/screenshots"

PATIENCE = PATIENCE_SECONDS * 1000  # milliseconds, as playwright counts
expect.set_options(timeout=PATIENCE)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# SillyTavern saves a chat a tenth of a second after it decided to: it looks at the page again and
# again with `waitUntilCondition`, and saves what it finds there then. `waits` are those moments.
WAITS = """
() => {
    const [begin, end] = [window.setInterval, window.clearInterval];
    window.waits = new Set();
    window.setInterval = (action, pause, ...given) => {
        const id = begin(action, pause, ...given);
        if (pause === 100 && new Error().stack.includes('waitUntilCondition')) waits.add(id);
        return id;
    };
    window.clearInterval = (id) => { waits.delete(id); end(id); };
}
"""
# `rig` holds the events of the page so far, and says if the page is at rest.
WATCH = """
async () => {
    const { eventSource, eventTypes } = SillyTavern.getContext();
    await new Promise((resolve) => eventSource.on(eventTypes.APP_READY, resolve));
    const script = await import('/script.js');
    const plain = (value) => {
        try { return JSON.parse(JSON.stringify(value ?? null)); } catch { return null; }
    };
    const quiet = new Set([eventTypes.STREAM_TOKEN_RECEIVED]);
    const opened = new Set([eventTypes.CHAT_CHANGED, eventTypes.CHAT_LOADED]);
    window.rig = {
        events: [],
        generations: 0,
        // Fulfilled when SillyTavern has clicked into its input, a moment after a chat was opened.
        ready: Promise.resolve(),
        opened: 0,
        resting: () => {
            // A stream unlocks the page before its message is saved.
            const stream = SillyTavern.getContext().streamingProcessor;
            return !script.isGenerating() && !document.body.dataset.generating
                && (!stream || stream.isStopped || stream.abortController.signal.aborted)
                && !script.isChatSaving && script.swipeState === 'none';
        },
        settled: () => {
            const { chatMetadata, getCurrentChatId } = SillyTavern.getContext();
            // The extension writes into each file that is opened which file it is, and saves that;
            // not if its server refuses it.
            const known = !document.getElementById('vt_menu') || !getCurrentChatId()
                || chatMetadata.valuetracker?.of?.name === getCurrentChatId()
                || performance.now() - rig.opened > 5000;
            return known && !waits.size && rig.resting();
        },
    };
    for (const type of new Set(Object.values(eventTypes))) {
        if (quiet.has(type)) continue;
        eventSource.on(type, (...given) => {
            rig.events.push([type, ...given.map(plain)]);
            // Not the start: the page looks at rest for a moment after it. Dry runs have no end.
            if (type === eventTypes.GENERATION_ENDED) rig.generations += 1;
            // SillyTavern's own timer has 200 milliseconds.
            if (opened.has(type)) {
                rig.ready = new Promise((done) => setTimeout(done, 250));
                rig.opened = performance.now();
            }
        });
    }
}
"""
# Playwright itself would wait without a limit.
IN_TIME = """
([argument, seconds]) => Promise.race([
    (%s)(argument),
    new Promise((_, refuse) => {
        setTimeout(() => refuse(new Error(`not done in ${seconds} seconds`)), seconds * 1000);
    }),
])
"""
CONNECTED = "() => SillyTavern.getContext().onlineStatus !== 'no_connection'"
RESTING = "() => rig.resting()"
CHAT = """
() => SillyTavern.getContext().chat.map(({ name, is_user, is_system, mes, swipe_id, swipes }) =>
    ({ name, is_user: Boolean(is_user), is_system: Boolean(is_system), mes,
       swipe_id: swipe_id ?? 0, swipes: swipes ?? [mes] }))
"""
# At rest for several moments in a row.
SETTLE = """
async () => {
    await rig.ready;
    for (let calm = 0; calm < 4; calm++) {
        await new Promise((resolve) => setTimeout(resolve, 10));
        if (!rig.settled()) calm = -1;
    }
}
"""
RESET = """
async () => {
    const script = await import('/script.js');
    if (script.getCurrentChatId()) await SillyTavern.getContext().saveChat();
    if (!await script.closeCurrentChat()) throw new Error('the chat was not closed');
    SillyTavern.getContext().chatCompletionSettings.stream_openai = true;
    toastr.remove();
    rig.events.length = 0;
}
"""
OPEN_CHARACTER = """
async (name) => {
    const script = await import('/script.js');
    await SillyTavern.getContext().getCharacters();
    const index = SillyTavern.getContext().characters.findIndex((one) => one.name === name);
    // SillyTavern opens nothing while it saves.
    while (script.isChatSaving) await new Promise((resolve) => setTimeout(resolve, 10));
    await SillyTavern.getContext().selectCharacterById(index);
}
"""
SAVED_AS_OPEN = """
async (name) => {
    const { characters, characterId, getRequestHeaders } = SillyTavern.getContext();
    const body = JSON.stringify({ avatar_url: characters[characterId].avatar });
    for (;;) {
        const given = { method: 'POST', headers: getRequestHeaders(), body };
        const answer = await fetch('/api/characters/get', given);
        if ((await answer.json()).chat === name) return;
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}
"""
OPEN_GROUP = """
async (name) => {
    const script = await import('/script.js');
    const { openGroupById } = await import('/scripts/group-chats.js');
    await SillyTavern.getContext().getCharacters();
    const group = SillyTavern.getContext().groups.find((one) => one.name === name);
    while (script.isChatSaving) await new Promise((resolve) => setTimeout(resolve, 10));
    await openGroupById(group.id);
}
"""


def launch(playwright: Playwright) -> Browser:
    chromium = shutil.which("chromium")
    assert chromium, "the tests need Chromium: `make .cache/chromium`"
    return playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))


class Tab:
    """One page of SillyTavern. Messages are counted from the first, 0; -1 is the last."""

    def __init__(self, context: BrowserContext, url: str, name: str) -> None:
        self.context = context
        self.url = url
        self.name = name
        # How many tests had this page, if they share it.
        self.lent = 0
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.add_init_script(f"({WAITS})()")
        # The errors in the browser's console.
        self.errors: list[str] = []
        self._shots = itertools.count(1)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda said: self.errors.append(said.text) if said.type == "error" else None,
        )

    def open(self) -> None:
        """Load the page, or load it again, and wait until all extensions run."""
        if self.page.url.startswith(self.url):
            self.settle()
        self.page.goto(self.url, timeout=BOOT_SECONDS * 1000)
        self.page.wait_for_function(
            "() => globalThis.SillyTavern?.getContext?.().eventSource", timeout=BOOT_SECONDS * 1000
        )
        self.evaluate(WATCH, seconds=BOOT_SECONDS)
        self.page.wait_for_function(CONNECTED)

    def reset(self) -> None:
        """Close the chat and forget what was shown: the next test begins as on a new page."""
        self.settle()
        self.evaluate(RESET)
        self.rest()
        self.errors.clear()
        self._shots = itertools.count(1)

    # State

    def evaluate(
        self, expression: str, argument: Any = None, seconds: float = PATIENCE_SECONDS
    ) -> Any:
        """Call a function in the page with an argument; await its promise for at most `seconds`."""
        return self.page.evaluate(IN_TIME % expression, [argument, seconds])

    def context_value(self, name: str) -> Any:
        """Return a field of `SillyTavern.getContext()`, for example `chatId` or `chatMetadata`."""
        return self.evaluate("(name) => SillyTavern.getContext()[name]", name)

    @property
    def chat(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.evaluate(CHAT)
        return found

    @property
    def texts(self) -> list[str]:
        """The texts of the visible messages."""
        return [message["mes"] for message in self.chat]

    @property
    def chat_id(self) -> str:
        return str(self.evaluate("() => SillyTavern.getContext().getCurrentChatId()"))

    @property
    def events(self) -> list[list[Any]]:
        """The events of SillyTavern so far: each name with its arguments."""
        found: list[list[Any]] = self.evaluate("() => rig.events")
        return found

    def message(self, index: int) -> Locator:
        if index < 0:
            index += len(self.chat)
        return self.page.locator(f'#chat .mes[mesid="{index}"]')

    def wait_until(self, condition: str, argument: Any = None) -> None:
        """Wait until a function in the page returns true."""
        self.page.wait_for_function(condition, arg=argument)

    def rest(self) -> None:
        self.page.wait_for_function(RESTING)

    def settle(self) -> None:
        """
        Wait until nothing is about to be saved either, and SillyTavern has clicked into its input.

        SillyTavern saves what the page shows a moment after it decided to, also if another chat is
        open by then; and that click closes a menu. A player is slower.
        """
        self.evaluate(SETTLE)

    def save(self) -> None:
        """Save the chat now; SillyTavern would wait for a second."""
        # It skips a save if another one takes a second.
        self.settle()
        self.evaluate("() => SillyTavern.getContext().saveChat()")
        self.rest()

    def screenshot(self, name: str = "") -> Path:
        label = "-".join(filter(None, (self.name, str(next(self._shots)), name)))
        path = SCREENSHOTS / f"{label}.png"
        self.page.screenshot(path=path, animations="disabled")
        return path

    # Actions of a player

    def generation(self, action: Callable[[], Any]) -> None:
        """Do an action that starts a generation, and wait until the generation has ended."""
        before = self.evaluate("() => rig.generations")
        action()
        self.page.wait_for_function(
            "(before) => rig.generations > before && rig.resting()", arg=before
        )

    def open_character(self, name: str) -> None:
        """Open the character's last chat; create the first one if there is none."""
        self.settle()
        self.evaluate(OPEN_CHARACTER, name)
        self.wait_until(
            """(name) => SillyTavern.getContext().getCurrentChatId()
                && SillyTavern.getContext().name2 === name
                && document.querySelector('#chat .mes')""",
            name,
        )
        self.rest()

    def open_group(self, name: str) -> None:
        self.settle()
        self.evaluate(OPEN_GROUP, name)
        self.wait_until(
            """(name) => SillyTavern.getContext().groups.some((one) => one.name === name
                && one.id === SillyTavern.getContext().groupId)
                && SillyTavern.getContext().getCurrentChatId()
                && document.querySelector('#chat .mes')""",
            name,
        )
        self.rest()

    def stream(self, on: bool) -> None:
        """Stream the model's replies word by word (the default), or get them in one piece."""
        self.evaluate(
            "(on) => { SillyTavern.getContext().chatCompletionSettings.stream_openai = on; }", on
        )

    def slash(self, command: str) -> str:
        """Run a slash command and return its result."""
        given = self.evaluate(
            """async (command) => {
                const { executeSlashCommandsWithOptions } = SillyTavern.getContext();
                return (await executeSlashCommandsWithOptions(command))?.pipe ?? '';
            }""",
            command,
        )
        self.rest()
        return str(given)

    def send(self, text: str) -> None:
        self.page.fill("#send_textarea", text)
        self.generation(lambda: self.page.click("#send_but"))

    def swipe_right(self) -> None:
        """Go to the next swipe of the last message, or make a new one."""
        message = self.chat[-1]
        click = self.message(-1).locator(".swipe_right").click
        if message["swipe_id"] == len(message["swipes"]) - 1:
            self.generation(click)
        else:
            self._swipe(click, message["swipe_id"] + 1)

    def swipe_left(self) -> None:
        self._swipe(self.message(-1).locator(".swipe_left").click, self.chat[-1]["swipe_id"] - 1)

    def _swipe(self, click: Callable[[], Any], to: int) -> None:
        click()
        self.wait_until(
            "(to) => SillyTavern.getContext().chat.at(-1).swipe_id === to && rig.resting()", to
        )

    def delete_swipe(self) -> None:
        """Delete the visible swipe of the last message, which has others."""
        count = len(self.chat[-1]["swipes"])
        self.slash("/delswipe")
        self.wait_until(
            "(n) => SillyTavern.getContext().chat.at(-1).swipes.length === n && rig.resting()",
            count - 1,
        )

    def delete_last(self, count: int = 1) -> None:
        left = len(self.chat) - count
        self._option("option_delete_mes")
        self.message(left).locator(".del_checkbox").click()
        self.page.click("#dialogue_del_mes_ok")
        self.wait_until("(n) => SillyTavern.getContext().chat.length === n && rig.resting()", left)

    def edit(self, index: int, text: str) -> None:
        message = self.message(index)
        message.locator(".mes_edit").dispatch_event("click")
        message.locator(".edit_textarea").fill(text)
        message.locator(".mes_edit_done").dispatch_event("click")
        message.locator(".edit_textarea").wait_for(state="detached")
        self.rest()

    def regenerate(self) -> None:
        self.generation(lambda: self._option("option_regenerate"))

    def continue_(self) -> None:
        """Continue the last message."""
        self.generation(lambda: self._option("option_continue"))

    def branch(self, index: int) -> str:
        """Create a branch up to a message; SillyTavern opens it. Return its id."""
        self.settle()
        before = self.chat_id
        self.message(index).locator(".mes_create_branch").dispatch_event("click")
        return self._other_chat(before)

    def new_chat(self) -> str:
        self.settle()
        before = self.chat_id
        self.slash("/newchat")
        return self._other_chat(before)

    def open_chat(self, chat_id: str) -> None:
        """Open another chat of the same character."""
        self.settle()
        before = self.chat_id
        self.evaluate("(name) => SillyTavern.getContext().openCharacterChat(name)", chat_id)
        assert self._other_chat(before) == chat_id
        # SillyTavern's server says which chat was open when the character is opened next.
        self.evaluate(SAVED_AS_OPEN, chat_id)

    def rename_chat(self, name: str) -> str:
        self.settle()
        before = self.chat_id
        self.slash(f"/renamechat {name}")
        return self._other_chat(before)

    def close_chat(self) -> None:
        self.settle()
        self._option("option_close_chat")
        self.wait_until("() => !SillyTavern.getContext().getCurrentChatId()")

    def _other_chat(self, before: str) -> str:
        self.wait_until(
            """(before) => {
                const now = SillyTavern.getContext().getCurrentChatId();
                const last = SillyTavern.getContext().chat.length - 1;
                return now && now !== before && rig.resting()
                    && document.querySelector(`#chat .mes[mesid="${last}"]`);
            }""",
            before,
        )
        return self.chat_id

    def _option(self, name: str) -> None:
        self.page.click("#options_button")
        self.page.locator(f"#{name}:visible").click()


def log_in(context: BrowserContext, session: httpx.Client, url: str) -> None:
    """Give a browser the cookies of a session."""
    context.add_cookies(
        [{"name": one.name, "value": one.value or "", "url": url} for one in session.cookies.jar]
    )
