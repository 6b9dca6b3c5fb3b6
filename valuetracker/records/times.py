"""
Times as the API writes them: ISO 8601, UTC, milliseconds, `Z`.
"""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """This moment as the API writes moments: ISO 8601, UTC, milliseconds, `Z`."""
    # A fifth of the cost of going through `moment`, and paid by every write.
    return datetime.now(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def moment(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
