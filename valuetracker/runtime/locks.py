"""Locks by name: each exists only while somebody holds it or waits for it."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary


class NamedLocks:
    """A lock for each name, written `async with locks[name]`."""

    def __init__(self) -> None:
        # Those who hold a lock or wait for it refer to it, and nobody else does.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def __getitem__(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    def __len__(self) -> int:
        return len(self._locks)
