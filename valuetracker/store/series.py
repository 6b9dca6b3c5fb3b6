"""
Series: numbered versions of something, such as a running recap, one of which is current.

A version is a key of the chat's series room, and so is the pointer to the current one. Both
follow the story; the numbers do not: whatever was taken once is never given out again.
"""

from __future__ import annotations

from typing import Any

import orjson

from valuetracker.errors import VersionNotFound
from valuetracker.records import Cleared, CurrentVersion, NewVersion, Series, VersionRemoved
from valuetracker.store.data import find_holder
from valuetracker.store.rows.row_types import DataRow, HolderRow
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import item_key, split_key
from valuetracker.store.rows.targets import Target
from valuetracker.store.story.visibility import has_dormant_change, is_hidden, see
from valuetracker.store.tx.changes import Change, RemoveValue, SetValue
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.write_target import expect_chat, hold, look_up
from valuetracker.values import canonical

CURRENT = "current"


def current_version(versions: list[int], pointer: int | None) -> int | None:
    """The last one that was set, if it is there, else the highest that is."""
    if pointer in versions:
        return pointer
    return max(versions, default=None)


def summarise_series(room: dict[str, Any]) -> dict[str, Any]:
    """Of each series that has any version: which is current, and how many there are."""
    versions: dict[str, list[int]] = {}
    pointers: dict[str, int] = {}
    for key, value in room.items():
        name, item = split_key(key)
        if item == CURRENT:
            pointers[name] = int(bytes(orjson.dumps(value)))
        else:
            versions.setdefault(name, []).append(int(item))
    return {
        name: {
            "currentVersion": current_version(numbers, pointers.get(name)),
            "count": len(numbers),
        }
        for name, numbers in versions.items()
    }


def summarise_processed(room: dict[str, Any]) -> dict[str, int]:
    """How many ids each set has."""
    counts: dict[str, int] = {}
    for key in room:
        name, _ = split_key(key)
        counts[name] = counts.get(name, 0) + 1
    return counts


def _room(chat_id: str) -> Target:
    return Target("series", chat_id)


# Reading


async def get_series(tx: Snapshot, chat_id: str, name: str) -> Series:
    versions, pointer = await _read(tx, chat_id, name)
    return {
        "currentVersion": current_version(list(versions), pointer),
        "versions": [orjson.Fragment(versions[number]) for number in sorted(versions)],
    }


async def get_version(tx: Snapshot, chat_id: str, name: str, version: int | None) -> Any:
    """One version; None is the current one."""
    versions, pointer = await _read(tx, chat_id, name)
    if version is None:
        version = current_version(list(versions), pointer)
    if version is None or version not in versions:
        raise VersionNotFound()
    return orjson.Fragment(versions[version])


async def _read(tx: Snapshot, chat_id: str, name: str) -> tuple[dict[int, str], int | None]:
    holder = await find_holder(tx, _room(chat_id))
    versions: dict[int, str] = {}
    pointer = None
    if holder is not None and not holder.gone:
        for row in await tx.list_values(holder):
            owner, item = split_key(row.key)
            if owner == name and row.value is not None:
                if item == CURRENT:
                    pointer = int(row.value)
                else:
                    versions[int(item)] = row.value
    return versions, pointer


# Writing


async def add_version(
    tx: Ledger, chat_id: str, name: str, content: str, meta: dict[str, str]
) -> NewVersion:
    holder = await hold(tx, _room(chat_id))
    rows = await _rows(tx, holder, name)
    version = 1 + max((int(item) for item in rows if item != CURRENT), default=0)
    await see(tx, holder, tx.context.anchor)
    record = {
        "version": version,
        "content": orjson.Fragment(content),
        "createdAt": tx.now,
        **{key: orjson.Fragment(value) for key, value in meta.items()},
    }
    # Also the check that with all of this it is not too large.
    text = canonical(orjson.loads(orjson.dumps(record)))
    await tx.apply(
        [
            _set(tx, holder, name, str(version), text),
            _set(tx, holder, name, CURRENT, str(version)),
        ]
    )
    return {"version": version}


async def choose_version(tx: Ledger, chat_id: str, name: str, version: int) -> CurrentVersion:
    holder = await look_up(tx, _room(chat_id))
    rows = await _rows(tx, holder, name) if holder is not None else {}
    if holder is None or str(version) not in rows:
        raise VersionNotFound()
    await expect_chat(tx, chat_id)
    await see(tx, holder, tx.context.anchor)
    if (await _rows(tx, holder, name))[str(version)].value is None:
        raise VersionNotFound()
    await tx.apply([_set(tx, holder, name, CURRENT, str(version))])
    return {"currentVersion": await _current(tx, holder, name)}


async def remove_version(
    tx: Ledger, chat_id: str, name: str, version: int | None
) -> VersionRemoved:
    """Remove one version; None is the current one."""
    holder = await look_up(tx, _room(chat_id))
    if holder is None:
        raise VersionNotFound()
    if version is None:
        version = await _current(tx, holder, name)
    await expect_chat(tx, chat_id)
    await see(tx, holder, tx.context.anchor)
    row = (await _rows(tx, holder, name)).get(str(version))
    if row is None or (row.value is None and not await has_dormant_change(tx, row)):
        raise VersionNotFound()
    await tx.apply([RemoveValue(holder, row.key, anchor=tx.context.anchor)])
    return {"success": True, "currentVersion": await _current(tx, holder, name)}


async def clear_series(tx: Ledger, chat_id: str, name: str) -> Cleared:
    holder = await look_up(tx, _room(chat_id))
    await expect_chat(tx, chat_id)
    if holder is None:
        return {"clearedCount": 0}
    await see(tx, holder, tx.context.anchor)
    changes: list[Change] = [
        RemoveValue(holder, row.key, anchor=tx.context.anchor)
        for item, row in (await _rows(tx, holder, name)).items()
        # The pointer points to nothing then, which is as good as no pointer.
        if item != CURRENT and (row.value is not None or await has_dormant_change(tx, row))
    ]
    if not changes:
        return {"clearedCount": 0}
    rows = await _rows(tx, holder, name)
    count = sum(1 for item, row in rows.items() if item != CURRENT and row.value is not None)
    hidden = await is_hidden(tx, holder, tx.context.anchor)
    await tx.apply(changes)
    return {"clearedCount": 0 if hidden else count}


async def _rows(tx: Ledger, holder: HolderRow, name: str) -> dict[str, DataRow]:
    """The rows of a series, by version or `current`, also those that are gone."""
    found: dict[str, DataRow] = {}
    for row in await tx.list_rows(holder):
        owner, item = split_key(row.key)
        if owner == name:
            found[item] = row
    return found


async def _current(tx: Ledger, holder: HolderRow, name: str) -> int | None:
    rows = {item: row for item, row in (await _rows(tx, holder, name)).items() if row.value}
    pointer = rows.pop(CURRENT, None)
    versions = [int(item) for item in rows]
    return current_version(versions, int(pointer.value or 0) if pointer is not None else None)


def _set(tx: Ledger, holder: HolderRow, name: str, item: str, value: str) -> SetValue:
    return SetValue(holder, item_key(name, item), value, anchor=tx.context.anchor)
