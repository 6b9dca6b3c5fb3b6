"""
What the connections of one server share: how much and how long, and who looks after it.

Nothing here is timed per connection: once in a while all of them are asked whether they are
overdue, which costs the ones that are not nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

# Of one request: bytes of its target and headers, and how many headers.
HEADER_BYTES = 32 * 1024
HEADER_COUNT = 100
# From the first byte of a request (of a new connection: from its beginning) to the end of
# its headers.
HEADER_SECONDS = 10.0
# A body may take this long, and longer the more of it has come, but not longer than this.
BODY_GRACE_SECONDS = 10.0
BODY_BYTES_PER_SECOND = 4 * 1024
BODY_SECONDS = 600.0
# Nor longer than this, if it has room that others wait for.
CROWDED_SECONDS = 30.0
# What a body may be wrapped in: bytes of sizes of chunks, their extensions and trailers, for each
# byte that is meant, beside as many as headers may have.
WRAPPING_PER_BYTE = 8
# Between requests. Longer than the bridge keeps its connections, so that it is never the one
# to find a connection closed.
SILENT_SECONDS = 75.0
# For one who does not read what it is sent; the more of it has gone, the longer.
STALLED_SECONDS = 60.0
# After a refusal that came in the middle of a request: how long and how much of the rest is
# still read and thrown away, so that the refusal is heard.
LINGER_SECONDS = 5.0
LINGER_BYTES = 64 * 1024 * 1024
# Bodies up to this are not counted: headers take as much.
SMALL_BODY_BYTES = 16 * 1024
# Answers up to this are sent in one piece with their head; of larger ones no copy is made.
COPIED_BYTES = 64 * 1024
# How many connections beyond the last one that is served are told so.
TOLD_THAT_FULL = 256
# How often connections are asked.
LOOK_SECONDS = 0.5


class Budget:
    """
    Bytes for bodies on their way in or being worked on, given out in the order of asking.

    A body is given room for its whole length or none, so one that has begun can always end;
    until it has room its connection is not read.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[tuple[int, Callable[[int], bool]]] = deque()

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    def take(self, size: int, granted: Callable[[int], bool]) -> bool:
        """Whether there is room at once; else `granted` is asked later if it is still wanted."""
        if not self._waiting and self._fits(size):
            self._used += size
            return True
        self._waiting.append((size, granted))
        return False

    def _fits(self, size: int) -> bool:
        # One that is larger than all there is comes alone.
        return self._used + size <= self._limit or not self._used

    def give_back(self, size: int) -> None:
        self._used -= size
        while self._waiting and self._fits(self._waiting[0][0]):
            wanted, granted = self._waiting.popleft()
            if granted(wanted):
                self._used += wanted


class Wire:
    """What connections are given by the server they belong to."""

    def __init__(self, connections: int, body_bytes: int) -> None:
        self.connections = connections
        self.budget = Budget(body_bytes)
        # The date, as a header.
        self.date = b""
