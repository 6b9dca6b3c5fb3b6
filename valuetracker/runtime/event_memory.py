"""
The memory that events take, over all feeds of the server.

A reader that does not read must cost little, because there may be thousands. So a reader is sent
pieces, the larger the fewer readers there are, and the next one is made when the client has taken
the one before. Whatever takes more needs a share of a budget: to read the log, and to keep an event
that is larger than a piece until it is sent. A reader that takes nothing while others wait for
memory loses its event, and its stream ends. It can connect again and go on at its cursor.
"""

from __future__ import annotations

from collections.abc import Iterator

from valuetracker.budget import Budget, Share

# The least and the most bytes of a piece, and of the pieces of all readers together. Large pieces
# cost the event loop less: each is sent by itself.
PIECE_BYTES = 16 * 1024
LARGEST_PIECE_BYTES = 256 * 1024
ALL_PIECES_BYTES = 32 * 1024 * 1024
# Reads of the log, and events larger than a piece. With the pieces of all readers, 64 MB.
SHARED_BYTES = 32 * 1024 * 1024
# The share of a read of the log, and of a page of `/changes`, unless the next revision turns out to
# need more.
READ_BYTES = 1024 * 1024
PAGE_BYTES = 4 * 1024 * 1024
# The latest events of all feeds that are followed, and the most that one feed keeps.
ALL_RECENT_BYTES = 32 * 1024 * 1024
RECENT_BYTES = 4 * 1024 * 1024


class EventMemory:
    """Bounds the memory of events."""

    def __init__(self) -> None:
        self.budget = Budget(SHARED_BYTES)
        # How many feeds have readers, and how many readers there are.
        self.feeds = 0
        self.readers = 0

    @property
    def piece_bytes(self) -> int:
        """How many bytes of the latest events a reader is sent at once."""
        share = ALL_PIECES_BYTES // max(1, self.readers)
        return max(PIECE_BYTES, min(LARGEST_PIECE_BYTES, share))

    @property
    def recent_bytes(self) -> int:
        """How many bytes of its latest events a feed may keep."""
        return min(RECENT_BYTES, ALL_RECENT_BYTES // max(1, self.feeds))


class Held:
    """Events for one reader while they are sent, with their share if they are large."""

    def __init__(self, events: bytes, share: Share | None) -> None:
        self._events = events
        self._share = share
        self.is_lost = False
        if share is not None:
            share.watch(self._lose)

    def __bool__(self) -> bool:
        return bool(self._events)

    def _lose(self) -> None:
        self.is_lost = True
        self._events = b""

    def pieces(self) -> Iterator[bytes]:
        """Yield the events in pieces; stop early if the share is lost."""
        if self._share is None:
            events, self._events = self._events, b""
            yield events
            return
        start = 0
        while start < len(self._events):
            piece = self._events[start : start + PIECE_BYTES]
            start += PIECE_BYTES
            yield piece
            self._share.move(len(piece))

    def release(self) -> None:
        self._events = b""
        if self._share is not None:
            self._share.release()
