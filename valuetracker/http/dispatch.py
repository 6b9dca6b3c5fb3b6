"""
`dispatch(request) → Reply`: the whole of HTTP in plain Python over bytes.

    gate → memory → route → header → path → permission → body → handler (registration, verb) → reply

Two adapters share it: uvicorn's protocol (see `protocol`) and Starlette (see `app`). Errors
become answers here and nowhere else.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import TokenInvalid, TokenRequired, Unauthorized, ValueTrackerError
from valuetracker.failpoints import Failpoint
from valuetracker.http.call import Call, Document, Service, Stream
from valuetracker.http.deflate import Deflated, Packer, accepts_deflate
from valuetracker.http.endpoint import Endpoint
from valuetracker.http.gate import Caller, Gate
from valuetracker.http.replies import (
    Headers,
    Pieces,
    Reply,
    Request,
    document,
    error_reply,
    json_reply,
    matches,
    not_modified,
    stream_reply,
)
from valuetracker.http.request_parsing import (
    either_extension,
    read_body,
    read_context,
    read_extension_id,
    read_path,
    read_query,
    refuse_repeated,
)
from valuetracker.http.router import Router
from valuetracker.names import DEFAULT_USER
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.settings import PREFIX
from valuetracker.store.tx.jobs import Written

logger = logging.getLogger(__name__)

DEFLATED: Headers = [(b"content-encoding", b"deflate")]
# Where `/` leads: the only redirect there is.
HOME = f"{PREFIX}/docs".encode()

Key = tuple[str, bytes, bytes]


@dataclass
class Dispatcher:
    """The function and what it needs: the gate, the table, the service, the memory of answers."""

    gate: Gate
    router: Router
    service: Service
    cache: AnswerCache[Reply]

    def __post_init__(self) -> None:
        self._failpoint = Failpoint.from_environment()
        self._packer = Packer()

    def dispatch(self, request: Request) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer at once, if it is in memory; else what to await for it."""
        started = time.perf_counter()
        headers = request.headers
        given = dict(headers)
        try:
            if len(given) != len(headers):
                refuse_repeated(headers)
            caller = self.gate.admit(given)
        except ValueTrackerError as refusal:
            return self._refuse(request, given, refusal, started)
        if request.method == "GET":
            key = (caller.scope, given.get(b"x-extension-id", b""), request.target)
            reply = self.cache.get(key)
            if reply is not None:
                condition = given.get(b"if-none-match")
                if condition is not None and matches(reply.etag, condition):
                    reply = not_modified(reply)
                return self._finish(request, reply, started, caller)
        elif request.method == "OPTIONS" and b"access-control-request-method" in given:
            return self._finish(request, preflight(caller, given), started)
        return self._answer(request, given, caller, started)

    def admit(self, headers: Headers) -> None:
        """Refuse whoever would be refused anyway, before a large body is taken from them."""
        refuse_repeated(headers)
        caller = self.gate.admit(dict(headers))
        if caller.needs_token and caller.token is None:
            raise TokenRequired()

    def _refuse(
        self,
        request: Request,
        given: dict[bytes, bytes],
        refusal: ValueTrackerError,
        started: float,
    ) -> Reply:
        """A page that is let in must be able to read that only its token is not."""
        caller = None
        if isinstance(refusal, Unauthorized):
            caller = Caller(origin=self.gate.allowed_origin(given[b"host"], given.get(b"origin")))
        return self._finish(request, error_reply(refusal), started, caller)

    def _finish(
        self, request: Request, reply: Reply, started: float, caller: Caller | None = None
    ) -> Reply:
        """What every answer goes through on its way out."""
        if request.method == "HEAD":
            reply = reply.without_body()
        if caller is not None and caller.origin is not None:
            reply = reply.with_headers(
                (b"access-control-allow-origin", caller.origin),
                (b"access-control-expose-headers", EXPOSED),
                (b"vary", b"Origin"),
            )
        if logger.isEnabledFor(logging.DEBUG):
            log_request(request, reply, started)
        return reply

    async def _answer(
        self, request: Request, given: dict[bytes, bytes], caller: Caller, started: float
    ) -> Reply:
        try:
            reply = await self._handle(request, given, caller)
            self._failpoint.reach("before_reply")
        except ValueTrackerError as error:
            if error.status >= 500:
                logger.error(error.message, extra=_failure(error, request))
            reply = error_reply(error)
        except Exception as error:
            reply = error_reply(unexpected_failure(error, request))
        return self._finish(request, reply, started, caller)

    async def _handle(self, request: Request, given: dict[bytes, bytes], caller: Caller) -> Reply:
        path, _, query = request.target.partition(b"?")
        if path == b"/" and request.method in ("GET", "HEAD"):
            return json_reply(302, b"", [(b"location", HOME)])
        found = self.router.find(request.method, path)
        endpoint = found.endpoint
        extension_id = read_extension_id(endpoint, given)
        users = self.service.users
        extensions = users.default
        if caller.user != DEFAULT_USER:
            extensions = await users.acquire(caller.user)
        try:
            call = Call(self.service, extensions, caller, extension_id, read_path(found))
            if endpoint.extension == "path":
                call.extension_id = call.path["extension"]
            if endpoint.query:
                call.query = read_query(endpoint.query, query)
            if endpoint.extension == "either":
                call.extension_id = either_extension(given, call.query.get("extensionId"))
            self.gate.permit(caller, endpoint, call.extension_id)
            call.last_event_id = given.get(b"last-event-id")
            if endpoint.body:
                read_body(endpoint, request.body, given, call)
            if endpoint.writes:
                call.status = endpoint.status
                call.context = read_context(endpoint, request, given)
            result = await endpoint.handler(call)
            # It may have waited for long.
            if not endpoint.changes and not self.gate.still_admits(caller):
                raise TokenInvalid()
            return self._reply(endpoint, request, given, call, result)
        finally:
            if extensions is not users.default:
                users.release(extensions)

    def _reply(
        self,
        endpoint: Endpoint,
        request: Request,
        given: dict[bytes, bytes],
        call: Call,
        result: Any,
    ) -> Reply:
        if isinstance(result, Written):
            extra = [(b"x-revision", b"%d" % result.revision)]
            if result.replayed:
                extra.append((b"idempotency-replayed", b"true"))
            if not result.live:
                extra.append((b"x-live", b"false"))
            return json_reply(result.status, result.body, extra)
        if isinstance(result, Document):
            common = document(result.media_type, result.policy)
            return Reply(endpoint.status, common, [], result.body)
        if isinstance(result, Stream):
            pieces: Pieces = result.pieces
            if not call.caller.is_bridge:
                pieces = Guarded(pieces, self.gate, call.caller)
            if accepts_deflate(given.get(b"accept-encoding")):
                return stream_reply(Deflated(pieces, self._packer), DEFLATED)
            return stream_reply(pieces)
        body = b"" if endpoint.returns is None else orjson.dumps(result)
        if call.reading is None:
            return json_reply(endpoint.status, body)
        extension, reading = call.reading
        etag = f'"{reading.etag}"'.encode() if reading.etag is not None else None
        reply = json_reply(endpoint.status, body, [(b"etag", etag)] if etag else [])
        reply.etag = etag
        named = given.get(b"x-extension-id", b"")
        if (
            request.method == "GET"
            and reading.keepable
            # A needless header on a route that takes none would make many keys for one answer.
            and named == (extension.id.encode() if endpoint.extension == "header" else b"")
        ):
            key = (call.caller.scope, named, request.target)
            size = len(body) + len(named) + len(request.target)
            self.cache.keep(key, reply, size, extension, reading.tags)
        condition = given.get(b"if-none-match")
        if condition is not None and matches(etag, condition):
            return not_modified(reply)
        return reply


class Guarded:
    """A stream that ends when whoever began it would not be let in any more."""

    def __init__(self, pieces: Pieces, gate: Gate, caller: Caller) -> None:
        self._pieces = pieces
        self._gate = gate
        self._caller = caller

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._pieces:
            if not self._gate.still_admits(self._caller):
                return
            yield piece

    async def aclose(self) -> None:
        await self._pieces.aclose()


# What a page of another origin may send and be shown, once that origin is allowed.
ALLOWED_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS = (
    b"authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, "
    b"x-actor, x-chat-id, x-extension-id, x-message-id, x-session, x-swipe-id"
)
EXPOSED = b"etag, idempotency-replayed, x-live, x-revision"
PREFLIGHT_SECONDS = b"600"


def preflight(caller: Caller, given: dict[bytes, bytes]) -> Reply:
    """What a browser asks before it lets a page of another origin send a request."""
    headers: Headers = [(b"vary", b"Origin")]
    if caller.origin is not None:
        headers += [
            (b"access-control-allow-origin", caller.origin),
            (b"access-control-allow-methods", ALLOWED_METHODS),
            (b"access-control-allow-headers", ALLOWED_HEADERS),
            (b"access-control-max-age", PREFLIGHT_SECONDS),
        ]
        # A page on the internet asks whether it may reach a machine at home.
        if given.get(b"access-control-request-private-network") == b"true":
            headers.append((b"access-control-allow-private-network", b"true"))
    return json_reply(204, b"", headers)


def unexpected_failure(error: Exception, request: Request | None = None) -> ValueTrackerError:
    """What nobody thought of: all of it is logged, and nothing but a number is answered."""
    request_id = secrets.token_hex(8)
    place = _place(request) if request is not None else {}
    logger.error("unexpected failure", exc_info=error, extra={"requestId": request_id, **place})
    return ValueTrackerError("Something went wrong.", requestId=request_id)


def _failure(error: ValueTrackerError, request: Request) -> dict[str, str]:
    # The first line says what failed; those after it may quote what was being written, and
    # so does SQLite, of a text that is none.
    cause = error.__cause__
    first = str(cause).partition("\n")[0].partition(" with text ")[0]
    why = f"{type(cause).__name__}: {first[:200]}" if cause else ""
    return {"code": error.code, "cause": why, **_place(request)}


def _place(request: Request) -> dict[str, str]:
    path = request.target.partition(b"?")[0]
    return {"method": request.method[:32], "path": path[:512].decode("latin-1")}


def log_request(request: Request, reply: Reply, started: float) -> None:
    """One line per request, at debug: names of things, never their values."""
    logger.debug(
        "request",
        extra={
            **_place(request),
            "status": reply.status,
            "bytes": len(reply.body),
            "ms": round((time.perf_counter() - started) * 1000, 3),
        },
    )
