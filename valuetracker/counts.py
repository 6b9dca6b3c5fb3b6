"""
Counts of what the server does, which `GET /metrics` shows.

To count costs an addition, and for a duration a search among a dozen bounds: requests do nothing
else for it. Only the event loop counts.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

# From half a millisecond to ten seconds.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
# As many writes as one commit may have.
WRITES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)


class Histogram:
    """How often something was at most this much, for each of some bounds; and their sum."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    @property
    def buckets(self) -> list[tuple[str, float]]:
        """The bounds, and how many values were not above each; the last has no bound."""
        names = [*map(str, self._bounds), "+Inf"]
        return [(name, float(n)) for name, n in zip(names, accumulate(self._counts), strict=True)]


class RouteCounts:
    """How often a route was answered with a method, and how long the handler took."""

    __slots__ = ("_statuses", "hits", "hits_unmodified", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        # By the first digit of the status, without kept answers.
        self._statuses = [0] * 6
        # Kept answers that were sent, and how many of them were 304.
        self.hits = 0
        self.hits_unmodified = 0

    def add(self, status: int, seconds: float) -> None:
        """Count an answer that a handler has made, or an error."""
        self._statuses[status // 100] += 1
        self.seconds.add(seconds)

    @property
    def by_class(self) -> dict[str, int]:
        """The number of answers of each class of statuses that occurred."""
        found = list(self._statuses)
        found[2] += self.hits - self.hits_unmodified
        found[3] += self.hits_unmodified
        return {f"{digit}xx": number for digit, number in enumerate(found) if number}


class CommitCounts:
    """How long commits took, and how many writes each had."""

    __slots__ = ("seconds", "writes")

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        self.writes = Histogram(WRITES)

    def add(self, seconds: float, writes: int) -> None:
        self.seconds.add(seconds)
        self.writes.add(writes)
