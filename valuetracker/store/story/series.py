"""
Series and processed ids, read from the values of their spaces.

A version of a series is a key of the chat's series space, and so is the pointer to the current
version. Both follow the story.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.store.rows.spaces import CURRENT, split_key


@dataclass(slots=True)
class SeriesVersions:
    """The versions of one series by number, and where its pointer points."""

    versions: dict[int, Any] = field(default_factory=dict)
    pointer: int | None = None

    @property
    def current(self) -> int | None:
        """Return the version that was set last, if it is there, else the highest one."""
        if self.pointer in self.versions:
            return self.pointer
        return max(self.versions, default=None)


def parse_series(values: dict[str, Any]) -> dict[str, SeriesVersions]:
    """Return the series of a space that have any version, by name."""
    found: dict[str, SeriesVersions] = {}
    pointers: dict[str, int] = {}
    for key, value in values.items():
        name, item = split_key(key)
        if item == CURRENT:
            pointers[name] = int(orjson.dumps(value))
        else:
            found.setdefault(name, SeriesVersions()).versions[int(item)] = value
    for name, series in found.items():
        series.pointer = pointers.get(name)
    return found


def count_processed(values: dict[str, Any]) -> dict[str, int]:
    """Return how many ids each set has."""
    counts: dict[str, int] = {}
    for key in values:
        name, _ = split_key(key)
        counts[name] = counts.get(name, 0) + 1
    return counts
