"""
The other adapter of `dispatch`: one HTTP/1.1 connection, without an application between.

uvicorn makes one for each connection it accepts. Bytes go from the socket to the parser,
requests from there to `dispatch`, answers back to the socket; what a client may make us wait
for or hold is bounded (see `wire`). A refusal is sent, the sending side closed, and the rest
of what comes thrown away for a while: closing at once would reset the connection, and the
client would never hear why.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.server import ServerState

from valuetracker.errors import (
    BodyTooLarge,
    ExpectationFailed,
    HeadersTooLarge,
    MalformedRequest,
    RequestTimeout,
    TooManyConnections,
    UnsupportedMediaType,
    ValueTrackerError,
)
from valuetracker.http import limits
from valuetracker.http.dispatch import Dispatcher, unexpected_failure
from valuetracker.http.limits import Wire
from valuetracker.http.replies import Headers, Reply, Request, error_reply
from valuetracker.runtime.capacity import Openings
from valuetracker.values import BODY_BYTES

# Requests a client may send ahead on one connection before it is read no further.
SENT_AHEAD = 64
VERSIONS = ("1.1", "1.0")

# Headers that are about the message and its connection, not about what is asked.
OF_THE_MESSAGE = frozenset({b"content-length", b"transfer-encoding", b"expect", b"connection"})
METHODS = {each.encode(): each for each in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")}

CLOSE = b"connection: close\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

# What is being waited for on the receiving side, if anything.
SILENT, HEADER, BODY, ROOM, NOTHING, LINGER = range(6)


class Connection(asyncio.Protocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        state = cast(Any, config.app).state
        dispatcher: Dispatcher = state.dispatcher
        self._dispatch = dispatcher.dispatch
        self._wire: Wire = state.wire
        self._let_in = dispatcher.let_in
        self._openings: Openings = state.openings
        self._loop = _loop or asyncio.get_event_loop()
        self._connections = cast("set[Any]", server_state.connections)
        self._tasks = server_state.tasks
        self._parser = httptools.HttpRequestParser(self)
        # A client may send on after it has asked for the connection to be closed; that is
        # ignored, and no reason not to answer.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._transport: asyncio.Transport = None  # type: ignore[assignment]
        # What is waited for, since when, and how many bytes of it have come.
        self._waiting_for = HEADER
        self._since = 0.0
        self._came = 0
        self._ended_here = False
        # The request being received.
        self._url = b""
        self._headers: Headers = []
        self._header_bytes = 0
        self._says_connection = False
        self._body: bytes | bytearray = b""
        self._wrapping: int | None = None
        # Room in the budget: what its body has been given, or waits for.
        self._reserved = 0
        self._wanted = 0
        self._paused = False
        # The request being answered, those sent ahead behind it, and the refusal after them.
        self._answering: asyncio.Task[None] | None = None
        self._streaming = False
        self._ahead: deque[tuple[Request, bool, int]] = deque()
        self._refusal: Reply | None = None
        self._last = False
        self._upgrade_offered = False
        # The sending side: since when the client has not read how much, and who waits for it.
        self._stalled_since: float | None = None
        self._stalled_bytes = 0
        self._flowing: asyncio.Future[None] | None = None

    # The connection's beginning and end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclasses, only alike.
        self._transport = cast(asyncio.Transport, transport)
        self._since = self._loop.time()
        self._connections.add(self)
        too_many = len(self._connections) - self._wire.connections
        if too_many > limits.TOLD_THAT_FULL:
            self._transport.abort()
        elif too_many > 0:
            self._refuse(TooManyConnections())

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        self._drop_ahead()
        self._waiting_for = NOTHING
        # Nothing else would tell a stream that nobody listens any more. Other requests are
        # finished: what they write is wanted all the same.
        if self._answering is not None:
            if self._streaming:
                self._answering.cancel()
            else:
                self._openings.nobody_listens_to(self._answering)
        self.resume_writing()

    def _drop_ahead(self) -> None:
        """Give up what has been received and not begun."""
        for _, _, reserved in self._ahead:
            self._give_back(reserved)
        self._ahead.clear()
        self._give_back(self._reserved)
        self._reserved = 0
        self._body = b""

    def eof_received(self) -> None:
        return None

    def shutdown(self) -> None:
        """The server stops: what is under way is finished, nothing more is begun."""
        if self._answering is not None or self._waiting_for in (BODY, ROOM):
            self._last = True
        else:
            self._transport.close()

    def pause_writing(self) -> None:
        self._stalled_since = self._loop.time()
        self._stalled_bytes = self._transport.get_write_buffer_size()

    def resume_writing(self) -> None:
        self._stalled_since = None
        flowing, self._flowing = self._flowing, None
        if flowing is not None and not flowing.done():
            flowing.set_result(None)

    async def _can_write(self) -> None:
        if self._flowing is None:
            self._flowing = self._loop.create_future()
        await self._flowing

    def look_after(self, now: float) -> None:
        """Asked now and then: end what has taken too long."""
        waited = now - self._since
        if self._stalled_since is not None and now - self._stalled_since > self._stall_allowed():
            self._transport.abort()
        elif self._paused and self._waiting_for in (HEADER, BODY):
            # It is we who are slow.
            self._since = now
        elif self._waiting_for == HEADER:
            if waited > limits.HEADER_SECONDS:
                self._too_slow()
        elif self._waiting_for == BODY:
            if waited > self._body_allowed():
                self._refuse(RequestTimeout())
        elif self._waiting_for == SILENT:
            if waited > limits.SILENT_SECONDS:
                self._transport.close()
        elif self._waiting_for == LINGER and waited > limits.LINGER_SECONDS:
            self._transport.abort()

    def _stall_allowed(self) -> float:
        gone = self._stalled_bytes - self._transport.get_write_buffer_size()
        allowed = limits.STALLED_SECONDS + gone / limits.BODY_BYTES_PER_SECOND
        return min(allowed, limits.BODY_SECONDS)

    def _body_allowed(self) -> float:
        allowed = limits.BODY_GRACE_SECONDS + self._came / limits.BODY_BYTES_PER_SECOND
        crowded = self._reserved and self._wire.budget.is_awaited
        return min(allowed, limits.CROWDED_SECONDS if crowded else limits.BODY_SECONDS)

    def _too_slow(self) -> None:
        # One that never said anything is not owed an answer: a browser keeps such
        # connections ready, and would take it for the answer to its next request.
        if self._came:
            self._refuse(RequestTimeout())
        elif self._answering is None:
            self._transport.close()

    # What the socket and the parser call

    def data_received(self, data: bytes) -> None:
        if self._waiting_for == LINGER:
            self._came += len(data)
            if self._came > limits.LINGER_BYTES:
                self._transport.abort()
            return
        # The parser takes what follows an offered upgrade for another protocol's; read as
        # HTTP, it could be a request that nobody sent.
        if self._upgrade_offered or self._refusal is not None or self._streaming:
            return
        if self._waiting_for == SILENT:
            self._expect(HEADER)
        self._ended_here = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserCallbackError as error:
            # Ours: the parser only passes it on.
            self._refuse(unexpected_failure(error))
        except httptools.HttpParserError:
            self._refuse(MalformedRequest("Invalid HTTP request received."))
        if self._ended_here:
            return
        if self._waiting_for == HEADER:
            self._came += len(data)
            if self._came > limits.HEADER_BYTES:
                self._refuse(HeadersTooLarge())
        elif self._wrapping is not None and self._waiting_for == BODY:
            if self._wrapping > limits.HEADER_BYTES + limits.WRAPPING_PER_BYTE * self._came:
                self._refuse(MalformedRequest("The body is more wrapping than body."))
            self._wrapping += len(data)

    def _expect(self, what: int) -> None:
        self._waiting_for = what
        self._since = self._loop.time()
        self._came = 0

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = []
        self._header_bytes = 0
        # The one before may have been answered at once, and this one come with it.
        if self._waiting_for in (NOTHING, SILENT):
            self._expect(HEADER)

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes after a body is no header: nobody has looked at it when it mattered.
        if self._waiting_for != HEADER:
            return
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes <= limits.HEADER_BYTES:
            # The parser leaves blanks at the end, which are no part of the value.
            self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._refusal is not None:
            return
        try:
            self._begin_body()
        except ValueTrackerError as error:
            self._refuse(error)

    def _begin_body(self) -> None:
        if self._header_bytes > limits.HEADER_BYTES or len(self._headers) > limits.HEADER_COUNT:
            raise HeadersTooLarge()
        self._body = b""
        self._wrapping = None
        self._says_connection = False
        size = 0
        expected = None
        for name, value in self._headers:
            if name not in OF_THE_MESSAGE:
                continue
            if name == b"content-length":
                size = int(value)
            elif name == b"transfer-encoding":
                if self._wrapping is not None or self._parser.get_http_version() == "1.0":
                    raise MalformedRequest("The body is wrapped more than once, or too early.")
                if value.strip().lower() != b"chunked":
                    raise UnsupportedMediaType("Compressed bodies are not taken.")
                # How long it will be is not known: room for the longest is taken.
                size = BODY_BYTES
                self._wrapping = 0
            elif name == b"expect":
                expected = value
            else:
                self._says_connection = True
        if self._parser.should_upgrade():
            # Nothing is upgraded to. A plain request is answered, as the last one here; of
            # one with a body the body cannot be had.
            self._upgrade_offered = self._last = True
            if size:
                raise MalformedRequest("An upgrade cannot be offered with a body.")
        if size > BODY_BYTES:
            raise BodyTooLarge()
        if expected is not None and expected.lower() != b"100-continue":
            raise ExpectationFailed()
        if not size:
            self._waiting_for = NOTHING
            return
        if size > limits.SMALL_BODY_BYTES:
            # Strangers are not given room.
            self._let_in(self._headers)
        self._expect(BODY)
        if size > limits.SMALL_BODY_BYTES:
            if self._wire.budget.take(size, self._have_room):
                self._reserved = size
            else:
                self._waiting_for = ROOM
                self._wanted = size
                self._pause()
        if expected is not None and self._answering is None:
            self._transport.write(CONTINUE)

    def _have_room(self, size: int) -> bool:
        """There is room for the body now; whether it is still wanted."""
        # It may be room for an earlier body, which came whole before it was read no further.
        if self._waiting_for != ROOM or size != self._wanted or self._transport.is_closing():
            return False
        self._reserved = size
        came = self._came
        # While it waited for us it was not slow.
        self._expect(BODY)
        self._came = came
        self._resume()
        return True

    def _pause(self) -> None:
        if not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _give_back(self, reserved: int) -> None:
        if reserved:
            self._wire.budget.give_back(reserved)

    def on_body(self, body: bytes) -> None:
        if self._refusal is not None:
            return
        self._came += len(body)
        if self._came > BODY_BYTES:
            self._refuse(BodyTooLarge())
        elif not self._body:
            self._body = body
        else:
            # One buffer: small pieces of their own would take many times their size.
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += body

    def on_message_complete(self) -> None:
        if self._refusal is not None:
            return
        self._ended_here = True
        self._waiting_for = NOTHING
        body = bytes(self._body)
        reserved, self._reserved = self._reserved, 0
        self._body = b""
        parser = self._parser
        keep_alive = parser.should_keep_alive()
        try:
            # Any other version says something of the connection, or is not kept alive.
            if self._says_connection or not keep_alive:
                version = parser.get_http_version()
                if version not in VERSIONS:
                    raise MalformedRequest("Only HTTP/1.1 is spoken here.")
                # Of HTTP/1.0 too, if it asks for it; but it is not promised there.
                keep_alive = keep_alive and version == "1.1"
            target = self._url if self._url.startswith(b"/") else self._absolute_target()
            if b"#" in target:
                raise MalformedRequest("A fragment is not part of what is asked for.")
        except ValueTrackerError as error:
            self._give_back(reserved)
            self._refuse(error)
            return
        method = parser.get_method()
        request = Request(
            METHODS.get(method) or method.decode("ascii"), target, self._headers, body
        )
        if self._answering is None:
            self._answer(request, keep_alive, reserved)
        elif len(self._ahead) < SENT_AHEAD:
            self._pause()
            self._ahead.append((request, keep_alive, reserved))
        else:
            self._give_back(reserved)
            self._last = True

    def _absolute_target(self) -> bytes:
        """The path of a target that names the server as well, as if we were a proxy."""
        if self._url == b"*":
            return self._url
        try:
            url = httptools.parse_url(self._url)
        except httptools.HttpParserInvalidURLError:
            raise MalformedRequest("The target is no URL.") from None
        authority = (url.host or b"") + (b":%d" % url.port if url.port else b"")
        hosts = [value.lower() for name, value in self._headers if name == b"host"]
        if not url.path or hosts != [authority.lower()]:
            raise MalformedRequest("The target names another host than the Host header.")
        return url.path + (b"?" + url.query if url.query else b"")

    # Answering

    def _answer(self, request: Request, keep_alive: bool, reserved: int) -> None:
        reply = self._dispatch(request)
        # A client that does not read its answers gets no further ones ready-made.
        if isinstance(reply, Reply) and self._stalled_since is None:
            self._send(reply, keep_alive)
            self._give_back(reserved)
            self._answered()
            return
        self._answering = self._loop.create_task(self._finish(reply, keep_alive, reserved))
        self._answering.add_done_callback(self._tasks.discard)
        self._tasks.add(self._answering)

    async def _finish(
        self, reply: Reply | Coroutine[Any, Any, Reply], keep_alive: bool, reserved: int
    ) -> None:
        try:
            if not isinstance(reply, Reply):
                reply = await reply
            if self._stalled_since is not None:
                await self._can_write()
            if reply.pieces is not None:
                await self._stream(reply)
            else:
                self._send(reply, keep_alive)
        finally:
            self._answering = None
            self._give_back(reserved)
        self._answered()
        while self._ahead and self._answering is None and not self._transport.is_closing():
            self._answer(*self._ahead.popleft())

    def _answered(self) -> None:
        if self._transport.is_closing():
            return
        if not self._ahead:
            if self._refusal is not None:
                self._send_refusal()
            elif self._waiting_for == NOTHING:
                self._expect(SILENT)
            if self._waiting_for != ROOM:
                self._resume()

    def _send(self, reply: Reply, keep_alive: bool) -> None:
        if self._transport.is_closing():
            return
        write = self._transport.write
        end = b"\r\n" if keep_alive and not self._last else CLOSE + b"\r\n"
        if len(reply.body) <= limits.COPIED_BYTES:
            write(b"%b%b%b%b" % (reply.head, self._wire.date, end, reply.body))
        else:
            write(b"%b%b%b" % (reply.head, self._wire.date, end))
            write(reply.body)
        if not keep_alive or self._last:
            self._transport.close()

    async def _stream(self, reply: Reply) -> None:
        pieces = reply.pieces
        assert pieces is not None
        transport = self._transport
        self._streaming = True
        # What was sent behind it will not be answered; and only one who is read is heard leaving.
        self._drop_ahead()
        self._waiting_for = NOTHING
        self._resume()
        try:
            if transport.is_closing():
                return
            # It ends with the connection: what every reader is sent need not be framed for each.
            transport.write(b"%b%b%b\r\n" % (reply.head, self._wire.date, CLOSE))
            async for piece in pieces:
                transport.write(piece)
                if self._stalled_since is not None:
                    await self._can_write()
                if transport.is_closing():
                    return
        finally:
            self._streaming = False
            await pieces.aclose()
            transport.close()

    # Refusing

    def _refuse(self, error: ValueTrackerError) -> None:
        """Not a request, or not one that may be read to its end: say so and go."""
        if self._refusal is not None or self._transport.is_closing():
            return
        self._refusal = error_reply(error)
        self._give_back(self._reserved)
        self._reserved = 0
        self._body = b""
        if self._answering is None:
            self._send_refusal()

    def _send_refusal(self) -> None:
        reply = self._refusal
        assert reply is not None
        self._transport.write(b"%b%b%b\r\n%b" % (reply.head, self._wire.date, CLOSE, reply.body))
        self._resume()
        self._expect(LINGER)
        if self._transport.can_write_eof():
            self._transport.write_eof()
