"""
The one place that writes: rows, log, revision, checksums and remembered requests.

A `Ledger` is what a writing verb is given as `tx`. It lives for one group of verbs, which
is one transaction. What a verb loads by key is kept here, and what it applies changes it
here, so a later verb of the group sees what an earlier one did although nothing has been
written yet. `finish` then writes the rows as they ended up, table by table:

    verb 1:  load → refuse? → apply ┐
    verb 2:  load → refuse? → apply ├─ rows in memory ─→ finish: a few statements ─→ commit
    verb 3:  load → refuse? → apply ┘

Only the net state of a row is written, so the order of the statements does not matter,
and their number does not grow with the number of verbs. The log has every change. A verb
that asks something else of the database (`fetch_all`) has what is pending written first.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson

from valuetracker.engine import Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, RevisionConflict
from valuetracker.model import now
from valuetracker.store import statements as sql
from valuetracker.store.changes import (
    NO_CONTEXT,
    Change,
    Context,
)
from valuetracker.store.journal import Journal
from valuetracker.store.requests import Requests
from valuetracker.store.rows import (
    CHANGE_COLUMNS,
    CharacterRow,
    DataRow,
    Head,
    InstanceRow,
    RevisionRow,
    StoredChange,
)
from valuetracker.store.tags import (
    Tag,
)
from valuetracker.store.working import WorkingSet


@dataclass(slots=True)
class WriteJob:
    """A writing verb on its way to the group that will run it."""

    verb: Callable[..., Coroutine[Any, Any, Any]]
    arguments: tuple[Any, ...] = ()
    context: Context = NO_CONTEXT
    status: int = 200


@dataclass(slots=True)
class Written:
    """What a writing verb is answered with, and the revision its extension is at after it."""

    status: int
    body: bytes
    revision: int
    replayed: bool = False


@dataclass(slots=True)
class Commit:
    """
    What a group changed: the revision it reached, what it touched, and its log.

    `tags` is None where it is not known what was touched.
    """

    revision: int
    tags: set[Tag] | None
    revisions: list[RevisionRow] = field(default_factory=list)
    changes: list[StoredChange] = field(default_factory=list)


Verb = TypeVar("Verb", bound=Callable[..., Any])


def loading(loads: Callable[..., tuple[str, list[str]]]) -> Callable[[Verb], Verb]:
    """Say of a verb which instance and keys it will load, given its arguments."""

    def mark(verb: Verb) -> Verb:
        verb.loads = loads  # type: ignore[attr-defined]
        return verb

    return mark


class Ledger:
    """The transaction of writing verbs."""

    def __init__(self, transaction: Transaction, rows: WorkingSet) -> None:
        self._transaction = transaction
        self._rows = rows
        self._begun = False
        self._requests = Requests(transaction)
        self._journal = Journal(rows)
        self._commit = Commit(0, self._journal.tags)
        self._head_moved = False
        self.clean = True
        self.now = ""
        self.context = NO_CONTEXT

    # What the engine calls

    async def prepare(self, jobs: Sequence[WriteJob]) -> None:
        """Load what the jobs say they will ask for, in as few statements as possible."""
        await self.load_head()
        instances: dict[str, None] = {}
        values: dict[tuple[str, str], None] = {}
        for job in jobs:
            loads = getattr(job.verb, "loads", None)
            if loads is not None:
                instance_id, keys = loads(*job.arguments)
                instances[instance_id] = None
                for key in keys:
                    values[instance_id, key] = None
        await self._rows.load_instances(instances)
        await self._rows.load_values(values)
        await self._rows.find_cells(
            ("data", instance_id, key)
            for instance_id, key in values
            if self._rows.table(instance_id).rows[key] is None
        )

    async def perform(self, job: WriteJob) -> Written:
        self.clean = True
        self.now = now()
        self.context = job.context
        head = await self.load_head()
        before = await self._requests.find(job.context)
        if before is not None:
            return Written(before.status, before.body.encode(), before.revision, replayed=True)
        result = await job.verb(self, *job.arguments)
        body = orjson.dumps(result)
        self._requests.remember(job.context, self.now, head.revision, job.status, body)
        return Written(job.status, body, head.revision)

    async def finish(self) -> Commit:
        await self._write_pending()
        await self._requests.finish()
        self._commit.revision = (await self.load_head()).revision
        return self._commit

    async def _write_pending(self) -> None:
        if not self._head_moved:
            return
        await self._rows.write()
        revisions, changes = self._journal.take()
        if revisions:
            await self._transaction.execute_many(sql.INSERT_REVISION, revisions)
            await self._transaction.execute_tuples(
                sql.INSERT_CHANGE, [change[:CHANGE_COLUMNS] for change in changes]
            )
        self._commit.revisions += revisions
        self._commit.changes += changes
        self._head_moved = False

    # What verbs load

    async def load_head(self) -> Head:
        if not self._begun:
            await self._rows.begin(self._transaction)
            self._begun = True
        head = self._rows.head
        assert head is not None
        return head

    async def find_character(self, character_id: str) -> CharacterRow | None:
        return await self._rows.find_character(character_id)

    async def find_instance(self, instance_id: str) -> InstanceRow | None:
        return await self._rows.find_instance(instance_id)

    async def list_instances_of(self, character_id: str) -> list[InstanceRow]:
        """The instances of a character, in the order in which they came into being."""
        return await self._rows.list_instances_of(character_id)

    async def load_values(self, instance_id: str, keys: list[str]) -> dict[str, DataRow | None]:
        """The rows of these keys (None where there is none), by key, among others."""
        await self._rows.load_values([(instance_id, key) for key in keys])
        return self._rows.table(instance_id).rows

    async def list_values(self, instance_id: str) -> list[DataRow]:
        """All values of an instance, in the order in which their keys came into being."""
        return await self._rows.list_values(instance_id)

    async def last_change(self, space: str, owner: str, key: str = "") -> int:
        """The revision that last changed something, also what is gone; 0 for never."""
        await self._write_pending()
        return await last_change(self._transaction, await self.load_head(), space, owner, key)

    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]:
        await self._write_pending()
        return await self._transaction.fetch_all(statement, **parameters)

    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None:
        await self._write_pending()
        return await self._transaction.fetch_one(statement, **parameters)

    async def execute(self, statement: Statement, **parameters: Any) -> None:
        self.clean = False
        await self._write_pending()
        await self._transaction.execute(statement, **parameters)

    async def execute_many(self, statement: Statement, rows: Sequence[Any]) -> None:
        self.clean = False
        await self._write_pending()
        await self._transaction.execute_many(statement, rows)

    # What verbs refuse and do

    def expect(self, current: int) -> None:
        """Refuse if what is addressed changed after the revision the caller has seen."""
        expected = self.context.expected
        if expected is not None and current > expected:
            raise RevisionConflict(expected=expected, current=current)

    async def apply(self, changes: Sequence[Change]) -> int:
        """Make these changes one revision; none make none. The revision it is at now."""
        head = await self.load_head()
        if not changes:
            return head.revision
        self.clean = False
        self._head_moved = True
        await self._journal.record(changes, head, self.now, self.context)
        return head.revision

    async def skip_to(self, revision: int) -> None:
        """Leave out the numbers up to this one; they were given out elsewhere."""
        head = await self.load_head()
        head.revision = max(head.revision, revision)
        self.clean = False
        self._head_moved = True

    async def set_oldest(self, revision: int) -> None:
        """Say how far back the log reaches from now on."""
        (await self.load_head()).oldest = revision
        self.clean = False
        self._head_moved = True


def ledgers() -> Callable[[Transaction], Ledger]:
    """What makes the ledgers of one database: they share the rows they have seen."""
    rows = WorkingSet()
    return lambda transaction: Ledger(transaction, rows)


async def last_change(
    transaction: Transaction, head: Head, space: str, owner: str, key: str
) -> int:
    """The revision that last changed something, also what is gone; 0 for never."""
    names = orjson.dumps([(space, owner, key)]).decode()
    found = await transaction.fetch_all(sql.SELECT_CELLS, names=names)
    if not found:
        return 0
    row = await transaction.fetch_one(sql.SELECT_LAST_REVISION, cell=found[0][3])
    # Removed, and the removal folded away: it was then, at the latest.
    return row[0] if row is not None else head.oldest


async def load_head(transaction: Transaction) -> Head:
    row = await transaction.fetch_one(sql.SELECT_HEAD)
    if row is None:
        raise DatabaseDamaged()
    return Head(*row).verify()


async def make_head(transaction: Transaction, revision: int) -> None:
    """Begin the log of a new database; `revision` is the last one given out before."""
    row = await transaction.fetch_one(sql.SELECT_IDENTITY)
    assert row is not None, "not identified"
    head = Head(revision, oldest=revision, identity=row[0])
    head.seal()
    await transaction.execute_many(sql.INSERT_HEAD, [head])
