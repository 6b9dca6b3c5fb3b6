"""
The memory that request bodies of all connections may take together.

A large body reserves its whole length before it is read, in the order of asking. So a body
that has begun can always be finished, and a connection whose body must wait is not read. This
module knows nothing of connections: whoever reserves passes in what to call when the
reservation is granted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Reservation:
    """The share of the budget that one body has or waits for."""

    __slots__ = ("_budget", "_is_released", "is_granted", "on_granted", "size")

    def __init__(self, budget: BodyBudget, size: int, on_granted: Callable[[], None]) -> None:
        self._budget = budget
        self._is_released = False
        self.size = size
        self.is_granted = False
        self.on_granted = on_granted

    @property
    def is_wanted(self) -> bool:
        return not self._is_released

    def release(self) -> None:
        """Give the share back, or stop waiting for it."""
        if self._is_released:
            return
        self._is_released = True
        if self.is_granted:
            self._budget.take_back(self.size)


class BodyBudget:
    """A number of bytes that bodies reserve, first come, first served."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[Reservation] = deque()

    @property
    def is_awaited(self) -> bool:
        """True if a body waits for its share."""
        return bool(self._waiting)

    def reserve(self, size: int, on_granted: Callable[[], None]) -> Reservation:
        """
        Reserve so many bytes.

        The reservation is granted at once if the budget allows it. Otherwise `on_granted` is
        called once it is granted, unless it was released before.
        """
        reservation = Reservation(self, size, on_granted)
        if not self._waiting and self._fits(size):
            self._used += size
            reservation.is_granted = True
        else:
            self._waiting.append(reservation)
        return reservation

    def _fits(self, size: int) -> bool:
        # A body that is larger than the whole budget is granted when no other has a share.
        return self._used + size <= self._limit or not self._used

    def take_back(self, size: int) -> None:
        """Take back a share, and grant those that fit now."""
        self._used -= size
        while self._waiting and self._fits(self._waiting[0].size):
            reservation = self._waiting.popleft()
            if reservation.is_wanted:
                self._used += reservation.size
                reservation.is_granted = True
                reservation.on_granted()
