"""
Times as the API writes them: ISO 8601, UTC, milliseconds, `Z`; and as milliseconds since 1970.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> str:
    """Return the current time as the API writes it."""
    return time_text(milliseconds())


def moment(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def milliseconds() -> int:
    """Return the wall clock's time, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def time_text(milliseconds: int) -> str:
    """Return milliseconds since 1970 as the API writes times."""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest:03d}Z"


def milliseconds_of(text: str) -> int:
    """Return a time as the API writes it in milliseconds since 1970."""
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(milliseconds=1)
