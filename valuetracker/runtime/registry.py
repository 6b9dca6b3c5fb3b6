"""
The registry: every extension that was ever registered, and where its database is.

The registry is small: it is read at start and kept in memory. Each change is written before
memory is changed. A row is kept after deregistration and purge, because a revision must never
be given out twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace

from valuetracker.engine import Database, Stamp, Transaction
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.row import Row, insert, select
from valuetracker.store.verification import check_of


@dataclass(slots=True)
class Record(Row, table="extensions"):
    """One row of the registry: an extension, also a deregistered one."""

    id: str
    location: str | None
    identity: str | None
    revision: int
    registered: int
    registered_at: str
    # The numbers of its database when that was closed, and the stamp it had then; None if they
    # are not known.
    characters: int = 0
    instances: int = 0
    keys: int = 0
    stamp: str | None = None
    # The highest number of an incarnation that is known.
    incarnation: int = 0
    # The mark of the file while it is open for writing; None while it is not.
    opening: str | None = None
    checksum: int = 0

    def __post_init__(self) -> None:
        # Both engines keep it as a number, and the checksum is over what they keep.
        self.registered = int(self.registered)

    @property
    def folded(self) -> str:
        return self.id.lower()

    def settled(self, revision: int, incarnation: int) -> Record:
        """Return the row of a database that is not open for writing, with exact numbers."""
        return replace(
            self,
            revision=max(self.revision, revision),
            incarnation=max(self.incarnation, incarnation),
            opening=None,
            stamp=None,
        )

    def closed(self, head: Head | None, stamp: Stamp | None) -> Record:
        """Return the row after its database was closed, with this head if that is known."""
        row = replace(self, stamp=None)
        if head is not None and stamp is not None:
            row = self.settled(head.revision, head.incarnation)
            row.characters, row.instances, row.keys = head.characters, head.instances, head.keys
            row.stamp = stamp.text
        return row


@dataclass(slots=True)
class HeartbeatRow(Row, table="heartbeat"):
    """The uptime of all runs of a server together, and the time of day that it trusts."""

    id: int
    uptime: int
    time_of_day: int
    checksum: int = 0


TABLES = {Record.table: check_of(Record), HeartbeatRow.table: check_of(HeartbeatRow)}
SELECT_HEARTBEAT = select(HeartbeatRow, "WHERE id = 1")
UPSERT_HEARTBEAT = insert(
    HeartbeatRow,
    "ON CONFLICT (id) DO UPDATE SET uptime = excluded.uptime, time_of_day = excluded.time_of_day,"
    " checksum = excluded.checksum",
)
SELECT_RECORDS = select(Record, "ORDER BY id")
UPSERT_RECORD = insert(
    Record,
    "ON CONFLICT (id) DO UPDATE SET "
    + ", ".join(f"{name} = excluded.{name}" for name in Record.columns if name != "id"),
)


class Registry:
    """The records, in memory and on disk."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._records: dict[str, Record] = {}
        self._saving = asyncio.Lock()
        # The heartbeat as the last run of the server left it; None before the first run.
        self.heartbeat: HeartbeatRow | None = None

    async def load(self) -> None:
        async def job(transaction: Transaction) -> list[Record]:
            beat = await transaction.fetch_one(SELECT_HEARTBEAT)
            self.heartbeat = HeartbeatRow(*beat).verify() if beat is not None else None
            return [Record(*row).verify() for row in await transaction.fetch_all(SELECT_RECORDS)]

        self._records = {record.id: record for record in await self._database.read(job)}

    async def save_heartbeat(self, row: HeartbeatRow) -> None:
        row.seal()

        async def job(transaction: Transaction) -> None:
            await transaction.execute_many(UPSERT_HEARTBEAT, [row])

        await self._database.write(job)

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
        async with self._saving:
            await self._save(record)

    async def _save(self, record: Record) -> None:
        record.seal()

        async def job(transaction: Transaction) -> None:
            await transaction.execute_many(UPSERT_RECORD, [record])

        await self._database.write(job)
        self._records[record.id] = record

    async def save_numbers(self, id: str, revision: int, incarnation: int) -> None:
        """Save the revision and the incarnation an extension has reached; neither decreases."""
        async with self._saving:
            # Others may have saved the row meanwhile: what they saved stays.
            record = self._records.get(id)
            if record is not None and (
                revision > record.revision or incarnation > record.incarnation
            ):
                revision = max(revision, record.revision)
                incarnation = max(incarnation, record.incarnation)
                await self._save(replace(record, revision=revision, incarnation=incarnation))
