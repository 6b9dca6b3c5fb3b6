"""
The sending side of a connection: requests go to `dispatch` one after the other, and their
answers to the socket in the same order.

An answer that `dispatch` has ready is written at once. One that takes time is made and sent by
a task of its own, and the requests behind it wait in a queue. This module knows nothing of
parsing, and of the receiving side only the two functions it calls: one when all answers are
sent, one when a stream begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from starlette.datastructures import State
from uvicorn.server import ServerState

from valuetracker.budget import Share
from valuetracker.http import limits
from valuetracker.http.fast.flow_control import FlowControl
from valuetracker.http.fast.shared_state import SharedState
from valuetracker.http.replies import Reply, Request
from valuetracker.runtime.capacity import Capacity

# The end of the headers, after the value of `x-request-id`.
END = b"\r\n\r\n"
CLOSE = b"connection: close\r\n"
LAST_END = b"\r\n" + CLOSE + b"\r\n"


class Answer:
    """An answer that takes time: the state of one request from its end to the last byte sent."""

    __slots__ = ("id", "is_streaming", "keep_alive", "share", "task")

    task: asyncio.Task[None]

    def __init__(self, id: bytes, keep_alive: bool, share: Share | None) -> None:
        # The id of the request.
        self.id = id
        self.keep_alive = keep_alive
        # The budget of the request's body.
        self.share = share
        self.is_streaming = False


class Answers:
    """The answers of one connection."""

    __slots__ = (
        "_capacity",
        "_dispatch",
        "_flow",
        "_loop",
        "_on_all_sent",
        "_on_stream",
        "_queue",
        "_shared",
        "_tasks",
        "_transport",
        "current",
        "is_last",
    )

    def __init__(
        self,
        app_state: State,
        server_state: ServerState,
        flow: FlowControl,
        on_all_sent: Callable[[], None],
        on_stream: Callable[[], None],
    ) -> None:
        self._dispatch: Callable[[Request], Reply | Awaitable[Reply]]
        self._dispatch = app_state.dispatcher.dispatch
        self._shared: SharedState = app_state.shared
        self._capacity: Capacity = app_state.capacity
        self._tasks = server_state.tasks
        self._flow = flow
        self._transport = flow.transport
        self._loop = flow.loop
        self._on_all_sent = on_all_sent
        self._on_stream = on_stream
        # The answer that takes time, and the requests that wait for it.
        self.current: Answer | None = None
        self._queue: deque[tuple[Request, bool, Share | None]] = deque()
        # No further request is answered on this connection.
        self.is_last = False

    @property
    def are_owed(self) -> bool:
        """
        True if the client waits for an answer, and not for something to happen.

        A client that has closed its sending side may have gone altogether: nobody can tell. So a
        feed ends then, and so does a request that waits for a change.
        """
        current = self.current
        if current is None or current.is_streaming:
            return False
        self._capacity.abandon(current.task)
        return not current.task.cancelling()

    def begin(self, request: Request, keep_alive: bool, share: Share | None) -> None:
        """Answer a request, now that all before it are answered."""
        reply = self._dispatch(request)
        # To a client that does not read, even an answer that is ready is sent by a task, which
        # waits for the client.
        if isinstance(reply, Reply) and self._flow.stalled_since is None:
            self._send(reply, request.id, keep_alive)
            if share is not None:
                share.release()
            if not self._queue and not self._transport.is_closing():
                self._on_all_sent()
            return
        answer = self.current = Answer(request.id, keep_alive, share)
        task = answer.task = self._loop.create_task(self._finish(answer, reply))
        task.add_done_callback(self._tasks.discard)
        self._tasks.add(task)

    def enqueue(self, request: Request, keep_alive: bool, share: Share | None) -> None:
        """Answer a request after those before it, and read nothing more until then."""
        if len(self._queue) < limits.QUEUED_REQUESTS:
            self._flow.pause_reading()
            self._queue.append((request, keep_alive, share))
        else:
            if share is not None:
                share.release()
            self.is_last = True

    async def _finish(self, answer: Answer, reply: Reply | Awaitable[Reply]) -> None:
        """Make an answer and send it, then begin those of the queue."""
        try:
            if not isinstance(reply, Reply):
                reply = await reply
            if reply.is_endless and self._capacity.is_abandoned(answer.task):
                assert reply.pieces is not None
                await reply.pieces.aclose()
                self._flow.close()
                return
            if self._flow.stalled_since is not None:
                if reply.share is not None:
                    reply.share.watch(self._transport.abort)
                await self._flow.drain()
            if reply.is_endless:
                await self._stream(answer, reply)
            elif reply.pieces is not None:
                await self._send_pieces(reply, answer)
            else:
                self._send(reply, answer.id, answer.keep_alive)
        except asyncio.CancelledError:
            if isinstance(reply, Reply) and reply.share is not None:
                reply.share.release()
            self._flow.close()
            raise
        finally:
            self.current = None
            if answer.share is not None:
                answer.share.release()
        if not self._queue and not self._transport.is_closing():
            self._on_all_sent()
        while self._queue and self.current is None and not self._transport.is_closing():
            self.begin(*self._queue.popleft())

    def _send(self, reply: Reply, id: bytes, keep_alive: bool) -> None:
        if self._transport.is_closing():
            if reply.share is not None:
                reply.share.release()
            return
        keep_alive = keep_alive and not self.is_last
        end = END if keep_alive else LAST_END
        date = self._shared.date
        if len(reply.body) <= limits.COPIED_BYTES:
            self._flow.hold(b"%b%bx-request-id: %b%b%b" % (reply.head, date, id, end, reply.body))
        else:
            self._flow.write(b"%b%bx-request-id: %b%b" % (reply.head, date, id, end))
            self._flow.write(reply.body)
        if reply.share is not None:
            self._flow.keep_until_read(reply.share)
        if not keep_alive:
            self._flow.close()

    async def _send_pieces(self, reply: Reply, answer: Answer) -> None:
        """Send an answer in pieces whose length is known, as fast as the client reads it."""
        pieces, flow, transport = reply.pieces, self._flow, self._transport
        assert pieces is not None
        try:
            keep_alive = answer.keep_alive and not self.is_last
            end = END if keep_alive else LAST_END
            if not transport.is_closing():
                date = self._shared.date
                flow.write(b"%b%bx-request-id: %b%b" % (reply.head, date, answer.id, end))
            async for piece in pieces:
                if transport.is_closing():
                    return
                flow.write(piece)
                if flow.stalled_since is not None:
                    await flow.drain()
        except BaseException:
            # The client must not take what it has for the whole.
            flow.close()
            raise
        finally:
            await pieces.aclose()
        if not keep_alive:
            flow.close()

    async def _stream(self, answer: Answer, reply: Reply) -> None:
        """Send an answer in pieces, and close the connection after the last."""
        pieces = reply.pieces
        assert pieces is not None
        transport = self._transport
        answer.is_streaming = True
        transport.set_write_buffer_limits(limits.STREAM_BUFFER_BYTES)
        # Requests behind a stream are not answered. The connection is read all the same:
        # otherwise nobody would notice that the client leaves.
        self.discard_queue()
        self._on_stream()
        self._flow.resume_reading()
        try:
            if transport.is_closing():
                return
            # The end of the connection ends the stream. So a piece that goes to all readers of
            # a feed needs no frame of its own for each of them.
            head, date = reply.head, self._shared.date
            self._flow.write(b"%b%bx-request-id: %b%b" % (head, date, answer.id, LAST_END))
            async for piece in pieces:
                self._flow.write(piece)
                # While the stream waits for the next piece, only the transport has this one.
                del piece
                if self._flow.stalled_since is not None:
                    await self._flow.drain()
                if transport.is_closing():
                    return
        finally:
            answer.is_streaming = False
            await pieces.aclose()
            self._flow.close()

    def refuse(self, reply: Reply) -> None:
        """Send the last answer of the connection and close the sending side."""
        self._flow.write(b"%b%b%b\r\n%b" % (reply.head, self._shared.date, CLOSE, reply.body))
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def discard_queue(self) -> None:
        """Drop the requests that have not been given to `dispatch`."""
        for _, _, share in self._queue:
            if share is not None:
                share.release()
        self._queue.clear()

    def connection_lost(self) -> None:
        """End what goes on for the sake of the client alone."""
        self.discard_queue()
        if self.current is None:
            return
        # A stream learns only from here that its reader has left. Any other request is
        # finished: its client wants the write done, even if it cannot read the answer.
        if self.current.is_streaming:
            self.current.task.cancel()
        else:
            self._capacity.abandon(self.current.task)
