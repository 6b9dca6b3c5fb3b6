"""Values: any JSON under a key of an instance."""

from __future__ import annotations

import orjson

from valuetracker.errors import DataKeyNotFound, InstanceNotFound
from valuetracker.model import Removed, Success, SuccessMessage, Values, ValueSet
from valuetracker.store.changes import RemoveValue, SetValue
from valuetracker.store.ledger import Ledger, instance_tag, value_tag
from valuetracker.store.rows import InstanceRow, values_record
from valuetracker.store.snapshot import Snapshot


async def list_values(tx: Snapshot, instance_id: str) -> Values:
    tx.depends_on(instance_tag(instance_id))
    instance = await tx.find_instance(instance_id)
    if instance is None:
        return {}
    return values_record(await tx.list_values(instance))


async def find_value(tx: Snapshot, instance_id: str, key: str) -> Values:
    tx.depends_on(value_tag(instance_id, key))
    row = await tx.find_value(instance_id, key)
    return values_record([row]) if row is not None else {}


async def set_value(tx: Ledger, instance_id: str, key: str, value: str) -> ValueSet:
    await _get_instance(tx, instance_id)
    await tx.load_values(instance_id, [key])
    await tx.apply([SetValue(instance_id, key, value)])
    return {"success": True, "key": key, "value": orjson.Fragment(value)}


async def override_values(tx: Ledger, instance_id: str, values: dict[str, str]) -> SuccessMessage:
    """Replace all values. Keys that stay keep their places; the new ones come after them."""
    await _get_instance(tx, instance_id)
    gone = [row.key for row in await tx.list_values(instance_id) if row.key not in values]
    await tx.apply(
        [
            *(RemoveValue(instance_id, key) for key in gone),
            *(SetValue(instance_id, key, value) for key, value in values.items()),
        ]
    )
    return {"success": True, "message": "Instance data overridden successfully"}


async def merge_values(tx: Ledger, instance_id: str, values: dict[str, str]) -> SuccessMessage:
    await _get_instance(tx, instance_id)
    await tx.load_values(instance_id, list(values))
    await tx.apply([SetValue(instance_id, key, value) for key, value in values.items()])
    return {"success": True, "message": "Instance data merged successfully"}


async def remove_values(tx: Ledger, instance_id: str, keys: list[str]) -> Removed:
    await _get_instance(tx, instance_id)
    rows = await tx.load_values(instance_id, keys)
    present = [key for key in dict.fromkeys(keys) if rows.get(key) is not None]
    await tx.apply([RemoveValue(instance_id, key) for key in present])
    return {"success": True, "removedCount": len(present)}


async def remove_value(tx: Ledger, instance_id: str, key: str) -> Success:
    if await tx.find_instance(instance_id) is None:
        raise DataKeyNotFound()
    if (await tx.load_values(instance_id, [key])).get(key) is None:
        raise DataKeyNotFound()
    await tx.apply([RemoveValue(instance_id, key)])
    return {"success": True}


async def clear_values(tx: Ledger, instance_id: str) -> Success:
    await _get_instance(tx, instance_id)
    values = await tx.list_values(instance_id)
    await tx.apply([RemoveValue(instance_id, row.key) for row in values])
    return {"success": True}


async def _get_instance(tx: Ledger, instance_id: str) -> InstanceRow:
    instance = await tx.find_instance(instance_id)
    if instance is None:
        raise InstanceNotFound()
    return instance
