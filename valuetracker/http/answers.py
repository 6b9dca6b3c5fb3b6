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

from valuetracker.http import limits
from valuetracker.http.body_budget import Reservation
from valuetracker.http.flow_control import FlowControl
from valuetracker.http.limits import SharedState
from valuetracker.http.replies import Reply, Request
from valuetracker.runtime.capacity import Capacity

CLOSE = b"connection: close\r\n"


class Answer:
    """An answer that takes time: the state of one request from its end to the last byte sent."""

    __slots__ = ("is_streaming", "keep_alive", "reservation", "task")

    task: asyncio.Task[None]

    def __init__(self, keep_alive: bool, reservation: Reservation | None) -> None:
        self.keep_alive = keep_alive
        # The budget of the request's body.
        self.reservation = reservation
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
        self._queue: deque[tuple[Request, bool, Reservation | None]] = deque()
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

    def begin(self, request: Request, keep_alive: bool, reservation: Reservation | None) -> None:
        """Answer a request, now that all before it are answered."""
        reply = self._dispatch(request)
        # To a client that does not read, even an answer that is ready is sent by a task, which
        # waits for the client.
        if isinstance(reply, Reply) and self._flow.stalled_since is None:
            self._send(reply, keep_alive)
            if reservation is not None:
                reservation.release()
            if not self._queue and not self._transport.is_closing():
                self._on_all_sent()
            return
        answer = self.current = Answer(keep_alive, reservation)
        task = answer.task = self._loop.create_task(self._finish(answer, reply))
        task.add_done_callback(self._tasks.discard)
        self._tasks.add(task)

    def enqueue(self, request: Request, keep_alive: bool, reservation: Reservation | None) -> None:
        """Answer a request after those before it, and read nothing more until then."""
        if len(self._queue) < limits.QUEUED_REQUESTS:
            self._flow.pause_reading()
            self._queue.append((request, keep_alive, reservation))
        else:
            if reservation is not None:
                reservation.release()
            self.is_last = True

    async def _finish(self, answer: Answer, reply: Reply | Awaitable[Reply]) -> None:
        """Make an answer and send it, then begin those of the queue."""
        try:
            if not isinstance(reply, Reply):
                reply = await reply
            if reply.pieces is not None and self._capacity.is_abandoned(answer.task):
                await reply.pieces.aclose()
                self._transport.close()
                return
            if self._flow.stalled_since is not None:
                await self._flow.drain()
            if reply.pieces is not None:
                await self._stream(answer, reply)
            else:
                self._send(reply, answer.keep_alive)
        except asyncio.CancelledError:
            self._transport.close()
            raise
        finally:
            self.current = None
            if answer.reservation is not None:
                answer.reservation.release()
        if not self._queue and not self._transport.is_closing():
            self._on_all_sent()
        while self._queue and self.current is None and not self._transport.is_closing():
            self.begin(*self._queue.popleft())

    def _send(self, reply: Reply, keep_alive: bool) -> None:
        transport = self._transport
        if transport.is_closing():
            return
        keep_alive = keep_alive and not self.is_last
        end = b"\r\n" if keep_alive else CLOSE + b"\r\n"
        if len(reply.body) <= limits.COPIED_BYTES:
            transport.write(b"%b%b%b%b" % (reply.head, self._shared.date, end, reply.body))
        else:
            transport.write(b"%b%b%b" % (reply.head, self._shared.date, end))
            transport.write(reply.body)
        if not keep_alive:
            transport.close()

    async def _stream(self, answer: Answer, reply: Reply) -> None:
        """Send an answer in pieces, and close the connection after the last."""
        pieces = reply.pieces
        assert pieces is not None
        transport = self._transport
        answer.is_streaming = True
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
            transport.write(b"%b%b%b\r\n" % (reply.head, self._shared.date, CLOSE))
            async for piece in pieces:
                transport.write(piece)
                if self._flow.stalled_since is not None:
                    await self._flow.drain()
                if transport.is_closing():
                    return
        finally:
            answer.is_streaming = False
            await pieces.aclose()
            transport.close()

    def refuse(self, reply: Reply) -> None:
        """Send the last answer of the connection and close the sending side."""
        self._transport.write(b"%b%b%b\r\n%b" % (reply.head, self._shared.date, CLOSE, reply.body))
        if self._transport.can_write_eof():
            self._transport.write_eof()

    def discard_queue(self) -> None:
        """Drop the requests that have not been given to `dispatch`."""
        for _, _, reservation in self._queue:
            if reservation is not None:
                reservation.release()
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
