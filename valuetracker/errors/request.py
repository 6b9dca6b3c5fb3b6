"""
Errors of a request as a message: its syntax, its size, its timing.
"""

from __future__ import annotations

import math

from valuetracker.errors.base import (
    BadRequest,
    NotFound,
    TooLarge,
    Unavailable,
    ValueTrackerError,
)


class MalformedRequest(BadRequest):
    """This is not valid HTTP."""

    code = "malformed_request"


class InvalidHost(BadRequest):
    """The request must name exactly one host."""

    code = "invalid_host"
    hint = "Send exactly one `Host` header."


class InvalidPath(BadRequest):
    """The path contains a malformed escape or bytes that are not UTF-8."""

    code = "invalid_path"
    hint = "Encode each path segment with encodeURIComponent."


class InvalidQuery(BadRequest):
    """The query string is not valid."""

    code = "invalid_query"


class InvalidHeader(BadRequest):
    """A header is not valid."""

    code = "invalid_header"


class InvalidBody(BadRequest):
    """The body is not what this route expects."""

    code = "invalid_body"
    hint = "Send one JSON document with `Content-Type: application/json`."


class RouteNotFound(NotFound):
    """There is no such route."""

    hint = "`GET /api/plugins/valuetracker/docs` lists the routes."


class MethodNotAllowed(ValueTrackerError):
    """This route does not support this method."""

    status = 405
    code = "method_not_allowed"


class RequestTimeout(ValueTrackerError):
    """The request did not arrive in time."""

    status = 408
    code = "request_timeout"


class BodyTooLarge(TooLarge):
    """The body is too large."""

    code = "body_too_large"
    hint = "`GET /limits` says how large a body may be."


class UnsupportedMediaType(ValueTrackerError):
    """This route does not accept a body of this media type."""

    status = 415
    code = "unsupported_media_type"
    hint = "Send JSON in UTF-8, uncompressed, with `Content-Type: application/json`."


class ExpectationFailed(ValueTrackerError):
    """The only supported expectation is 100-continue."""

    status = 417
    code = "expectation_failed"


class IdempotencyMismatch(ValueTrackerError):
    """This Idempotency-Key was used for another request."""

    status = 422
    code = "idempotency_mismatch"
    hint = "Use a new key for every new request."


class TooManyReaders(ValueTrackerError):
    """Too many clients are reading the feed already."""

    status = 429
    code = "too_many_readers"
    hint = "Close other readers, or poll `/changes` without `wait`."


class RateLimited(ValueTrackerError):
    """You send requests too quickly."""

    status = 429
    code = "rate_limited"
    hint = "Wait for as many seconds as `Retry-After` says."

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__(retryAfter=math.ceil(seconds))


class HeadersTooLarge(ValueTrackerError):
    """The headers are too long, or there are too many."""

    status = 431
    code = "headers_too_large"


class TooManyConnections(Unavailable):
    """There are too many connections at the moment."""

    code = "too_many_connections"
    hint = "Close connections that you do not need, and try again."
