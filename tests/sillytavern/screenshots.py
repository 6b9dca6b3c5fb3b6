"""
Makes the pictures in `docs/images`: a real SillyTavern plays a short story with the panel open.

    python -m tests.sillytavern.screenshots

SillyTavern and Chromium are those of the tests (`make test` brings them).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import orjson
from playwright.sync_api import Browser, ViewportSize, sync_playwright

from tests.sillytavern.host import REPOSITORY, SillyTavern
from tests.sillytavern.installation import install
from tests.sillytavern.model import Model
from tests.sillytavern.panel import Panel, choose
from tests.support.browser import Tab, launch

IMAGES = REPOSITORY / "docs/images"
MOST_BYTES = 300_000
PAGE = ViewportSize(width=1240, height=700)
# High enough for the whole panel with its details.
TALL = ViewportSize(width=1240, height=1000)
# Space left of the chat, in pixels.
MARGIN = 12

PLAYER = "Robin"
CHARACTER = "Wren"
GREETING = (
    "*Wren waves from the market gate, a lantern in each hand.* "
    '"There you are! The Lantern Fair has just begun. Are you hungry, or shall we look around?"'
)
CHECKPOINT = "Before the ferry"

# Simple pictures of our own instead of SillyTavern's default ones.
AVATAR = """
<body style="margin: 0"><svg viewBox="0 0 100 150" width="400" height="600">
    <rect width="100" height="150" fill="{sky}"/>
    <circle cx="50" cy="66" r="34" fill="{glow}" opacity="0.35"/>
    <path d="M18 150 Q20 104 50 104 Q80 104 82 150 Z" fill="{coat}"/>
    <path d="M30 108 Q50 122 70 108 L66 100 H34 Z" fill="{scarf}"/>
    <circle cx="50" cy="68" r="24" fill="#f1d3b3"/>
    <path d="M25 68 Q26 40 50 40 Q74 40 75 68 Q66 54 50 54 Q34 54 25 68 Z" fill="{hair}"/>
    <circle cx="41" cy="70" r="2.6" fill="#3b2f2a"/><circle cx="59" cy="70" r="2.6" fill="#3b2f2a"/>
    <path d="M42 80 Q50 87 58 80" stroke="#9a4f3f" stroke-width="2.4" fill="none"
        stroke-linecap="round"/>
</svg></body>
"""
WREN = {
    "sky": "#26364f",
    "glow": "#ffd27a",
    "coat": "#3f6b5c",
    "scarf": "#d9913f",
    "hair": "#8a4b2a",
}
ROBIN = {
    "sky": "#3a2f4f",
    "glow": "#9fc7ff",
    "coat": "#5a5f8c",
    "scarf": "#c8d3e6",
    "hair": "#2d2a33",
}


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    model = Model()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        tavern = SillyTavern(Path(folder) / "tavern", model_url=model.url)
        try:
            choose(tavern, open=True, tool=True)
            choose_player(tavern)
            install(tavern.server)
            tavern.boot()
            browser = launch(playwright)
            show(browser, tavern, model)
            browser.close()
        finally:
            tavern.end()
            model.close()


def choose_player(tavern: SillyTavern) -> None:
    """Name the player, widen the chat, and hide the icon of the model."""
    file = tavern.data / "default-user/settings.json"
    settings = orjson.loads(file.read_bytes())
    settings["username"] = PLAYER
    settings["power_user"] |= {
        "chat_width": 60,
        "personas": {"user-default.png": PLAYER},
        "timestamp_model_icon": False,
    }
    file.write_bytes(orjson.dumps(settings))


def show(browser: Browser, tavern: SillyTavern, model: Model) -> None:
    create_character(browser, tavern)
    context = browser.new_context(viewport=PAGE, device_scale_factor=1.5, color_scheme="dark")
    tab = Tab(context, tavern.url, "screenshots")
    tab.open()
    tab.open_character(CHARACTER)
    panel = Panel(tab, tavern, CHARACTER)
    play(tab, panel, model)
    chat = tab.page.locator("#chat").bounding_box()
    assert chat
    left = chat["x"] - MARGIN
    picture = tab.page.screenshot(
        clip={"x": left, "y": 0, "width": PAGE["width"] - left, "height": PAGE["height"]},
        animations="disabled",
    )
    save("panel", picture)

    tab.page.set_viewport_size(TALL)
    panel.row("hp").locator(".vt-key").click()
    panel.row("hp").locator(".vt-history .vt-dormant").wait_for()
    save("history", panel.element.screenshot(animations="disabled"))
    panel.row("hp").locator(".vt-key").click()

    checkpoint = panel.checkpoint(CHECKPOINT)
    checkpoint.locator(".vt-restore").click()
    checkpoint.locator(".vt-preview").wait_for()
    save("checkpoints", panel.element.screenshot(animations="disabled"))


def create_character(browser: Browser, tavern: SillyTavern) -> None:
    with tavern.session() as session:
        answer = session.post(
            "/api/characters/create",
            data={"ch_name": CHARACTER, "first_mes": GREETING, "description": "A friendly guide."},
            files={"avatar": ("wren.png", draw(browser, WREN), "image/png")},
        )
        assert answer.status_code == 200, answer.text
    avatars = tavern.data / "default-user/User Avatars"
    avatars.mkdir(exist_ok=True)
    (avatars / "user-default.png").write_bytes(draw(browser, ROBIN))


def draw(browser: Browser, colours: dict[str, str]) -> bytes:
    page = browser.new_page(viewport={"width": 400, "height": 600})
    page.set_content(AVATAR.format(**colours))
    picture = page.screenshot()
    page.close()
    return picture


def play(tab: Tab, panel: Panel, model: Model) -> None:
    """Play the story. The model sets values with the replies that change them."""
    tab.slash("/vt-set hp 16")
    tab.slash("/vt-set gold 40")
    tab.slash("/vt-set Wren.mood cheerful")
    tab.slash("/vt-set Wren.outfit green coat")

    calls(model, ("gold", -4), ("hp", 4))
    model.say('*Wren buys two honey buns, still warm.* "Eat! You look better already."')
    tab.send("Hungry! Something sweet, please.")
    calls(model, ("gold", 15), ("lantern", "paper"), ("Wren.mood", "proud"))
    model.say('*Three rings, three hits!* "Fifteen coins and a paper lantern, well done!"')
    tab.send("Then let us try the ring toss.")
    tab.slash(f"/vt-checkpoint {CHECKPOINT}")

    calls(model, ("hp", -3))
    model.say("*The rope bridge sways, and you slip on a wet plank.*")
    tab.send("How do we get across the river?")
    # The player prefers another reply.
    calls(model, ("gold", -10), ("Wren.mood", "dreamy"), ("Wren.outfit", "straw hat"))
    model.say(
        '*Wren puts on a straw hat and points at a small blue boat.* "We take the ferry! '
        'Ten coins, and it even has cushions."'
    )
    tab.swipe_right()

    panel.shows("gold", "41")
    panel.shows("hp", "20")
    panel.checkpoint(CHECKPOINT).wait_for()
    panel.row("gold").locator(".vt-line svg").wait_for()
    # The notice about the save point has been read.
    panel.element.locator(".vt-notice-savepoint .vt-button").click()


def calls(model: Model, *changes: tuple[str, str | int]) -> None:
    """Let the next reply set values: a number is added, a text is set."""
    model.call_many(*(("SetValue", call(name, change)) for name, change in changes))


def call(name: str, change: str | int) -> dict[str, str | int]:
    character, _, key = name.rpartition(".")
    what: dict[str, str | int] = {"by" if isinstance(change, int) else "value": change}
    return {"key": key, **what, **({"character": character} if character else {})}


def save(name: str, picture: bytes) -> None:
    path = IMAGES / f"{name}.png"
    size = len(picture)
    assert size <= MOST_BYTES, f"{path} has {size} bytes. Make the picture smaller or simpler."
    path.write_bytes(picture)
    print(f"{path.relative_to(REPOSITORY)}: {size // 1000} kB")


if __name__ == "__main__":
    main()
