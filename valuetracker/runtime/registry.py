"""
The registry: every extension that was ever registered, and where its database is.

The registry is small: it is read at start and kept in memory. Each change is written before
memory is changed. A row is kept after deregistration and purge, because a revision must never
be given out twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from valuetracker.engine import Database, Transaction
from valuetracker.engine.statement import Statement


@dataclass(frozen=True)
class Record:
    """One row of the registry."""

    id: str
    location: str | None
    identity: str | None
    revision: int
    registered: bool
    registered_at: str

    @property
    def folded(self) -> str:
        return self.id.lower()


SELECT_RECORDS = Statement(
    """
    SELECT id, location, identity, revision, registered, registered_at
    FROM {schema}.extensions ORDER BY id
    """
)

UPSERT_RECORD = Statement(
    """
    INSERT INTO {schema}.extensions (id, folded, location, identity, revision, registered,
        registered_at)
    VALUES (:id, :folded, :location, :identity, :revision, :registered, :registered_at)
    ON CONFLICT (id) DO UPDATE SET location = excluded.location, identity = excluded.identity,
        revision = excluded.revision, registered = excluded.registered,
        registered_at = excluded.registered_at
    """,
    postgres="""
    INSERT INTO {schema}.extensions (id, folded, location, identity, revision, registered,
        registered_at)
    SELECT * FROM unnest(:id::text[], :folded::text[], :location::text[], :identity::text[],
        :revision::bigint[], :registered::bigint[], :registered_at::text[])
    ON CONFLICT (id) DO UPDATE SET location = excluded.location, identity = excluded.identity,
        revision = excluded.revision, registered = excluded.registered,
        registered_at = excluded.registered_at
    """,
)


class Registry:
    """The records, in memory and on disk."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records: dict[str, Record] = {}

    async def load(self) -> None:
        async def job(transaction: Transaction) -> list[tuple[Any, ...]]:
            return await transaction.fetch_all(SELECT_RECORDS)

        for id, location, identity, revision, registered, at in await self._database.read(job):
            self._records[id] = Record(id, location, identity, revision, bool(registered), at)

    async def close(self) -> None:
        await self._database.close()

    def find(self, id: str) -> Record | None:
        return self._records.get(id)

    def find_registered(self, id: str) -> Record | None:
        record = self._records.get(id)
        return record if record is not None and record.registered else None

    def list_registered(self) -> list[Record]:
        return sorted(
            (record for record in self._records.values() if record.registered),
            key=lambda record: record.id,
        )

    def others(self, id: str) -> Iterable[Record]:
        return (record for record in self._records.values() if record.id != id)

    async def save(self, record: Record) -> None:
        async def job(transaction: Transaction) -> None:
            await transaction.execute_many(UPSERT_RECORD, [record])

        await self._database.write(job)
        self._records[record.id] = record

    async def save_revision(self, id: str, revision: int) -> None:
        """Save the revision an extension has reached, if it is newer than the saved one."""
        record = self._records.get(id)
        if record is not None and revision > record.revision:
            await self.save(replace(record, revision=revision))
