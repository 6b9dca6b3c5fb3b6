"""A small story for the tests of the inspector, written through the API."""

from __future__ import annotations

from typing import Any

import httpx

CHAT = "Seraphina - first date"
WHAT_IF = "Seraphina - what if"
LARGEST = 18446744073709551615
# Text that would run if a page took it for HTML.
HOSTILE = '<img src=x onerror="window.ran=1">\'&{{7*7}}</script>'


class Teller:
    """Sends requests of one extension, and fails if one is refused."""

    def __init__(self, client: httpx.Client, extension: str) -> None:
        self._client = client
        self._extension = extension

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        sent = {"x-extension-id": self._extension}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self._client.request(method, path, json=body, headers=sent)
        assert answer.status_code < 300, answer.text
        return answer


def tell_story(client: httpx.Client, extension: str = "demo") -> Teller:
    """Register an extension, and give it a chat with swipes, branches, series and operations."""
    tell = Teller(client, extension)
    tell("POST", "/register", {"extensionId": extension})
    tell("POST", "/characters", {"id": "seraphina", "name": "Seraphina"})
    tell("POST", "/instances", {"id": "run-1", "characterId": "seraphina", "chatId": CHAT})
    values = {
        "gold": 100,
        "mood": "calm",
        "largest": LARGEST,
        "nothing": None,
        "empty text": "",
        "empty list": [],
        "bag": {"rope": 1, "lamp": {"oil": 0.5, "lit": False}, "1": "b", "0": "a"},
    }
    for key, value in values.items():
        tell("POST", "/instances/run-1/data", {"key": key, "value": value})
    chat = f"/chats/{CHAT}"
    for number, (by, mood) in enumerate([(-5, "curious"), (-10, "frightened"), (-5, "brave")]):
        if number == 2:
            cave = {"key": "location", "value": "cave"}
            tell("POST", f"{chat}/data", cave, x_message_id="m2", x_swipe_id="1")
        operations = [
            {"op": "increment", "instanceId": "run-1", "key": "gold", "by": by},
            {"op": "set", "instanceId": "run-1", "key": "mood", "value": mood},
            {"op": "set", "key": "location", "value": f"place {number}"},
        ]
        tell("POST", f"{chat}/batch", {"operations": operations}, x_message_id=f"m{number}")
    for text in ("They met in the glade.", "They met in the glade. A wolf came."):
        tell("POST", f"{chat}/series/recap", {"content": text})
    tell("POST", f"{chat}/processed/scenes", {"ids": ["scene-1"]})
    tell("POST", f"{chat}/checkpoints", {"name": "before the duel"})
    tell("POST", f"{chat}/branches", {"chatId": WHAT_IF, "from": {"messageId": "m1"}})
    for name in ("portrait", "voice", "recap"):
        tell("POST", f"{chat}/operations", {"id": f"{name}-1", "type": name})
    return tell


def tell_hostile_story(client: httpx.Client) -> None:
    """Put hostile text wherever a value, a name, an id or a message can be."""
    tell = Teller(client, "hostile")
    tell("POST", "/register", {"extensionId": "hostile"})
    tell("POST", "/characters", {"id": HOSTILE, "name": HOSTILE})
    tell(
        "POST",
        "/instances",
        {"id": HOSTILE, "characterId": HOSTILE, "name": HOSTILE, "chatId": HOSTILE},
    )
    quoted = httpx.URL("http://x/", params={"a": HOSTILE}).query.decode()[2:].replace("+", "%20")
    anchor = {"x_message_id": quoted, "x_swipe_id": quoted}
    for value in (HOSTILE, [HOSTILE], {HOSTILE: HOSTILE}):
        tell("POST", f"/instances/{quoted}/data", {"key": HOSTILE, "value": value}, **anchor)
    chat = f"/chats/{quoted}"
    tell("POST", f"{chat}/data", {"key": HOSTILE, "value": HOSTILE}, **anchor)
    tell("POST", f"{chat}/series/{quoted}", {"content": HOSTILE})
    tell("POST", f"{chat}/series/{quoted}", {"content": {HOSTILE: HOSTILE}})
    tell("POST", f"{chat}/processed/{quoted}", {"ids": [HOSTILE]})
    tell("POST", f"{chat}/checkpoints", {"name": HOSTILE})
    tell("POST", f"{chat}/branches", {"chatId": HOSTILE + "2"})
    tell(
        "POST", f"{chat}/operations", {"id": HOSTILE, "type": HOSTILE, "data": {"reason": HOSTILE}}
    )
