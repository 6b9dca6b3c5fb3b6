"""
`dispatch(request) → Reply`: the whole of HTTP in plain Python over bytes.

    memory → route → header → path → body → handler (registration, verb) → reply

Two adapters share it: uvicorn's protocol (see `protocol`) and Starlette (see `app`). Errors
become answers here and nowhere else.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

import orjson

from valuetracker.endpoints import Call, Document, Endpoint, Service, Stream
from valuetracker.errors import ValueTrackerError
from valuetracker.failpoints import Failpoint
from valuetracker.reading import (
    either_extension,
    read_body,
    read_context,
    read_extension_id,
    read_headers,
    read_path,
    read_query,
)
from valuetracker.replies import (
    JSON,
    Reply,
    Request,
    build_reply,
    error_reply,
    matches,
    not_modified,
    stream_reply,
)
from valuetracker.router import Router
from valuetracker.settings import PREFIX
from valuetracker.store.ledger import Written
from valuetracker.store.memory import Memory

logger = logging.getLogger(__name__)

# Where `/` leads: the only redirect there is.
HOME = f"{PREFIX}/docs".encode()


@dataclass
class Dispatcher:
    """The function and what it needs: the table, the service and the memory of answers."""

    router: Router
    service: Service
    memory: Memory[Reply]

    def __post_init__(self) -> None:
        self._failpoint = Failpoint.from_environment()

    def dispatch(self, request: Request) -> Reply | Coroutine[Any, Any, Reply]:
        """The answer at once, if it is in memory; else what to await for it."""
        if request.method != "GET":
            return self._answer(request, None)
        extension = condition = None
        for name, value in request.headers:
            if name == b"x-extension-id":
                if extension is not None:
                    return self._answer(request, None)
                extension = value
            elif name == b"if-none-match":
                if condition is not None:
                    return self._answer(request, None)
                condition = value
        key = (extension or b"", request.target)
        reply = self.memory.get(key)
        if reply is None:
            return self._answer(request, key)
        if condition is not None and matches(reply.etag, condition):
            reply = not_modified(reply)
        if logger.isEnabledFor(logging.DEBUG):
            log_request(request, reply, time.perf_counter())
        return reply

    async def _answer(self, request: Request, key: tuple[bytes, bytes] | None) -> Reply:
        started = time.perf_counter()
        try:
            reply = await self._handle(request, key)
            self._failpoint.reach("before_reply")
        except ValueTrackerError as error:
            if error.status >= 500:
                logger.error(error.message, extra=_failure(error, request))
            reply = error_reply(error)
        except Exception:
            request_id = secrets.token_hex(8)
            logger.exception(
                "unexpected failure", extra={"requestId": request_id, **_place(request)}
            )
            reply = error_reply(ValueTrackerError("Something went wrong.", requestId=request_id))
        if request.method == "HEAD":
            reply = replace(reply, body=b"", head=None, pieces=None)
        if logger.isEnabledFor(logging.DEBUG):
            log_request(request, reply, started)
        return reply

    async def _handle(self, request: Request, key: tuple[bytes, bytes] | None) -> Reply:
        path, _, query = request.target.partition(b"?")
        if path == b"/" and request.method in ("GET", "HEAD"):
            return build_reply(302, b"", JSON, [(b"location", HOME)])
        endpoint, raw = self.router.find(request.method, path)
        headers = read_headers(endpoint, request.headers)
        extension_id = read_extension_id(endpoint, headers)
        call = Call(self.service, extension_id, read_path(raw))
        if endpoint.extension == "path":
            call.extension_id = call.path["extension"]
        if endpoint.query:
            call.query = read_query(endpoint.query, query)
        if endpoint.extension == "either":
            call.extension_id = either_extension(headers, call.query.get("extensionId"))
        call.last_event_id = headers.get("last-event-id")
        if endpoint.body:
            read_body(endpoint, request, call)
        if endpoint.writes:
            call.status = endpoint.status
            call.context = read_context(endpoint, request, headers)
        result = await endpoint.handler(call)
        return self._reply(endpoint, call, result, key, headers.get("if-none-match"))

    def _reply(
        self,
        endpoint: Endpoint,
        call: Call,
        result: Any,
        key: tuple[bytes, bytes] | None,
        condition: str | None,
    ) -> Reply:
        if isinstance(result, Written):
            extra = [(b"x-revision", str(result.revision).encode())]
            if result.replayed:
                extra.append((b"idempotency-replayed", b"true"))
            if not result.live:
                extra.append((b"x-live", b"false"))
            return build_reply(result.status, result.body, JSON, extra)
        if isinstance(result, Document):
            return build_reply(endpoint.status, result.body, result.media_type.encode())
        if isinstance(result, Stream):
            return stream_reply(result.pieces)
        body = b"" if endpoint.returns is None else orjson.dumps(result)
        if call.reading is None:
            return build_reply(endpoint.status, body, JSON)
        extension, reading = call.reading
        etag = b'"%d"' % reading.etag if reading.etag is not None else None
        reply = build_reply(endpoint.status, body, JSON, [(b"etag", etag)] if etag else ())
        reply.etag = etag
        if key is not None and reading.keepable and self._may_keep(endpoint, key, extension.id):
            size = len(body) + len(key[0]) + len(key[1])
            self.memory.keep(key, reply, size, extension, reading.tags)
        if condition is not None and matches(etag, condition.encode("latin-1")):
            return not_modified(reply)
        return reply

    @staticmethod
    def _may_keep(endpoint: Endpoint, key: tuple[bytes, bytes], extension_id: str) -> bool:
        # A needless header on a route that takes none would make many keys for one answer.
        expected = extension_id.encode() if endpoint.extension == "header" else b""
        return key[0] == expected


def _failure(error: ValueTrackerError, request: Request) -> dict[str, str]:
    # The first line says what failed; those after it may quote what was being written.
    cause = error.__cause__
    why = f"{type(cause).__name__}: {str(cause).partition(chr(10))[0][:200]}" if cause else ""
    return {"code": error.code, "cause": why, **_place(request)}


def _place(request: Request) -> dict[str, str]:
    path = request.target.partition(b"?")[0]
    return {"method": request.method, "path": path[:512].decode("latin-1")}


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
