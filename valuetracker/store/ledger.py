"""
The one place that writes: rows, log, revision and checksums, for a whole group at once.

A `Ledger` is what a writing verb is given as `tx`. It lives for one group of verbs, which
is one transaction. What a verb loads by key is kept here, and what it applies changes it
here, so a later verb of the group sees what an earlier one did although nothing has been
written yet. `finish` then writes the rows as they ended up, table by table:

    verb 1:  load → refuse? → apply ┐
    verb 2:  load → refuse? → apply ├─ rows in memory ─→ finish: a few statements ─→ commit
    verb 3:  load → refuse? → apply ┘

Only the net state of a row is written, so the order of the statements does not matter,
and their number does not grow with the number of verbs. The log has every change.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import orjson

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.model import now
from valuetracker.store import statements as sql
from valuetracker.store.changes import (
    Change,
    DropCharacter,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
    SetValue,
)
from valuetracker.store.rows import (
    ChangeRow,
    CharacterRow,
    DataRow,
    Head,
    InstanceRow,
    RevisionRow,
)

# What an answer can depend on, and a commit can touch.
Tag = tuple[str, ...]
ALL_CHARACTERS: Tag = ("characters",)
ALL_INSTANCES: Tag = ("instances",)


def character_tag(character_id: str) -> Tag:
    return ("character", character_id)


def instance_tag(instance_id: str) -> Tag:
    return ("instance", instance_id)


def value_tag(instance_id: str, key: str) -> Tag:
    return ("value", instance_id, key)


@dataclass(slots=True)
class WriteJob:
    """A writing verb on its way to the group that will run it."""

    verb: Callable[..., Coroutine[Any, Any, Any]]
    arguments: tuple[Any, ...]


@dataclass(slots=True)
class Written:
    """What a writing verb returned, and the revision its extension is at after it."""

    result: Any
    revision: int


@dataclass(slots=True)
class Commit:
    """What a group changed: the revision it reached and what its changes touched."""

    revision: int
    tags: set[Tag]


@dataclass(slots=True)
class Place:
    """A stored row that is to be deleted: its place is all that is needed."""

    place: int


Row = TypeVar("Row", CharacterRow, InstanceRow, DataRow)


class Table(Generic[Row]):
    """The rows of one table that this group has seen, as they are now."""

    def __init__(self) -> None:
        # By id: the row, or None where it is known that there is none.
        self.rows: dict[str, Row | None] = {}
        self._stored_at: dict[str, int] = {}
        # A dictionary for its order: rows are written as they came.
        self._touched: dict[str, None] = {}

    def loaded(self, id: str, row: Row | None) -> None:
        self.rows[id] = row
        if row is not None:
            self._stored_at[id] = row.place

    def put(self, id: str, row: Row | None) -> None:
        self.rows[id] = row
        self._touched[id] = None

    def drain(self, deleted: list[Place], inserted: list[Row], updated: list[Row]) -> None:
        """Sort what must be written by how; a row that came back elsewhere is both."""
        for id in self._touched:
            row = self.rows[id]
            place = self._stored_at.get(id)
            if row is not None and place == row.place:
                updated.append(row)
                continue
            if place is not None:
                deleted.append(Place(place))
            if row is not None:
                inserted.append(row)


class Ledger:
    """The transaction of writing verbs."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._head: Head | None = None
        self._characters: Table[CharacterRow] = Table()
        self._instances: Table[InstanceRow] = Table()
        self._values: dict[str, Table[DataRow]] = {}
        # Instances all of whose values are loaded.
        self._complete: set[str] = set()
        # Instances of which more changed than their values.
        self._restructured: set[str] = set()
        self._revisions: list[RevisionRow] = []
        self._changes: list[ChangeRow] = []
        self._tags: set[Tag] = set()
        self._skipped = False
        self.clean = True
        self.now = ""

    # What the engine calls

    async def perform(self, job: WriteJob) -> Written:
        self.clean = True
        self.now = now()
        result = await job.verb(self, *job.arguments)
        return Written(result, (await self._load_head()).revision)

    async def finish(self) -> Commit:
        head = await self._load_head()
        if self._revisions or self._skipped:
            await self._write_rows()
            head.seal()
            await self._transaction.execute_many(sql.UPDATE_HEAD, [head])
            await self._transaction.execute_many(sql.INSERT_REVISION, self._revisions)
            await self._transaction.execute_many(sql.INSERT_CHANGE, self._changes)
        return Commit(head.revision, self._tags)

    async def _write_rows(self) -> None:
        deleted: list[Place] = []
        inserted: list[DataRow] = []
        updated: list[DataRow] = []
        for values in self._values.values():
            values.drain(deleted, inserted, updated)
        await self._write(
            (sql.DELETE_VALUE, deleted), (sql.UPDATE_VALUE, updated), (sql.INSERT_VALUE, inserted)
        )
        await self._write_instances()
        gone: list[Place] = []
        made: list[CharacterRow] = []
        changed: list[CharacterRow] = []
        self._characters.drain(gone, made, changed)
        await self._write(
            (sql.DELETE_CHARACTER, gone),
            (sql.UPDATE_CHARACTER, changed),
            (sql.INSERT_CHARACTER, made),
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

    async def _write(self, *steps: tuple[Statement, Sequence[Any]]) -> None:
        # Deletions come first: a row that came back has the same key and another place.
        for statement, rows in steps:
            if rows:
                await self._transaction.execute_many(statement, rows)

    # What verbs load

    async def _load_head(self) -> Head:
        if self._head is None:
            self._head = await load_head(self._transaction)
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

    # What verbs do

    async def apply(self, changes: list[Change]) -> int:
        """Make these changes one revision; none make none. The revision it is at now."""
        head = await self._load_head()
        if not changes:
            return head.revision
        self.clean = False
        head.revision += 1
        self._revisions.append(
            revision := RevisionRow(head.revision, self.now, head.change + 1, len(changes))
        )
        revision.seal()
        for change in changes:
            await self._apply_one(change, head)
        return head.revision

    async def skip_to(self, revision: int) -> None:
        """Leave out the numbers up to this one; they were given out elsewhere."""
        head = await self._load_head()
        head.revision = max(head.revision, revision)
        self.clean = False
        self._skipped = True

    async def _apply_one(self, change: Change, head: Head) -> None:
        if isinstance(change, SetValue):
            await self._set_value(change, head)
        elif isinstance(change, RemoveValue):
            await self._remove_value(change, head)
        elif isinstance(change, PutInstance):
            await self._put_instance(change, head)
        elif isinstance(change, DropInstance):
            await self._drop_instance(change, head)
        elif isinstance(change, PutCharacter):
            await self._put_character(change, head)
        else:
            await self._drop_character(change, head)

    def _log(
        self, head: Head, space: str, owner: str, key: str, op: str, after: str | None
    ) -> None:
        head.change += 1
        row = ChangeRow(head.change, head.revision, space, owner, key, op, after)
        row.seal()
        self._changes.append(row)

    def _touch_instance(self, instance: InstanceRow, revision: int) -> None:
        instance.revision = revision
        self._instances.put(instance.id, instance)
        self._tags.add(instance_tag(instance.id))
        self._tags.add(character_tag(instance.character_id))

    async def _set_value(self, change: SetValue, head: Head) -> None:
        instance = await self._instance_of(change)
        old = (await self.load_values(change.instance_id, [change.key])).get(change.key)
        if old is None:
            head.place += 1
            head.keys += 1
            instance.keys += 1
        place = head.place if old is None else old.place
        row = DataRow(place, change.instance_id, change.key, change.value, head.revision)
        row.seal()
        instance.digest ^= row.checksum ^ (old.checksum if old is not None else 0)
        self._values[change.instance_id].put(change.key, row)
        self._touch_instance(instance, head.revision)
        self._tags.add(value_tag(change.instance_id, change.key))
        self._log(head, "data", change.instance_id, change.key, change.op, change.value)

    async def _remove_value(self, change: RemoveValue, head: Head) -> None:
        instance = await self._instance_of(change)
        old = (await self.load_values(change.instance_id, [change.key])).get(change.key)
        if old is not None:
            head.keys -= 1
            instance.keys -= 1
            instance.digest ^= old.checksum
            self._values[change.instance_id].put(change.key, None)
        self._touch_instance(instance, head.revision)
        self._tags.add(value_tag(change.instance_id, change.key))
        self._log(head, "data", change.instance_id, change.key, change.op, None)

    async def _instance_of(self, change: SetValue | RemoveValue) -> InstanceRow:
        instance = await self.find_instance(change.instance_id)
        if instance is None:
            raise RuntimeError("A value was changed whose instance does not exist.")
        return instance

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
        self._log(head, "character", change.id, "", op, row.text())

    async def _drop_character(self, change: DropCharacter, head: Head) -> None:
        head.characters -= 1
        self._characters.put(change.id, None)
        self._tags.update((ALL_CHARACTERS, character_tag(change.id)))
        self._log(head, "character", change.id, "", "delete_character", None)

    async def _put_instance(self, change: PutInstance, head: Head) -> None:
        old = await self.find_instance(change.id)
        if old is None:
            head.place += 1
            head.instances += 1
            self._values[change.id] = self._values.get(change.id, Table())
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
        op = "create_instance" if old is None else "update_instance"
        self._log(head, "instance", change.id, "", op, row.text())

    async def _drop_instance(self, change: DropInstance, head: Head) -> None:
        instance = await self.find_instance(change.id)
        if instance is None or instance.keys:
            raise RuntimeError("An instance was dropped that still has values, or is not there.")
        head.instances -= 1
        self._touch_instance(instance, head.revision)
        self._instances.put(change.id, None)
        await self._touch_character(instance.character_id, head.revision)
        self._tags.add(ALL_INSTANCES)
        self._log(head, "instance", change.id, "", "delete_instance", None)

    async def _touch_character(self, character_id: str, revision: int) -> None:
        # Its list of instances changed, which is a change of what is read as one.
        self._tags.add(character_tag(character_id))
        character = await self.find_character(character_id)
        if character is not None:
            character.revision = revision
            character.seal()
            self._characters.put(character_id, character)


async def load_head(transaction: Transaction) -> Head:
    row = await transaction.fetch_one(sql.SELECT_HEAD)
    if row is None:
        raise DatabaseDamaged()
    return Head(*row).verify()


async def make_head(transaction: Transaction, revision: int) -> None:
    """Begin the log of a new database; `revision` is the last one given out before."""
    head = Head(revision, place=0, change=0, characters=0, instances=0, keys=0)
    head.seal()
    await transaction.execute_many(sql.INSERT_HEAD, [head])
