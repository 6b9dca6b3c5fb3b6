"""
What executes statements: SQLite files today, PostgreSQL beside them.

An engine runs verbs in transactions and has no word of the domain in it. What a verb is
given is a `Transaction`; what the store hangs into a write is a `Work`.

The seam, as both engines must keep it:

- `database.read(job)` runs one job on a connection that cannot write.
- `database.write(job)` puts the job into the next group. A group is one transaction: each
  job runs through `work.perform`, then `work.finish` writes what they left to be written,
  then the group is committed, then (on the event loop, in order) `on_commit` is told what
  `finish` returned, and only then is any of the jobs answered.
- A job that raises a `ValueTrackerError` before it changed anything is refused alone. Any
  other failure rolls the group back, and each job runs again in a group of its own.
- A job awaits nothing but its transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from valuetracker.engine.statement import Statement

T = TypeVar("T")
Row = tuple[Any, ...]


class Transaction(Protocol):
    """An open transaction, as a verb sees it."""

    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]: ...

    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None: ...

    async def execute(self, statement: Statement, **parameters: Any) -> None: ...

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        """Run the statement once per row; parameters are the row's attributes."""
        ...

    async def execute_tuples(self, statement: Statement, rows: Sequence[Row]) -> None:
        """The same with rows that are tuples, in the order the statement names them."""
        ...


Job = Callable[[Transaction], Coroutine[Any, Any, T]]


class Work(Protocol):
    """What one group of jobs shares; made by the store, driven by the engine."""

    async def perform(self, job: Any) -> Any:
        """Run one job. A `ValueTrackerError` raised while `clean` refuses only this job."""
        ...

    @property
    def clean(self) -> bool:
        """Whether the job being performed has changed nothing so far."""
        ...

    async def prepare(self, jobs: Sequence[Any]) -> None:
        """Load what these jobs will ask for, where asking once for all is worth it."""
        ...

    async def finish(self) -> Any:
        """Write what the jobs left to be written; what is returned goes to `on_commit`."""
        ...


# Made once per open database, it then makes the work of each group: what is known of the
# database can so be kept from one group to the next.
WorkMaker = Callable[[], Callable[[Transaction], Work]]


class Database(Protocol):
    """One open database."""

    # Whether an answer called the database itself into question.
    suspect: bool
    # Told of every group, in order, on the event loop, before any of it is answered; told
    # None when no group is under way any more.
    on_commit: Callable[[Any], None]

    @property
    def writing(self) -> bool:
        """Whether a group is under way."""
        ...

    async def read(self, job: Job[T]) -> T: ...

    async def write(self, job: Any) -> Any: ...

    async def size(self) -> int:
        """Bytes it takes."""
        ...

    async def close(self) -> None: ...


class Engine(Protocol):
    """Creates, opens and discards databases: SQLite files or PostgreSQL schemas."""

    name: str
    version: str

    def hold(self) -> None:
        """Lock the place the databases are in, so that no second server uses it."""
        ...

    def for_user(self, handle: str) -> Engine: ...
    async def start(self, at: str) -> Database:
        """Start, and return the open registry."""
        ...

    async def stop(self) -> None: ...
    def locate(self, name: str, wanted: str | None) -> str: ...
    async def exists(self, location: str) -> bool: ...
    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str: ...
    async def identity(self, location: str) -> tuple[str, str]: ...
    async def open(self, location: str, identity: str) -> Database: ...
    async def is_unmarked(self, location: str, recognise: Job[bool]) -> bool: ...
    async def adopt(self, location: str, name: str, at: str, convert: Job[Any]) -> str: ...
    async def discard(self, location: str, label: str) -> bool: ...
