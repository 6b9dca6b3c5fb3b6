"""
Log entries about requests: which request, how it ended, and why it failed.

An entry has the id, the method and the path of a request, and where it belongs in a trace
(`traceparent`); never its query, body, other headers or values.
"""

from __future__ import annotations

import logging
import re
import secrets
import time

from valuetracker.errors import ValueTrackerError
from valuetracker.http.replies import Reply, Request

logger = logging.getLogger(__name__)

# The header by which W3C Trace Context passes on the ids of a trace and of the caller's part of it.
TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")


def log_request(request: Request, reply: Reply, started: float) -> None:
    """Log an answered request, at debug level."""
    logger.debug(
        "request",
        extra={
            **_fields(request),
            "status": reply.status,
            "bytes": len(reply.body),
            "ms": round((time.perf_counter() - started) * 1000, 3),
        },
    )


def log_failure(error: ValueTrackerError, request: Request) -> None:
    """Log an error for which the client is not to blame, with its cause."""
    # The first line names the failure. Later lines may quote what was being written, and so
    # does SQLite when a text cannot be decoded.
    cause = error.__cause__
    first = str(cause).partition("\n")[0].partition(" with text ")[0]
    why = f"{type(cause).__name__}: {first[:200]}" if cause else ""
    logger.error(error.message, extra={"code": error.code, "cause": why, **_fields(request)})


def unexpected_failure(error: Exception, request: Request | None = None) -> ValueTrackerError:
    """Log an exception in full, and return an error that shows nothing but a request id."""
    fields = {"requestId": secrets.token_hex(8)} if request is None else _fields(request)
    logger.error("unexpected failure", exc_info=error, extra=fields)
    return ValueTrackerError("Something went wrong.", requestId=fields["requestId"])


def _fields(request: Request) -> dict[str, str]:
    path = request.target.partition(b"?")[0]
    fields = {
        "requestId": request.id.decode(),
        "method": request.method[:32],
        "path": path[:512].decode("latin-1"),
    }
    for name, value in request.headers:
        if name == b"traceparent" and TRACEPARENT.match(value):
            fields["traceparent"] = value.decode()
    return fields
