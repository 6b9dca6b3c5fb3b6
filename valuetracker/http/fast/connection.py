"""
The fast connection: one HTTP/1.1 connection, between the socket and `dispatch`.

uvicorn makes one for each connection it accepts, in place of its own protocol class and of the
ASGI application. Bytes go from the socket to the parser, whole requests to `dispatch`, answers
back to the socket. What a client may make the server wait for or hold is bounded (see
`limits`). State is kept by its lifetime:

- `Connection`, `Answers` and `FlowControl` live as long as the connection;
- `IncomingRequest` lives as long as one request is being received;
- `Answer` lives as long as one answer is being made and sent, if it is not ready at once.

A request that is refused before its end is answered, the sending side is closed, and what else
arrives is discarded for a while: closing at once would reset the connection, and the client
would not receive the answer.

This module is the receiving side. It knows nothing of routes, of the headers of the API, or of
the store.
"""

from __future__ import annotations

import asyncio
from enum import Enum
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
    ValueTrackerError,
)
from valuetracker.http import limits
from valuetracker.http.fast.answers import Answers
from valuetracker.http.fast.flow_control import FlowControl
from valuetracker.http.fast.incoming import STRANGE_LINE, IncomingRequest, may_be_strange
from valuetracker.http.fast.shared_state import SharedState
from valuetracker.http.replies import Reply
from valuetracker.http.request_log import unexpected_failure
from valuetracker.values import BODY_BYTES

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Phase(Enum):
    """The phases of the receiving side, by what it waits for."""

    IDLE = "the next request"
    HEADERS = "the rest of the headers"
    BODY = "the rest of the body"
    BUDGET = "budget for the body, and reading is paused"
    ANSWER = "the server: the request is complete"
    LINGER = "the end of a request whose refusal has been sent; what is received is discarded"
    ENDED = "nothing any more; what is received is discarded"


# An access through the class costs a Python call on Python 3.11, and each request makes ten.
IDLE, HEADERS, BODY, BUDGET, ANSWER, LINGER, ENDED = Phase


class Connection(asyncio.Protocol):
    """One connection."""

    __slots__ = (
        "_address",
        "_answers",
        "_app_state",
        "_flow",
        "_incoming",
        "_is_half_closed",
        "_loop",
        "_parser",
        "_phase",
        "_phase_began",
        "_phase_bytes",
        "_refusal",
        "_server_state",
        "_shared",
        "_transport",
        "_upgrade_offered",
    )

    _answers: Answers
    _flow: FlowControl
    _transport: asyncio.Transport

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        # Starlette's state, as `create_app` has filled it; uvicorn's own is for ASGI.
        self._app_state = cast(Any, config.app).state
        self._server_state = server_state
        self._shared: SharedState = self._app_state.shared
        self._loop = _loop or asyncio.get_event_loop()
        self._parser = httptools.HttpRequestParser(self)
        # A client may send more after it has asked for the connection to be closed. That is
        # ignored, and no reason to refuse the request before it.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)
        # The phase, when it began, and how many bytes of it have been received.
        self._phase = HEADERS
        self._phase_began = 0.0
        self._phase_bytes = 0
        self._incoming = IncomingRequest()
        self._upgrade_offered = False
        # The client has closed its sending side.
        self._is_half_closed = False
        # The refusal that ends the connection once all requests before it are answered.
        self._refusal: Reply | None = None

    # The life of the connection: called by the event loop, uvicorn and the server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop have the methods of asyncio's, but not its base classes.
        self._transport = cast(asyncio.Transport, transport)
        self._flow = FlowControl(self._transport, self._loop, self._shared.outbox)
        self._answers = Answers(
            self._app_state,
            self._server_state,
            self._flow,
            on_all_sent=self._all_answered,
            on_stream=self._end_receiving,
        )
        self._phase_began = self._loop.time()
        peer = transport.get_extra_info("peername")
        # A socket file has no address.
        self._address = str(peer[0]) if isinstance(peer, tuple) and peer else ""
        connections = cast("set[Any]", self._server_state.connections)
        connections.add(self)
        too_many = len(connections) - self._shared.connections
        if too_many > limits.REFUSED_CONNECTIONS:
            self._transport.abort()
        elif too_many > 0:
            self._refuse(TooManyConnections())

    def connection_lost(self, error: Exception | None) -> None:
        cast("set[Any]", self._server_state.connections).discard(self)
        self._end_receiving()
        self._answers.connection_lost()
        self._flow.resume_writing()

    def _end_receiving(self) -> None:
        """Drop the request being received, and take no other."""
        self._incoming.discard()
        self._phase = ENDED

    def eof_received(self) -> bool:
        """Keep the connection if the client, which sends nothing more, is owed an answer."""
        self._is_half_closed = True
        self._end_receiving()
        # If nothing is owed, the transport is closed next.
        self._flow.flush()
        return self._answers.are_owed

    def shutdown(self) -> None:
        """Finish the request under way, if there is one, and close the connection."""
        if self._answers.current is not None or self._phase in (BODY, BUDGET):
            self._answers.is_last = True
        else:
            self._flow.close()

    def pause_writing(self) -> None:
        self._flow.pause_writing()

    def resume_writing(self) -> None:
        self._flow.resume_writing()

    def check_deadlines(self, now: float) -> None:
        """End the connection if its client has taken too long."""
        phase = self._phase
        waited = now - self._phase_began
        self._flow.note_progress()
        if self._flow.is_overdue(now):
            self._transport.abort()
        elif self._flow.is_reading_paused and phase in (HEADERS, BODY):
            # The server is slow, not the client.
            self._phase_began = now
        elif phase is HEADERS:
            if waited > limits.HEADER_SECONDS:
                self._end_slow_headers()
        elif phase is BODY:
            incoming = self._incoming
            is_crowded = incoming.share is not None and self._shared.budget.is_awaited
            is_limited = incoming.spool is None
            if waited > limits.body_seconds(incoming.received, is_crowded, is_limited):
                self._refuse(RequestTimeout())
        elif phase is IDLE:
            if waited > limits.IDLE_SECONDS:
                self._flow.close()
        elif phase is LINGER and waited > limits.LINGER_SECONDS:
            self._transport.abort()

    def _end_slow_headers(self) -> None:
        # A client that has sent nothing is sent nothing: a browser keeps such connections
        # ready, and would take the refusal for the answer to its next request.
        if self._phase_bytes:
            self._refuse(RequestTimeout())
        elif self._answers.current is None:
            self._flow.close()

    # Receiving: called by the event loop and the parser

    def data_received(self, data: bytes) -> None:
        phase = self._phase
        if phase is IDLE:
            self._begin_phase(HEADERS)
        elif phase is LINGER:
            self._phase_bytes += len(data)
            if self._phase_bytes > limits.LINGER_BYTES:
                self._transport.abort()
            return
        elif phase is ENDED or self._upgrade_offered:
            # After an offered upgrade the bytes belong to another protocol; parsed as HTTP,
            # they could contain a request that nobody sent.
            return
        incoming = self._incoming
        try:
            if incoming.open_line or incoming.expects_size or may_be_strange(data):
                self._feed_slowly(data)
            else:
                self._parser.feed_data(data)
            if self._incoming is incoming:
                self._count(len(data))
            if self._phase is HEADERS or self._incoming.expects_size:
                self._incoming.keep_open_line(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserCallbackError as error:
            # A failure in a callback of this class, which the parser passes on.
            self._refuse(unexpected_failure(error))
        except httptools.HttpParserError:
            self._refuse(MalformedRequest("Invalid HTTP request received."))
        except ValueTrackerError as error:
            self._refuse(error)

    def _feed_slowly(self, data: bytes) -> None:
        """Parse up to each line that may be strange, and look what it is there."""
        begun = self._incoming.open_line
        parsed = 0
        for strange in STRANGE_LINE.finditer(begun + data):
            start = max(0, strange.start(strange.lastgroup or 0) - len(begun))
            self._parser.feed_data(data[parsed:start])
            parsed = start
            if self._refusal is None:
                self._incoming.check_line(strange)
        self._parser.feed_data(data[parsed:])

    def _count(self, received: int) -> None:
        """Count bytes of a request that is not complete yet."""
        if self._phase is HEADERS:
            self._phase_bytes += received
            if self._phase_bytes > limits.HEADER_BYTES:
                raise HeadersTooLarge()
        elif self._phase is BODY:
            self._incoming.add_chunked_bytes(received)

    def _begin_phase(self, phase: Phase) -> None:
        self._phase = phase
        self._phase_began = self._loop.time()
        self._phase_bytes = 0

    def on_message_begin(self) -> None:
        # The request before may have come with the same bytes, and be answered already.
        if self._phase is ANSWER or self._phase is IDLE:
            self._begin_phase(HEADERS)

    def on_url(self, url: bytes) -> None:
        incoming = self._incoming
        incoming.url += url
        incoming.header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are ignored: when they come, the headers have been checked and used.
        if self._phase is not HEADERS:
            return
        incoming = self._incoming
        incoming.header_bytes += len(name) + len(value) + 4
        if incoming.header_bytes <= limits.HEADER_BYTES:
            # The parser keeps blanks at the end, which are not part of the value.
            incoming.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._refusal is not None:
            return
        try:
            self._begin_body()
        except ValueTrackerError as error:
            self._refuse(error)

    def _begin_body(self) -> None:
        incoming = self._incoming
        size = incoming.read_framing(self._parser)
        if self._parser.should_upgrade():
            # The server upgrades to no other protocol: it answers the request as the last one
            # of the connection. The parser does not report its body, so there must be none.
            self._upgrade_offered = self._answers.is_last = True
            if size:
                raise MalformedRequest("An upgrade cannot be offered with a body.")
        if size > limits.SMALL_BODY_BYTES:
            method = self._parser.get_method().decode("ascii")
            incoming.spool = self._app_state.dispatcher.spool_for(
                method, incoming.url, incoming.headers
            )
        if size > BODY_BYTES and incoming.spool is None:
            raise BodyTooLarge()
        expectation = incoming.expectation
        if expectation is not None and expectation.lower() != b"100-continue":
            raise ExpectationFailed()
        if not size:
            self._phase = ANSWER
            return
        self._begin_phase(BODY)
        if size > limits.SMALL_BODY_BYTES and incoming.spool is None:
            # A client that would be refused anyway gets no budget.
            self._app_state.dispatcher.admit(incoming.headers)
            incoming.size = size
            self._reserve(incoming)
        if self._answers.current is None:
            self._tell_to_continue()

    def _tell_to_continue(self) -> None:
        """Have a client send the body, if it waits for that."""
        incoming = self._incoming
        if incoming.expectation is not None and not incoming.received:
            incoming.expectation = None
            self._flow.write(CONTINUE)

    def _reserve(self, incoming: IncomingRequest) -> None:
        """
        Reserve memory for what a body has and what is received next; until then receive nothing.

        A body that is announced and not sent holds little, however long it would be.
        """
        size = min(incoming.size, len(incoming.body) + limits.RECEIVED_BYTES)
        share = incoming.share
        if share is None:
            budget = self._shared.budget
            share = incoming.share = budget.reserve(size, self._continue_body, self._lose_body)
        elif share.is_granted and share.size < size:
            share.grow(size, self._continue_body)
        if self._phase is BODY and not share.is_granted:
            self._phase = BUDGET
            incoming.paused_at = self._loop.time()
            self._flow.pause_reading()

    def _continue_body(self) -> None:
        """Continue with a body that has been granted memory."""
        if self._transport.is_closing():
            self._end_receiving()
            return
        self._phase = BODY
        # The time for which the client had to wait does not count.
        self._phase_began += self._loop.time() - self._incoming.paused_at
        self._reserve(self._incoming)
        if self._phase is BODY:
            self._flow.resume_reading()

    def _lose_body(self) -> None:
        """Refuse a body that does not grow while others wait for its memory."""
        self._refuse(RequestTimeout())

    def on_chunk_header(self) -> None:
        self._incoming.expects_size = False

    def on_chunk_complete(self) -> None:
        self._incoming.expects_size = True

    def on_body(self, piece: bytes) -> None:
        if self._refusal is not None:
            return
        incoming = self._incoming
        try:
            incoming.add_body(piece)
        except ValueTrackerError as error:
            self._refuse(error)
            return
        if incoming.share is not None:
            incoming.share.move(len(piece))
            self._reserve(incoming)

    def on_message_complete(self) -> None:
        if self._refusal is not None:
            return
        incoming, self._incoming = self._incoming, IncomingRequest()
        self._phase = ANSWER
        share = incoming.share
        try:
            request, keep_alive = incoming.complete(self._parser)
            request.address = self._address
        except ValueTrackerError as error:
            incoming.discard()
            self._refuse(error)
            return
        if share is not None:
            share.settle()
        if self._answers.current is None:
            self._answers.begin(request, keep_alive, share)
        else:
            self._answers.enqueue(request, keep_alive, share)

    # Called when answers have been sent, and when a request is refused before its end

    def _all_answered(self) -> None:
        if self._refusal is not None:
            self._send_refusal()
        elif self._phase is ANSWER:
            self._begin_phase(IDLE)
        elif self._phase in (BODY, BUDGET):
            self._tell_to_continue()
        if self._is_half_closed:
            self._flow.close()
        elif self._phase is not BUDGET:
            self._flow.resume_reading()

    def _refuse(self, error: ValueTrackerError) -> None:
        """Refuse the request being received, parse nothing more, and end the connection."""
        if self._refusal is not None or self._transport.is_closing():
            return
        self._refusal = self._app_state.dispatcher.refusal(error)
        self._end_receiving()
        if self._answers.current is None:
            self._send_refusal()

    def _send_refusal(self) -> None:
        assert self._refusal is not None
        self._answers.refuse(self._refusal)
        self._flow.resume_reading()
        self._begin_phase(LINGER)
