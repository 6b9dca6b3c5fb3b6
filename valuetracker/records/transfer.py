"""
Records of exports and imports.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Clash(TypedDict):
    """An id of the file that is something else here."""

    kind: str
    id: str
    reason: str


class Imported(TypedDict):
    """The numbers of what an import has taken over, or would take over."""

    mode: str
    dryRun: bool
    revision: int
    characters: int
    instances: int
    chats: int
    values: int
    # How many changes came along; none where only the state was taken over.
    entries: int
    # Values that were left as they are.
    skipped: int
    clashes: NotRequired[list[Clash]]
    warnings: list[str]
