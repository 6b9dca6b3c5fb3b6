"""Tags: names of what an answer can depend on and a commit can touch, as tuples that compare."""

from __future__ import annotations

Tag = tuple[object, ...]

# Touched by every commit.
EVERYTHING: Tag = ("everything",)
# Touched when something is added to the list, taken from it, or changed itself.
ALL_CHARACTERS: Tag = ("all characters",)
ALL_INSTANCES: Tag = ("all instances",)
ALL_CHATS: Tag = ("all chats",)


def character_tag(character_id: str) -> Tag:
    return ("character", character_id)


def holder_tag(space: str, id: str) -> Tag:
    return (space, id)


def value_tag(space: str, id: str, key: str) -> Tag:
    return (space, id, key)


def chat_tag(number: int) -> Tag:
    return ("in chat", number)
