"""
A call: one request whose headers, path, query and body have been parsed.

It is all that a handler is given, and the handler's only way to the store. The other types
here are what a handler may return beside a record. This module knows nothing of bytes,
sockets or routes.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from valuetracker.bridge.prompts import PromptBoard
from valuetracker.counts import RouteCounts
from valuetracker.errors import InvalidQuery, QuotaExceeded
from valuetracker.http.gate import Caller, Gate
from valuetracker.runtime.backups import Backups
from valuetracker.runtime.extension import Extension, Full, Read
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.feed import FeedStream
from valuetracker.runtime.growth import Growth
from valuetracker.runtime.jobs import Jobs
from valuetracker.runtime.nightly import Nightly
from valuetracker.runtime.restoring import Restoring
from valuetracker.runtime.users import Users
from valuetracker.settings import Settings
from valuetracker.spool import Spool
from valuetracker.store.rows.pages import Page
from valuetracker.store.tx.context import NO_CONTEXT, Context
from valuetracker.store.tx.idempotency import was_answered
from valuetracker.store.tx.jobs import Written

Verb = Callable[..., Coroutine[Any, Any, Any]]


@dataclass(slots=True)
class Document:
    """An answer that is bytes already: a page, or JSON that was serialized before."""

    body: bytes
    media_type: str
    # The Content-Security-Policy of a page.
    policy: str | None = None


@dataclass(slots=True)
class Stream:
    """An answer that goes on until the client leaves."""

    pieces: FeedStream


@dataclass(slots=True)
class Download:
    """An answer that was written to a spool, because it may be too large for memory."""

    spool: Spool
    media_type: str
    # The name that a browser gives the file.
    name: str
    encoding: str | None = None


@dataclass(frozen=True)
class Service:
    """The parts of the server that handlers use beside their extension."""

    settings: Settings
    users: Users
    backups: Backups
    nightly: Nightly
    restoring: Restoring
    gate: Gate
    growth: Growth
    # The counts of all routes, by path and method.
    counts: dict[tuple[str, str], RouteCounts]
    prompts: PromptBoard = field(default_factory=PromptBoard)
    jobs: Jobs = field(default_factory=Jobs)
    # Documents are made on first use: most servers are never asked for them.
    documents: dict[str, Callable[[], Document]] = field(default_factory=dict)

    def new_spool(self) -> Spool:
        return Spool(self.settings.data_dir)


class Call:
    """One request as a handler sees it."""

    __slots__ = (
        "accept_encoding",
        "body",
        "caller",
        "context",
        "counts",
        "document",
        "extension_id",
        "extension_ids",
        "extensions",
        "grows",
        "last_event_id",
        "media_type",
        "path",
        "query",
        "service",
        "spool",
        "status",
        "values",
    )

    # Where its answer is counted each time it is sent, if it is kept; set by `dispatch`.
    counts: RouteCounts

    def __init__(
        self,
        service: Service,
        extensions: Extensions,
        caller: Caller,
        extension_id: str,
        path: dict[str, str],
    ) -> None:
        self.service = service
        self.caller = caller
        # The extensions of the calling user.
        self.extensions = extensions
        self.extension_id = extension_id
        # The extensions of a request that lists several; then `extension_id` is empty.
        self.extension_ids: tuple[str, ...] = ()
        self.path = path
        self.query: dict[str, Any] = {}
        self.body: dict[str, Any] = {}
        # The body of an `AnyKeys` endpoint: keys and canonical values.
        self.values: dict[str, str] = {}
        # The body of an `AnyDocument` endpoint, which the handler checks itself.
        self.document: Any = None
        self.media_type = ""
        # The context headers of a writing request, and the status of its answer.
        self.context: Context = NO_CONTEXT
        self.status = 200
        self.last_event_id: bytes | None = None
        # The body of an endpoint that takes one of any size.
        self.spool: Spool | None = None
        # True if the request may add to a database; set by `dispatch`.
        self.grows = False
        # How the answer may be packed, as the client says.
        self.accept_encoding: bytes | None = None

    @property
    def page(self) -> Page | None:
        """The page of a list that the query asks for; None for the whole list."""
        if "limit" in self.query:
            return Page(self.query["limit"], self.query.get("cursor", 0))
        if "cursor" in self.query:
            raise InvalidQuery("`cursor` needs `limit`.")
        return None

    async def read(self, verb: Verb, *arguments: Any) -> Read[Any]:
        """Run a reading verb on a database connection that cannot write."""
        extensions = self.extensions
        extension = extensions.acquire_open(self.extension_id) or await extensions.acquire(
            self.extension_id
        )
        try:
            return await extension.read(verb, *arguments)
        finally:
            extensions.release(extension)

    async def write(self, verb: Verb, *arguments: Any) -> Written:
        """Run a writing verb; its changes are durable when this returns."""
        extensions = self.extensions
        extension = extensions.acquire_open(self.extension_id) or await extensions.acquire(
            self.extension_id
        )
        try:
            if extension.full is not None and self.grows:
                await self._refuse_unless_answered(extension, extension.full)
            return await extension.write(verb, *arguments, context=self.context, status=self.status)
        finally:
            extensions.release(extension)

    async def write_alone(self, verb: Verb, *arguments: Any) -> Written:
        """Run a writing verb that no header of the request is about."""
        extension = await self.extensions.acquire(self.extension_id)
        try:
            if extension.full is not None and self.grows:
                raise QuotaExceeded(**extension.full)
            return await extension.write(verb, *arguments)
        finally:
            self.extensions.release(extension)

    async def _refuse_unless_answered(self, extension: Extension, full: Full) -> None:
        """Refuse a write because of a quota; one that was done before gets its answer again."""
        key = self.context.idempotency_key
        if not await extension.database.read(partial(was_answered, key=key)):
            raise QuotaExceeded(**full)
