"""
A budget of memory: how many bytes some things may take together.

Whoever needs memory takes a share of the budget, and gives it back. If there is not enough, shares
are granted in the order of asking. Two rules keep that order moving:

- Whoever has had a share for the longest time is granted more of it at once, even beyond the
  budget. Otherwise several could have begun, each wait for more, and none be finished.
- A share whose holder makes no progress is lost while others wait.

This module knows nothing of what the memory is for: whoever takes a share passes in what to call
when it is granted, and when it is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

# A holder that others wait for must move so many bytes within this time, or loses its share.
STUCK_SECONDS = 1.5
STUCK_BYTES = 16 * 1024
# How often holders are checked while others wait.
CHECK_SECONDS = 0.25


class Share:
    """The share of a budget that somebody has, or waits for."""

    __slots__ = ("_budget", "_moved_at", "_moved_bytes", "_on_granted", "on_lost", "size", "wanted")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._on_granted: Callable[[], None] | None = None
        # When it was last seen to make progress, and how many bytes it has moved since.
        self._moved_at = 0.0
        self._moved_bytes = 0
        # How many bytes it has, and how many it waits to have; 0 if it does not wait.
        self.size = 0
        self.wanted = 0
        # Called when the share is lost; None if it cannot be.
        self.on_lost: Callable[[], None] | None = None

    @property
    def is_granted(self) -> bool:
        """True if it has all it has asked for."""
        return not self.wanted

    def grow(self, size: int, on_granted: Callable[[], None]) -> bool:
        """Ask for so many bytes in all; return True if they are granted at once."""
        self.wanted = size
        self._on_granted = on_granted
        return self._budget.ask(self)

    def shrink(self, size: int) -> None:
        """Give back what is more than so many bytes."""
        if self.size > size:
            self._budget.take_back(self, size)

    def watch(self, on_lost: Callable[[], None]) -> None:
        """Let it be lost if its holder makes no progress, counted from now on."""
        self.on_lost = on_lost
        self._begin_to_move()

    def settle(self) -> None:
        """Keep what it has until it is released, and wait no more."""
        self.on_lost = None
        if self.wanted:
            self._budget.forget(self)

    def release(self) -> None:
        """Give everything back, and wait no more."""
        self.settle()
        if self.size:
            self._budget.take_back(self, 0)

    def move(self, count: int) -> None:
        """Note that so many bytes were received or sent: the holder makes progress."""
        self._moved_bytes += count
        if self._moved_bytes >= STUCK_BYTES:
            self._begin_to_move()

    def _begin_to_move(self) -> None:
        self._moved_bytes = 0
        self._moved_at = time.monotonic()

    # Called by the budget

    def grant(self) -> None:
        self.size, self.wanted = self.wanted, 0
        self._begin_to_move()

    def report(self) -> None:
        if self._on_granted is not None:
            self._on_granted()

    def is_stuck(self, now: float) -> bool:
        """Return True if it can be lost, and its holder could move and does not."""
        is_losable = self.on_lost is not None and not self.wanted
        return is_losable and now - self._moved_at > STUCK_SECONDS

    def lose(self) -> None:
        on_lost = self.on_lost
        self.release()
        if on_lost is not None:
            on_lost()


class Budget:
    """A number of bytes of which shares are taken."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0
        # In the order in which they were first granted something.
        self._holders: dict[Share, None] = {}
        self._waiting: deque[Share] = deque()
        self._check: asyncio.TimerHandle | None = None

    @property
    def is_awaited(self) -> bool:
        """True if somebody waits for a share."""
        return bool(self._waiting)

    def reserve(
        self,
        size: int,
        on_granted: Callable[[], None],
        on_lost: Callable[[], None] | None = None,
    ) -> Share:
        """
        Take a share of so many bytes.

        If they are not granted at once, `on_granted` is called when they are, unless the share was
        released before.
        """
        share = Share(self)
        share.on_lost = on_lost
        share.grow(size, on_granted)
        return share

    def try_to_take(self, size: int) -> Share | None:
        """Take a share if it is granted at once."""
        share = Share(self)
        share.wanted = size
        if self._waiting or not self._fits(share):
            return None
        self._grant(share)
        return share

    async def take(self, size: int) -> Share:
        """Take a share, and wait until it is granted."""
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()

        def grant() -> None:
            if not granted.done():
                granted.set_result(None)

        share = self.reserve(size, grant)
        try:
            if not share.is_granted:
                await granted
        except BaseException:
            share.release()
            raise
        return share

    # Called by shares

    def ask(self, share: Share) -> bool:
        # Whoever asks does not overtake those that wait, except for the oldest.
        if share is self._oldest or (not self._waiting and self._fits(share)):
            self._grant(share)
            return True
        self._waiting.append(share)
        self._check_soon()
        return False

    def forget(self, share: Share) -> None:
        """Let a share wait no more; it keeps what it has."""
        self._waiting.remove(share)
        share.wanted = 0
        self._grant_waiting()

    def take_back(self, share: Share, size: int) -> None:
        self.used -= share.size - size
        share.size = size
        if not size:
            self._holders.pop(share, None)
        self._grant_waiting()

    def _grant_waiting(self) -> None:
        """Grant those that fit now: the oldest holder, then all others in their order."""
        granted: list[Share] = []
        oldest = self._oldest
        if oldest is not None and oldest.wanted:
            self._waiting.remove(oldest)
            granted.append(oldest)
            self._grant(oldest)
        while self._waiting and self._fits(self._waiting[0]):
            granted.append(self._waiting.popleft())
            self._grant(granted[-1])
        # Not before all are granted: whoever is told may ask for more.
        for each in granted:
            each.report()

    def _grant(self, share: Share) -> None:
        self.used += share.wanted - share.size
        self._holders.setdefault(share)
        share.grant()

    def _fits(self, share: Share) -> bool:
        # A share that is larger than the whole budget is granted if no other is held.
        return not self._holders or self.used - share.size + share.wanted <= self._limit

    @property
    def _oldest(self) -> Share | None:
        return next(iter(self._holders), None)

    def _check_soon(self) -> None:
        if self._check is None:
            self._check = asyncio.get_running_loop().call_later(CHECK_SECONDS, self._lose_stuck)

    def _lose_stuck(self) -> None:
        """Take the shares of those that make no progress, as long as others wait."""
        self._check = None
        now = time.monotonic()
        for share in list(self._holders):
            if self._waiting and share.is_stuck(now):
                share.lose()
        if self._waiting:
            self._check_soon()
