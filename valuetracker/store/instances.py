"""Instances: the tracked occurrences of characters."""

from __future__ import annotations

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, InstanceNotFound
from valuetracker.model import Deleted, FullInstance, Instance, Success
from valuetracker.store.changes import (
    Change,
    DropInstance,
    PutCharacter,
    PutInstance,
    RemoveValue,
)
from valuetracker.store.ledger import Ledger
from valuetracker.store.log import At, find_moment, instance_at, values_at
from valuetracker.store.rows import InstanceRow, former_values_record, values_record
from valuetracker.store.snapshot import Snapshot
from valuetracker.store.tags import instance_tag

# A filter that is NULL lets everything through.
SELECT_INSTANCES = Statement(
    """
    SELECT cell, place, id, character_id, chat_id, name, created_at, updated_at,
        revision, keys, digest, checksum
    FROM {schema}.instances
    WHERE CAST(:character_id AS text) IS NULL OR character_id = :character_id
    ORDER BY place
    """
)


async def list_instances(
    tx: Snapshot, character_id: str | None = None, chat_id: str | None = None
) -> list[Instance]:
    found = [
        InstanceRow(*row).verify()
        for row in await tx.fetch_all(SELECT_INSTANCES, character_id=character_id)
    ]
    if character_id is None:
        if len(found) != tx.head.instances:
            raise DatabaseDamaged()
    else:
        character = await tx.find_character(character_id)
        if character is not None:
            character.verify_instances(len(found))
    # The chat is looked at last, when the rows are known to be right and all there.
    return [row.record() for row in found if chat_id is None or row.chat_id == chat_id]


async def get_instance(tx: Snapshot, instance_id: str, at: At | None = None) -> FullInstance:
    if at is not None:
        moment = await find_moment(tx, at)
        tx.etag = moment.revision
        former = await instance_at(tx, instance_id, moment)
        if former is None:
            raise InstanceNotFound()
        values = await values_at(tx, instance_id, moment)
        return {"instance": former, "data": former_values_record(values)}
    tx.depends_on(instance_tag(instance_id))
    instance = await tx.find_instance(instance_id)
    if instance is None:
        raise InstanceNotFound()
    tx.etag = instance.revision
    return {
        "instance": instance.record(),
        "data": values_record(await tx.list_values(instance)),
    }


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
    old = await tx.find_instance(instance_id)
    await expect_instance(tx, instance_id)
    changes: list[Change] = []
    if await tx.find_character(character_id) is None:
        changes.append(PutCharacter(character_id, None, created_at=tx.now, updated_at=tx.now))
    old_chat = old.chat_id if old is not None else None
    old_name = old.name if old is not None else None
    wanted = PutInstance(
        instance_id,
        character_id,
        chat_id=old_chat if isinstance(chat_id, Keep) else chat_id,
        name=name or old_name,
        created_at=tx.now if old is None else old.created_at,
        updated_at=tx.now,
    )
    if old is None or (wanted.character_id, wanted.chat_id, wanted.name) != (
        old.character_id,
        old.chat_id,
        old.name,
    ):
        changes.append(wanted)
    await tx.apply(changes)
    instance = await tx.find_instance(instance_id)
    assert instance is not None
    return instance.record()


async def delete_instance(tx: Ledger, instance_id: str) -> Success:
    if await tx.find_instance(instance_id) is None:
        raise InstanceNotFound()
    await expect_instance(tx, instance_id)
    await tx.apply(await removal_of(tx, instance_id))
    return {"success": True}


async def delete_instances_of(tx: Ledger, character_id: str) -> Deleted:
    await expect_character(tx, character_id)
    instances = await tx.list_instances_of(character_id)
    await tx.apply([change for each in instances for change in await removal_of(tx, each.id)])
    return {"success": True, "deletedCount": len(instances)}


async def removal_of(tx: Ledger, instance_id: str) -> list[Change]:
    """The changes that take an instance away: each of its values, then itself."""
    values = await tx.list_values(instance_id)
    return [
        *(RemoveValue(instance_id, row.key, anchored=False) for row in values),
        DropInstance(instance_id),
    ]


async def expect_instance(tx: Ledger, instance_id: str) -> None:
    """Refuse if the instance or any of its values changed after what the caller saw."""
    if tx.context.expected is not None:
        instance = await tx.find_instance(instance_id)
        tx.expect(
            instance.revision
            if instance is not None
            else await tx.last_change("instance", instance_id)
        )


async def expect_character(tx: Ledger, character_id: str) -> None:
    """Refuse if the character or any of its instances changed after what the caller saw."""
    if tx.context.expected is not None:
        character = await tx.find_character(character_id)
        if character is None:
            tx.expect(await tx.last_change("character", character_id))
            return
        instances = await tx.list_instances_of(character_id)
        tx.expect(max([character.revision, *(each.revision for each in instances)]))
