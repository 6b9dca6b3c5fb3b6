"""
Series and processed ids, read from the values of their spaces.

A version of a series is a key of the chat's series space, and so is the pointer to the current
version. Both follow the story.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.records import Series
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

    def record(self) -> Series:
        """Return all versions, oldest first, as the API answers them."""
        versions = [self.versions[number] for number in sorted(self.versions)]
        return {"currentVersion": self.current, "versions": versions}


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


def processed_sets(keys: Iterable[str]) -> dict[str, list[str]]:
    """Return the ids of each set, from the keys of their space."""
    sets: dict[str, list[str]] = {}
    for key in keys:
        name, id = split_key(key)
        sets.setdefault(name, []).append(id)
    return sets
