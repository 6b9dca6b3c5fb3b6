"""Instances: the tracked occurrences of characters."""

from __future__ import annotations

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, InstanceNotFound
from valuetracker.records import Deleted, FullInstance, Instance, Success
from valuetracker.store.log.state_at import (
    At,
    FormerInstance,
    find_moment,
    former_values_record,
    instance_at,
)
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import DataRow, HolderRow, values_record
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import holder_tag
from valuetracker.store.rows.targets import instance as instance_target
from valuetracker.store.story.visibility import make_chat, unanchor
from valuetracker.store.tx.changes import (
    Change,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
)
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import expect, look_up

# A filter that is NULL lets everything through.
SELECT_INSTANCES = Statement(
    f"""
    SELECT {sql.names(sql.HOLDERS)} FROM {{schema}}.holders
    WHERE (CAST(:character_id AS text) IS NULL OR character_id = :character_id)
        AND space = 'instance' AND gone = 0
    ORDER BY place
    """
)


async def instance_record(tx: Reader, holder: HolderRow) -> Instance:
    """An instance as it is answered."""
    assert holder.character_id is not None
    record: Instance = {
        "id": holder.id,
        "characterId": holder.character_id,
        "name": holder.name,
        "chatId": await tx.chat_id(holder.chat),
        "createdAt": holder.created_at,
        "updatedAt": holder.updated_at,
    }
    if holder.origin is not None:
        record["origin"] = holder.origin
    return record


async def list_instances(
    tx: Snapshot, character_id: str | None = None, chat_id: str | None = None
) -> list[Instance]:
    found = [
        HolderRow(*row).verify()
        for row in await tx.fetch_all(SELECT_INSTANCES, character_id=character_id)
    ]
    if character_id is None:
        if len(found) != tx.head.instances:
            raise DatabaseDamaged()
    else:
        character = await tx.find_character(character_id)
        if character is not None:
            character.verify_instances(found)
    # The chat is looked at last, when the rows are known to be right and all there.
    if chat_id is not None:
        chat = await tx.find_chat(chat_id)
        found = [row for row in found if chat is not None and row.chat == chat.number]
    return [await instance_record(tx, row) for row in found]


async def get_instance(tx: Snapshot, instance_id: str, at: At | None = None) -> FullInstance:
    if at is not None:
        moment = await find_moment(tx, at)
        tx.etag = moment.revision
        holder = await tx.find_any_instance(instance_id)
        former = await instance_at(tx, holder, moment) if holder is not None else None
        if former is None:
            raise InstanceNotFound()
        return full_former(former)
    tx.depends_on(holder_tag("instance", instance_id))
    instance = await tx.find_instance(instance_id)
    if instance is None:
        raise InstanceNotFound()
    tx.etag = instance.revision
    return {
        "instance": await instance_record(tx, instance),
        "data": values_record(await tx.list_values(instance)),
    }


def full_former(former: FormerInstance) -> FullInstance:
    return {"instance": former.record, "data": former_values_record(former.values)}


class Keep:
    """Stands for a field the caller left out: whatever is there stays."""


KEEP = Keep()


async def put_instance(
    tx: Ledger,
    instance_id: str,
    character_id: str,
    name: str | None,
    chat_id: str | Keep | None = KEEP,
) -> Instance:
    old = await look_up(tx, instance_target(instance_id))
    if isinstance(chat_id, str):
        chat = await tx.find_chat(chat_id)
        await tx.enter(chat, unknown=chat is None)
    await expect(tx, instance_target(instance_id), old)
    number = old.chat if old is not None else None
    if not isinstance(chat_id, Keep):
        number = (await make_chat(tx, chat_id)).number if chat_id is not None else None
    changes: list[Change] = []
    if await tx.find_character(character_id) is None:
        changes.append(PutCharacter(character_id, None, created_at=tx.now, updated_at=tx.now))
    wanted = PutInstance(
        instance_id,
        character_id,
        chat=number,
        name=name or (old.name if old is not None else None),
        created_at=tx.now if old is None else old.created_at,
        updated_at=tx.now,
        origin=old.origin if old is not None else None,
    )
    if old is None or differs(old, wanted):
        changes.append(wanted)
    if old is not None and old.chat != number:
        await unanchor(tx, old)
    await tx.apply(changes)
    instance = await tx.find_instance(instance_id)
    assert instance is not None
    return await instance_record(tx, instance)


def differs(old: HolderRow, wanted: PutInstance) -> bool:
    return (wanted.character_id, wanted.chat, wanted.name) != (
        old.character_id,
        old.chat,
        old.name,
    )


async def delete_instance(tx: Ledger, instance_id: str) -> Success:
    instance = await look_up(tx, instance_target(instance_id))
    if instance is None:
        raise InstanceNotFound()
    await expect(tx, instance_target(instance_id), instance)
    await tx.apply(await removal_of(tx, instance))
    return {"success": True}


async def delete_instances_of(tx: Ledger, character_id: str) -> Deleted:
    instances = await enter_instances_of(tx, character_id)
    await expect_character(tx, character_id)
    await tx.apply([change for each in instances for change in await removal_of(tx, each)])
    return {"success": True, "deletedCount": len(instances)}


async def enter_instances_of(tx: Ledger, character_id: str) -> list[HolderRow]:
    """The instances of a character, if the caller may write to all of them."""
    instances = await tx.list_instances_of(character_id)
    for each in instances:
        await tx.enter_holder(each)
    return instances


async def removal_of(tx: Ledger, holder: HolderRow) -> list[Change]:
    """The changes that take an instance away: each of its values, then itself."""
    rows = await rows_to_remove(tx, holder)
    return [*(RemoveValue(holder, row.key) for row in rows), DropInstance(holder)]


async def rows_to_remove(tx: Ledger, holder: HolderRow) -> list[DataRow]:
    """The keys that go with an instance."""
    # Also what was removed at a place: with that removal gone it must not be back.
    return [row for row in await tx.list_rows(holder) if row.value is not None or row.anchored]


async def expect_character(tx: Ledger, character_id: str) -> None:
    """Refuse if the character or any of its instances changed after what the caller saw."""
    if tx.context.expected is not None:
        character = await tx.find_any_character(character_id)
        if character is None:
            return
        instances = await tx.list_instances_of(character_id)
        tx.expect(max([character.revision, *(each.revision for each in instances)]))
