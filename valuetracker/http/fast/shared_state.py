"""The state that all connections of one server share."""

from __future__ import annotations

from valuetracker.budget import Budget
from valuetracker.http.fast.outbox import Outbox
from valuetracker.values import BODY_BYTES


class SharedState:
    """The limits that one server gives its connections, and what they use together."""

    def __init__(self, connections: int, body_bytes: int) -> None:
        # The largest number of connections.
        self.connections = connections
        # The oldest body may go beyond the budget, so that it can be finished.
        self.budget = Budget(max(body_bytes - BODY_BYTES, body_bytes // 2))
        self.outbox = Outbox()
        # The `Date` header as bytes, renewed every second.
        self.date = b""
