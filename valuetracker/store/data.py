"""
Values: any JSON under a key of an instance, or of a chat.

Every verb takes an `Address`, so that both are one implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from valuetracker.errors import DataKeyNotFound
from valuetracker.records import Changed, ChangedMessage, Removed, Values, ValueSet
from valuetracker.store.log.json_patch import named_keys, patch_values
from valuetracker.store.log.operators import merge
from valuetracker.store.log.state_at import (
    AsOf,
    ChatAt,
    find_moment,
    former_values_record,
    values_at,
)
from valuetracker.store.rows.entries import LoggedChange
from valuetracker.store.rows.holders import DataRow, HolderRow, values_record
from valuetracker.store.rows.reader import MANY
from valuetracker.store.rows.snapshot import Snapshot, quick
from valuetracker.store.rows.spaces import Address
from valuetracker.store.rows.tags import holder_tag, value_tag
from valuetracker.store.story.contents import values_of_space
from valuetracker.store.tx.changes import Change, ChangeValue, remove
from valuetracker.store.tx.conflicts import with_conflicts
from valuetracker.store.tx.jobs import answering_unchanged, light, preloading
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import register_place
from valuetracker.store.tx.write_place import enter_place
from valuetracker.store.tx.write_target import (
    find_checked_holder,
    find_writable_holder,
    get_or_create_holder,
)
from valuetracker.values import canonical, load_text

# Reading


@quick
async def list_values(tx: Snapshot, address: Address, at: ChatAt | None = None) -> Values:
    if at is not None:
        return former_values_record(await _values_at(tx, address, at))
    if address.space == "instance":
        tx.depends_on(holder_tag(*address))
        tx.etag = 0
        tx.shows = ""
        number = await tx.find_number(address.id)
        if number is None:
            return {}
        tx.etag, values = await tx.read_values(number)
        return values
    holder = await tx.find_addressed(address)
    if holder is None:
        return {}
    tx.reads(holder.keys)
    return values_record(await tx.list_values(holder))


@quick
async def find_value(tx: Snapshot, address: Address, key: str, at: ChatAt | None = None) -> Values:
    if at is not None:
        values = await _values_at(tx, address, at)
        return former_values_record([value for value in values if value.key == key])
    if address.space == "instance":
        tx.depends_on(value_tag(*address, key))
        tx.shows = key
        number = await tx.find_number(address.id)
    else:
        holder = await tx.find_addressed(address)
        number = holder.number if holder is not None else None
    tx.etag = 0
    row = await tx.read_value(number, key) if number is not None else None
    if row is None:
        return {}
    tx.etag = row.revision
    return values_record([row])


async def _values_at(tx: Snapshot, address: Address, at: ChatAt) -> list[LoggedChange]:
    """Return the values of a holder in the past; the ETag is that of the moment."""
    tx.reads(MANY)
    holder = await tx.find_addressed(address)
    if address.space != "instance":
        return await values_of_space(tx, address, at)
    assert not isinstance(at, AsOf), "an instance need not be in a chat"
    moment = await find_moment(tx, at)
    tx.etag = moment.revision
    return await values_at(tx, holder, moment) if holder is not None else []


# Setting


@light(lambda address, key, value: len(value))
@preloading(lambda address, key, value: (address, [key]))
async def set_value(tx: Ledger, address: Address, key: str, value: str) -> ValueSet:
    if tx.set_at_once(address, {key: value}):
        shown = tx.shown(tx.cache.holders.rows[address], key, value)
        return {"success": True, "key": key, "value": shown}
    holder = await get_or_create_holder(tx, address, key)
    await _apply(tx, holder, [_set(tx, holder, key, value)])
    answer: ValueSet = {"success": True, "key": key}
    # Of a change that is dormant or late, what the key reads now.
    row = await tx.find_value(holder, key)
    if row is not None and row.value is not None:
        answer["value"] = tx.shown(holder, key, row.value)
    return with_conflicts(tx, answer)


async def override_values(tx: Ledger, address: Address, values: dict[str, str]) -> ChangedMessage:
    """Replace all values. Keys that stay keep their order; the new ones come after them."""
    holder = await _holder_for(tx, address, creates=bool(values))
    if holder is not None:
        place = await enter_place(tx, holder, tx.context.anchor)
        dropped = [row.key for row in await place.removable_rows() if row.key not in values]
        await tx.apply(
            [
                *(_remove(tx, holder, key) for key in dropped),
                *(_set(tx, holder, key, value) for key, value in values.items()),
            ]
        )
    answer: ChangedMessage = {
        "success": True,
        "message": "Instance data overridden successfully",
    }
    return with_conflicts(tx, answer)


@light(lambda address, values: sum(map(len, values.values())))
@preloading(lambda address, values: (address, list(values)))
async def merge_values(tx: Ledger, address: Address, values: dict[str, str]) -> ChangedMessage:
    if not values or not tx.set_at_once(address, values):
        holder = await _holder_for(tx, address, creates=bool(values))
        if holder is not None:
            changes = [_set(tx, holder, key, value) for key, value in values.items()]
            await _apply(tx, holder, changes)
    answer: ChangedMessage = {"success": True, "message": "Instance data merged successfully"}
    return with_conflicts(tx, answer)


async def _holder_for(tx: Ledger, address: Address, creates: bool) -> HolderRow | None:
    """Return the holder to write to; a write that sets nothing creates no chat."""
    if creates:
        return await get_or_create_holder(tx, address)
    return await find_checked_holder(tx, address)


# Removing


@preloading(lambda address, keys: (address, keys))
async def remove_values(tx: Ledger, address: Address, keys: list[str]) -> Removed:
    holder = await find_checked_holder(tx, address)
    if holder is None:
        return {"success": True, "removedCount": 0}
    place = await enter_place(tx, holder, tx.context.anchor)
    rows = await tx.load_rows(holder, keys)
    named = [row for key in dict.fromkeys(keys) if (row := rows[key]) is not None]
    removable = [row for row in named if await place.is_removable(row)]
    await tx.apply([_remove(tx, holder, row.key) for row in removable])
    removed = [
        row.key for row in removable if row.value is not None and not _has_value(rows[row.key])
    ]
    answer: Removed = {"success": True, "removedCount": len(removed)}
    return with_conflicts(tx, answer)


def _has_value(row: DataRow | None) -> bool:
    return row is not None and row.value is not None


@preloading(lambda address, key: (address, [key]))
async def remove_value(tx: Ledger, address: Address, key: str) -> Changed:
    holder = await find_writable_holder(tx, address)
    row = await tx.find_value(holder, key) if holder is not None else None
    if holder is None or row is None:
        raise DataKeyNotFound()
    revision = row.revision
    place = await enter_place(tx, holder, tx.context.anchor)
    if not await place.is_removable(await tx.find_value(holder, key)):
        raise DataKeyNotFound()
    tx.check_if_match(revision)
    await tx.apply([_remove(tx, holder, key)])
    answer: Changed = {"success": True}
    return with_conflicts(tx, answer)


async def clear_values(tx: Ledger, address: Address) -> Changed:
    holder = await find_checked_holder(tx, address)
    if holder is not None:
        place = await enter_place(tx, holder, tx.context.anchor)
        rows = await place.removable_rows()
        await tx.apply([_remove(tx, holder, row.key) for row in rows])
    answer: Changed = {"success": True}
    return with_conflicts(tx, answer)


# Patching


Patched = Changed | Values


async def _patched(tx: Ledger, holder: HolderRow | None) -> Patched:
    """Return the answer of a patch: all values, if the caller prefers that."""
    if tx.context.representation:
        return tx.values_record(await tx.list_values(holder)) if holder is not None else {}
    answer: Changed = {"success": True}
    return with_conflicts(tx, answer)


async def _unpatched(tx: Ledger, address: Address, patch: Any) -> Patched:
    """Return the answer of a patch that changes nothing."""
    return await _patched(tx, await find_checked_holder(tx, address))


@answering_unchanged(_unpatched)
async def merge_patch_values(tx: Ledger, address: Address, patch: dict[str, Any]) -> Patched:
    """
    Merge a patch (RFC 7396) into the values.

    Each key is logged as what the patch does to it: `remove`, `merge` into an object, or
    `set`, so that a merge can be replayed on another object than this one.
    """
    sets = any(value is not None for value in patch.values())
    holder = await _holder_for(tx, address, creates=sets)
    if holder is None:
        return await _patched(tx, None)
    place = await enter_place(tx, holder, tx.context.anchor)
    rows = await tx.load_rows(holder, list(patch))
    changes: list[Change] = []
    for key, value in patch.items():
        row = rows[key]
        if value is None:
            if await place.is_removable(row):
                changes.append(_remove(tx, holder, key))
            continue
        # Also the check that it is not too deep, before anything recurses through it.
        operand = canonical(value)
        met = await place.value(row)
        current = load_text(met) if met is not None else {}
        after = canonical(merge(current, value))
        if isinstance(value, dict) and isinstance(current, dict):
            anchor = tx.context.anchor
            changes.append(
                ChangeValue(holder, key, after, "merge", operand, anchor, recomputable=True)
            )
        else:
            changes.append(_set(tx, holder, key, after))
    await tx.apply(changes)
    return await _patched(tx, holder)


@answering_unchanged(_unpatched)
async def json_patch_values(tx: Ledger, address: Address, patch: list[Any]) -> Patched:
    """
    Apply a JSON Patch (RFC 6902) to the values, all of it or nothing.

    Each key is logged with the operations on its value (`patch`), so that they can be replayed
    on another value than this one; as `set` or `remove` if the patch names the key as a whole.
    A `test` counts only now. At a hidden place the other operations need not fit the values.
    """
    holder = await get_or_create_holder(tx, address)
    place = await enter_place(tx, holder, tx.context.anchor)
    rows = await _patched_rows(tx, holder, patch)
    met = {key: await place.value(row) for key, row in rows.items()}
    before = {key: load_text(text) for key, text in met.items() if text is not None}
    document, named = patch_values(before, patch, place.hidden)
    changes: list[Change] = []
    for key, operations in named.items():
        if operations is None and key not in document:
            if await place.is_removable(rows.get(key)):
                changes.append(_remove(tx, holder, key))
        elif operations is None:
            changes.append(_set(tx, holder, key, canonical(document[key])))
        else:
            operand = orjson.dumps(operations).decode()
            after = operand if place.hidden else canonical(document[key])
            anchor = tx.context.anchor
            changes.append(
                ChangeValue(holder, key, after, "patch", operand, anchor, recomputable=True)
            )
    await tx.apply(changes)
    return await _patched(tx, holder)


async def _patched_rows(
    tx: Ledger, holder: HolderRow, patch: list[Any]
) -> dict[str, DataRow | None]:
    """Return the rows of the keys that a JSON Patch looks at."""
    keys = named_keys(patch)
    if keys is None:
        return {row.key: row for row in await tx.list_rows(holder)}
    rows = await tx.load_rows(holder, keys)
    return {key: rows[key] for key in keys}


async def _apply(tx: Ledger, holder: HolderRow, changes: Sequence[Change]) -> None:
    """Apply changes at the request's anchor; without changes, no place is registered."""
    if changes:
        await register_place(tx, holder, tx.context.anchor)
        await tx.apply(changes)


def _set(tx: Ledger, holder: HolderRow, key: str, value: str) -> ChangeValue:
    return ChangeValue(holder, key, value, anchor=tx.context.anchor)


def _remove(tx: Ledger, holder: HolderRow, key: str) -> ChangeValue:
    return remove(holder, key, tx.context.anchor)
