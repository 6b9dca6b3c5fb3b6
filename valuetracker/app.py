"""
Puts the parts together, and is one adapter of `dispatch`: Starlette.

Starlette brings lifespan, streams and pages. Routing is one route that takes everything
and hands the raw path on, because Starlette decodes `%2F` before it matches.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.engine import Engine
from valuetracker.engine.data_directory import DataDirectory
from valuetracker.engine.sqlite import SQLiteEngine
from valuetracker.errors import BodyTooLarge, InvalidBody, StartupError, TokenNeeded
from valuetracker.http.call import Service
from valuetracker.http.dispatch import Dispatcher
from valuetracker.http.gate import Gate
from valuetracker.http.limits import Wire
from valuetracker.http.replies import Reply, Request, error_reply
from valuetracker.http.router import Router
from valuetracker.http.tokens import TokenFile
from valuetracker.reference.openapi import openapi_document
from valuetracker.reference.page import docs_document
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.users import Users
from valuetracker.settings import Settings
from valuetracker.store.compaction import Keep
from valuetracker.store.tx.ledger import ledgers
from valuetracker.values import BODY_BYTES

CLOSE = (b"connection", b"close")
MEGABYTE = 1024 * 1024
# How soon a token that was made or revoked is heard of.
REFRESH_SECONDS = 0.5
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+/?\Z")


def create_engine(settings: Settings) -> Engine:
    if settings.database.startswith(("postgresql://", "postgres://")):
        try:
            from valuetracker.engine.postgres import PostgresEngine
        except ImportError:
            raise StartupError(
                "PostgreSQL needs the extra `valuetracker[postgres]` to be installed."
            ) from None
        return PostgresEngine(
            settings.database,
            ledgers,
            pool_size=settings.pool_size,
            timeout=settings.database_seconds,
        )
    if settings.database:
        raise StartupError("The database URL must begin with postgresql://, or be left out.")
    directory = DataDirectory(settings.data_dir, settings.allow_root)
    return SQLiteEngine(directory, ledgers, readers=settings.readers)


def retention(settings: Settings) -> list[Keep]:
    """What is kept of the logs; nothing said keeps all."""
    kept: list[Keep] = []
    if settings.keep_revisions:
        kept.append(Keep(revisions=settings.keep_revisions))
    if settings.keep_days:
        kept.append(Keep(days=settings.keep_days))
    return kept


def create_app(engine: Engine, settings: Settings) -> Starlette:
    """The application; the engine starts and stops with its lifespan."""
    cache: AnswerCache[Reply] = AnswerCache(settings.cache_mb * MEGABYTE)
    capacity = Capacity(settings.open_databases, settings.feed_readers, settings.all_feed_readers)
    users = Users(engine, cache, capacity, retention(settings))
    documents = {"openapi": openapi_document(SECTIONS), "docs": docs_document(SECTIONS)}
    service = Service(settings, users, documents=documents)
    gate = create_gate(settings)
    dispatcher = Dispatcher(gate, Router(ENDPOINTS), service, cache)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await users.start()
        except StartupError as error:
            app.state.start_failure = error
            raise
        refreshing = asyncio.get_running_loop().create_task(refresh(gate))
        try:
            yield
        finally:
            refreshing.cancel()
            await asyncio.wait([refreshing])
            await users.stop()

    def end_waiting() -> None:
        users.end_feeds()
        service.prompts.end()

    app = Starlette(routes=[DispatchRoute(dispatcher)], lifespan=lifespan)
    app.state.dispatcher = dispatcher
    app.state.capacity = capacity
    app.state.end_feeds = end_waiting
    app.state.wire = Wire(settings.connections, settings.body_memory_mb * MEGABYTE)
    return app


def create_gate(settings: Settings) -> Gate:
    """The gate as it is configured; refuses what would leave it open."""
    for origin in settings.allow_origin:
        if not ORIGIN.match(origin):
            raise StartupError(f"{origin} is no origin: it must look like https://example.org.")
    tokens = TokenFile(settings.data_dir)
    gate = Gate(
        tokens,
        settings.allow_host,
        settings.allow_origin,
        settings.bridge_secret,
        settings.bridge_only,
    )
    if not tokens.in_use and not is_loopback(settings.host):
        raise TokenNeeded(
            f"Without a token the server listens on loopback only, and {settings.host} is not: "
            "whoever can reach it could read and change everything."
        )
    return gate


def is_loopback(host: str) -> bool:
    """Whether whatever this name leads to is this machine, and can be reached from it alone."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        # What cannot be found cannot be listened on either; that is said elsewhere.
        return True
    return all(
        ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found
    )


async def refresh(gate: Gate) -> None:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        gate.refresh()


class DispatchRoute(BaseRoute):
    """The one route: every HTTP request goes to `dispatch`."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatch = dispatcher.dispatch

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        target = scope["raw_path"]
        if scope["query_string"]:
            target = target + b"?" + scope["query_string"]
        body = b""
        if method != "GET":
            try:
                body = await read_body(scope, receive)
            except (BodyTooLarge, InvalidBody) as error:
                await send_reply(send, error_reply(error), CLOSE)
                return
        reply = self._dispatch(Request(method, target, scope["headers"], body))
        if not isinstance(reply, Reply):
            reply = await reply
        if reply.pieces is not None:
            # Starlette's own notices when the other side hangs up.
            response = StreamingResponse(reply.pieces, reply.status)
            response.raw_headers = reply.headers
            try:
                await response(scope, receive, send)
            finally:
                await reply.pieces.aclose()
            return
        await send_reply(send, reply)


async def read_body(scope: Scope, receive: Receive) -> bytes:
    """The whole body, or a refusal as soon as it is known to be too long."""
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > 2 * BODY_BYTES:
            raise BodyTooLarge()
    pieces: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidBody("The body ended too soon.")
        piece = message.get("body", b"")
        size += len(piece)
        # One that is a little too long is read to its end and thrown away: a client that
        # is still sending would not hear the answer.
        if size > 2 * BODY_BYTES:
            raise BodyTooLarge()
        if size > BODY_BYTES:
            pieces.clear()
        elif piece:
            pieces.append(piece)
        if not message.get("more_body", False):
            break
    if size > BODY_BYTES:
        raise BodyTooLarge()
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def send_reply(send: Send, reply: Reply, *extra: tuple[bytes, bytes]) -> None:
    headers = [*reply.headers, *extra] if extra else reply.headers
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})
