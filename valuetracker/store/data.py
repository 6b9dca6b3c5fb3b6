"""
Values: any JSON under a key of an instance, or of a chat.

Every verb takes a `Target`, so that both are one implementation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from valuetracker.errors import DataKeyNotFound
from valuetracker.records import Removed, Success, SuccessMessage, Values, ValueSet
from valuetracker.store.json_patch import patched
from valuetracker.store.log.operators import merge
from valuetracker.store.log.state_at import At, find_moment, former_values_record, values_at
from valuetracker.store.rows.row_types import HolderRow, values_record
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.tags import chat_tag, holder_tag, value_tag
from valuetracker.store.rows.targets import Target
from valuetracker.store.story.visibility import has_dormant_change, is_hidden, see
from valuetracker.store.tx.changes import Change, RemoveValue, SetValue
from valuetracker.store.tx.ledger import Ledger, answering, loading
from valuetracker.store.tx.write_target import hold, hold_present, look_up
from valuetracker.values import canonical


async def find_holder(tx: Snapshot, target: Target) -> HolderRow | None:
    """What is read from, also if it is gone; its ETag is then that of its end."""
    if target.space == "instance":
        return await tx.find_any_instance(target.id)
    chat = await tx.find_any_chat(target.id)
    if chat is None:
        tx.etag = 0
        return None
    tx.depends_on(chat_tag(chat.number))
    tx.etag = chat.revision
    return await tx.find_room(chat, target.space)


async def list_values(tx: Snapshot, target: Target, at: At | None = None) -> Values:
    holder = await find_holder(tx, target)
    if at is not None:
        moment = await find_moment(tx, at)
        tx.etag = moment.revision
        return former_values_record(await values_at(tx, holder, moment)) if holder else {}
    if target.space == "instance":
        tx.depends_on(holder_tag(*target))
        tx.etag = holder.revision if holder is not None else 0
    if holder is None or holder.gone:
        return {}
    return values_record(await tx.list_values(holder))


async def find_value(tx: Snapshot, target: Target, key: str, at: At | None = None) -> Values:
    holder = await find_holder(tx, target)
    if at is not None:
        moment = await find_moment(tx, at)
        tx.etag = moment.revision
        records = await values_at(tx, holder, moment) if holder is not None else []
        return former_values_record([record for record in records if record.key == key])
    if target.space == "instance":
        tx.depends_on(value_tag(*target, key))
    tx.etag = 0
    if holder is None:
        return {}
    row = await tx.find_value(holder, key)
    if row is None:
        return {}
    tx.etag = row.revision
    return values_record([row])


@loading(lambda target, key, value: (target, [key]))
async def set_value(tx: Ledger, target: Target, key: str, value: str) -> ValueSet:
    if tx.set_plainly(target, {key: value}):
        return {"success": True, "key": key, "value": orjson.Fragment(value)}
    holder = await hold(tx, target, key)
    await _apply(tx, holder, [_set(tx, holder, key, value)])
    if await is_hidden(tx, holder, tx.context.anchor):
        row = (await tx.load_rows(holder, [key]))[key]
        value = row.value if row is not None and row.value is not None else "null"
    return {"success": True, "key": key, "value": orjson.Fragment(value)}


async def override_values(tx: Ledger, target: Target, values: dict[str, str]) -> SuccessMessage:
    """Replace all values. Keys that stay keep their places; the new ones come after them."""
    holder = await hold(tx, target) if values else await hold_present(tx, target)
    if holder is not None:
        await see(tx, holder, tx.context.anchor)
        gone = [key for key in await removable_keys(tx, holder) if key not in values]
        await _apply(
            tx,
            holder,
            [
                *(_remove(tx, holder, key) for key in gone),
                *(_set(tx, holder, key, value) for key, value in values.items()),
            ],
        )
    return {"success": True, "message": "Instance data overridden successfully"}


@loading(lambda target, values: (target, list(values)))
async def merge_values(tx: Ledger, target: Target, values: dict[str, str]) -> SuccessMessage:
    if values and tx.set_plainly(target, values):
        return {"success": True, "message": "Instance data merged successfully"}
    holder = await hold(tx, target) if values else await hold_present(tx, target)
    if holder is not None:
        anchor = tx.context.anchor
        changes = [SetValue(holder, key, value, anchor=anchor) for key, value in values.items()]
        await _apply(tx, holder, changes)
    return {"success": True, "message": "Instance data merged successfully"}


@loading(lambda target, keys: (target, keys))
async def remove_values(tx: Ledger, target: Target, keys: list[str]) -> Removed:
    holder = await hold_present(tx, target)
    if holder is None:
        return {"success": True, "removedCount": 0}
    await see(tx, holder, tx.context.anchor)
    rows = await tx.load_rows(holder, keys)
    named = [row for key in dict.fromkeys(keys) if (row := rows[key]) is not None]
    removable = [row for row in named if row.value is not None or await has_dormant_change(tx, row)]
    changes = [_remove(tx, holder, row.key) for row in removable]
    return {"success": True, "removedCount": await _remove_all(tx, holder, changes)}


@loading(lambda target, key: (target, [key]))
async def remove_value(tx: Ledger, target: Target, key: str) -> Success:
    holder = await look_up(tx, target)
    row = (await tx.load_rows(holder, [key]))[key] if holder is not None else None
    if holder is None or row is None:
        raise DataKeyNotFound()
    seen = row.revision
    await see(tx, holder, tx.context.anchor)
    row = (await tx.load_rows(holder, [key]))[key]
    assert row is not None
    if row.value is None and not await has_dormant_change(tx, row):
        raise DataKeyNotFound()
    tx.expect(seen)
    await _apply(tx, holder, [_remove(tx, holder, key)])
    return {"success": True}


async def clear_values(tx: Ledger, target: Target) -> Success:
    holder = await hold_present(tx, target)
    if holder is not None:
        await see(tx, holder, tx.context.anchor)
        keys = await removable_keys(tx, holder)
        await _apply(tx, holder, [_remove(tx, holder, key) for key in keys])
    return {"success": True}


async def _present_values(tx: Ledger, target: Target, patch: Any) -> Values:
    """What a patch that changes nothing is answered with."""
    holder = await hold_present(tx, target)
    return values_record(await tx.list_values(holder)) if holder is not None else {}


@answering(_present_values)
async def merge_patch_values(tx: Ledger, target: Target, patch: dict[str, Any]) -> Values:
    """
    Merge a patch (RFC 7396) into the values.

    Each key is logged as what the patch does to it: `remove`, `merge` into an object, or
    `set`, so that a merge can be replayed on another object than this one.
    """
    sets = any(value is not None for value in patch.values())
    holder = await hold(tx, target) if sets else await hold_present(tx, target)
    if holder is None:
        return {}
    await see(tx, holder, tx.context.anchor)
    rows = await tx.load_rows(holder, list(patch))
    removed = [
        key
        for key, value in patch.items()
        if value is None
        and (row := rows[key]) is not None
        and (row.value is not None or await has_dormant_change(tx, row))
    ]
    changes: list[Change] = []
    for key, value in patch.items():
        if value is None:
            if key in removed:
                changes.append(_remove(tx, holder, key))
            continue
        # Also the check that it is not too deep, before anything recurses through it.
        operand = canonical(value)
        row = rows[key]
        current = orjson.loads(row.value) if row is not None and row.value is not None else {}
        after = canonical(merge(current, value))
        if isinstance(value, dict) and isinstance(current, dict):
            anchor = tx.context.anchor
            changes.append(SetValue(holder, key, after, "merge", operand, anchor))
        else:
            changes.append(_set(tx, holder, key, after))
    await tx.apply(changes)
    return values_record(await tx.list_values(holder))


@answering(_present_values)
async def json_patch_values(tx: Ledger, target: Target, patch: list[Any]) -> Values:
    """
    Apply a JSON Patch (RFC 6902) to the values, all of it or nothing.

    Logged as `set` or `remove` of each key it names outside of a `test`.
    """
    holder = await hold(tx, target)
    await see(tx, holder, tx.context.anchor)
    before = {row.key: row.value or "" for row in await tx.list_values(holder)}
    document, named = patched({key: orjson.loads(text) for key, text in before.items()}, patch)
    changes: list[Change] = []
    for key in named:
        if key in document:
            changes.append(_set(tx, holder, key, canonical(document[key])))
        elif key in before:
            changes.append(_remove(tx, holder, key))
    await tx.apply(changes)
    return values_record(await tx.list_values(holder))


async def _apply(tx: Ledger, holder: HolderRow, changes: Sequence[Change]) -> None:
    """Make these changes at the request's place; none see no place."""
    if changes:
        await see(tx, holder, tx.context.anchor)
        await tx.apply(changes)


async def _remove_all(tx: Ledger, holder: HolderRow, changes: list[RemoveValue]) -> int:
    """The same for removals: how many values went."""
    if not changes:
        return 0
    rows = await tx.load_rows(holder, [change.key for change in changes])
    hidden = await is_hidden(tx, holder, tx.context.anchor)
    present = [change for change in changes if (row := rows[change.key]) and row.value is not None]
    await tx.apply(changes)
    return 0 if hidden else len(present)


async def removable_keys(tx: Ledger, holder: HolderRow) -> list[str]:
    """The keys that have a value, or a change that waits for its place to come back."""
    return [
        row.key
        for row in await tx.list_rows(holder)
        if row.value is not None or await has_dormant_change(tx, row)
    ]


def _set(tx: Ledger, holder: HolderRow, key: str, value: str) -> SetValue:
    return SetValue(holder, key, value, anchor=tx.context.anchor)


def _remove(tx: Ledger, holder: HolderRow, key: str) -> RemoveValue:
    return RemoveValue(holder, key, anchor=tx.context.anchor)
