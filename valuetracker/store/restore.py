"""
Restoring: a new revision that sets rows to an old state. History is never rewritten.

A restored value names the source changes that had made it, so that it still follows the
story: a later recompute replays those of them that are still live. Those whose place is
hidden at the restore count as unanchored, because the caller asked for them.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from valuetracker.errors import (
    CharacterNotFound,
    ChatNotFound,
    DataKeyNotFound,
    InstanceNotFound,
)
from valuetracker.records import ChangedValue, Restored
from valuetracker.store.log.replay import Replay, fold
from valuetracker.store.log.state_at import (
    FormerInstance,
    character_at,
    chat_instances_at,
    find_moment,
    instance_at,
    instances_at,
    shape_at,
    values_at,
)
from valuetracker.store.rows.chat_rows import check_no_operations
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import LoggedChange
from valuetracker.store.rows.holders import DataRow, HolderRow, changed_value
from valuetracker.store.rows.numbers import Moment
from valuetracker.store.rows.spaces import SPACES, Address
from valuetracker.store.rows.spaces import instance as address_of
from valuetracker.store.story.contents import instances_of, replayed_values
from valuetracker.store.story.former_sources import Chats, FormerSources
from valuetracker.store.story.point import Point
from valuetracker.store.tx.binding import leave_chat
from valuetracker.store.tx.changes import Change, ChangeValue, PutCharacter, PutInstance
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.removal import removal_of
from valuetracker.store.tx.write_target import (
    check_character_if_match,
    check_chat_if_match,
    check_if_match,
    find_writable_holder,
    get_writable_chat,
    list_writable_instances,
)


async def restore_instance(
    tx: Ledger, instance_id: str, revision: int, dry_run: bool = False
) -> Restored:
    present = await tx.find_instance(instance_id)
    await tx.authorize_holder(present)
    moment = await find_moment(tx, revision)
    holder = await tx.find_any_instance(instance_id)
    former = await instance_at(tx, holder, moment) if holder is not None else None
    if former is None:
        raise InstanceNotFound("The instance did not exist at that revision.")
    await check_if_match(tx, address_of(instance_id), present)
    restoration = Restoration(tx, moment, dry_run=dry_run)
    await restoration.restore_instance(former)
    return await restoration.finish()


async def restore_value(
    tx: Ledger, address: Address, key: str, revision: int, dry_run: bool = False
) -> Restored:
    """Restore one key; where it was absent, it is removed."""
    holder = await find_writable_holder(tx, address)
    if holder is None and address.space == "instance":
        raise InstanceNotFound()
    if holder is None and await tx.find_chat(address.id) is None:
        raise ChatNotFound()
    row = await tx.find_value(holder, key) if holder is not None else None
    if holder is None or row is None:
        raise DataKeyNotFound()
    tx.check_if_match(row.revision)
    moment = await find_moment(tx, revision)
    then = [value for value in await values_at(tx, holder, moment) if value.key == key]
    restoration = Restoration(tx, moment, dry_run=dry_run)
    home = await _home_at(tx, holder, moment)
    await restoration.restore_value(holder, row, then[0].after if then else None, home)
    return await restoration.finish()


@dataclass(slots=True, frozen=True)
class Home:
    """The chat that a holder was in, which may be none."""

    chat: int | None


async def _home_at(tx: Ledger, holder: HolderRow, moment: Moment) -> Home | None:
    """Return where a holder was at a moment; None if it, or the chat of a space, was not there."""
    if holder.space == "instance":
        former = await instance_at(tx, holder, moment)
        return Home(former.chat) if former is not None else None
    assert holder.chat is not None
    shape = await shape_at(tx, await tx.get_chat(holder.chat), moment)
    return Home(holder.chat) if shape is not None and shape.after is not None else None


async def restore_character(
    tx: Ledger, character_id: str, revision: int, dry_run: bool = False
) -> Restored:
    present = await list_writable_instances(tx, character_id)
    moment = await find_moment(tx, revision)
    if await character_at(tx, character_id, moment) is None:
        raise CharacterNotFound("The character did not exist at that revision.")
    await check_character_if_match(tx, character_id)
    restoration = Restoration(tx, moment, dry_run=dry_run)
    await restoration.restore_character(character_id)
    then = await instances_at(tx, character_id, moment)
    ids = {former.holder.id for former in then}
    for instance in present:
        if instance.id not in ids:
            await restoration.send_away(instance)
    for former in then:
        await restoration.restore_instance(former)
    return await restoration.finish()


async def restore_chat(tx: Ledger, chat_id: str, revision: int, dry_run: bool = False) -> Restored:
    """Restore a chat with all that it holds; its chain stays as it is."""
    chat = await get_writable_chat(tx, chat_id)
    moment = await find_moment(tx, revision)
    shape = await shape_at(tx, chat, moment)
    if shape is None or shape.after is None:
        raise ChatNotFound("The chat did not exist at that revision.")
    await check_chat_if_match(tx, chat_id)
    if not dry_run:
        await check_no_operations(tx, chat, "restore")
    return await restore_chat_to(tx, chat, moment, dry_run)


async def restore_chat_to(
    tx: Ledger, chat: ChatRow, moment: Moment, dry_run: bool = False
) -> Restored:
    restoration = Restoration(tx, moment, dry_run=dry_run)
    for space in SPACES:
        space_holder = await tx.find_space(chat, space)
        if space_holder is not None:
            values = await values_at(tx, space_holder, moment)
            await restoration.restore_values(space_holder, values, chat.number, chat.number)
    await restoration.restore_instances(chat, await chat_instances_at(tx, chat, moment))
    return await restoration.finish()


async def restore_point(tx: Ledger, point: Point, dry_run: bool = False) -> Restored:
    """Restore a chat to a point of its story."""
    chat = point.chat
    restoration = Restoration(tx, Moment(point.revision), point, dry_run)
    replay = Replay(tx)
    for space in SPACES:
        space_holder = await tx.find_space(chat, space)
        if space_holder is not None:
            values = await replayed_values(tx, replay, space_holder, point)
            await restoration.restore_values(space_holder, values, chat.number, chat.number)
    then = await instances_of(tx, replay, point)
    for former in then:
        former.values = await replayed_values(tx, replay, former.holder, point)
    await restoration.restore_instances(chat, then)
    return await restoration.finish()


class Restoration:
    """
    Collects the changes that lead back to a moment, as one revision.

    A dry run changes nothing, and lists the values that would change.
    """

    def __init__(
        self, tx: Ledger, moment: Moment, point: Point | None = None, dry_run: bool = False
    ) -> None:
        self._tx = tx
        self._moment = moment
        self._sources = FormerSources(tx, moment, point)
        self._dry_run = dry_run
        self._changes: list[Change] = []
        self._changed = 0
        self._listed: list[ChangedValue] = []
        self._warnings: list[str] = []

    async def finish(self) -> Restored:
        revision = (await self._tx.load_head()).revision
        if not self._dry_run:
            revision = await self._tx.apply(self._changes)
        restored: Restored = {
            "revision": revision,
            "changed": self._changed,
            "warnings": self._warnings,
        }
        if self._dry_run:
            restored["changes"] = self._listed
        return restored

    def _count(self, holder: HolderRow, row: DataRow, value: str | None) -> None:
        """Count a value that becomes another one."""
        if value != row.value:
            self._changed += 1
            if self._dry_run:
                self._listed.append(changed_value(holder, row.key, row.value, value))

    def warn(self, sentence: str) -> None:
        self._warnings.append(sentence)

    async def restore_character(self, character_id: str) -> None:
        """Restore a character to the moment."""
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
        """Restore the character an instance needs, if it has been deleted."""
        wanted = any(
            isinstance(change, PutCharacter) and change.id == character_id
            for change in self._changes
        )
        if not wanted and await self._tx.find_character(character_id) is None:
            await self.restore_character(character_id)

    async def send_away(self, holder: HolderRow) -> None:
        """Move an instance the character did not have back where it was, or delete it."""
        former = await instance_at(self._tx, holder, self._moment)
        if former is not None:
            await self._put_instance(former)
        else:
            await self._remove_instance(holder)

    async def restore_instances(self, chat: ChatRow, then: list[FormerInstance]) -> None:
        """Restore the instances of a chat: those it had, and none that were created since."""
        ids = {former.holder.id for former in then}
        for holder in await self._tx.list_holders_of_chat(chat):
            if holder.space == "instance" and holder.id not in ids:
                await self._send_off(holder)
        for former in then:
            present = await self._tx.find_instance(former.holder.id)
            if present is not None and present.chat != chat.number:
                self.warn(f"Instance {present.id} is in another chat now and stays there.")
            else:
                await self.restore_instance(former)

    async def _send_off(self, holder: HolderRow) -> None:
        """Delete an instance the chat did not have, unless it came from elsewhere since."""
        former = await instance_at(self._tx, holder, self._moment)
        if former is None or former.chat == holder.chat:
            await self._remove_instance(holder)
        else:
            self.warn(f"Instance {holder.id} came to this chat later and stays as it is.")

    async def _remove_instance(self, holder: HolderRow) -> None:
        self._changes += await removal_of(self._tx, holder, "restore", "[]")
        for row in await self._tx.list_values(holder):
            self._count(holder, row, None)

    async def restore_instance(self, former: FormerInstance) -> None:
        """Restore an instance with its values."""
        chat = await self._put_instance(former)
        await self.restore_values(former.holder, former.values, chat, former.chat)

    async def restore_values(
        self, holder: HolderRow, values: list[LoggedChange], chat: int | None, then: int | None
    ) -> None:
        """Restore the values of a holder that will be in a chat, and was in one then."""
        chats = Chats(chat, then)
        # The row that the cache has: the one read from the log is a copy.
        known = await self._tx.get_holder(holder.number)
        rows = {row.key: row for row in await self._tx.list_rows(known)}
        former = {value.key: value for value in values}
        for key, row in rows.items():
            if key not in former:
                await self._restore_value(known, row, None, chats)
        # In the order of then, so that keys that come back get that order.
        for key, value in former.items():
            await self._restore_value(known, rows[key], value.after, chats)

    async def restore_value(
        self, holder: HolderRow, row: DataRow, value: str | None, then: Home | None
    ) -> None:
        """Restore one key of a holder, which stays where it is; None if there was no holder."""
        if then is not None:
            await self._restore_value(holder, row, value, Chats(holder.chat, then.chat))
        elif await self._sources.is_other(row, None):
            # A branch took over changes from before it existed, and none of them made this.
            self._count(holder, row, None)
            self._changes.append(ChangeValue(holder, row.key, None, "restore", "[]"))

    async def _restore_value(
        self, holder: HolderRow, row: DataRow, value: str | None, chats: Chats
    ) -> None:
        if not await self._sources.is_other(row, value):
            return
        self._count(holder, row, value)
        named = await self._sources.find(holder, row, chats)
        order = await self._sources.order(holder, chats.now)
        # If messages were moved since, the same changes make another value: it follows none then.
        now, _ = fold(sorted((each.source for each in named), key=order.key))
        follows = now == value
        names = [(each.source.entry.entry, each.source.index, each.always) for each in named]
        operand = orjson.dumps(names).decode() if follows else None
        reachable = follows and any(each.is_flippable for each in named)
        self._changes.append(
            ChangeValue(holder, row.key, value, "restore", operand, reachable=reachable)
        )

    async def _put_instance(self, former: FormerInstance) -> int | None:
        """Restore the instance itself; return the chat it will be in."""
        record = former.record
        await self._bring_back_character(record["characterId"])
        present = await self._tx.find_instance(record["id"])
        chat = former.chat
        if present is not None and present.chat != chat:
            # A restore never moves an instance out of the chat it is in.
            chat = present.chat
            self.warn(f"Instance {record['id']} stays in the chat it is in now.")
        elif chat is not None:
            row = await self._tx.get_chat(chat)
            if row.deleted:
                chat = None
            else:
                await self._tx.authorize(row)
        wanted = PutInstance(
            record["id"],
            record["characterId"],
            chat,
            record["name"],
            created_at=record["createdAt"],
            updated_at=self._tx.now,
            origin=former.holder.origin,
        )
        if present is None or wanted.differs_from(present):
            self._changes.append(wanted)
        if present is None and not self._dry_run:
            await leave_chat(self._tx, await self._tx.get_holder(former.holder.number), chat)
        return chat
