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
    ChangeRow,
    CharacterRow,
    DataRow,
    Head,
    InstanceRow,
    RevisionRow,
)
from valuetracker.store.tables import Place, Table
from valuetracker.store.tags import (
    ALL_CHARACTERS,
    ALL_INSTANCES,
    EVERYTHING,
    Tag,
    character_tag,
    instance_tag,
)


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
    changes: list[ChangeRow] = field(default_factory=list)


Verb = TypeVar("Verb", bound=Callable[..., Any])


def loading(loads: Callable[..., tuple[str, list[str]]]) -> Callable[[Verb], Verb]:
    """Say of a verb which instance and keys it will load, given its arguments."""

    def mark(verb: Verb) -> Verb:
        verb.loads = loads  # type: ignore[attr-defined]
        return verb

    return mark


class Ledger:
    """The transaction of writing verbs."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._requests = Requests(transaction)
        self._head: Head | None = None
        self._characters: Table[CharacterRow] = Table()
        self._instances: Table[InstanceRow] = Table()
        self._values: dict[str, Table[DataRow]] = {}
        # Instances all of whose values are loaded.
        self._complete: set[str] = set()
        # Instances of which more changed than their values.
        self._restructured: set[str] = set()
        # The revision of the last change of a row in this group, by space, owner and key.
        self._changed: dict[tuple[str, str, str], int] = {}
        self._pending_revisions: list[RevisionRow] = []
        self._pending_changes: list[ChangeRow] = []
        self._tags: set[Tag] = {EVERYTHING}
        self._commit = Commit(0, self._tags)
        self._head_moved = False
        self.clean = True
        self.now = ""
        self.context = NO_CONTEXT

    # What the engine calls

    async def perform(self, job: WriteJob) -> Written:
        self.clean = True
        self.now = now()
        self.context = job.context
        before = await self._requests.find(job.context)
        if before is not None:
            return Written(before.status, before.body.encode(), before.revision, replayed=True)
        result = await job.verb(self, *job.arguments)
        body = orjson.dumps(result)
        revision = (await self.load_head()).revision
        self._requests.remember(job.context, self.now, revision, job.status, body)
        return Written(job.status, body, revision)

    async def prepare(self, jobs: Sequence[WriteJob]) -> None:
        """Load what the jobs say they will ask for, in as few statements as possible."""
        instances: dict[str, None] = {}
        values: dict[tuple[str, str], None] = {}
        for job in jobs:
            loads = getattr(job.verb, "loads", None)
            if loads is not None:
                instance_id, keys = loads(*job.arguments)
                instances[instance_id] = None
                values.update(((instance_id, key), None) for key in keys)
        if instances:
            await self._load_instances(list(instances))
        if values:
            await self._load_pairs(list(values))

    async def _load_instances(self, ids: list[str]) -> None:
        rows = await self._transaction.fetch_all(
            sql.SELECT_INSTANCES_BY_ID, ids=orjson.dumps(ids).decode()
        )
        for id in ids:
            self._instances.loaded(id, None)
        for row in rows:
            instance = InstanceRow(*row).verify()
            self._instances.loaded(instance.id, instance)

    async def _load_pairs(self, pairs: list[tuple[str, str]]) -> None:
        rows = await self._transaction.fetch_all(
            sql.SELECT_VALUES_BY_PAIR, pairs=orjson.dumps(pairs).decode()
        )
        for instance_id, key in pairs:
            self._values.setdefault(instance_id, Table()).loaded(key, None)
        for row in rows:
            value = DataRow(*row).verify()
            self._values[value.instance_id].loaded(value.key, value)

    async def finish(self) -> Commit:
        await self._write_pending()
        await self._requests.finish()
        self._commit.revision = (await self.load_head()).revision
        return self._commit

    async def _write_pending(self) -> None:
        if not self._head_moved:
            return
        await self._write_values()
        await self._write_instances()
        await self._write_characters()
        head = await self.load_head()
        head.seal()
        await self._write(
            (sql.UPDATE_HEAD, [head]),
            (sql.INSERT_REVISION, self._pending_revisions),
            (sql.INSERT_CHANGE, self._pending_changes),
        )
        self._commit.revisions += self._pending_revisions
        self._commit.changes += self._pending_changes
        self._pending_revisions = []
        self._pending_changes = []
        self._head_moved = False

    async def _write_values(self) -> None:
        deleted: list[Place] = []
        inserted: list[DataRow] = []
        updated: list[DataRow] = []
        for values in self._values.values():
            values.drain(deleted, inserted, updated)
        await self._write(
            (sql.DELETE_VALUE, deleted), (sql.UPDATE_VALUE, updated), (sql.INSERT_VALUE, inserted)
        )

    async def _write_instances(self) -> None:
        deleted: list[Place] = []
        inserted: list[InstanceRow] = []
        updated: list[InstanceRow] = []
        self._instances.drain(deleted, inserted, updated)
        for row in (*inserted, *updated):
            row.seal()
        # Most updates only follow a change of values. Naming the indexed columns in those
        # would write the indexes again, too.
        await self._write(
            (sql.DELETE_INSTANCE, deleted),
            (sql.UPDATE_INSTANCE, [row for row in updated if row.id in self._restructured]),
            (sql.TOUCH_INSTANCE, [row for row in updated if row.id not in self._restructured]),
            (sql.INSERT_INSTANCE, inserted),
        )

    async def _write_characters(self) -> None:
        deleted: list[Place] = []
        inserted: list[CharacterRow] = []
        updated: list[CharacterRow] = []
        self._characters.drain(deleted, inserted, updated)
        await self._write(
            (sql.DELETE_CHARACTER, deleted),
            (sql.UPDATE_CHARACTER, updated),
            (sql.INSERT_CHARACTER, inserted),
        )

    async def _write(self, *steps: tuple[Statement, Sequence[Any]]) -> None:
        # Deletions come first: a row that came back has the same key and another place.
        for statement, rows in steps:
            if rows:
                await self._transaction.execute_many(statement, rows)

    # What verbs load

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

    async def load_head(self) -> Head:
        if self._head is None:
            self._head = await load_head(self._transaction, sql.LOCK_HEAD)
        return self._head

    async def find_character(self, character_id: str) -> CharacterRow | None:
        rows = self._characters.rows
        if character_id not in rows:
            row = await self._transaction.fetch_one(sql.SELECT_CHARACTER, id=character_id)
            self._characters.loaded(character_id, CharacterRow(*row).verify() if row else None)
        return rows[character_id]

    async def find_instance(self, instance_id: str) -> InstanceRow | None:
        rows = self._instances.rows
        if instance_id not in rows:
            row = await self._transaction.fetch_one(sql.SELECT_INSTANCE, id=instance_id)
            self._instances.loaded(instance_id, InstanceRow(*row).verify() if row else None)
        return rows[instance_id]

    async def list_instances_of(self, character_id: str) -> list[InstanceRow]:
        """The instances of a character, in the order in which they came into being."""
        for row in await self._transaction.fetch_all(
            sql.SELECT_INSTANCES_OF_CHARACTER, character_id=character_id
        ):
            stored = InstanceRow(*row).verify()
            if stored.id not in self._instances.rows:
                self._instances.loaded(stored.id, stored)
        return sorted(
            (
                row
                for row in self._instances.rows.values()
                if row is not None and row.character_id == character_id
            ),
            key=lambda row: row.place,
        )

    async def load_values(self, instance_id: str, keys: list[str]) -> dict[str, DataRow | None]:
        """The rows of these keys (None where there is none), by key, among others."""
        table = self._values.setdefault(instance_id, Table())
        missing = [key for key in keys if key not in table.rows]
        if missing and instance_id not in self._complete:
            for row in await self._fetch_values(instance_id, missing):
                value = DataRow(*row).verify()
                table.loaded(value.key, value)
            for key in missing:
                table.rows.setdefault(key, None)
        return table.rows

    async def _fetch_values(self, instance_id: str, keys: list[str]) -> list[tuple[Any, ...]]:
        if len(keys) == 1:
            return await self._transaction.fetch_all(
                sql.SELECT_VALUE, instance_id=instance_id, key=keys[0]
            )
        return await self._transaction.fetch_all(
            sql.SELECT_VALUES_OF_KEYS, instance_id=instance_id, keys=orjson.dumps(keys).decode()
        )

    async def list_values(self, instance_id: str) -> list[DataRow]:
        """All values of an instance, in the order in which their keys came into being."""
        table = self._values.setdefault(instance_id, Table())
        if instance_id not in self._complete:
            for row in await self._transaction.fetch_all(
                sql.SELECT_VALUES, instance_id=instance_id
            ):
                value = DataRow(*row).verify()
                if value.key not in table.rows:
                    table.loaded(value.key, value)
            self._complete.add(instance_id)
        rows = sorted(
            (row for row in table.rows.values() if row is not None), key=lambda row: row.place
        )
        instance = await self.find_instance(instance_id)
        if instance is not None:
            instance.verify_values(rows)
        return rows

    async def last_change(self, space: str, owner: str, key: str = "") -> int:
        """The revision that last changed a row, also one that is gone; 0 for none."""
        changed = self._changed.get((space, owner, key))
        if changed is not None:
            return changed
        row = await self._transaction.fetch_one(
            sql.SELECT_LAST_REVISION, owner=owner, key=key, space=space
        )
        return row[0] if row is not None else 0

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
        for change in changes:
            # Values first, and without a coroutine each: they are nearly all there is.
            if isinstance(change, SetValue):
                self._set_value(change, head)
            elif isinstance(change, RemoveValue):
                self._remove_value(change, head)
            else:
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

    async def _apply_one(self, change: Change, head: Head) -> None:
        if isinstance(change, PutInstance):
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
        space: str,
        owner: str,
        key: str,
        op: str,
        after: str | None,
        place: int | None,
        operand: str | None = None,
        parent: str | None = None,
        chat_id: str | None = None,
        anchor: Anchor | None = None,
    ) -> None:
        head.change += 1
        row = ChangeRow(
            head.change,
            head.revision,
            space,
            owner,
            key,
            op,
            operand,
            after,
            place,
            parent,
            chat_id,
            anchor.message_id if anchor else None,
            anchor.swipe if anchor else None,
        )
        row.seal()
        self._pending_changes.append(row)
        self._changed[space, owner, key] = head.revision

    def _touch_instance(self, instance: InstanceRow, revision: int) -> None:
        if instance.revision != revision or instance.id not in self._instances.touched:
            instance.revision = revision
            self._instances.put(instance.id, instance)
            self._tags.add(instance_tag(instance.id))
            self._tags.add(character_tag(instance.character_id))

    def _set_value(self, change: SetValue, head: Head) -> None:
        instance, values = self._loaded(change)
        old = values.rows[change.key]
        if old is None:
            head.place += 1
            head.keys += 1
            instance.keys += 1
            place = head.place
        else:
            place = old.place
            instance.digest ^= old.checksum
        row = DataRow(place, change.instance_id, change.key, change.value, head.revision)
        row.seal()
        instance.digest ^= row.checksum
        values.put(change.key, row)
        self._value_changed(change, instance, head, change.value, place)

    def _remove_value(self, change: RemoveValue, head: Head) -> None:
        instance, values = self._loaded(change)
        old = values.rows[change.key]
        if old is not None:
            head.keys -= 1
            instance.keys -= 1
            instance.digest ^= old.checksum
            values.put(change.key, None)
        self._value_changed(change, instance, head, None, None)

    def _value_changed(
        self,
        change: SetValue | RemoveValue,
        instance: InstanceRow,
        head: Head,
        after: str | None,
        place: int | None,
    ) -> None:
        self._touch_instance(instance, head.revision)
        self._tags.add(("value", change.instance_id, change.key))
        self._log(
            head,
            "data",
            change.instance_id,
            change.key,
            change.op,
            after,
            place,
            change.operand,
            None,
            instance.chat_id or self.context.chat_id,
            (change.anchor or self.context.anchor) if change.anchored else None,
        )

    def _loaded(self, change: SetValue | RemoveValue) -> tuple[InstanceRow, Table[DataRow]]:
        instance = self._instances.rows.get(change.instance_id)
        if instance is None:
            raise RuntimeError("A value was changed whose instance does not exist.")
        return instance, self._values[change.instance_id]

    async def _load_for(self, changes: Sequence[Change]) -> None:
        """Whatever values the changes name that their verb has not loaded."""
        missing: dict[str, list[str]] = {}
        for change in changes:
            if isinstance(change, SetValue | RemoveValue):
                values = self._values.get(change.instance_id)
                if values is None or change.key not in values.rows:
                    missing.setdefault(change.instance_id, []).append(change.key)
        for instance_id, keys in missing.items():
            rows = await self.load_values(instance_id, keys)
            for key in keys:
                rows.setdefault(key, None)

    async def _put_character(self, change: PutCharacter, head: Head) -> None:
        old = await self.find_character(change.id)
        if old is None:
            head.place += 1
            head.characters += 1
        row = CharacterRow(
            head.place if old is None else old.place,
            change.id,
            change.name,
            change.created_at,
            change.updated_at,
            head.revision,
        )
        row.seal()
        self._characters.put(change.id, row)
        self._tags.update((ALL_CHARACTERS, character_tag(change.id)))
        op = "create_character" if old is None else "update_character"
        self._log(head, "character", change.id, "", op, after=row.text(), place=row.place)

    def _drop_character(self, change: DropCharacter, head: Head) -> None:
        head.characters -= 1
        self._characters.put(change.id, None)
        self._tags.update((ALL_CHARACTERS, character_tag(change.id)))
        self._log(head, "character", change.id, "", "delete_character", after=None, place=None)

    async def _put_instance(self, change: PutInstance, head: Head) -> None:
        old = await self.find_instance(change.id)
        if old is None:
            head.place += 1
            head.instances += 1
        else:
            # It may be leaving this character for another.
            await self._touch_character(old.character_id, head.revision)
        row = InstanceRow(
            head.place if old is None else old.place,
            change.id,
            change.character_id,
            change.chat_id,
            change.name,
            change.created_at,
            change.updated_at,
            head.revision,
            0 if old is None else old.keys,
            0 if old is None else old.digest,
        )
        self._touch_instance(row, head.revision)
        self._restructured.add(change.id)
        await self._touch_character(change.character_id, head.revision)
        self._tags.add(ALL_INSTANCES)
        self._log(
            head,
            "instance",
            change.id,
            "",
            "create_instance" if old is None else "update_instance",
            after=row.text(),
            place=row.place,
            parent=row.character_id,
            chat_id=row.chat_id,
        )

    async def _drop_instance(self, change: DropInstance, head: Head) -> None:
        instance = await self.find_instance(change.id)
        if instance is None or instance.keys:
            raise RuntimeError("An instance was dropped that still has values, or is not there.")
        head.instances -= 1
        self._touch_instance(instance, head.revision)
        self._instances.put(change.id, None)
        await self._touch_character(instance.character_id, head.revision)
        self._tags.add(ALL_INSTANCES)
        self._log(
            head,
            "instance",
            change.id,
            "",
            "delete_instance",
            after=None,
            place=None,
            chat_id=instance.chat_id,
        )

    async def _touch_character(self, character_id: str, revision: int) -> None:
        # Its list of instances changed, which is a change of what is read as one.
        self._tags.add(character_tag(character_id))
        character = await self.find_character(character_id)
        if character is not None:
            character.revision = revision
            character.seal()
            self._characters.put(character_id, character)


async def load_head(transaction: Transaction, statement: Statement = sql.SELECT_HEAD) -> Head:
    row = await transaction.fetch_one(statement)
    if row is None:
        raise DatabaseDamaged()
    return Head(*row).verify()


async def make_head(transaction: Transaction, revision: int) -> None:
    """Begin the log of a new database; `revision` is the last one given out before."""
    head = Head(revision, oldest=revision)
    head.seal()
    await transaction.execute_many(sql.INSERT_HEAD, [head])
