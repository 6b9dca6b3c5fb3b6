"""
The spaces of a chat, and the addresses of holders.

A chat has three spaces, kept apart: its own data (`chat`), its series and its processed ids.
Each is a holder of values like an instance. Series and processed ids are keys in their own
spaces, so they follow the story, and no data route can reach them. A key there is a name
and an item (`recap/3`, `scenes/msg-1`); slashes in the name are escaped.
"""

from __future__ import annotations

from typing import NamedTuple

SPACES = ("chat", "series", "processed")


class Address(NamedTuple):
    """
    The holder that a request names: an instance, or a space of a chat.

    `space` is `instance`, `chat`, `series` or `processed`; `id` that of the instance or chat.
    """

    space: str
    id: str


def instance(id: str) -> Address:
    return Address("instance", id)


def chat(id: str) -> Address:
    return Address("chat", id)


def item_key(name: str, item: str) -> str:
    """Return the key of an item; the name stands before the first slash."""
    return f"{name.replace('%', '%25').replace('/', '%2F')}/{item}"


def split_key(key: str) -> tuple[str, str]:
    """Return the name and the item of a key."""
    name, _, item = key.partition("/")
    return name.replace("%2F", "/").replace("%25", "%"), item


# The item of the key that points to the current version of a series.
CURRENT = "current"


def follows_order(space: str, key: str) -> bool:
    """
    Return True if the changes of a key count in the order of the story.

    Those of processed ids, and of versions of a series, count in that of their revisions.
    """
    return space in ("instance", "chat") or (space == "series" and key.endswith(f"/{CURRENT}"))


def shown_key(space: str, key: str) -> str | None:
    """Return a key as history and feed show it; None for the holder itself."""
    if not key:
        return None
    return "/".join(split_key(key)) if space in ("series", "processed") else key
