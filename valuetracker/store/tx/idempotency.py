"""
Requests that carried an `Idempotency-Key`: a repeated one gets the same answer again.

The record of a request commits with its effect. So a caller that never received the answer
(a crash between commit and answer, a lost connection) may repeat the request: either nothing
had happened, or the first answer is given back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import IdempotencyMismatch
from valuetracker.records import moment
from valuetracker.store.rows.row import Row, insert, select
from valuetracker.store.tx.context import Context
from valuetracker.store.tx.jobs import Written

# A day is promised; the hour on top covers a clock that is set right in between.
KEPT = timedelta(hours=25)
SWEPT_AT_ONCE = 200


@dataclass(slots=True)
class RequestRow(Row, table="requests"):
    """A request that succeeded, and its answer."""

    key: str
    fingerprint: str
    at: str
    revision: int
    status: int
    live: int
    superseded: int
    body: str
    checksum: int = 0


SELECT_REQUEST = select(RequestRow, "WHERE key = :key")
INSERT_REQUEST = insert(RequestRow)
DELETE_OLD_REQUESTS = Statement(
    """
    DELETE FROM {schema}.requests WHERE key IN (
        SELECT key FROM {schema}.requests WHERE at < :before ORDER BY at LIMIT :count
    )
    """
)


async def was_answered(tx: Transaction, key: str | None) -> bool:
    """Return True if any request with that key has been answered before."""
    return key is not None and await tx.fetch_one(SELECT_REQUEST, key=key) is not None


class RememberedRequests:
    """The remembered requests, as one group of verbs sees them."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._new: dict[str, RequestRow] = {}

    async def find(self, context: Context) -> RequestRow | None:
        """Return the same request as it was answered before; refuse another with its key."""
        key = context.idempotency_key
        if key is None:
            return None
        row = self._new.get(key)
        if row is None:
            found = await self._transaction.fetch_one(SELECT_REQUEST, key=key)
            row = RequestRow(*found).verify() if found is not None else None
        if row is not None and row.fingerprint != context.fingerprint:
            raise IdempotencyMismatch()
        return row

    def remember(self, context: Context, at: str, written: Written) -> None:
        if context.idempotency_key is not None:
            row = RequestRow(
                context.idempotency_key,
                context.fingerprint,
                at,
                written.revision,
                written.status,
                int(written.live),
                int(written.superseded),
                written.body.decode(),
            )
            row.seal()
            self._new[row.key] = row

    async def finish(self) -> None:
        """Write the new ones and delete some that are long past."""
        if not self._new:
            return
        await self._transaction.execute_many(INSERT_REQUEST, list(self._new.values()))
        await self._transaction.execute(
            DELETE_OLD_REQUESTS,
            before=moment(datetime.now(UTC) - KEPT),
            count=SWEPT_AT_ONCE,
        )
