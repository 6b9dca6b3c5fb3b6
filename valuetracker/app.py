"""
Puts the parts together: the server as a Starlette application.

`create_app` only builds objects. The lifespan locks the data directory, opens the registry and
starts the engine, and stops them in the end; so any ASGI server runs them, and so does an
application that mounts this one.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from starlette.applications import Starlette

from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.bridge.lorebooks import renew_copy
from valuetracker.clock import Clock
from valuetracker.engine import Engine
from valuetracker.engine.data_directory import BACKUPS, TRASH, DataDirectory
from valuetracker.engine.sqlite import SQLiteEngine
from valuetracker.errors import StartupError, TokenNeeded
from valuetracker.http.asgi import ASGIAdapter, EndpointRouter
from valuetracker.http.call import Service
from valuetracker.http.dispatch import Dispatcher
from valuetracker.http.fast.shared_state import SharedState
from valuetracker.http.gate import Gate
from valuetracker.http.pages import Pages
from valuetracker.http.rates import RateLimit
from valuetracker.http.replies import Reply
from valuetracker.http.router import Router
from valuetracker.http.tokens import TokenFile
from valuetracker.reference.openapi import openapi_document
from valuetracker.reference.page import docs_document
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.backups import Backups
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.growth import Growth
from valuetracker.runtime.nightly import Nightly, Plan
from valuetracker.runtime.registry import TABLES as REGISTRY_TABLES
from valuetracker.runtime.restoring import Restoring
from valuetracker.runtime.users import Users
from valuetracker.settings import Settings
from valuetracker.store.compaction import Keep
from valuetracker.store.operations import cancel_dormant
from valuetracker.store.tx.ledger import ledgers
from valuetracker.store.verification import TABLES

MEGABYTE = 1024 * 1024
# How soon the server knows of a token that was made or revoked.
REFRESH_SECONDS = 0.5
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+/?\Z")


def create_engine(settings: Settings, clock: Clock | None = None) -> Engine:
    runners = partial(ledgers, clock or Clock(), cancel_dormant, partial(renew_copy, settings))
    if settings.database.startswith(("postgresql://", "postgres://")):
        try:
            from valuetracker.engine.postgres import PostgresEngine
        except ImportError:
            raise StartupError(
                "PostgreSQL needs the extra `valuetracker[postgres]` to be installed."
            ) from None
        return PostgresEngine(
            settings.database,
            runners,
            pool_size=settings.pool_size,
            timeout=settings.database_seconds,
        )
    if settings.database:
        raise StartupError("The database URL must begin with postgresql://, or be left out.")
    directory = DataDirectory(settings.data_dir, settings.allow_root)
    return SQLiteEngine(directory, runners, settings.readers, TABLES, REGISTRY_TABLES)


def backup_folder(settings: Settings) -> Path:
    return Path(settings.backup_dir) if settings.backup_dir else settings.data_dir / BACKUPS


def retention(settings: Settings) -> list[Keep]:
    """Return the rules by which logs are compacted; an empty list keeps everything."""
    kept: list[Keep] = []
    if settings.keep_revisions:
        kept.append(Keep(revisions=settings.keep_revisions))
    if settings.keep_days:
        kept.append(Keep(days=settings.keep_days))
    return kept


def create_app(settings: Settings | None = None, clock: Clock | None = None) -> Starlette:
    """Return the server as a Starlette application; `valuetracker.create_app` calls this."""
    if settings is None:
        settings = Settings.from_environment()
    clock = clock or Clock()
    engine = create_engine(settings, clock)
    tokens = TokenFile(settings.data_dir)
    gate = create_gate(settings, tokens)
    cache: AnswerCache[Reply] = AnswerCache(settings.cache_mb * MEGABYTE)
    capacity = Capacity(settings.open_databases, settings.feed_readers, settings.all_feed_readers)
    users = Users(engine, cache, capacity, retention(settings), clock)
    documents = {"openapi": openapi_document(SECTIONS), "docs": docs_document(SECTIONS)}
    backups = Backups(users, backup_folder(settings), clock)
    plan = Plan.of(
        settings.backup_at, settings.backup_keep, settings.backup_weeks, settings.backup_hook
    )
    nightly = Nightly(users, backups, plan, clock)
    growth = Growth(users, settings.warn_mb, settings.quota_mb, settings.user_quota_mb)
    restoring = Restoring(users, backups, settings.data_dir / TRASH)
    router = Router(ENDPOINTS)
    service = Service(
        settings,
        users,
        backups,
        nightly,
        restoring,
        gate,
        growth,
        router.counts,
        documents=documents,
    )
    service.jobs.on_change = users.tell_of_job
    rates = RateLimit(settings.rate_per_second) if settings.rate_per_second else None
    dispatcher = Dispatcher(gate, router, service, cache, Pages(), rates)
    adapter = ASGIAdapter(dispatcher, capacity, tokens)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            await users.start()
        except StartupError as error:
            app.state.start_failure = error
            raise
        nightly.start()
        growth.start()
        refreshing = asyncio.get_running_loop().create_task(refresh(gate))
        adapter.is_running = True
        try:
            yield
        finally:
            adapter.is_running = False
            refreshing.cancel()
            await asyncio.wait([refreshing])
            await growth.stop()
            await nightly.stop()
            await service.jobs.stop()
            await users.stop()

    def end_waiting() -> None:
        users.end_feeds()
        service.prompts.end()

    app = Starlette()
    app.router = EndpointRouter(ENDPOINTS, router, adapter, lifespan)
    app.state.engine = engine
    app.state.users = users
    app.state.dispatcher = dispatcher
    app.state.run_token = tokens.create_for_run()
    app.state.capacity = capacity
    app.state.end_waiting = end_waiting
    app.state.shared = SharedState(settings.connections, settings.body_memory_mb * MEGABYTE)
    return app


@dataclass(frozen=True)
class Stopped:
    """The data of a server that is not running, for commands."""

    users: Users
    backups: Backups
    nightly: Nightly
    restoring: Restoring


@asynccontextmanager
async def open_stopped(settings: Settings, clock: Clock | None = None) -> AsyncIterator[Stopped]:
    """
    Open the data of a server that is not running, without a socket.

    It has the lock of the data directory meanwhile. `users.default` has the extensions.
    """
    clock = clock or Clock()
    cache: AnswerCache[Reply] = AnswerCache(0)
    capacity = Capacity(settings.open_databases, settings.feed_readers, settings.all_feed_readers)
    users = Users(create_engine(settings, clock), cache, capacity, (), clock)
    backups = Backups(users, backup_folder(settings), clock)
    plan = Plan.of("off", settings.backup_keep, settings.backup_weeks, settings.backup_hook)
    nightly = Nightly(users, backups, plan, clock)
    await users.start()
    nightly.start()
    try:
        restoring = Restoring(users, backups, settings.data_dir / TRASH)
        yield Stopped(users, backups, nightly, restoring)
    finally:
        await nightly.stop()
        await users.stop()


async def rebuild_registry(settings: Settings) -> list[str]:
    """
    Move the registry of a stopped server to the trash, and make it anew of the databases found.

    Returns the ids of the extensions that it has then. Users beside the default one keep theirs.
    """
    engine = create_engine(settings)
    await engine.discard_registry()
    await engine.stop()
    async with open_stopped(settings) as stopped:
        return [each.id for each in stopped.users.default.registry.list_registered()]


def create_gate(settings: Settings, tokens: TokenFile) -> Gate:
    """Return the gate that the settings describe; refuse settings that let everybody in."""
    for origin in settings.allow_origin:
        if not ORIGIN.match(origin):
            raise StartupError(f"{origin} is no origin: it must look like https://example.org.")
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
    """Return True if every address of this name is a loopback address."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        # Listening on an unknown name fails later, with an error of its own.
        return True
    return all(
        ipaddress.ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found
    )


async def refresh(gate: Gate) -> None:
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        gate.refresh()
