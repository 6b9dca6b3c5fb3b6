"""
The outbox: answers that are sent together, at the end of a turn of the event loop.

To send something wakes up the client, which costs as much as to make a small answer. So answers are
held until the event loop has gone through all that has been received: clients that asked together
are answered together, and while the first of them wakes up, the others are answered, too.

One client alone would only wait for that. So while answers come one at a time, most are sent at
once, and one is held now and then to see if it is still alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

# After so many answers that were held alone, so many are sent at once.
LONE_ANSWERS = 4
UNHELD_ANSWERS = 15


class Outbox:
    """The connections of one server that hold an answer."""

    __slots__ = ("_flushes", "_lone", "_unheld")

    def __init__(self) -> None:
        self._flushes: list[Callable[[], None]] = []
        # How many answers were held alone, one after the other.
        self._lone = 0
        # How many answers are yet to be sent at once.
        self._unheld = 0

    def add(self, flush: Callable[[], None]) -> None:
        """Call this when all that has been received was looked at, or at once for a lone client."""
        if self._unheld:
            self._unheld -= 1
            flush()
            return
        if not self._flushes:
            asyncio.get_running_loop().call_soon(self._flush)
        self._flushes.append(flush)

    def _flush(self) -> None:
        flushes, self._flushes = self._flushes, []
        self._lone = self._lone + 1 if len(flushes) == 1 else 0
        if self._lone >= LONE_ANSWERS:
            self._unheld = UNHELD_ANSWERS
        for flush in flushes:
            flush()
