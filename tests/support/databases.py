"""Database files for tests of the engine: real ones, with the store's schema and ledger."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, NamedTuple

from tests.conftest import PATIENCE_SECONDS
from valuetracker.engine import Database, Transaction
from valuetracker.engine import sqlite_file as files
from valuetracker.engine.migrations import load_migrations, migrations_directory
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.records import now
from valuetracker.store.rows.entries import EntryRow, select_entries
from valuetracker.store.rows.head import make_head
from valuetracker.store.rows.numbers import REVISION_BITS
from valuetracker.store.tx.jobs import Commit, WriteJob, Written
from valuetracker.store.tx.ledger import ledgers
from valuetracker.store.verification import TABLES

SCHEMA = files.Schema(load_migrations(migrations_directory() / "sqlite"), ledgers, TABLES)
IDENTITY = "0123456789abcdef0123456789abcdef"


async def make_file(path: Path, name: str = "demo", identity: str = IDENTITY) -> None:
    async def setup(transaction: Transaction) -> None:
        await make_head(transaction, 0)

    await files.create(path, name, identity, SCHEMA, now(), setup)


@asynccontextmanager
async def opened(path: Path, readers: int = 2) -> AsyncIterator[SQLiteDatabase]:
    """Open the database of a file, which is created if it does not exist."""
    if not path.exists():
        await make_file(path)
    database = await SQLiteDatabase.open(path, IDENTITY, SCHEMA, readers)
    try:
        yield database
    finally:
        await database.close()


async def write(database: Database, verb: Any, *arguments: Any) -> Written:
    written: Written = await database.write(WriteJob(verb, arguments))
    return written


def commits_of(database: Database) -> list[Commit]:
    """Collect the commits that the event loop is notified of from now on."""
    commits: list[Commit] = []

    def collect(commit: Commit | None) -> None:
        # None means only that no group is running any more.
        if commit is not None:
            commits.append(commit)

    database.on_commit = collect
    return commits


class Gate:
    """Holds a verb until it is opened, on a connection's thread or on the event loop."""

    def __init__(self) -> None:
        self._reached = threading.Event()
        self._open = threading.Event()

    async def verb(self, tx: Any) -> None:
        self._reached.set()
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            assert self._open.wait(PATIENCE_SECONDS)
        else:
            assert await asyncio.to_thread(self._open.wait, PATIENCE_SECONDS)

    async def reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, PATIENCE_SECONDS)

    def open(self) -> None:
        self._open.set()


@asynccontextmanager
async def held_writer(database: Database) -> AsyncIterator[None]:
    """Make writes wait within this context; they then form one group."""
    gate = Gate()
    holding = asyncio.create_task(write(database, gate.verb))
    await gate.reached()
    try:
        yield
    finally:
        gate.open()
        await holding


async def waiting(database: Database, *jobs: tuple[Any, ...]) -> list[asyncio.Task[Written]]:
    """Return tasks that have each put their job into the queue of the writer."""
    tasks = [asyncio.create_task(write(database, *job)) for job in jobs]
    await asyncio.sleep(0)
    return tasks


def select(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Select from a file over another connection."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(statement).fetchall()


# The revisions that have entries; `{}` is the schema.
REVISIONS = f"SELECT DISTINCT entry >> {REVISION_BITS} AS revision FROM {{}}.entries ORDER BY 1"


def revisions_of(path: Path) -> list[int]:
    return [revision for (revision,) in select(path, REVISIONS.replace("{}", "main"))]


class Logged(NamedTuple):
    """One change in the log: of a character, a chat, an instance or one of its keys."""

    revision: int
    space: str
    id: str
    key: str
    op: str
    after: str | None


NAMES = """
    SELECT number, space, id FROM instances
    UNION ALL SELECT number, 'character', id FROM characters
    UNION ALL SELECT number, 'chat', '' FROM chats
"""


def log_of(path: Path) -> list[Logged]:
    """Return all changes in the log of a file, in their order."""
    found = select(path, select_entries("ORDER BY entry").sqlite)
    names = {number: (space, id) for number, space, id in select(path, NAMES)}
    return [
        Logged(entry.revision, *names[entry.subject], record.key, record.op, record.held)
        for entry in (EntryRow(*row).verify() for row in found)
        for record in entry.logged
    ]
