"""
What an answer can depend on and a commit can touch, as tuples that compare.
"""

from __future__ import annotations

Tag = tuple[str, ...]

# Touched by every commit.
EVERYTHING: Tag = ("everything",)


def character_tag(character_id: str) -> Tag:
    return ("character", character_id)


def instance_tag(instance_id: str) -> Tag:
    return ("instance", instance_id)


def value_tag(instance_id: str, key: str) -> Tag:
    return ("value", instance_id, key)
