"""
The adapter between ASGI and `dispatch`, and the route table as Starlette shows it.

Any ASGI server can run the application through this adapter, and another application can
mount it. `connection` is the other adapter: it replaces server and ASGI for speed. Routing is
the same for both: one trie over the raw path, because ASGI servers decode `%2F` in `path`,
where it is data.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Awaitable, Iterable
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote

from starlette import routing
from starlette.types import Lifespan, Message, Receive, Scope, Send

from valuetracker.errors import BodyTooLarge, TokenRequired, ValueTrackerError
from valuetracker.http.dispatch import Dispatcher
from valuetracker.http.endpoint import Endpoint
from valuetracker.http.limits import SMALL_BODY_BYTES
from valuetracker.http.replies import Headers, Reply, Request
from valuetracker.http.request_ids import HEADER
from valuetracker.http.router import PREFIX_BYTES, Router
from valuetracker.http.tokens import TokenFile
from valuetracker.runtime.capacity import Capacity
from valuetracker.settings import PREFIX
from valuetracker.spool import Spool
from valuetracker.values import BODY_BYTES

CLOSE = (b"connection", b"close")
# A body that is too large is read and discarded up to this size: a client that is still
# sending would not receive the refusal.
DISCARDED_BYTES = 2 * BODY_BYTES

NOT_STARTED = (
    "The lifespan of the Value Tracker application is not running. An application that mounts "
    "it runs the lifespan: `async with inner.router.lifespan_context(inner)`."
)
LOOPBACK_ONLY = "Without a token the server answers on loopback addresses only."


class ASGIAdapter:
    """Answers HTTP requests of an ASGI server with `dispatch`."""

    def __init__(self, dispatcher: Dispatcher, capacity: Capacity, tokens: TokenFile) -> None:
        self._dispatcher = dispatcher
        self._capacity = capacity
        self._tokens = tokens
        # Requests whose server has given up on them, and which are finished all the same.
        self._finishing: set[asyncio.Task[None]] = set()
        # Set by the lifespan.
        self.is_running = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.is_running:
            raise RuntimeError(NOT_STARTED)
        # Some servers leave blanks around a value, which are no part of it.
        headers = [(name, value.strip(b" \t")) for name, value in scope["headers"]]
        method = scope["method"]
        target = route_path(scope)
        if scope["query_string"]:
            target += b"?" + scope["query_string"]
        body: bytes | None = b""
        spool: Spool | None = None
        try:
            if not self._tokens.in_use:
                check_address(scope)
            if has_body(method, headers):
                spool = self._dispatcher.spool_for(method, target, headers)
                if spool is not None:
                    await receive_into(spool, receive)
                else:
                    body = await self._read_body(headers, receive)
        except Gone:
            return
        except ValueTrackerError as refusal:
            # HTTP/2 has no such header.
            close = [CLOSE] if scope["http_version"].startswith("1") else []
            await send_reply(send, self._dispatcher.refusal(refusal).with_headers(*close))
            return
        if body is None:
            return
        request = Request(method, target, headers, body, spool)
        client = scope.get("client")
        request.address = str(client[0]) if client else ""
        reply = self._dispatcher.dispatch(request)
        start = Start(request.id, quote(scope.get("root_path", "")).encode())
        if isinstance(reply, Reply) and reply.pieces is None:
            await send_reply(send, reply, start)
        else:
            await self._answer_while_connected(reply, start, receive, send)

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the whole body, or None if the client has gone before its end."""
        for name, value in headers:
            if name == b"content-length" and int(value) > DISCARDED_BYTES:
                raise BodyTooLarge()
        pieces: list[bytes] = []
        size = 0
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            more = message.get("more_body", False)
            piece = message.get("body", b"")
            if size <= SMALL_BODY_BYTES < size + len(piece):
                # No memory for the large body of a client that is refused anyway.
                self._dispatcher.admit(headers)
            size += len(piece)
            if size > DISCARDED_BYTES:
                raise BodyTooLarge()
            if size > BODY_BYTES:
                pieces.clear()
            else:
                pieces.append(piece)
        if size > BODY_BYTES:
            raise BodyTooLarge()
        return b"".join(pieces)

    async def _answer_while_connected(
        self,
        reply: Reply | Awaitable[Reply],
        start: Start,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer, and stop waiting for something to happen when the client has gone."""
        loop = asyncio.get_running_loop()
        answering = loop.create_task(self._answer(reply, start, send))
        leaving = loop.create_task(disconnected(receive))
        self._finishing.add(answering)
        answering.add_done_callback(self._finishing.discard)
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self._capacity.abandon(answering)
                await asyncio.wait({answering})
        except asyncio.CancelledError:
            # The server does not wait any longer. A stream ends at once, with its last chunk.
            # A write is finished after this, even if nobody hears its answer.
            self._capacity.abandon(answering)
            if answering.cancelling():
                await asyncio.wait({answering})
            raise
        finally:
            leaving.cancel()
        if not answering.cancelled():
            answering.result()

    async def _answer(self, reply: Reply | Awaitable[Reply], start: Start, send: Send) -> None:
        if not isinstance(reply, Reply):
            reply = await reply
        if reply.pieces is None:
            await send_reply(send, reply, start)
            return
        try:
            # It does nothing but wait for events or the client: it ends when that has gone.
            with self._capacity.waiting(), contextlib.suppress(OSError):
                await send_start(send, reply, start)
                try:
                    async for piece in reply.pieces:
                        await send(part_of_body(piece, more=True))
                finally:
                    await send(part_of_body(b""))
        finally:
            await reply.pieces.aclose()


class Gone(Exception):
    """The client has gone before the end of the body."""


async def receive_into(spool: Spool, receive: Receive) -> None:
    """Receive a body of any size."""
    try:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            more = message.get("more_body", False)
            await asyncio.to_thread(spool.write, message.get("body", b""))
    except BaseException:
        spool.close()
        raise


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class Start(NamedTuple):
    """The id of a request, and where the application is mounted: an answer begins with them."""

    id: bytes = b""
    root: bytes = b""


NO_START = Start()


async def send_reply(send: Send, reply: Reply, start: Start = NO_START) -> None:
    if reply.share is not None:
        # If the client does not read, the server has the bytes, and nobody here can take them back.
        reply.share.watch(lambda: None)
    try:
        # Servers report a client that has gone by an OSError, if at all.
        with contextlib.suppress(OSError):
            await send_start(send, reply, start)
            await send(part_of_body(reply.body))
    finally:
        if reply.share is not None:
            reply.share.release()


async def send_start(send: Send, reply: Reply, start: Start) -> None:
    headers = reply.headers
    if start.id:
        headers.append((HEADER, start.id))
    if start.root:
        # A redirect leads to a path of this application, wherever it is mounted.
        headers = [
            (name, start.root + value if name == b"location" and value.startswith(b"/") else value)
            for name, value in headers
        ]
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})


def part_of_body(body: bytes, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


def has_body(method: str, headers: Headers) -> bool:
    """Return True if the request has a body, or may have one."""
    return method not in ("GET", "HEAD") or any(
        name in (b"content-length", b"transfer-encoding") for name, _ in headers
    )


def check_address(scope: Scope) -> None:
    """
    Refuse a request that was sent to an address of the network.

    `valuetracker serve` does not listen on such an address while there is no token. Another
    server does not know this rule, so each request is checked.
    """
    server = scope.get("server")
    if server and is_network_address(server[0]):
        raise TokenRequired(
            LOOPBACK_ONLY, hint="Make a token: `valuetracker token create --name me --admin`."
        )


@lru_cache(maxsize=64)
def is_network_address(host: str) -> bool:
    """Return True for an IP address that is not loopback; False for any name or socket file."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return not (getattr(address, "ipv4_mapped", None) or address).is_loopback


def route_path(scope: Scope) -> bytes:
    """Return the raw path below the point where the application is mounted."""
    raw: bytes | None = scope.get("raw_path")
    if raw is None:
        # The field is optional in ASGI. Without it `%2F` cannot be told from a slash.
        raw = quote(scope["path"]).encode()
    root = scope.get("root_path", "").encode()
    length = encoded_length(raw, root)
    # A proxy may have removed the root path before the request came here.
    if length is None or raw[length : length + 1] not in (b"", b"/"):
        return raw
    return raw[length:] or b"/"


def encoded_length(raw: bytes, decoded: bytes) -> int | None:
    """Return the length of the prefix of `raw` that decodes to `decoded`; None if none does."""
    if raw.startswith(decoded) and b"%" not in decoded:
        return len(decoded)
    position = 0
    for byte in decoded:
        found = raw[position : position + 1]
        if found == b"%":
            try:
                found = bytes.fromhex(raw[position + 1 : position + 3].decode("ascii"))
            except ValueError:
                return None
            position += 2
        if found != bytes([byte]):
            return None
        position += 1
    return position


class EndpointRoute(routing.Route):
    """One row of the route table, as Starlette and its tools expect to find it."""

    def __init__(self, endpoint: Endpoint, path: str, router: Router, adapter: ASGIAdapter) -> None:
        super().__init__(
            path, endpoint.handler, methods=endpoint.methods, name=endpoint.handler.__name__
        )
        self.app = adapter
        self._row = endpoint
        self._router = router
        self._is_prefixed = path.startswith(PREFIX)

    def matches(self, scope: Scope) -> tuple[routing.Match, Scope]:
        """Ask the trie, which is the only router there is."""
        if scope["type"] != "http":
            return routing.Match.NONE, {}
        path = route_path(scope)
        try:
            found = self._router.find(scope["method"], path)
        except ValueTrackerError:
            return routing.Match.NONE, {}
        if found.endpoint is not self._row or path.startswith(PREFIX_BYTES) != self._is_prefixed:
            return routing.Match.NONE, {}
        return routing.Match.FULL, {"endpoint": self.endpoint, "path_params": dict(found.raw)}


class EndpointRouter(routing.Router):
    """
    Starlette's router, with the rows of the route table as its routes.

    HTTP requests go to the adapter at once: the trie finds the row, refusals are JSON, and
    nothing is redirected.
    """

    def __init__(
        self,
        endpoints: Iterable[Endpoint],
        router: Router,
        adapter: ASGIAdapter,
        lifespan: Lifespan[Any],
    ) -> None:
        routes = [
            EndpointRoute(each, path, router, adapter)
            for each in endpoints
            for path in [PREFIX + each.path] + [each.path] * each.at_root
        ]
        super().__init__(routes, redirect_slashes=False, lifespan=lifespan)
        self._adapter = adapter

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._adapter(scope, receive, send)
        else:
            await super().app(scope, receive, send)
