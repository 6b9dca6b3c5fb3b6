"""Lorebooks as SillyTavern stores them, with the entries of extensions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# The warning about the registry that is not JSON.
UNREADABLE = "The content of _registry_lore is not JSON; it was copied as it is."


def entry(uid: int, comment: str, content: str = "text", **more: Any) -> dict[str, Any]:
    return {
        "uid": uid,
        "key": [comment],
        "keysecondary": [],
        "comment": comment,
        "content": content,
        "order": 100 - uid,
        "displayIndex": 10 - uid,
        "probability": 99.5,
        "characterFilter": {"isExclude": False, "names": [], "tags": []},
        **more,
    }


def recap_world() -> dict[str, Any]:
    """Return a lorebook of ST-Auto-Recap: people's entries, registries, indexes, a queue."""
    entries = [
        entry(0, "Bob", "A knight."),
        entry(1, "Tower"),
        entry(2, "__index_character", "- Bob"),
        entry(3, "__operation_queue", '{"queue":[],"paused":false}'),
        entry(
            4,
            "_registry_character",
            '{"type":"character","entries":{"bob":{"uid":0,"name":"Bob"},"x":{"uid":99}}}',
        ),
        entry(
            5,
            "_registry_location",
            json.dumps([{"uid": "1", "deep": [{"uid": 5}]}], indent=2),
        ),
        entry(6, "_registry_lore", "[Registry: lore]\nuid: 0"),
        entry(7, "Umlaut ä 🗡", 'content with "quotes" and \\ and \u2028'),
    ]
    return {
        "entries": {str(each["uid"]): each for each in entries},
        "extensions": {"recap": {"version": 3, "big": 2**53}},
        "name": "Eldoria",
        "originalData": {
            "name": "Eldoria",
            "entries": [{"uid": 0, "id": 7, "keys": ["Bob"]}, {"uid": 1, "keys": ["Tower"]}],
        },
    }


def write_world(worlds: Path, name: str, world: Any) -> Path:
    worlds.mkdir(parents=True, exist_ok=True)
    path = worlds / f"{name}.json"
    text = world if isinstance(world, str) else json.dumps(world, indent=4, ensure_ascii=False)
    path.write_text(text, encoding="utf-8")
    return path


def read_world(worlds: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((worlds / f"{name}.json").read_text("utf-8"))
    return found
