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

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeVar, cast

import orjson

from valuetracker.engine import Row, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, RevisionConflict
from valuetracker.model import now
from valuetracker.store import statements as sql
from valuetracker.store.changes import (
    NO_CONTEXT,
    Anchor,
    Change,
    Context,
    DropCharacter,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
    SetValue,
)
from valuetracker.store.requests import Requests
from valuetracker.store.rows import (
    CHANGE_COLUMNS,
    CharacterRow,
    DataRow,
    Head,
    InstanceRow,
    RevisionRow,
    StoredChange,
    change_checksum,
    data_checksum,
)
from valuetracker.store.tags import (
    EVERYTHING,
    Tag,
    character_tag,
    instance_tag,
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
        self._pending_revisions: list[RevisionRow] = []
        self._pending_changes: list[StoredChange] = []
        self._tags: set[Tag] = {EVERYTHING}
        self._commit = Commit(0, self._tags)
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
        if self._pending_revisions:
            await self._transaction.execute_many(sql.INSERT_REVISION, self._pending_revisions)
        if self._pending_changes:
            await self._transaction.execute_tuples(
                sql.INSERT_CHANGE, [change[:CHANGE_COLUMNS] for change in self._pending_changes]
            )
        self._commit.revisions += self._pending_revisions
        self._commit.changes += self._pending_changes
        self._pending_revisions = []
        self._pending_changes = []
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
        head.revision += 1
        revision = RevisionRow(
            head.revision, self.now, self.context.actor, head.change + 1, len(changes)
        )
        revision.seal()
        self._pending_revisions.append(revision)
        await self._load_for(changes)
        for instance_id, run in groupby(changes, _set_in):
            if instance_id is not None:
                self._set_values(instance_id, cast(Iterable[SetValue], run), head)
                continue
            for change in run:
                await self._apply_one(change, head)
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

    async def _load_for(self, changes: Sequence[Change]) -> None:
        """What the changes are about: values their verb has not loaded, and cells."""
        tables = self._rows.values
        missing: list[tuple[str, str]] = []
        names: list[tuple[str, str, str]] = []
        for change in changes:
            if isinstance(change, SetValue | RemoveValue):
                table = tables.get(change.instance_id)
                if table is None or change.key not in table.rows:
                    missing.append((change.instance_id, change.key))
                elif table.rows[change.key] is None:
                    names.append(("data", change.instance_id, change.key))
            elif isinstance(change, PutInstance | DropInstance):
                names.append(("instance", change.id, ""))
            else:
                names.append(("character", change.id, ""))
        if missing:
            await self._rows.load_values(missing)
            names += [
                ("data", instance_id, key)
                for instance_id, key in missing
                if tables[instance_id].rows[key] is None
            ]
        if names:
            await self._rows.load_cells(dict.fromkeys(names))

    async def _apply_one(self, change: Change, head: Head) -> None:
        if isinstance(change, RemoveValue):
            self._remove_value(change, head)
        elif isinstance(change, PutInstance):
            await self._put_instance(change, head)
        elif isinstance(change, DropInstance):
            await self._drop_instance(change, head)
        elif isinstance(change, PutCharacter):
            await self._put_character(change, head)
        elif isinstance(change, DropCharacter):
            self._drop_character(change, head)
        else:
            raise TypeError(f"There is no such change: {change!r}")

    def _log(
        self,
        head: Head,
        name: tuple[str, str, str],
        cell: int,
        op: str,
        after: str | None,
        place: int | None,
        operand: str | None = None,
        parent: str | None = None,
        chat_id: str | None = None,
        anchor: Anchor | None = None,
    ) -> None:
        head.change += 1
        message_id = swipe = None
        if anchor is not None:
            message_id, swipe = anchor.message_id, anchor.swipe
        columns = (
            head.change,
            head.revision,
            cell,
            op,
            operand,
            after,
            place,
            parent,
            chat_id,
            message_id,
            swipe,
            1,
            1,
        )
        self._pending_changes.append((*columns, change_checksum(*columns, *name), *name))

    def _touch_instance(self, instance: InstanceRow, revision: int) -> None:
        if instance.revision != revision or not self._rows.instances.is_touched(instance.id):
            instance.revision = revision
            self._rows.instances.put(instance.id, instance)
            self._tags.add(instance_tag(instance.id))
            self._tags.add(character_tag(instance.character_id))

    def _set_values(self, instance_id: str, changes: Iterable[SetValue], head: Head) -> None:
        # Nearly all writing goes through here, key by key, so what is the same for all
        # keys of an instance is done once, and nothing is called that need not be.
        instance = self._instance_of(instance_id)
        self._touch_instance(instance, head.revision)
        table = self._rows.values[instance_id]
        revision = head.revision
        number = head.change
        chat_id = instance.chat_id or self.context.chat_id
        weight = 0
        for change in changes:
            key, value, op, operand = change.key, change.value, change.op, change.operand
            old = table.rows[key]
            if old is None:
                head.place += 1
                head.keys += 1
                instance.keys += 1
                place = head.place
                cell = self._rows.cell("data", instance_id, key)
            else:
                place, cell = old.place, old.cell
                instance.digest ^= old.checksum
            checksum = data_checksum(cell, place, instance_id, key, revision, value)
            instance.digest ^= checksum
            table.put(key, DataRow(cell, place, instance_id, key, value, revision, checksum))
            weight += len(value)
            self._tags.add(("value", instance_id, key))
            anchor = (change.anchor or self.context.anchor) if change.anchored else None
            message = anchor.message_id if anchor is not None else None
            swipe = anchor.swipe if anchor is not None else None
            number += 1
            checksum = change_checksum(
                number, revision, cell, op, operand, value, place, None, chat_id, message,
                swipe, 1, 1, "data", instance_id, key,
            )  # fmt: skip
            self._pending_changes.append(
                (
                    number,
                    revision,
                    cell,
                    op,
                    operand,
                    value,
                    place,
                    None,
                    chat_id,
                    message,
                    swipe,
                    1,
                    1,
                    checksum,
                    "data",
                    instance_id,
                    key,
                )
            )
        head.change = number
        self._rows.values_touched(instance_id, weight)

    def _remove_value(self, change: RemoveValue, head: Head) -> None:
        instance_id, key = change.instance_id, change.key
        instance = self._instance_of(instance_id)
        old = self._rows.values[instance_id].rows[key]
        if old is None:
            cell = self._rows.cell("data", instance_id, key)
        else:
            cell = old.cell
            head.keys -= 1
            instance.keys -= 1
            instance.digest ^= old.checksum
            self._rows.values[instance_id].put(key, None)
            self._rows.values_touched(instance_id)
        self._touch_instance(instance, head.revision)
        self._tags.add(("value", instance_id, key))
        chat_id = instance.chat_id or self.context.chat_id
        anchor = (change.anchor or self.context.anchor) if change.anchored else None
        name = ("data", instance_id, key)
        self._log(head, name, cell, change.op, None, None, change.operand, None, chat_id, anchor)

    def _instance_of(self, instance_id: str) -> InstanceRow:
        instance = self._rows.instances.rows.get(instance_id)
        if instance is None:
            raise RuntimeError("A value was changed whose instance does not exist.")
        return instance

    async def _put_character(self, change: PutCharacter, head: Head) -> None:
        old = await self.find_character(change.id)
        name = ("character", change.id, "")
        if old is None:
            head.place += 1
            head.characters += 1
        row = CharacterRow(
            self._rows.cell(*name),
            head.place if old is None else old.place,
            change.id,
            change.name,
            change.created_at,
            change.updated_at,
            0 if old is None else old.instances,
            head.revision,
        )
        row.seal()
        self._rows.characters.put(change.id, row)
        self._tags.add(character_tag(change.id))
        op = "create_character" if old is None else "update_character"
        self._log(head, name, row.cell, op, row.text(), row.place)

    def _drop_character(self, change: DropCharacter, head: Head) -> None:
        name = ("character", change.id, "")
        head.characters -= 1
        self._rows.characters.put(change.id, None)
        self._tags.add(character_tag(change.id))
        self._log(head, name, self._rows.cell(*name), "delete_character", None, None)

    async def _put_instance(self, change: PutInstance, head: Head) -> None:
        old = await self.find_instance(change.id)
        name = ("instance", change.id, "")
        if old is None:
            head.place += 1
            head.instances += 1
        else:
            # It may be leaving this character for another.
            await self._touch_character(old.character_id, head.revision, -1)
        row = InstanceRow(
            self._rows.cell(*name),
            head.place if old is None else old.place,
            change.id,
            change.character_id,
            change.chat_id,
            change.name,
            change.created_at,
            change.updated_at,
            0,
            0 if old is None else old.keys,
            0 if old is None else old.digest,
        )
        self._touch_instance(row, head.revision)
        self._rows.restructured.add(change.id)
        await self._touch_character(change.character_id, head.revision, +1)
        self._log(
            head,
            name,
            row.cell,
            "create_instance" if old is None else "update_instance",
            row.text(),
            row.place,
            parent=row.character_id,
            chat_id=row.chat_id,
        )

    async def _drop_instance(self, change: DropInstance, head: Head) -> None:
        instance = await self.find_instance(change.id)
        if instance is None or instance.keys:
            raise RuntimeError("An instance was dropped that still has values, or is not there.")
        head.instances -= 1
        self._touch_instance(instance, head.revision)
        self._rows.instances.put(change.id, None)
        await self._touch_character(instance.character_id, head.revision, -1)
        self._log(
            head,
            ("instance", change.id, ""),
            instance.cell,
            "delete_instance",
            None,
            None,
            parent=instance.character_id,
            chat_id=instance.chat_id,
        )

    async def _touch_character(self, character_id: str, revision: int, more: int) -> None:
        # Its list of instances changed, which is a change of what is read as one.
        self._tags.add(character_tag(character_id))
        character = await self.find_character(character_id)
        if character is not None:
            character.instances += more
            character.revision = revision
            character.seal()
            self._rows.characters.put(character_id, character)


def _set_in(change: Change) -> str | None:
    """The instance a value is set in; None for any other change."""
    return change.instance_id if isinstance(change, SetValue) else None


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
