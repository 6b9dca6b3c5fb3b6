"""
Flow control of one connection: when the server stops reading, and when it has to stop writing.

The server pauses reading while it cannot take more requests. The transport pauses writing
while the client does not read its answers. This module knows nothing of requests and answers.
"""

from __future__ import annotations

import asyncio

from valuetracker.budget import Share
from valuetracker.http import limits
from valuetracker.http.fast.outbox import Outbox


class FlowControl:
    """Pauses and resumes both directions of one transport."""

    __slots__ = (
        "_drained",
        "_held",
        "_outbox",
        "_seen_bytes",
        "_stalled_bytes",
        "is_reading_paused",
        "loop",
        "share",
        "stalled_since",
        "transport",
    )

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, outbox: Outbox
    ) -> None:
        self.transport = transport
        self.loop = loop
        self._outbox = outbox
        # An answer that is sent at the end of this turn of the event loop.
        self._held: bytes | None = None
        self.is_reading_paused = False
        # Since when the client has not read what was written, how many bytes waited at first,
        # and the future that is done when the client has read them.
        self.stalled_since: float | None = None
        self._stalled_bytes = 0
        self._drained: asyncio.Future[None] | None = None
        # The memory of a large answer that the client has not read yet, and how many bytes of it
        # waited when it was last looked at.
        self.share: Share | None = None
        self._seen_bytes = 0

    def hold(self, answer: bytes) -> None:
        """Send an answer when the outbox says; one that comes before that is sent with it."""
        if self._held is not None:
            self.write(answer)
            return
        self._held = answer
        self._outbox.add(self.flush)

    def flush(self) -> None:
        """Send the answer that is held, if there is one."""
        held, self._held = self._held, None
        if held is not None and not self.transport.is_closing():
            self.transport.write(held)

    def write(self, data: bytes) -> None:
        if self._held is not None:
            self.flush()
        self.transport.write(data)

    def close(self) -> None:
        """Close the connection when all that was written has been sent."""
        self.flush()
        self.transport.close()

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
        self._stalled_bytes = self._seen_bytes = self.transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self.stalled_since = None
        if self.share is not None:
            self.share.release()
            self.share = None
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def keep_until_read(self, share: Share) -> None:
        """Keep the memory of an answer that has been written until the client has read it."""
        if self.stalled_since is None:
            share.release()
        else:
            share.watch(self.transport.abort)
            self.share = share

    def note_progress(self) -> None:
        """Note how much the client has read of a large answer."""
        if self.share is not None:
            waiting = self.transport.get_write_buffer_size()
            self.share.move(self._seen_bytes - waiting)
            self._seen_bytes = waiting

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
