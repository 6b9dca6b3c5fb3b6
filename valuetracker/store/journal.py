"""
What changes do to the rows and leave in the log: one place for both.

A `Journal` belongs to one group of writes. It brings the rows of the working set to what
the changes make of them and collects the log rows and what was touched, all in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

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
from valuetracker.store.rows import (
    CharacterRow,
    DataRow,
    Head,
    InstanceRow,
    RevisionRow,
    StoredChange,
    change_checksum,
    data_checksum,
)
from valuetracker.store.tags import EVERYTHING, Tag, character_tag, instance_tag
from valuetracker.store.working import WorkingSet


class Journal:
    """The changes of one group, as they are made."""

    def __init__(self, rows: WorkingSet) -> None:
        self._rows = rows
        self._revisions: list[RevisionRow] = []
        self._changes: list[StoredChange] = []
        self._context = NO_CONTEXT
        # What the changes have touched.
        self.tags: set[Tag] = {EVERYTHING}

    def take(self) -> tuple[list[RevisionRow], list[StoredChange]]:
        """The log rows collected since last asked."""
        taken = self._revisions, self._changes
        self._revisions, self._changes = [], []
        return taken

    async def record(
        self, changes: Sequence[Change], head: Head, now: str, context: Context
    ) -> None:
        """Make these changes the next revision."""
        self._context = context
        head.revision += 1
        revision = RevisionRow(head.revision, now, context.actor, head.change + 1, len(changes))
        revision.seal()
        self._revisions.append(revision)
        await self._load_for(changes)
        for instance_id, run in groupby(changes, _set_in):
            if instance_id is not None:
                self._set_values(instance_id, cast(Iterable[SetValue], run), head)
                continue
            for change in run:
                await self._apply_one(change, head)

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
        self._changes.append((*columns, change_checksum(*columns, *name), *name))

    def _touch_instance(self, instance: InstanceRow, revision: int) -> None:
        if instance.revision != revision or not self._rows.instances.is_touched(instance.id):
            instance.revision = revision
            self._rows.instances.put(instance.id, instance)
            self.tags.add(instance_tag(instance.id))
            self.tags.add(character_tag(instance.character_id))

    def _set_values(self, instance_id: str, changes: Iterable[SetValue], head: Head) -> None:
        # Nearly all writing goes through here, key by key, so what is the same for all
        # keys of an instance is done once, and nothing is called that need not be.
        instance = self._instance_of(instance_id)
        self._touch_instance(instance, head.revision)
        table = self._rows.values[instance_id]
        revision = head.revision
        number = head.change
        chat_id = instance.chat_id or self._context.chat_id
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
            self.tags.add(("value", instance_id, key))
            anchor = (change.anchor or self._context.anchor) if change.anchored else None
            message = anchor.message_id if anchor is not None else None
            swipe = anchor.swipe if anchor is not None else None
            number += 1
            checksum = change_checksum(
                number, revision, cell, op, operand, value, place, None, chat_id, message,
                swipe, 1, 1, "data", instance_id, key,
            )  # fmt: skip
            self._changes.append(
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
        self.tags.add(("value", instance_id, key))
        chat_id = instance.chat_id or self._context.chat_id
        anchor = (change.anchor or self._context.anchor) if change.anchored else None
        name = ("data", instance_id, key)
        self._log(head, name, cell, change.op, None, None, change.operand, None, chat_id, anchor)

    def _instance_of(self, instance_id: str) -> InstanceRow:
        instance = self._rows.instances.rows.get(instance_id)
        if instance is None:
            raise RuntimeError("A value was changed whose instance does not exist.")
        return instance

    async def _put_character(self, change: PutCharacter, head: Head) -> None:
        old = await self._rows.find_character(change.id)
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
        self.tags.add(character_tag(change.id))
        op = "create_character" if old is None else "update_character"
        self._log(head, name, row.cell, op, row.text(), row.place)

    def _drop_character(self, change: DropCharacter, head: Head) -> None:
        name = ("character", change.id, "")
        head.characters -= 1
        self._rows.characters.put(change.id, None)
        self.tags.add(character_tag(change.id))
        self._log(head, name, self._rows.cell(*name), "delete_character", None, None)

    async def _put_instance(self, change: PutInstance, head: Head) -> None:
        old = await self._rows.find_instance(change.id)
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
        instance = await self._rows.find_instance(change.id)
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
        self.tags.add(character_tag(character_id))
        character = await self._rows.find_character(character_id)
        if character is not None:
            character.instances += more
            character.revision = revision
            character.seal()
            self._rows.characters.put(character_id, character)


def _set_in(change: Change) -> str | None:
    """The instance a value is set in; None for any other change."""
    return change.instance_id if isinstance(change, SetValue) else None
