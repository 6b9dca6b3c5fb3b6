"""
What a request about values addresses: an instance, or one of the rooms of a chat.

Every data route exists for both, and both are the same verbs.
"""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A space (`instance`, `chat`, `series`, `processed`) and the id of the instance or chat."""

    space: str
    id: str


def instance(id: str) -> Target:
    return Target("instance", id)


def chat(id: str) -> Target:
    return Target("chat", id)
