"""
`dispatch(request) → Reply`: the whole way of a request, as plain Python over bytes.

    gate → answer cache → router → extension id → path → query → permission → body → handler → reply

All adapters call it: the fast connection (see `connection`) and the ASGI application. Errors
become answers here and nowhere else. This module knows nothing of sockets or ASGI, and no
endpoint by name.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.budget import Budget, Share
from valuetracker.eager import in_task, start
from valuetracker.errors import (
    DatabaseDamaged,
    QuotaExceeded,
    RateLimited,
    TokenInvalid,
    TokenRequired,
    Unauthorized,
    ValueTrackerError,
)
from valuetracker.failpoints import Failpoint
from valuetracker.http.call import Call, Document, Download, Service, Stream
from valuetracker.http.cors import is_preflight, preflight_reply, readable_by
from valuetracker.http.deflate import Deflated, Packer, accepts_deflate
from valuetracker.http.endpoint import Endpoint
from valuetracker.http.gate import Caller, Gate
from valuetracker.http.pages import Pages
from valuetracker.http.pieces import GuardedPieces, download_reply
from valuetracker.http.rates import RateLimit
from valuetracker.http.replies import (
    HeaderMap,
    Headers,
    Pieces,
    Reply,
    Request,
    document_headers,
    error_reply,
    if_modified,
    json_reply,
    stream_reply,
)
from valuetracker.http.request_ids import HEADER, RequestIds
from valuetracker.http.request_log import log_failure, log_request, logger, unexpected_failure
from valuetracker.http.request_parsing import (
    check_media_type,
    choose_extension_id,
    choose_listed,
    parse_extension_id,
    parse_path,
    parse_query,
    parse_rest,
    refuse_repeated,
)
from valuetracker.http.router import Match, Router
from valuetracker.large_json import MOST_BYTES, LargeDocument
from valuetracker.names import DEFAULT_USER
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.extension import Read
from valuetracker.spool import Spool
from valuetracker.store.tx.jobs import Written
from valuetracker.values import LARGE_BODY_BYTES

# Answers of more than this are large, and this is what all of them may take together.
LARGE_REPLY_BYTES = 64 * 1024
REPLY_BYTES = 64 * 1024 * 1024
# After a request that was as large, body and answer, the garbage collector runs.
COLLECTED_BYTES = 1024 * 1024

DEFLATED: Headers = [(b"content-encoding", b"deflate")]


@dataclass
class Dispatcher:
    """The function `dispatch` and the parts it uses."""

    gate: Gate
    router: Router
    service: Service
    cache: AnswerCache[Reply]
    pages: Pages
    rates: RateLimit | None = None

    def __post_init__(self) -> None:
        self._failpoint = Failpoint.from_environment()
        self._packer = Packer()
        # The memory that large bodies take beside themselves while they are worked on.
        self._memory = Budget(MOST_BYTES)
        self._parsing = asyncio.Lock()
        # Large answers from when they are made until they are sent.
        self._replies = Budget(REPLY_BYTES)
        self._ids = RequestIds()

    def dispatch(self, request: Request) -> Reply | Awaitable[Reply]:
        """Return the answer if it needs no wait, otherwise what makes it when it is awaited."""
        started = time.perf_counter()
        headers = dict(request.headers)
        ids, given = self._ids, headers.get(b"x-request-id")
        request.id = b"%b-%x" % (ids.run, next(ids.numbers)) if given is None else ids.of(given)
        try:
            if len(headers) != len(request.headers):
                refuse_repeated(request.headers)
            caller = self.gate.admit(headers)
        except ValueTrackerError as refusal:
            origin = None
            if isinstance(refusal, Unauthorized):
                # A page of an allowed origin must be able to read that its token is wrong.
                origin = self.gate.allowed_origin(headers[b"host"], headers.get(b"origin"))
            return self._finish_unrouted(request, error_reply(refusal), started, origin)
        if self.rates is not None:
            try:
                self.rates.take(caller, request.address)
            except RateLimited as refusal:
                return self._finish_unrouted(request, error_reply(refusal), started, caller.origin)
        if request.method == "GET":
            key = (caller.scope, headers.get(b"x-extension-id", b""), request.target)
            reply = self.cache.get(key)
            if reply is not None:
                counts = reply.counts
                if b"if-none-match" in headers:
                    reply = if_modified(reply, headers)
                    counts.hits_unmodified += reply.status == 304
                if len(reply.body) > LARGE_REPLY_BYTES:
                    share = self._replies.try_to_take(len(reply.body))
                    reply = reply.with_share(share) if share is not None else None
            # Without memory to send it, a kept answer waits for its turn like any other.
            if reply is not None:
                counts.hits += 1
                return self._finish(request, reply, started, caller.origin)
        elif is_preflight(request.method, headers):
            reply = preflight_reply(caller.origin, headers)
            return self._finish_unrouted(request, reply, started, None)
        path, _, query = request.target.partition(b"?")
        try:
            file = self.pages.find(request.method, path, headers)
            if file is not None:
                return self._send_file(request, file, started, caller.origin)
            match = self.router.find(request.method, path)
        except ValueTrackerError as error:
            return self._finish_unrouted(request, error_reply(error), started, caller.origin)
        answer = self._answer(request, headers, caller, match, query, started)
        return start(answer) if match.endpoint.quick else answer

    def admit(self, headers: Headers) -> None:
        """Raise if a request with these headers would be refused, whatever its body is."""
        refuse_repeated(headers)
        caller = self.gate.admit(dict(headers))
        if caller.needs_token and caller.token is None:
            raise TokenRequired()

    def refusal(self, error: ValueTrackerError) -> Reply:
        """Return the answer to a request that cannot be received, with its id."""
        self.router.unrouted.add(error.status, 0.0)
        # One that shows nothing but an id has been logged with it.
        id = str(error.details.get("requestId", "")).encode() or self._ids.new()
        return error_reply(error).with_headers((HEADER, id))

    def spool_for(self, method: str, target: bytes, headers: Headers) -> Spool | None:
        """Return where to put the body of a request, if it may be of any size; or refuse it."""
        try:
            match = self.router.find(method, target.partition(b"?")[0])
        except ValueTrackerError:
            return None
        if not match.endpoint.upload:
            return None
        self.admit(headers)
        return self.service.new_spool()

    def _finish_unrouted(
        self, request: Request, reply: Reply, started: float, origin: bytes | None
    ) -> Reply:
        """Return the answer to a request that comes to no route."""
        self.router.unrouted.add(reply.status, time.perf_counter() - started)
        return self._finish(request, reply, started, origin)

    def _finish(
        self, request: Request, reply: Reply, started: float, origin: bytes | None
    ) -> Reply:
        """Return an answer as it is sent to this request, and log it."""
        if request.method == "HEAD":
            reply = reply.without_body()
        if origin is not None:
            reply = readable_by(origin, reply)
        if logger.isEnabledFor(logging.DEBUG):
            log_request(request, reply, started)
        return reply

    def _send_file(
        self, request: Request, reply: Reply, started: float, origin: bytes | None
    ) -> Reply | Awaitable[Reply]:
        """Return a file; a large one waits until there is memory to send it."""

        async def send_later() -> Reply:
            held = await self._replies.take(len(reply.body))
            return self._finish_unrouted(request, reply.with_share(held), started, origin)

        if len(reply.body) <= LARGE_REPLY_BYTES or request.method == "HEAD":
            return self._finish_unrouted(request, reply, started, origin)
        return send_later()

    async def _answer(
        self,
        request: Request,
        headers: HeaderMap,
        caller: Caller,
        match: Match,
        query: bytes,
        started: float,
    ) -> Reply:
        try:
            reply = await self._handle(request, headers, caller, match, query)
            self._failpoint.reach("before_reply")
        except ValueTrackerError as error:
            # A quota is not the fault of the server.
            if error.status >= 500 and not isinstance(error, QuotaExceeded):
                log_failure(error, request)
            if isinstance(error, DatabaseDamaged):
                self._name_backup(error, caller, match, headers)
            reply = error_reply(error)
        except Exception as error:
            reply = error_reply(unexpected_failure(error, request))
        if len(request.body) + len(reply.body) > COLLECTED_BYTES:
            # The objects of a transaction refer to each other, and the collector runs rarely.
            gc.collect(1)
        match.counts.add(reply.status, time.perf_counter() - started)
        return self._finish(request, reply, started, caller.origin)

    def _name_backup(
        self, error: DatabaseDamaged, caller: Caller, match: Match, headers: HeaderMap
    ) -> None:
        """Add to the hint which backup has the extension."""
        named = match.raw.get("extension") or headers.get(b"x-extension-id", b"").decode("latin-1")
        name = self.service.backups.newest_with(caller.user, named)
        if name is not None:
            error.advice = f"{error.advice} The newest backup that has it is {name}."
            error.details["backup"] = name

    async def _handle(
        self, request: Request, headers: HeaderMap, caller: Caller, match: Match, query: bytes
    ) -> Reply:
        endpoint = match.endpoint
        extension_id = parse_extension_id(endpoint, headers)
        users = self.service.users
        extensions = users.default
        share: Share | None = None
        if caller.user != DEFAULT_USER:
            await in_task()
            extensions = await users.acquire(caller.user)
        try:
            call = Call(self.service, extensions, caller, extension_id, parse_path(match))
            self._complete(call, endpoint, headers, query)
            if endpoint.upload:
                call.spool = self._spooled(request)
            elif len(request.body) > LARGE_BODY_BYTES and endpoint.body:
                share = await self._parse_large_body(call, endpoint, request, headers)
            if share is None:
                parse_rest(call, endpoint, request, headers, request.body)
            call.counts = match.counts
            call.grows = endpoint.grows
            reply = await self._run(call, endpoint, request, headers)
            size = len(reply.body)
            if size <= LARGE_REPLY_BYTES:
                return reply
            held = self._replies.try_to_take(size)
            if held is None:
                await in_task()
                if not endpoint.changes:
                    # It is not kept while it waits.
                    del reply
                    return await self._run_later(size, call, endpoint, request, headers)
                # A write cannot be repeated, so its answer is.
                held = await self._replies.take(size)
            return reply.with_share(held)
        finally:
            if share is not None:
                share.release()
            if extensions is not users.default:
                users.release(extensions)

    async def _run(
        self, call: Call, endpoint: Endpoint, request: Request, headers: HeaderMap
    ) -> Reply:
        """Run the handler, and return the answer for its result."""
        result = await endpoint.handler(call)
        # A handler may wait for a long time, and the token be revoked meanwhile.
        if not endpoint.changes and not self.gate.still_admits(call.caller):
            raise TokenInvalid()
        return self._reply(endpoint, request, headers, call, result)

    async def _run_later(
        self, size: int, call: Call, endpoint: Endpoint, request: Request, headers: HeaderMap
    ) -> Reply:
        """Wait until there is memory for an answer of this size, and read it again."""
        while True:
            share = await self._replies.take(size)
            try:
                reply = await self._run(call, endpoint, request, headers)
            except BaseException:
                share.release()
                raise
            if len(reply.body) <= size:
                return reply.with_share(share)
            share.release()
            size = len(reply.body)
            del reply

    async def _parse_large_body(
        self, call: Call, endpoint: Endpoint, request: Request, headers: HeaderMap
    ) -> Share:
        """
        Parse a large body in a thread, and return the share of memory that it takes.

        One at a time, because two at once would take as long as one after the other.
        """
        await in_task()
        check_media_type(headers)
        async with self._parsing:
            document = await asyncio.to_thread(LargeDocument, request.body)
        share = await self._memory.take(document.size)
        try:
            async with self._parsing:
                await asyncio.to_thread(parse_rest, call, endpoint, request, headers, document)
        except BaseException:
            share.release()
            raise
        return share

    def _complete(self, call: Call, endpoint: Endpoint, headers: HeaderMap, query: bytes) -> None:
        """Check the permission of a call, and parse what comes before its body."""
        if endpoint.extension == "path":
            call.extension_id = call.path["extension"]
        if endpoint.query:
            call.query = parse_query(endpoint.query, query)
        if endpoint.extension in ("either", "listed"):
            call.extension_ids = choose_listed(call.query)
            if not call.extension_ids:
                call.extension_id = choose_extension_id(headers, call.query.get("extensionId"))
        self._permit(call, endpoint)
        call.last_event_id = headers.get(b"last-event-id")
        call.accept_encoding = headers.get(b"accept-encoding")

    def _spooled(self, request: Request) -> Spool:
        """Return the body of a request, also a small one, as a spool."""
        if request.spool is not None:
            return request.spool
        spool = self.service.new_spool()
        spool.write(request.body)
        return spool

    def _permit(self, call: Call, endpoint: Endpoint) -> None:
        """Raise if the caller may not do this to the extension, or to one of several."""
        if not call.extension_ids:
            self.gate.permit(call.caller, endpoint, call.extension_id)
        for extension_id in call.extension_ids:
            try:
                self.gate.permit(call.caller, endpoint, extension_id)
            except ValueTrackerError as refusal:
                refusal.of_extension(extension_id)
                raise

    def _reply(
        self, endpoint: Endpoint, request: Request, headers: HeaderMap, call: Call, result: Any
    ) -> Reply:
        """Return the answer for what a handler has returned."""
        if isinstance(result, Written):
            extra = [(b"x-revision", b"%d" % result.revision), *of_incarnation(result.incarnation)]
            if result.replayed:
                extra.append((b"idempotency-replayed", b"true"))
            if not result.live:
                extra.append((b"x-live", b"false"))
            if result.superseded:
                extra.append((b"x-superseded", b"true"))
            return json_reply(result.status, result.body, extra)
        if isinstance(result, Document):
            common = document_headers(result.media_type, result.policy)
            return Reply(endpoint.status, common, [], result.body)
        if isinstance(result, Download):
            return download_reply(result)
        if isinstance(result, Stream):
            pieces: Pieces = result.pieces
            if not call.caller.is_bridge:
                pieces = GuardedPieces(pieces, self.gate, call.caller)
            if accepts_deflate(headers.get(b"accept-encoding")):
                return stream_reply(Deflated(pieces, self._packer), DEFLATED)
            return stream_reply(pieces)
        if isinstance(result, Read):
            return self._read_reply(endpoint, request, headers, call, result)
        return json_reply(
            endpoint.status, b"" if endpoint.returns is None else orjson.dumps(result)
        )

    def _read_reply(
        self, endpoint: Endpoint, request: Request, headers: HeaderMap, call: Call, read: Read[Any]
    ) -> Reply:
        """Return the answer to a read, with its ETag, and keep it in the answer cache."""
        body = orjson.dumps(read.result)
        etag = f'"{read.etag}"'.encode() if read.etag is not None else None
        extra = [(b"etag", etag)] if etag else []
        reply = json_reply(endpoint.status, body, [*extra, *of_incarnation(read.incarnation)])
        reply.etag = etag
        reply.counts = call.counts
        named = headers.get(b"x-extension-id", b"")
        if (
            request.method == "GET"
            and read.keepable
            # Where the header has no meaning, it must not make many keys for one answer.
            and named == (read.extension.id.encode() if endpoint.extension == "header" else b"")
        ):
            key = (call.caller.scope, named, request.target)
            self.cache.keep(key, reply, read.extension, read.tags, read.shows, read.is_list)
        return if_modified(reply, headers)


def of_incarnation(incarnation: int) -> Headers:
    """Return the header that names an incarnation; the first one has none."""
    return [(b"x-incarnation", b"%d" % incarnation)] if incarnation else []
