"""
CORS: the headers that let pages of an allowed origin use the server from a browser.

The gate decides which origins are allowed; without one no answer has a CORS header. This
module knows nothing of tokens and routes.
"""

from __future__ import annotations

from valuetracker.http.replies import HeaderMap, Headers, Reply, json_reply
from valuetracker.http.request_parsing import CLIENT_HEADERS

ALLOWED_METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
ALLOWED_HEADERS = b", ".join(sorted(CLIENT_HEADERS | {b"traceparent", b"x-request-id"}))
EXPOSED_HEADERS = (
    b"etag, idempotency-replayed, x-incarnation, x-live, x-request-id, x-revision, x-superseded"
)
PREFLIGHT_SECONDS = b"600"


def is_preflight(method: str, headers: HeaderMap) -> bool:
    return method == "OPTIONS" and b"access-control-request-method" in headers


def preflight_reply(origin: bytes | None, headers: HeaderMap) -> Reply:
    """Answer a browser that asks if a page of this origin may send a request."""
    extra: Headers = [(b"vary", b"Origin")]
    if origin is not None:
        extra += [
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-methods", ALLOWED_METHODS),
            (b"access-control-allow-headers", ALLOWED_HEADERS),
            (b"access-control-max-age", PREFLIGHT_SECONDS),
        ]
        # A browser asks this before a page of the internet may reach a private network.
        if headers.get(b"access-control-request-private-network") == b"true":
            extra.append((b"access-control-allow-private-network", b"true"))
    return json_reply(204, b"", extra)


def readable_by(origin: bytes, reply: Reply) -> Reply:
    """Return the answer with the headers that let a page of this origin read it."""
    return reply.with_headers(
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", EXPOSED_HEADERS),
        (b"vary", b"Origin"),
    )
