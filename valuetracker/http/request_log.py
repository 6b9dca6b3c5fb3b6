"""
Log entries about requests: which request, how it ended, and why it failed.

An entry has the method and the path of a request, never its query, body, headers or values.
"""

from __future__ import annotations

import logging
import secrets
import time

from valuetracker.errors import ValueTrackerError
from valuetracker.http.replies import Reply, Request

logger = logging.getLogger(__name__)


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
    request_id = secrets.token_hex(8)
    fields = _fields(request) if request is not None else {}
    logger.error("unexpected failure", exc_info=error, extra={"requestId": request_id, **fields})
    return ValueTrackerError("Something went wrong.", requestId=request_id)


def _fields(request: Request) -> dict[str, str]:
    path = request.target.partition(b"?")[0]
    return {"method": request.method[:32], "path": path[:512].decode("latin-1")}
