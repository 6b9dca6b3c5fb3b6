"""
A request as it came and an answer as it goes out, for every adapter the same.

The headers that all answers carry are set here, where answers are built: there is no
middleware they could miss.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from valuetracker.errors import MethodNotAllowed, ValueTrackerError

Headers = list[tuple[bytes, bytes]]

JSON = b"application/json"
NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")


class Request(NamedTuple):
    """A request as it came: the raw target, lower-case header names, the whole body."""

    method: str
    target: bytes
    headers: Headers
    body: bytes = b""


@dataclass(slots=True)
class Reply:
    """An answer as it goes out: a body, or pieces for as long as somebody listens."""

    status: int
    headers: Headers
    body: bytes
    etag: bytes | None = None
    pieces: AsyncIterator[bytes] | None = None
    # The status line and headers as bytes, once an adapter has made them.
    head: bytes | None = None


def build_reply(
    status: int, body: bytes, media_type: bytes, extra: Iterable[tuple[bytes, bytes]] = ()
) -> Reply:
    headers = [NO_STORE, NO_SNIFF]
    # A 204 has no body, and says neither how long nor of what type it is.
    if status != 204:
        headers.append((b"content-length", b"%d" % len(body)))
        headers.append((b"content-type", media_type))
    headers.extend(extra)
    return Reply(status, headers, body)


def stream_reply(pieces: AsyncIterator[bytes]) -> Reply:
    # `no-transform`: a proxy that compresses would keep events back until it has enough.
    headers = [
        (b"cache-control", b"no-cache, no-transform"),
        NO_SNIFF,
        (b"content-type", b"text/event-stream; charset=utf-8"),
        (b"x-accel-buffering", b"no"),
    ]
    return Reply(200, headers, b"", pieces=pieces)


def not_modified(reply: Reply) -> Reply:
    assert reply.etag is not None
    return Reply(304, [NO_STORE, NO_SNIFF, (b"etag", reply.etag)], b"", reply.etag)


def matches(etag: bytes | None, condition: bytes) -> bool:
    """Whether an `If-None-Match` names the state the answer is of."""
    if etag is None:
        return False
    named = [each.strip().removeprefix(b"W/") for each in condition.split(b",")]
    return etag in named or named == [b"*"]


def error_reply(error: ValueTrackerError) -> Reply:
    extra = []
    if isinstance(error, MethodNotAllowed):
        extra.append((b"allow", ", ".join(error.details["allow"]).encode()))
    return build_reply(error.status, orjson.dumps(error.body()), JSON, extra)
