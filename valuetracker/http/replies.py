"""
Requests as they were received and answers as they are sent, the same for every adapter.

The headers of all answers are set here, where answers are made: an answer to an unexpected
failure has them, too. This module knows nothing of sockets, routes or the store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from typing import Protocol

import orjson

from valuetracker.budget import Share
from valuetracker.counts import RouteCounts
from valuetracker.errors import MethodNotAllowed, RateLimited, Unauthorized, ValueTrackerError
from valuetracker.spool import Spool

# Headers as they were received, names in lower case; and by name, once none occurs twice.
Headers = list[tuple[bytes, bytes]]
HeaderMap = dict[bytes, bytes]

JSON = b"application/json"
STATUS_LINES = {
    each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus
}

# Answers are data for programs. A browser that opens one must not run it, show it in a frame,
# or guess another type for it.
GUARDS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NOTHING_RUNS = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
NO_STORE = (b"cache-control", b"no-store")


class Common:
    """Headers that many answers share: as a list for ASGI, as bytes for the fast connection."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.headers: Headers = [*headers, *GUARDS]
        self.block = header_block(self.headers)


def header_block(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % each for each in headers)


PLAIN = Common(NO_STORE, NOTHING_RUNS)
# `no-transform`: a proxy that compresses would delay events until it has enough of them.
EVENTS = Common(
    (b"cache-control", b"no-cache, no-transform"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
    (b"vary", b"Accept-Encoding"),
    NOTHING_RUNS,
)
JSON_DOCUMENT = Common(NO_STORE, (b"content-type", JSON), NOTHING_RUNS)


@lru_cache(maxsize=16)
def document_headers(media_type: str, policy: str | None) -> Common:
    """Return the headers of a document; a page has a policy of its own."""
    guard = (NOTHING_RUNS[0], policy.encode()) if policy else NOTHING_RUNS
    return Common(NO_STORE, (b"content-type", media_type.encode()), guard)


@dataclass(slots=True)
class Request:
    """One request: the raw target, header names in lower case, the whole body."""

    method: str
    target: bytes
    headers: Headers
    body: bytes = b""
    # A body that has no limit is not kept in memory: then `body` is empty.
    spool: Spool | None = None
    # Set by `dispatch`; the answer has it in a header.
    id: bytes = b""
    # The address it came from, if the adapter knows it.
    address: str = ""


class Pieces(Protocol):
    """A body in pieces. Whoever reads it must close it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


@dataclass(slots=True)
class Reply:
    """One answer: a whole body, or pieces until the client leaves."""

    status: int
    common: Common
    # Headers of this answer alone, beside the common ones and the length.
    extra: Headers
    body: bytes = b""
    etag: bytes | None = None
    pieces: Pieces | None = None
    # The length of a body in pieces, if it is known, and of one that is not sent (HEAD).
    length: int | None = None
    # The status line and headers as bytes, once they have been made.
    _head: bytes | None = None
    # The memory of a large answer; whoever sends it releases it.
    share: Share | None = None
    # Where it is counted each time it is sent; of an answer that is kept.
    counts: RouteCounts = None  # type: ignore[assignment]

    @property
    def is_endless(self) -> bool:
        """True for a stream, which goes on until the client leaves."""
        return self.pieces is not None and self.length is None

    @property
    def headers(self) -> Headers:
        return [*self.common.headers, *self._length(), *self.extra]

    @property
    def head(self) -> bytes:
        """The status line and headers; kept, because a cached answer is sent many times."""
        if self._head is None:
            parts = [STATUS_LINES[self.status], self.common.block]
            for each in self._length():
                parts.append(b"%b: %b\r\n" % each)
            for each in self.extra:
                parts.append(b"%b: %b\r\n" % each)
            self._head = b"".join(parts)
        return self._head

    def _length(self) -> Headers:
        # A 204 or a 304 has no body, and the length of a stream is unknown.
        if self.status in (204, 304) or self.is_endless:
            return []
        length = len(self.body) if self.length is None else self.length
        return [(b"content-length", b"%d" % length)]

    def without_body(self) -> Reply:
        length = len(self.body) if self.length is None else self.length
        return replace(self, body=b"", length=length, pieces=None, _head=None)

    def updated(self, body: bytes, etag: bytes) -> Reply:
        """Return the same answer with another body and ETag."""
        others = [each for each in self.extra if each[0] != b"etag"]
        extra = [(b"etag", etag), *others]
        return Reply(self.status, self.common, extra, body, etag, counts=self.counts)

    def with_share(self, share: Share) -> Reply:
        """Return the same answer with its share of memory; the cache may keep the one without."""
        return replace(self, share=share)

    def with_headers(self, *headers: tuple[bytes, bytes]) -> Reply:
        return replace(self, extra=[*self.extra, *headers], _head=None)


def json_reply(status: int, body: bytes, extra: Headers | None = None) -> Reply:
    # A 204 has no body, so it has no type.
    common = JSON_DOCUMENT if status != 204 else PLAIN
    return Reply(status, common, extra or [], body)


def stream_reply(pieces: Pieces, extra: Headers | None = None) -> Reply:
    return Reply(200, EVENTS, extra or [], pieces=pieces)


def not_modified(reply: Reply) -> Reply:
    assert reply.etag is not None
    return Reply(304, PLAIN, [(b"etag", reply.etag)], etag=reply.etag)


def matches(etag: bytes | None, condition: bytes) -> bool:
    """Return True if an `If-None-Match` header names this ETag."""
    if etag is None:
        return False
    named = [each.strip().removeprefix(b"W/") for each in condition.split(b",")]
    return etag in named or named == [b"*"]


def if_modified(reply: Reply, headers: HeaderMap) -> Reply:
    """Return 304 in place of an answer that the client says it has."""
    condition = headers.get(b"if-none-match")
    if condition is not None and matches(reply.etag, condition):
        return not_modified(reply)
    return reply


def error_reply(error: ValueTrackerError) -> Reply:
    extra: Headers = []
    if isinstance(error, MethodNotAllowed):
        extra.append((b"allow", ", ".join(error.details["allow"]).encode()))
    elif isinstance(error, Unauthorized):
        extra.append((b"www-authenticate", b'Bearer realm="Value Tracker"'))
    elif isinstance(error, RateLimited):
        extra.append((b"retry-after", b"%d" % error.details["retryAfter"]))
    return json_reply(error.status, orjson.dumps(error.body()), extra)
