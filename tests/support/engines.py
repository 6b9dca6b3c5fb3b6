"""Databases for tests that both engines must pass: opened by the engine the server would use."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import asyncpg

from tests.integrity.contents import statements
from tests.integrity.recount import State, recount, recount_tables
from valuetracker.app import create_engine
from valuetracker.engine import Database, Engine, Transaction
from valuetracker.engine.postgres import PostgresEngine
from valuetracker.records import now
from valuetracker.settings import Settings
from valuetracker.store.rows.head import load_head, make_head
from valuetracker.store.rows.snapshot import Snapshot

NAMES = "SELECT id FROM {}.characters ORDER BY ordinal"


async def revision_of(database: Database) -> int:
    return (await database.read(load_head)).revision


async def read(database: Database, verb: Any, *arguments: Any) -> Any:
    """Run a reading verb and return its result."""

    async def job(transaction: Transaction) -> Any:
        return await verb(await Snapshot.take(transaction), *arguments)

    return await database.read(job)


@dataclass
class Bench:
    """A started engine, and a second connection to its databases."""

    engine: Engine
    url: str
    folder: Path

    @property
    def is_sqlite(self) -> bool:
        return not self.url

    async def create(self, name: str = "demo", revision: int = 0) -> str:
        """Create a database and return its identity."""

        async def setup(transaction: Transaction) -> None:
            await make_head(transaction, revision)

        return await self.engine.create(self.location(name), name, now(), setup)

    def location(self, name: str = "demo") -> str:
        return self.engine.locate(name, None)

    @asynccontextmanager
    async def opened(self, identity: str, name: str = "demo") -> AsyncIterator[Database]:
        database = await self.engine.open(self.location(name), identity)
        try:
            yield database
        finally:
            await database.close()

    async def outside(self, statement: str, name: str = "demo") -> list[tuple[Any, ...]]:
        """Run a statement over a connection of its own; `{}` is the database's schema."""
        if self.is_sqlite:
            return await asyncio.to_thread(self._outside_file, statement, name)
        connection = await asyncpg.connect(self.url)
        try:
            text = statement.replace("{}", self.location(name))
            return [tuple(row) for row in await connection.fetch(text)]
        finally:
            await connection.close()

    def _outside_file(self, statement: str, name: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / self.location(name))) as connection:
            found = connection.execute(statement.replace("{}", "main")).fetchall()
            connection.commit()
            return found

    async def recount(self, name: str = "demo", from_revision: int = 1) -> State:
        """Check every count, link and revision of a database, and return its state."""
        if self.is_sqlite:
            return recount(self.folder / self.location(name), from_revision)
        connection = await asyncpg.connect(self.url)
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                found = {
                    table: [tuple(row) for row in await connection.fetch(text)]
                    for table, text in statements(self.location(name)).items()
                }
        finally:
            await connection.close()
        return recount_tables(found, from_revision)


@asynccontextmanager
async def started(
    url: str, folder: Path, pool_size: int = 4, alone: bool = True
) -> AsyncIterator[Bench]:
    """Start an engine; without a URL it works on files. Others may be there if not `alone`."""
    engine = create_engine(
        Settings(data_dir=folder, database=url, readers=4, pool_size=pool_size, database_seconds=20)
    )
    if isinstance(engine, PostgresEngine):
        engine.alone = alone
    registry = await engine.start(now())
    try:
        yield Bench(engine, url, folder)
    finally:
        await registry.close()
        await engine.stop()
