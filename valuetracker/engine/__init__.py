"""
Engines: SQLite and PostgreSQL, behind one set of protocols.

This module is the seam. The layers above know an engine by these types only:

    Engine        creates, finds, opens and discards databases, and starts and stops
    Database      one open database: reads run at once, writes run in groups
    Transaction   runs statements; a job is given one
    Job           one reading or writing function, called with a transaction
    JobRunner     runs the jobs of one group of writes; the store implements it
    TableCheck    verifies the rows of one table; the store has one for each

An engine executes statements in transactions. It knows nothing of characters, chats or
revisions: migrations, jobs and runners are passed in.

Both engines keep these promises, and `tests/engine/test_contract*.py` tests them on both:

- `database.read(job)` runs one job on a connection that cannot write.
- `database.write(job)` adds the job to the next group. A group is one transaction: each job
  runs through `runner.perform`, then `runner.finish` writes what the jobs left to be written,
  then the group is committed. After that, on the event loop and in order, `on_commit` is called
  with the result of `finish`, and only then are the jobs answered.
- A job that raises a `ValueTrackerError` before it changed anything is refused alone. Any other
  failure rolls the group back, and each job runs again in a group of its own.
- A job awaits nothing but its transaction.

Modules: `sqlite*` and `data_directory` are the first engine, `postgres*` the second. Both use
`statement`, `group`, `migrations` and `plain_runner`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from valuetracker.counts import CommitCounts
from valuetracker.engine.statement import Statement

T = TypeVar("T")
Row = tuple[Any, ...]


class NotUnique(Exception):
    """A row was not written, because the table has another one with its key."""


class NotVerifiedYet(Exception):
    """The rows are still being verified, and it is not known yet that a row is absent."""


class Transaction(Protocol):
    """
    An open transaction.

    A key that is damaged is not found, so nothing says that a row is absent until all rows have
    been verified. Until then `fetch_one` raises `NotVerifiedYet` if it finds nothing, and
    `fetch_all` does unless it finds as many rows as the caller expects. Who called the verb
    waits for `Database.verified` and calls it again.
    """

    async def fetch_all(
        self, statement: Statement, expected: int | None = None, **parameters: Any
    ) -> list[Row]: ...

    def fetch_chunks(self, statement: Statement, **parameters: Any) -> AsyncIterator[list[Row]]:
        """Return rows some at a time, because there may be more than fit in memory."""
        ...

    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None: ...

    async def execute(self, statement: Statement, **parameters: Any) -> None: ...

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        """
        Run the statement once per row; parameters are the row's attributes.

        It raises `NotUnique` if a row of that key is there: then all is rolled back.
        """
        ...

    async def write_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        """Do the same, at the latest before something is read or committed."""
        ...

    async def execute_tuples(self, statement: Statement, rows: Sequence[Row]) -> None:
        """Run the statement once per row; rows are tuples in the order of the parameters."""
        ...


Job = Callable[[Transaction], Coroutine[Any, Any, T]]


# A job that has to read more rows of one thing than this leaves the event loop.
MOST_ROWS = 256


class TooLong(Exception):
    """The event loop would have to wait too long for a job: it goes to a thread."""


class Original(Transaction, Protocol):
    """
    The rows of a database that another program made; texts are bytes that nobody checked.

    Only temporary tables can be written.
    """

    def stream(self, statement: Statement, **parameters: Any) -> Iterator[Row]:
        """Return rows one at a time, because there may be more than fit in memory."""
        ...


# Writes the rows of a new database, which it reads from another program's.
Conversion = Callable[[Transaction, Original], Coroutine[Any, Any, None]]


class JobRunner(Protocol):
    """Runs the jobs of one group inside the group's transaction."""

    # The most rows a job may read at once; above that it raises `TooLong`. None sets no limit.
    most_rows: int | None

    async def perform(self, job: Any) -> Any:
        """Run one job. A `ValueTrackerError` raised while `clean` refuses only this job."""
        ...

    @property
    def clean(self) -> bool:
        """True while the current job has changed nothing."""
        ...

    async def prepare(self, jobs: Sequence[Any]) -> None:
        """Load the rows that these jobs need, where one statement for all of them pays off."""
        ...

    async def finish(self) -> Any:
        """Write what the jobs left to be written; `on_commit` gets the returned object."""
        ...


# Makes the runner of each group of one open database. It may keep rows that it knows from one
# group to the next.
RunnerFactory = Callable[[Transaction], JobRunner]
# Called when a database is opened, and again when a failed group made the kept rows unreliable.
NewRunnerFactory = Callable[[], RunnerFactory]


@dataclass(frozen=True)
class TableCheck:
    """How the rows of one table are verified."""

    # The parts of a row, each as it stands in a SELECT.
    columns: tuple[str, ...]
    # Called with what was selected of a row; raises if the row is damaged.
    verify: Callable[[Row], object]


class Database(Protocol):
    """One open database."""

    # True once an error shows that the database itself may be damaged or replaced: whoever
    # opened it should close it, and open it again to have it checked.
    suspect: bool
    # Called with the result of every group, in order, on the event loop, before any of its jobs
    # is answered; called with None when no group is in progress any more.
    on_commit: Callable[[Any], None]
    # Where commits are counted; whoever opened the database may give it one that others share.
    counts: CommitCounts

    @property
    def writing(self) -> bool:
        """True while a group is in progress."""
        ...

    @property
    def verifying(self) -> bool:
        """True while rows are being verified in the background."""
        ...

    async def verified(self) -> None:
        """Wait until all rows have been verified; raise if one of them is damaged."""
        ...

    async def read(self, job: Job[T]) -> T: ...

    def read_at_once(self, job: Job[T]) -> T | None:
        """
        Run a job without leaving the event loop, or return None if it should not wait for it.

        For jobs that read a few rows: to hand them to a thread costs more than to run them.
        """
        ...

    async def write(self, job: Any) -> Any: ...

    async def size(self) -> int:
        """Return the size of the database in bytes."""
        ...

    @property
    def opening(self) -> str:
        """Return the mark that `mark_opening` has left in it, if the engine has such marks."""
        ...

    @property
    def had_log(self) -> bool:
        """True if writes that came before it was opened were found in a log beside it."""
        ...

    async def mark_opening(self, opening: str) -> None:
        """
        Mark it as open for writing, durably: afterwards it has a log until it is closed.

        The caller makes sure that nothing else writes meanwhile. An engine that notices by itself
        if its log is lost does nothing.
        """
        ...

    async def copy_to(self, path: Path) -> None:
        """Copy its present state to a file, if the engine copies files."""
        ...

    async def check_structure(self) -> None:
        """Check what the engine itself keeps: pages and indexes; raise if they are damaged."""
        ...

    async def close(self) -> None:
        """Answer the jobs that wait, then close."""
        ...


class Stamp(NamedTuple):
    """A closed database as it stands on disk; `text` is another one once it was changed."""

    text: str
    bytes: int


@dataclass(frozen=True)
class FoundDatabase(Generic[T]):
    """A database that was found, and what a job has read in it; None if it cannot be read."""

    location: str
    identity: str
    name: str
    content: T | None


@dataclass(frozen=True)
class FirstRows(Generic[T]):
    """How the rows of a new registry are made of the databases that are there."""

    # Reads what must be known of each.
    read: Job[T]
    # Returns the job that writes the rows.
    write: Callable[[Sequence[FoundDatabase[T]]], Job[None]]


class Engine(Protocol):
    """
    All databases of one user.

    A database has a `location` (a file or a schema) and an `identity`, a random text that is
    stored inside it. A database at the right location with another identity is refused.
    """

    name: str
    version: str
    # True if it has stamps of closed databases, and marks of open ones: they are files, which
    # somebody can replace.
    has_stamps: bool
    # True if a database is a file, and can be copied as one.
    copies_files: bool

    def lock(self) -> None:
        """Claim the databases for this process, if only one process may use them."""
        ...

    def for_user(self, handle: str) -> Engine:
        """Return an engine for the databases of another user."""
        ...

    async def users(self) -> list[str]:
        """Return the other users who have databases."""
        ...

    async def verify_copy(self, path: Path, job: Job[T]) -> T:
        """Verify a copy that `copy_to` has made, and return what `job` reads in it."""
        ...

    async def copy_file(self, source: Path, location: str) -> tuple[Path, str]:
        """Copy a file beside a location, under another name; return that, and its SHA-256."""
        ...

    async def adapt_copy(self, copy: Path, identity: str, job: Job[Any]) -> None:
        """Give such a copy another identity, and let `job` write in it."""
        ...

    async def replace_file(self, location: str, copy: Path) -> None:
        """
        Put such a copy in the place of a database, which goes to the trash.

        A process that is killed meanwhile leaves the old one or the new one.
        """
        ...

    async def rebuild_file(self, location: str, identity: str, job: Job[Any]) -> Path:
        """
        Write a sound copy of a damaged file beside it, with indexes made anew; return its name.

        `job` writes in the copy. The damage is raised if the copy has it, too; a file of another
        identity counts as damaged.
        """
        ...

    async def read_intact(self, location: str, take: Callable[[str, Row], None]) -> list[str]:
        """Call `take` with each row of a damaged file that is intact; return what is lost."""
        ...

    async def start(self, at: str, first_rows: FirstRows[Any] | None = None) -> Database:
        """Return the open registry, which is created on first use, or if it was lost."""
        ...

    async def discard_registry(self) -> bool:
        """Move a registry that cannot be used to the trash, before the start."""
        ...

    async def stop(self) -> None: ...

    def locate(self, name: str, wanted: str | None) -> str:
        """Return the location for a new database: the default, or the wanted one if allowed."""
        ...

    async def exists(self, location: str) -> bool: ...

    async def stamps(self, locations: Sequence[str]) -> list[Stamp | None]:
        """Return the stamp of each database, or None if it is open or missing."""
        ...

    async def create(self, location: str, name: str, at: str, setup: Job[Any]) -> str:
        """Create a database, run `setup` in its first transaction, and return its identity."""
        ...

    async def identity(self, location: str) -> tuple[str, str]:
        """Return the identity and the name that are stored in a database."""
        ...

    async def open(self, location: str, identity: str) -> Database:
        """Open the database that has this identity; refuse any other without changing it."""
        ...

    async def can_adopt(self, location: str, recognise: Job[bool]) -> bool:
        """Return true if this is a foreign database that `recognise` accepts."""
        ...

    async def adopt(self, location: str, name: str, at: str, convert: Conversion) -> str:
        """
        Put a database of ours in the place of a foreign one, and return its identity.

        The foreign one is kept. Until the new one is complete, it is in its place.
        """
        ...

    async def discard(self, location: str, label: str) -> bool:
        """Move a database to the trash; return false if there is none."""
        ...
