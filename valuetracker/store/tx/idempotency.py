"""
Requests that carried an `Idempotency-Key`: a repeated one gets the same answer again.

The record of a request commits with its effect. So a caller that never received the answer
(a crash between commit and answer, a lost connection) may repeat the request: either nothing
had happened, or the first answer is given back.

An answer is remembered without the values it shows, which may be large: the log has them. In
their place stands which value it was, and `store/remembered.py` reads it there.

How long a request is remembered counts by the uptime of the server, so that a clock which is set
forward does not let a request be done twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import IdempotencyMismatch
from valuetracker.store.rows.row import Row, insert, select
from valuetracker.store.tx.context import Context
from valuetracker.store.tx.jobs import Written

# A day is promised; the hour on top covers a server that was killed before its uptime was saved.
KEPT_MS = 25 * 60 * 60 * 1000
SWEPT_AT_ONCE = 200


# Stands before and after the name of a value that is left out; no JSON text holds it.
HOLE = "\x1f"


class ShownValue:
    """
    A value in an answer that is remembered: its text, and which value it is.

    It is that of a key at the revision of the request, before the last so many changes (`later`)
    that the request made to the key.
    """

    __slots__ = ("holder", "key", "later", "text")

    def __init__(self, text: str, holder: int, key: str, later: int = 0) -> None:
        self.text, self.holder, self.key, self.later = text, holder, key, later


def answer_bytes(answer: Any) -> bytes:
    return orjson.dumps(answer, _text)


def _text(value: ShownValue) -> orjson.Fragment:
    return orjson.Fragment(value.text)


def _without_values(answer: Any) -> str:
    return orjson.dumps(answer, _hole).decode()


def _hole(value: ShownValue) -> orjson.Fragment:
    name = orjson.dumps([value.holder, value.key, value.later]).decode()
    return orjson.Fragment(f"{HOLE}{name}{HOLE}")


@dataclass(slots=True)
class RequestRow(Row, table="requests"):
    """A request that succeeded, and its answer without values; `touched` is an uptime."""

    key: str
    fingerprint: str
    touched: int
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
        SELECT key FROM {schema}.requests WHERE touched < :before ORDER BY touched LIMIT :count
    )
    """
)


async def was_answered(tx: Transaction, key: str | None) -> bool:
    """Return True if any request with that key has been answered before."""
    return key is not None and await tx.fetch_one(SELECT_REQUEST, key=key) is not None


class RememberedRequests:
    """The remembered requests, as one group of verbs sees them."""

    def __init__(self, transaction: Transaction, uptime: int) -> None:
        self._transaction = transaction
        self._uptime = uptime
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

    def remember(self, context: Context, written: Written, answer: Any) -> None:
        if context.idempotency_key is not None:
            row = RequestRow(
                context.idempotency_key,
                context.fingerprint,
                self._uptime,
                written.revision,
                written.status,
                int(written.live),
                int(written.superseded),
                _without_values(answer) if answer is not None else "",
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
            before=self._uptime - KEPT_MS,
            count=SWEPT_AT_ONCE,
        )
