"""Values: any JSON under a key of an instance."""

from __future__ import annotations

from typing import Any

import orjson

from valuetracker.errors import DataKeyNotFound, InstanceNotFound
from valuetracker.model import Removed, Success, SuccessMessage, Values, ValueSet
from valuetracker.store.changes import Change, RemoveValue, SetValue
from valuetracker.store.instances import expect_instance
from valuetracker.store.ledger import Ledger, loading
from valuetracker.store.log import At, find_change, find_moment, values_at
from valuetracker.store.operations import merge
from valuetracker.store.patch import patched
from valuetracker.store.rows import InstanceRow, former_values_record, values_record
from valuetracker.store.snapshot import Snapshot
from valuetracker.store.tags import instance_tag, value_tag
from valuetracker.values import canonical


async def list_values(tx: Snapshot, instance_id: str, at: At | None = None) -> Values:
    if at is not None:
        moment = await find_moment(tx, at)
        tx.etag = moment.revision
        return former_values_record(await values_at(tx, instance_id, moment))
    tx.depends_on(instance_tag(instance_id))
    instance = await tx.find_instance(instance_id)
    if instance is None:
        tx.etag = await tx.last_change("instance", instance_id)
        return {}
    tx.etag = instance.revision
    return values_record(await tx.list_values(instance))


async def find_value(tx: Snapshot, instance_id: str, key: str, at: At | None = None) -> Values:
    if at is not None:
        moment = await find_moment(tx, at)
        tx.etag = moment.revision
        change = await find_change(tx, "data", instance_id, key, moment.change)
        return former_values_record([change] if change is not None else [])
    tx.depends_on(value_tag(instance_id, key))
    row = await tx.find_value(instance_id, key)
    if row is None:
        tx.etag = await tx.last_change("data", instance_id, key)
        return {}
    tx.etag = row.revision
    return values_record([row])


@loading(lambda instance_id, key, value: (instance_id, [key]))
async def set_value(tx: Ledger, instance_id: str, key: str, value: str) -> ValueSet:
    await get_instance_row(tx, instance_id)
    await _expect_key(tx, instance_id, key)
    await tx.apply([SetValue(instance_id, key, value)])
    return {"success": True, "key": key, "value": orjson.Fragment(value)}


async def override_values(tx: Ledger, instance_id: str, values: dict[str, str]) -> SuccessMessage:
    """Replace all values. Keys that stay keep their places; the new ones come after them."""
    await get_instance_row(tx, instance_id)
    await expect_instance(tx, instance_id)
    gone = [row.key for row in await tx.list_values(instance_id) if row.key not in values]
    await tx.apply(
        [
            *(RemoveValue(instance_id, key) for key in gone),
            *(SetValue(instance_id, key, value) for key, value in values.items()),
        ]
    )
    return {"success": True, "message": "Instance data overridden successfully"}


@loading(lambda instance_id, values: (instance_id, list(values)))
async def merge_values(tx: Ledger, instance_id: str, values: dict[str, str]) -> SuccessMessage:
    await get_instance_row(tx, instance_id)
    await expect_instance(tx, instance_id)
    await tx.apply([SetValue(instance_id, key, value) for key, value in values.items()])
    return {"success": True, "message": "Instance data merged successfully"}


@loading(lambda instance_id, keys: (instance_id, keys))
async def remove_values(tx: Ledger, instance_id: str, keys: list[str]) -> Removed:
    await get_instance_row(tx, instance_id)
    await expect_instance(tx, instance_id)
    rows = await tx.load_values(instance_id, keys)
    present = [key for key in dict.fromkeys(keys) if rows.get(key) is not None]
    await tx.apply([RemoveValue(instance_id, key) for key in present])
    return {"success": True, "removedCount": len(present)}


@loading(lambda instance_id, key: (instance_id, [key]))
async def remove_value(tx: Ledger, instance_id: str, key: str) -> Success:
    if await tx.find_instance(instance_id) is None:
        raise DataKeyNotFound()
    if (await tx.load_values(instance_id, [key])).get(key) is None:
        raise DataKeyNotFound()
    await _expect_key(tx, instance_id, key)
    await tx.apply([RemoveValue(instance_id, key)])
    return {"success": True}


async def clear_values(tx: Ledger, instance_id: str) -> Success:
    await get_instance_row(tx, instance_id)
    await expect_instance(tx, instance_id)
    values = await tx.list_values(instance_id)
    await tx.apply([RemoveValue(instance_id, row.key) for row in values])
    return {"success": True}


async def merge_patch_values(tx: Ledger, instance_id: str, patch: dict[str, Any]) -> Values:
    """
    Merge a patch (RFC 7396) into the values.

    Each key is logged as what the patch does to it: `remove`, `merge` into an object, or
    `set`, so that a merge can be replayed on another object than this one.
    """
    await get_instance_row(tx, instance_id)
    await expect_instance(tx, instance_id)
    rows = await tx.load_values(instance_id, list(patch))
    changes: list[Change] = []
    for key, value in patch.items():
        row = rows.get(key)
        if value is None:
            if row is not None:
                changes.append(RemoveValue(instance_id, key))
            continue
        # Also the check that it is not too deep, before anything recurses through it.
        operand = canonical(value)
        current = orjson.loads(row.value) if row is not None else {}
        after = canonical(merge(current, value))
        if isinstance(value, dict) and isinstance(current, dict):
            changes.append(SetValue(instance_id, key, after, "merge", operand))
        else:
            changes.append(SetValue(instance_id, key, after))
    await tx.apply(changes)
    return values_record(await tx.list_values(instance_id))


async def json_patch_values(tx: Ledger, instance_id: str, patch: list[Any]) -> Values:
    """
    Apply a JSON Patch (RFC 6902) to the values, all of it or nothing.

    Logged as `set` or `remove` of each key it names outside of a `test`.
    """
    await get_instance_row(tx, instance_id)
    await expect_instance(tx, instance_id)
    before = {row.key: row.value for row in await tx.list_values(instance_id)}
    document, named = patched({key: orjson.loads(text) for key, text in before.items()}, patch)
    changes: list[Change] = []
    for key in named:
        if key in document:
            changes.append(SetValue(instance_id, key, canonical(document[key])))
        elif key in before:
            changes.append(RemoveValue(instance_id, key))
    await tx.apply(changes)
    return values_record(await tx.list_values(instance_id))


async def get_instance_row(tx: Ledger, instance_id: str) -> InstanceRow:
    instance = await tx.find_instance(instance_id)
    if instance is None:
        raise InstanceNotFound()
    return instance


async def _expect_key(tx: Ledger, instance_id: str, key: str) -> None:
    if tx.context.expected is not None:
        row = (await tx.load_values(instance_id, [key])).get(key)
        tx.expect(
            row.revision if row is not None else await tx.last_change("data", instance_id, key)
        )
