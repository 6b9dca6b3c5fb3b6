"""
A request as it came and an answer as it goes out, for every adapter the same.

The headers that all answers carry are set here, where answers are built: there is no
middleware they could miss.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple, Protocol

import orjson

from valuetracker.errors import MethodNotAllowed, Unauthorized, ValueTrackerError

Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
STATUS_LINES = {
    each.value: b"HTTP/1.1 %d %b\r\n" % (each.value, each.phrase.encode()) for each in HTTPStatus
}

# Answers are data for programs: nothing in them may run, be framed, or be taken for
# something else by a browser that was led here.
GUARDS: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
NOTHING_RUNS = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
NO_STORE = (b"cache-control", b"no-store")


class Common:
    """Headers that many answers share, in the two forms adapters want."""

    def __init__(self, *headers: tuple[bytes, bytes]) -> None:
        self.headers: Headers = [*headers, *GUARDS]
        self.block = header_block(self.headers)


def header_block(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    return b"".join(b"%b: %b\r\n" % each for each in headers)


PLAIN = Common(NO_STORE, NOTHING_RUNS)
# `no-transform`: a proxy that compresses would keep events back until it has enough.
EVENTS = Common(
    (b"cache-control", b"no-cache, no-transform"),
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"x-accel-buffering", b"no"),
    (b"vary", b"Accept-Encoding"),
    NOTHING_RUNS,
)
JSON_DOCUMENT = Common(NO_STORE, (b"content-type", JSON), NOTHING_RUNS)


@lru_cache(maxsize=16)
def document(media_type: str, policy: str | None) -> Common:
    """A document that is not an answer in JSON; a page has a policy of its own."""
    guard = (NOTHING_RUNS[0], policy.encode()) if policy else NOTHING_RUNS
    return Common(NO_STORE, (b"content-type", media_type.encode()), guard)


class Request(NamedTuple):
    """A request as it came: the raw target, lower-case header names, the whole body."""

    method: str
    target: bytes
    headers: Headers
    body: bytes = b""


class Pieces(Protocol):
    """A body that comes in pieces; whoever is given one closes it."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


@dataclass(slots=True)
class Reply:
    """An answer as it goes out: a body, or pieces for as long as somebody listens."""

    status: int
    common: Common
    # Its own headers, beside the common ones and the length.
    extra: Headers
    body: bytes = b""
    etag: bytes | None = None
    pieces: Pieces | None = None
    # How long the body would be, where it is not sent: an answer to HEAD.
    length: int | None = None
    # The status line and headers as bytes, once an adapter has made them.
    _head: bytes | None = None

    @property
    def headers(self) -> Headers:
        return [*self.common.headers, *self._length(), *self.extra]

    @property
    def head(self) -> bytes:
        """The status line and headers; finished answers are sent often, so it is kept."""
        if self._head is None:
            parts = [STATUS_LINES[self.status], self.common.block]
            for each in self._length():
                parts.append(b"%b: %b\r\n" % each)
            for each in self.extra:
                parts.append(b"%b: %b\r\n" % each)
            self._head = b"".join(parts)
        return self._head

    def _length(self) -> Headers:
        # A 204 or a 304 has no body, and a stream does not know.
        if self.status in (204, 304) or self.pieces is not None:
            return []
        length = len(self.body) if self.length is None else self.length
        return [(b"content-length", b"%d" % length)]

    def without_body(self) -> Reply:
        return replace(self, body=b"", length=len(self.body), pieces=None, _head=None)

    def with_headers(self, *headers: tuple[bytes, bytes]) -> Reply:
        return replace(self, extra=[*self.extra, *headers], _head=None)


def json_reply(status: int, body: bytes, extra: Headers | None = None) -> Reply:
    # A 204 has no body, and no type.
    common = JSON_DOCUMENT if status != 204 else PLAIN
    return Reply(status, common, extra or [], body)


def stream_reply(pieces: Pieces, extra: Headers | None = None) -> Reply:
    return Reply(200, EVENTS, extra or [], pieces=pieces)


def not_modified(reply: Reply) -> Reply:
    assert reply.etag is not None
    return Reply(304, PLAIN, [(b"etag", reply.etag)], etag=reply.etag)


def matches(etag: bytes | None, condition: bytes) -> bool:
    """Whether an `If-None-Match` names the state the answer is of."""
    if etag is None:
        return False
    named = [each.strip().removeprefix(b"W/") for each in condition.split(b",")]
    return etag in named or named == [b"*"]


def error_reply(error: ValueTrackerError) -> Reply:
    extra: Headers = []
    if isinstance(error, MethodNotAllowed):
        extra.append((b"allow", ", ".join(error.details["allow"]).encode()))
    elif isinstance(error, Unauthorized):
        extra.append((b"www-authenticate", b'Bearer realm="Value Tracker"'))
    return json_reply(error.status, orjson.dumps(error.body()), extra)
