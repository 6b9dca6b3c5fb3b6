"""
Failpoints: named points of the code at which a test makes the server fail.

They make moments testable that are too short to hit by chance.
`VALUETRACKER_FAIL=after_commit:kill` kills the process the first time it reaches the point;
`before_commit:raise:3` raises the third time. Unset, `reach` costs one comparison.
"""

from __future__ import annotations

import os
import signal

POINTS = (
    "before_commit",
    "after_commit",
    "before_reply",
    "mid_migration",
    "adoption_folded",
    "mid_adoption",
    "adoption_written",
    "adoption_kept",
    "adoption_renamed",
    "restore_prepared",
    "restore_announced",
    "restore_discarded",
    "restore_renamed",
)


class Failpoint:
    """One named point, and the failure that happens there."""

    def __init__(self, description: str | None) -> None:
        point, _, rest = (description or "").partition(":")
        action, _, count = rest.partition(":")
        if point and point not in POINTS:
            raise ValueError(f"VALUETRACKER_FAIL names an unknown failpoint: {point}")
        self._point = point
        self._kills = action == "kill"
        self._remaining = int(count or 1)

    @classmethod
    def from_environment(cls) -> Failpoint:
        return cls(os.environ.get("VALUETRACKER_FAIL"))

    def reach(self, point: str) -> None:
        if point != self._point:
            return
        self._remaining -= 1
        if self._remaining == 0:
            if self._kills:
                # SIGKILL does not exist on Windows, where SIGTERM ends as abruptly.
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            raise RuntimeError(f"failpoint {point}")
