"""Sessions: a tool sends a prompt, and the page of a player lets the model reply."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server, wait_for
from tests.sillytavern.conftest import OpenTab, StartTavern
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.model import Model

SESSION = {
    "session_id": "the lake",
    "scene_id": "lake",
    "pov": "Mira",
    "variables": {"trust": 3, "trick": "{{user}}"},
    "messages": [{"role": "narrator", "content": "It rains."}, {"role": "user", "content": "Hm?"}],
    "timeout": 20,
}


@pytest.fixture
def own_tavern(start_tavern: StartTavern) -> SillyTavern:
    return start_tavern()


@pytest.fixture
def tool(own_tavern: SillyTavern, tmp_path: Path) -> Iterator[httpx.Client]:
    """The Value Tracker of a visual novel, with the address of SillyTavern."""
    with running_server(tmp_path, st_base_url=own_tavern.url) as server, server.client() as client:
        yield client


def sync(tool: httpx.Client, **changes: Any) -> dict[str, Any]:
    answer = tool.post("/st/session/sync", json={**SESSION, **changes}, timeout=60)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_the_open_page_replies_through_the_chosen_model(
    own_tavern: SillyTavern, open_tab: OpenTab, tool: httpx.Client, model: Model
) -> None:
    tab = open_tab(own_tavern)
    without = sync(tool, timeout=5)
    assert (without["ok"], without["panel_reply"]) == (True, None)
    assert model.requests == []

    tab.page.locator("#extensions-settings-button .drawer-toggle").click()
    tab.page.locator("#vt_settings .inline-drawer-toggle").click()
    tab.page.locator(".vt-set-sessions").check()
    model.say("[emotion: sad] I was waiting.")
    answered: dict[str, Any] = {}

    def ask() -> bool:
        nonlocal answered
        answered = sync(tool)
        return answered["panel_reply"] is not None

    # The page begins to listen a moment after it was told to.
    wait_for(ask)
    assert answered["panel_reply"] == {
        "role": "assistant",
        "content": "I was waiting.",
        "emotion": "sad",
    }
    assert answered["reply_text"] == "I was waiting."
    assert answered["received"]["variables"] == SESSION["variables"]
    assert "Mira" in model.seen
    assert "trust: 3" in model.seen
    assert "narrator: It rains." in model.seen
    assert model.requests[-1]["messages"][-1] == {"role": "user", "content": "Hm?"}
    # A macro of a story told elsewhere is none here.
    assert "trick: { {user}}" in model.seen

    note = tab.page.locator(".vt-sync-note")
    note.get_by_text("Last reply: 2 messages in ").wait_for()

    model.fail()
    failed = sync(tool)
    assert (failed["ok"], failed["panel_reply"]) == (True, None)
    assert failed["latency_ms"] < 15_000
    note.get_by_text("Last reply: 2 messages, no answer after ").wait_for()

    tab.page.locator(".vt-set-sessions").uncheck()
    tab.page.close()
    alone = sync(tool, timeout=5)
    assert (alone["ok"], alone["panel_reply"]) == (True, None)
    assert alone["latency_ms"] < 10_000
