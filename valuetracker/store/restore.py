"""
Going back: a new revision that sets rows to an old state. History is never rewritten.

A restored value names the source changes that had made it, so that it still follows the
story: a later recompute replays those of them that are still live. Those whose place is
hidden at the restore count as unanchored: going back to them was meant.
"""

from __future__ import annotations

import orjson

from valuetracker.errors import CharacterNotFound, ChatNotFound, InstanceNotFound
from valuetracker.records import Restored
from valuetracker.store.chat_state import replayed_records
from valuetracker.store.instances import (
    differs,
    enter_instances_of,
    expect_character,
    rows_to_remove,
)
from valuetracker.store.log.replay import Replay, Source
from valuetracker.store.log.state_at import (
    FormerInstance,
    Moment,
    character_at,
    chat_instances_at,
    find_moment,
    instance_at,
    instances_at,
    shape_at,
    taken_instance_at,
    values_at,
)
from valuetracker.store.operation_guard import guard
from valuetracker.store.rows.entries import BASES, EntryRow, Record
from valuetracker.store.rows.row_types import ChatRow, DataRow, HolderRow
from valuetracker.store.rows.spaces import ROOMS
from valuetracker.store.rows.targets import instance as instance_target
from valuetracker.store.story.point import View, positions_at
from valuetracker.store.tx.changes import (
    Change,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
    SetValue,
)
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import enter_chat, expect, expect_chat


async def restore_instance(tx: Ledger, instance_id: str, revision: int) -> Restored:
    present = await tx.find_instance(instance_id)
    await tx.enter_holder(present)
    moment = await find_moment(tx, revision)
    holder = await tx.find_any_instance(instance_id)
    former = await instance_at(tx, holder, moment) if holder is not None else None
    if former is None:
        raise InstanceNotFound("The instance did not exist at that revision.")
    await expect(tx, instance_target(instance_id), present)
    restoration = Restoration(tx, moment)
    await restoration.restore_instance(former)
    return await restoration.finish()


async def restore_character(tx: Ledger, character_id: str, revision: int) -> Restored:
    present = await enter_instances_of(tx, character_id)
    moment = await find_moment(tx, revision)
    if await character_at(tx, character_id, moment) is None:
        raise CharacterNotFound("The character did not exist at that revision.")
    await expect_character(tx, character_id)
    restoration = Restoration(tx, moment)
    await restoration.restore_character(character_id)
    then = await instances_at(tx, character_id, moment)
    ids = {former.holder.id for former in then}
    for instance in present:
        if instance.id not in ids:
            await restoration.send_away(instance)
    for former in then:
        await restoration.restore_instance(former)
    return await restoration.finish()


async def restore_chat(tx: Ledger, chat_id: str, revision: int) -> Restored:
    """A chat with all that it holds; its chain stays as it is."""
    chat = await enter_chat(tx, chat_id)
    if chat is None:
        raise ChatNotFound()
    moment = await find_moment(tx, revision)
    shape = await shape_at(tx, chat, moment)
    if shape is None or shape.after is None:
        raise ChatNotFound("The chat did not exist at that revision.")
    await expect_chat(tx, chat_id)
    await guard(tx, chat, "restore")
    return await restore_chat_to(tx, chat, moment)


async def restore_chat_to(
    tx: Ledger, chat: ChatRow, moment: Moment, dry_run: bool = False
) -> Restored:
    restoration = Restoration(tx, moment)
    for space in ROOMS:
        room = await tx.find_room(chat, space)
        if room is not None:
            values = await values_at(tx, room, moment)
            await restoration.restore_values(room, values, chat.number)
    await restoration.restore_instances(chat, await chat_instances_at(tx, chat, moment))
    return await restoration.finish(dry_run)


async def restore_view(tx: Ledger, view: View, dry_run: bool = False) -> Restored:
    """A chat as it was at a point of its story."""
    chat = view.chat
    restoration = Restoration(tx, view.moment, view)
    replay = Replay(tx)
    for space in ROOMS:
        room = await tx.find_room(chat, space)
        if room is not None:
            values = await replayed_records(tx, replay, room, view.counts)
            await restoration.restore_values(room, values, chat.number)
    then = await chat_instances_at(tx, chat, view.moment, in_story=True)
    for former in then:
        former.values = await replayed_records(tx, replay, former.holder, view.counts)
    await restoration.restore_instances(chat, then)
    return await restoration.finish(dry_run)


class Restoration:
    """The changes that lead back to a moment, collected into one revision."""

    def __init__(self, tx: Ledger, moment: Moment, view: View | None = None) -> None:
        self._tx = tx
        self._moment = moment
        # A point of the story, if it is more than a moment.
        self._view = view
        self._replay = Replay(tx)
        self._changes: list[Change] = []
        self._changed = 0
        self._warnings: list[str] = []
        self._visible: dict[int, bool] = {}

    async def finish(self, dry_run: bool = False) -> Restored:
        revision = (await self._tx.load_head()).revision
        if not dry_run:
            revision = await self._tx.apply(self._changes)
        return {"revision": revision, "changed": self._changed, "warnings": self._warnings}

    def warn(self, sentence: str) -> None:
        self._warnings.append(sentence)

    async def restore_character(self, character_id: str) -> None:
        """The character as it was then."""
        former = await character_at(self._tx, character_id, self._moment)
        name = former["name"] if former is not None else None
        present = await self._tx.find_character(character_id)
        if present is None or present.name != name:
            self._changes.append(
                PutCharacter(
                    character_id,
                    name,
                    created_at=former["createdAt"] if former is not None else self._tx.now,
                    updated_at=self._tx.now,
                )
            )

    async def _bring_back_character(self, character_id: str) -> None:
        """The character an instance needs, if it has gone meanwhile."""
        wanted = any(
            isinstance(change, PutCharacter) and change.id == character_id
            for change in self._changes
        )
        if not wanted and await self._tx.find_character(character_id) is None:
            await self.restore_character(character_id)

    async def send_away(self, holder: HolderRow) -> None:
        """An instance the character did not have: back where it was, or gone."""
        former = await instance_at(self._tx, holder, self._moment)
        if former is not None:
            await self._put_instance(former)
        else:
            await self._remove_instance(holder)

    async def restore_instances(self, chat: ChatRow, then: list[FormerInstance]) -> None:
        """The instances of a chat: those it had then, and none that were made since."""
        ids = {former.holder.id for former in then}
        for holder in await self._tx.list_holders_of_chat(chat):
            if holder.space == "instance" and holder.id not in ids:
                await self._leave_chat(holder)
        for former in then:
            present = await self._tx.find_instance(former.holder.id)
            if present is not None and present.chat != chat.number:
                self.warn(f"Instance {present.id} is in another chat now and stays there.")
            else:
                await self.restore_instance(former)

    async def _leave_chat(self, holder: HolderRow) -> None:
        """An instance the chat did not have: it goes if it was made since."""
        former = await instance_at(self._tx, holder, self._moment)
        if former is None and self._view is not None:
            former = await taken_instance_at(self._tx, holder, self._moment, self._view.chat.number)
        if former is None:
            await self._remove_instance(holder)
        else:
            self.warn(f"Instance {holder.id} came to this chat later and stays as it is.")

    async def _remove_instance(self, holder: HolderRow) -> None:
        for row in await rows_to_remove(self._tx, holder):
            self._changes.append(RemoveValue(holder, row.key, "restore", "[]"))
        self._changed += holder.keys
        self._changes.append(DropInstance(holder))

    async def restore_instance(self, former: FormerInstance) -> None:
        """An instance as it was then, with the values it had then."""
        chat = await self._put_instance(former)
        await self.restore_values(former.holder, former.values, chat)

    async def restore_values(
        self, holder: HolderRow, values: list[Record], chat: int | None
    ) -> None:
        """The values of a holder that will be in this chat."""
        # The holder as the ledger knows it: what was read of it is a copy.
        known = await self._tx.get_holder(holder.number)
        rows = {row.key: row for row in await self._tx.list_rows(known)}
        then = {record.key: record for record in values}
        for key, row in rows.items():
            if key not in then and self._is_other(row, None):
                await self._restore_value(known, key, None, row, chat)
        # In the order of then, so that keys that come back stand in that order.
        for key, record in then.items():
            if self._is_other(rows[key], record.after):
                await self._restore_value(known, key, record.after, rows[key], chat)

    def _is_other(self, row: DataRow, value: str | None) -> bool:
        """
        Whether something has happened to a key since, or it is another.

        It can be without anything new: as of a message, one that was seen before it may
        come behind it now.
        """
        return row.last > self._moment.revision or row.value != value

    async def _restore_value(
        self, holder: HolderRow, key: str, value: str | None, row: DataRow, chat: int | None
    ) -> None:
        if value != row.value:
            self._changed += 1
        sources = await self._sources(row, chat)
        if value is None:
            self._changes.append(RemoveValue(holder, key, "restore", sources))
        else:
            self._changes.append(SetValue(holder, key, value, "restore", sources))

    async def _sources(self, row: DataRow, chat: int | None) -> str:
        """
        The source changes that made the value, oldest first, as JSON.

        Each is [entry, index in it, whether it counts whatever becomes of its place]. They
        go back to one that no flip can reach: further back nothing can matter again.
        """
        found: list[tuple[int, int, int]] = []
        async for source in self._replay.walk(row.holder, row.key, row.last):
            entry = source.entry
            if not await self._counted(entry):
                continue
            if source.record.op == "restore":
                found += reversed(await self._named(source, chat))
            else:
                found.append((entry.entry, source.index, int(not _follows(entry, chat))))
            if source.record.op in BASES and not entry.is_flippable:
                break
        return orjson.dumps(found[::-1]).decode()

    async def _named(self, restore: Source, chat: int | None) -> list[tuple[int, int, int]]:
        """What a restore stands for, as far as it was live at the moment."""
        found: list[tuple[int, int, int]] = []
        for number, index, always in orjson.loads(restore.record.operand or "[]"):
            entry = await self._replay.entry(restore.entry.subject, number)
            if entry is not None and (always or await self._counted(entry)):
                found.append((number, index, int(always or not _follows(entry, chat))))
        return found

    async def _counted(self, entry: EntryRow) -> bool:
        """Whether a change was one of those that made the old state."""
        if self._view is not None:
            return self._view.counts(entry)
        return entry.revision <= self._moment.revision and await self._was_live(entry)

    async def _was_live(self, entry: EntryRow) -> bool:
        """Whether an entry's place was visible at the moment."""
        if entry.place is None or not entry.anchor_chat:
            return True
        if entry.place not in self._visible:
            places = (await self._tx.load_places([entry.place])).values()
            positions = await positions_at(self._tx, places, self._moment.revision)
            self._visible[entry.place] = positions.get(entry.place) is not None
        return self._visible[entry.place]

    async def _put_instance(self, former: FormerInstance) -> int | None:
        """The instance itself; the chat it will be in."""
        record = former.record
        await self._bring_back_character(record["characterId"])
        present = await self._tx.find_instance(record["id"])
        chat = former.chat
        if present is not None and present.chat != chat:
            # Chats are rooms of their own: one is not taken out of a chat by looking back.
            chat = present.chat
            self.warn(f"Instance {record['id']} stays in the chat it is in now.")
        elif chat is not None:
            row = await self._tx.get_chat(chat)
            if row.gone:
                chat = None
            else:
                await self._tx.enter(row)
        wanted = PutInstance(
            record["id"],
            record["characterId"],
            chat,
            record["name"],
            created_at=record["createdAt"],
            updated_at=self._tx.now,
            origin=former.holder.origin,
        )
        if present is None or differs(present, wanted):
            self._changes.append(wanted)
        return chat


def _follows(entry: EntryRow, chat: int | None) -> bool:
    """Whether a change goes on following the story: its place is visible, and of this chat."""
    if entry.place is None:
        return True
    elsewhere = chat is not None and entry.anchor_chat != chat
    return entry.is_flippable and entry.is_live and not elsewhere
