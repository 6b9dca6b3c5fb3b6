"""
When a job is committed on the event loop itself, and not on the writer's thread.

To hand a group to a thread and back costs as much as a small group itself. That is well spent
for a large group, and while the disk is slow: the event loop serves others meanwhile. One client
alone gains nothing by it. So one quick job alone is committed on the event loop, as long as
commits take less than half a millisecond there.
"""

from __future__ import annotations

from typing import Any

SLOW_SECONDS = 0.0005


class LoopCommits:
    """Knows about how long the commits of one database take."""

    def __init__(self) -> None:
        # As if the last ones had been slow: the first few go to the thread.
        self._seconds = 2 * SLOW_SECONDS

    def allow(self, job: Any) -> bool:
        """Return true if this job may be committed on the event loop."""
        return self._seconds < SLOW_SECONDS and getattr(job, "quick", False)

    def add(self, seconds: float) -> None:
        """Note how long a commit took; one that was disturbed counts little in the average."""
        self._seconds += (min(seconds, 2 * SLOW_SECONDS) - self._seconds) / 16
