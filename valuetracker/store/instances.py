"""Instances: tracked occurrences of characters."""

from __future__ import annotations

from typing import Any

from valuetracker.errors import InstanceNotFound
from valuetracker.records import Deleted, FullInstance, Instance, InstancePage, Success
from valuetracker.store.log.state_at import (
    At,
    find_moment,
    full_former,
    instance_at,
    shown_instance,
)
from valuetracker.store.rows.holders import SELECT_PAGE_OF_INSTANCES, HolderRow, values_record
from valuetracker.store.rows.pages import Page
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import instance as address_of
from valuetracker.store.rows.tags import ALL_CHATS, ALL_INSTANCES, holder_tag
from valuetracker.store.tx.binding import leave_chat
from valuetracker.store.tx.changes import Change, PutCharacter, PutInstance
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.removal import removal_of
from valuetracker.store.tx.write_target import (
    check_character_if_match,
    check_if_match,
    find_writable_holder,
    list_writable_instances,
)


async def list_instances(
    tx: Snapshot, character_id: str | None = None, chat_id: str | None = None
) -> list[Instance]:
    tx.lists(ALL_INSTANCES)
    if character_id is None:
        found = await tx.list_instances()
    else:
        found = await tx.list_instances_of(character_id)
    if chat_id is not None:
        tx.lists(ALL_CHATS)
        chat = await tx.find_chat(chat_id)
        found = [row for row in found if chat is not None and row.chat == chat.number]
    return [await shown_instance(tx, row.shape()) for row in found]


async def list_page_of_instances(
    tx: Snapshot, page: Page, character_id: str | None = None, chat_id: str | None = None
) -> InstancePage:
    tx.lists(ALL_INSTANCES)
    wanted: dict[str, Any] = {}
    if character_id is not None:
        wanted["character_id"] = character_id
    if chat_id is not None:
        tx.lists(ALL_CHATS)
        chat = await tx.find_chat(chat_id)
        if chat is None:
            return {"items": [], "next": None}
        wanted["chat"] = chat.number
    statement = SELECT_PAGE_OF_INSTANCES[tuple(wanted)]
    rows, cursor = await tx.read_page(statement, HolderRow, page, **wanted)
    return {"items": [await shown_instance(tx, row.shape()) for row in rows], "next": cursor}


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
        "instance": await shown_instance(tx, instance.shape()),
        "data": values_record(await tx.list_values(instance)),
    }


class Keep:
    """Stands for a field the caller left out: it keeps its value."""


KEEP = Keep()


async def put_instance(
    tx: Ledger,
    instance_id: str,
    character_id: str,
    name: str | None,
    chat_id: str | Keep | None = KEEP,
) -> Instance:
    old = await find_writable_holder(tx, address_of(instance_id))
    if isinstance(chat_id, str):
        chat = await tx.find_chat(chat_id)
        await tx.authorize(chat, unknown=chat is None)
    await check_if_match(tx, address_of(instance_id), old)
    number = old.chat if old is not None else None
    if not isinstance(chat_id, Keep):
        number = (await tx.get_or_create_chat(chat_id)).number if chat_id is not None else None
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
    if old is None or wanted.differs_from(old):
        changes.append(wanted)
    known = await tx.find_any_instance(instance_id)
    if known is not None:
        await leave_chat(tx, known, number)
    await tx.apply(changes)
    instance = await tx.find_instance(instance_id)
    assert instance is not None
    return await shown_instance(tx, instance.shape())


async def delete_instance(tx: Ledger, instance_id: str) -> Success:
    instance = await find_writable_holder(tx, address_of(instance_id))
    if instance is None:
        raise InstanceNotFound()
    await check_if_match(tx, address_of(instance_id), instance)
    await tx.apply(await removal_of(tx, instance))
    return {"success": True}


async def delete_instances_of(tx: Ledger, character_id: str) -> Deleted:
    instances = await list_writable_instances(tx, character_id)
    await check_character_if_match(tx, character_id)
    await tx.apply([change for each in instances for change in await removal_of(tx, each)])
    return {"success": True, "deletedCount": len(instances)}
