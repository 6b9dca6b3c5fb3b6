"""
The other adapter of `dispatch`: uvicorn's HTTP protocol, without an application between.

An ordinary request (HTTP/1.1, a body of known and modest length) goes straight from the
parser to `dispatch` and its answer straight to the socket. Whatever is unusual (chunked or
large bodies, `Expect`, absolute targets, HTTP/1.0) falls through to Starlette, which hands
it to the same function. This leans on uvicorn's internals, so its version is pinned.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from valuetracker.dispatch import Dispatcher
from valuetracker.errors import MalformedRequest
from valuetracker.replies import Reply, Request, error_reply

DIRECT_BODY_BYTES = 1024 * 1024
# Requests a client may send ahead on one connection before it is read no further.
SENT_AHEAD = 64

CLOSE = b"connection: close\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
# Headers that make a request unusual, whatever they say.
UNUSUAL = frozenset({b"transfer-encoding", b"expect"})
BODY_HEADERS = frozenset({b"content-length", b"transfer-encoding"})


class DirectProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        dispatcher: Dispatcher = config.app.state.dispatcher  # type: ignore[union-attr]
        self._dispatch = dispatcher.dispatch
        # Whether the message being parsed is answered here, by Starlette, or not at all.
        self._direct = False
        self._ignored = False
        # Whether a request that is answered here has begun to come and is not all there.
        self._receiving = False
        self._pieces: list[bytes] = []
        # The request being answered here, and those sent ahead behind it.
        self._answering: asyncio.Task[None] | None = None
        self._streaming = False
        self._ahead: deque[tuple[Request, bool]] = deque()
        self._last = False
        self._upgrade_offered = False

    def data_received(self, data: bytes) -> None:
        # The parser takes what follows an offered upgrade for another protocol's; read as
        # HTTP, it could be a request that nobody sent.
        if not self._upgrade_offered:
            super().data_received(data)

    # What the parser calls

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        self._pieces = []
        if self.parser.should_upgrade():
            # Nothing is upgraded to. A plain request is answered, as the last one here; of
            # one with a body the body cannot be had.
            self._upgrade_offered = self._last = True
            if any(name in BODY_HEADERS for name, _ in self.headers):
                self._ignored = True
                self.send_400_response("An upgrade cannot be offered with a body.")
                return
        self._direct = self._is_ordinary()
        self._receiving = self._direct
        if self._direct:
            return
        # An unusual request behind one that is being answered here: that answer will be
        # the last on this connection, and the client sends the other one again.
        self._ignored = self._answering is not None
        if self._ignored:
            self._last = True
            return
        url, headers, expected = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expected
        self.headers.extend(headers)
        super().on_headers_complete()

    def _is_ordinary(self) -> bool:
        if not self.url.startswith(b"/") or b"#" in self.url:
            return False
        if self.parser.get_http_version() != "1.1":
            return False
        if self.cycle is not None and (not self.cycle.response_complete or self.pipeline):
            return False
        for name, value in self.headers:
            if name in UNUSUAL:
                return False
            if name == b"content-length" and int(value) > DIRECT_BODY_BYTES:
                return False
        return True

    def on_body(self, body: bytes) -> None:
        if self._direct:
            self._pieces.append(body)
        elif not self._ignored:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._direct:
            if not self._ignored:
                super().on_message_complete()
            return
        self._receiving = False
        pieces = self._pieces
        body = b"" if not pieces else pieces[0] if len(pieces) == 1 else b"".join(pieces)
        request = Request(self.parser.get_method().decode("ascii"), self.url, self.headers, body)
        keep_alive = self.parser.should_keep_alive()
        if self._answering is None:
            self._answer(request, keep_alive)
        elif len(self._ahead) < SENT_AHEAD:
            self.flow.pause_reading()
            self._ahead.append((request, keep_alive))
        else:
            self._last = True

    def send_400_response(self, msg: str) -> None:
        # Not HTTP, so no route and no request; the shape of the answer is the same.
        self._send(error_reply(MalformedRequest(msg)), keep_alive=False)

    # Answering

    def _answer(self, request: Request, keep_alive: bool) -> None:
        reply = self._dispatch(request)
        # A client that does not read its answers gets no further ones ready-made.
        if isinstance(reply, Reply) and not self.flow.write_paused:
            self._send(reply, keep_alive)
            self.on_response_complete()
            return
        self._answering = self.loop.create_task(self._finish(reply, keep_alive))
        self._answering.add_done_callback(self.tasks.discard)
        self.tasks.add(self._answering)

    async def _finish(self, reply: Reply | Coroutine[Any, Any, Reply], keep_alive: bool) -> None:
        try:
            if not isinstance(reply, Reply):
                reply = await reply
            if self.flow.write_paused:
                await self.flow.drain()
            if reply.pieces is not None:
                await self._stream(reply, reply.pieces)
            elif not self.transport.is_closing():
                self._send(reply, keep_alive)
        finally:
            self._answering = None
        self.on_response_complete()
        while self._ahead and self._answering is None and not self.transport.is_closing():
            self._answer(*self._ahead.popleft())

    def _send(self, reply: Reply, keep_alive: bool) -> None:
        if self.transport.is_closing():
            return
        close = not keep_alive or self._last
        parts = [self._head(reply), CLOSE, b"\r\n", reply.body]
        if not close:
            parts[1] = b""
        self.transport.write(b"".join(parts))
        if close:
            self.transport.close()

    def _head(self, reply: Reply) -> bytes:
        """The status line and headers; finished answers are sent often, so it is kept."""
        if reply.head is None:
            parts = [STATUS_LINE[reply.status]]
            for name, value in reply.headers:
                parts += (name, b": ", value, b"\r\n")
            reply.head = b"".join(parts)
        parts = [reply.head]
        for name, value in self.server_state.default_headers:
            parts += (name, b": ", value, b"\r\n")
        return b"".join(parts)

    async def _stream(self, reply: Reply, pieces: AsyncIterator[bytes]) -> None:
        self._streaming = True
        try:
            self.transport.write(self._head(reply) + CHUNKED + CLOSE + b"\r\n")
            async for piece in pieces:
                self.transport.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                if self.flow.write_paused:
                    await self.flow.drain()
                if self.transport.is_closing():
                    return
            self.transport.write(b"0\r\n\r\n")
        finally:
            self._streaming = False
            await pieces.aclose()  # type: ignore[attr-defined]
            self.transport.close()

    # The connection's end

    def connection_lost(self, exc: Exception | None) -> None:
        self._ahead.clear()
        # Nothing else would tell a stream that nobody listens any more. Other requests are
        # finished: what they write is wanted all the same.
        if self._streaming and self._answering is not None:
            self._answering.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self._answering is not None or self._receiving:
            self._last = True
        else:
            super().shutdown()
