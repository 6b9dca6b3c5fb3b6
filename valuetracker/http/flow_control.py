"""
Flow control of one connection: when the server stops reading, and when it has to stop writing.

The server pauses reading while it cannot take more requests. The transport pauses writing
while the client does not read its answers. This module knows nothing of requests and answers.
"""

from __future__ import annotations

import asyncio

from valuetracker.http import limits


class FlowControl:
    """Pauses and resumes both directions of one transport."""

    __slots__ = (
        "_drained",
        "_stalled_bytes",
        "is_reading_paused",
        "loop",
        "stalled_since",
        "transport",
    )

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.transport = transport
        self.loop = loop
        self.is_reading_paused = False
        # Since when the client has not read what was written, how many bytes waited at first,
        # and the future that is done when the client has read them.
        self.stalled_since: float | None = None
        self._stalled_bytes = 0
        self._drained: asyncio.Future[None] | None = None

    def pause_reading(self) -> None:
        if not self.is_reading_paused:
            self.is_reading_paused = True
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        if self.is_reading_paused:
            self.is_reading_paused = False
            self.transport.resume_reading()

    def pause_writing(self) -> None:
        self.stalled_since = self.loop.time()
        self._stalled_bytes = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self.stalled_since = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    async def drain(self) -> None:
        """Wait until the client has read most of what was written, or has left."""
        if self._drained is None:
            self._drained = self.loop.create_future()
        await self._drained

    def is_overdue(self, now: float) -> bool:
        """Return True if the client has not read for longer than it may."""
        if self.stalled_since is None:
            return False
        read = self._stalled_bytes - self.transport.get_write_buffer_size()
        return now - self.stalled_since > limits.stalled_seconds(read)
