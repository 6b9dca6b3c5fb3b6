"""
The rooms of a chat: its own data, its series and its processed ids, kept apart.

Each is a holder of values like an instance. Series and processed ids are keys in their own
rooms, so they roll back with the story, and no data route can reach them. A key there is a
name and an item (`recap/3`, `scenes/msg-1`); slashes in the name are escaped in the log.
"""

from __future__ import annotations

ROOMS = ("chat", "series", "processed")


def item_key(name: str, item: str) -> str:
    """The key of an item: what stands before the first slash is the name."""
    return f"{name.replace('%', '%25').replace('/', '%2F')}/{item}"


def prefix_of(name: str) -> str:
    return item_key(name, "")


def split_key(key: str) -> tuple[str, str]:
    """The name and the item of a key."""
    name, _, item = key.partition("/")
    return name.replace("%2F", "/").replace("%25", "%"), item


def shown_key(space: str, key: str) -> str | None:
    """A key as history and feed show it; None is the holder itself."""
    if not key:
        return None
    return "/".join(split_key(key)) if space in ("series", "processed") else key
