"""
The outbox: answers that are sent together, at the end of a turn of the event loop.

To send something wakes up the client, which costs as much as to make a small answer. So answers are
held until the event loop has gone through all that has been received: clients that asked together
are answered together, and while the first of them wakes up, the others are answered, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Outbox:
    """The connections of one server that hold an answer."""

    __slots__ = ("_flushes",)

    def __init__(self) -> None:
        self._flushes: list[Callable[[], None]] = []

    def add(self, flush: Callable[[], None]) -> None:
        """Call this when all that has been received was looked at."""
        if not self._flushes:
            asyncio.get_running_loop().call_soon(self._flush)
        self._flushes.append(flush)

    def _flush(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush()
