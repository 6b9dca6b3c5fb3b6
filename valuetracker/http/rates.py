"""
The rate limit: how many requests a second one user may send.

A user is a user of SillyTavern, the holder of a token, or else an address. Each has a bucket that
holds what may be sent at once and fills up as time passes; a request takes one out. Buckets are
kept in memory, and a full one is the same as none. This module knows nothing of requests and
headers.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from valuetracker.errors import RateLimited
from valuetracker.http.gate import Caller

# A page that is loaded sends many requests at once.
SECONDS_AT_ONCE = 10
# When there are more buckets than this, those that are full by now are dropped.
MOST_BUCKETS = 10_000


class RateLimit:
    """The buckets of all users."""

    def __init__(
        self, per_second: int, clock: Callable[[], float] = time.monotonic, most: int = MOST_BUCKETS
    ) -> None:
        self._per_second = per_second
        self._size = float(per_second * SECONDS_AT_ONCE)
        self._clock = clock
        self._most = most
        # By user: what is left in the bucket, and when that was so.
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: Caller, address: str) -> None:
        """Count one request of this caller, or refuse it."""
        name = _name_of(caller, address)
        now = self._clock()
        left, at = self._buckets.get(name, (self._size, now))
        left = min(self._size, left + (now - at) * self._per_second)
        if left < 1:
            raise RateLimited(seconds=(1 - left) / self._per_second)
        if len(self._buckets) >= self._most and name not in self._buckets:
            self._drop_full(now)
        self._buckets[name] = (left - 1, now)

    def _drop_full(self, now: float) -> None:
        self._buckets = {
            name: (left, at)
            for name, (left, at) in self._buckets.items()
            if left + (now - at) * self._per_second < self._size
        }
        if len(self._buckets) >= self._most:
            # All of them are in use: whoever has been quiet for the longest time starts anew.
            oldest = sorted(self._buckets.items(), key=lambda each: each[1][1])
            self._buckets = dict(oldest[len(oldest) // 2 :])


def _name_of(caller: Caller, address: str) -> str:
    if caller.is_bridge:
        return f"user {caller.user}"
    if caller.token is not None:
        return f"token {caller.token.id}"
    return f"address {address}"
