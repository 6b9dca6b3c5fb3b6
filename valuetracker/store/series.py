"""
Series: numbered versions of something, such as a running recap, one of which is current.

A version is a key of the chat's series space, and so is the pointer to the current one. Both
follow the story; the numbers do not: a number that was taken once is never given out again.
"""

from __future__ import annotations

from typing import Any

import orjson

from valuetracker.errors import VersionNotFound
from valuetracker.records import Cleared, CurrentVersion, NewVersion, Series, VersionRemoved
from valuetracker.store.log.state_at import ChatAt, former_values_record
from valuetracker.store.rows.holders import DataRow, HolderRow, values_record
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import CURRENT, Address, item_key, split_key
from valuetracker.store.story.contents import values_of_space
from valuetracker.store.story.series import SeriesVersions, parse_series
from valuetracker.store.tx.changes import ChangeValue, remove
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import register_place
from valuetracker.store.tx.write_place import enter_place
from valuetracker.store.tx.write_target import (
    check_chat_if_match,
    find_writable_holder,
    get_or_create_holder,
)
from valuetracker.values import canonical, load_text


def _space(chat_id: str) -> Address:
    return Address("series", chat_id)


# Reading


async def get_series(tx: Snapshot, chat_id: str, name: str, at: ChatAt | None = None) -> Series:
    return (await _read(tx, chat_id, name, at)).record()


async def get_version(
    tx: Snapshot, chat_id: str, name: str, version: int | None, at: ChatAt | None = None
) -> Any:
    """Return one version; None is the current one."""
    series = await _read(tx, chat_id, name, at)
    number = version if version is not None else series.current
    if number is None or number not in series.versions:
        raise VersionNotFound()
    return series.versions[number]


async def _read(tx: Snapshot, chat_id: str, name: str, at: ChatAt | None) -> SeriesVersions:
    holder = await tx.find_addressed(_space(chat_id))
    if at is not None:
        former = former_values_record(await values_of_space(tx, _space(chat_id), at))
        return parse_series(former).get(name, SeriesVersions())
    if holder is None or holder.deleted:
        return SeriesVersions()
    values = values_record(await tx.list_values(holder))
    return parse_series(values).get(name, SeriesVersions())


# Writing


async def add_version(
    tx: Ledger, chat_id: str, name: str, content: str, meta: dict[str, str]
) -> NewVersion:
    holder = await get_or_create_holder(tx, _space(chat_id))
    rows = await _rows(tx, holder, name)
    version = 1 + max((int(item) for item in rows if item != CURRENT), default=0)
    await register_place(tx, holder, tx.context.anchor)
    record = {
        "version": version,
        "content": orjson.Fragment(content),
        "createdAt": tx.now,
        **{key: orjson.Fragment(value) for key, value in meta.items()},
    }
    # Also the check that the whole version is not too large.
    text = canonical(load_text(orjson.dumps(record)))
    await tx.apply(
        [
            _set(tx, holder, name, str(version), text),
            _set(tx, holder, name, CURRENT, str(version)),
        ]
    )
    return {"version": version}


async def choose_version(tx: Ledger, chat_id: str, name: str, version: int) -> CurrentVersion:
    holder = await find_writable_holder(tx, _space(chat_id))
    rows = await _rows(tx, holder, name) if holder is not None else {}
    if holder is None or str(version) not in rows:
        raise VersionNotFound()
    await check_chat_if_match(tx, chat_id)
    await register_place(tx, holder, tx.context.anchor)
    if (await _rows(tx, holder, name))[str(version)].value is None:
        raise VersionNotFound()
    await tx.apply([_set(tx, holder, name, CURRENT, str(version))])
    return {"currentVersion": await _current(tx, holder, name)}


async def remove_version(
    tx: Ledger, chat_id: str, name: str, version: int | None
) -> VersionRemoved:
    """Remove one version; None is the current one."""
    holder = await find_writable_holder(tx, _space(chat_id))
    if holder is None:
        raise VersionNotFound()
    if version is None:
        version = await _current(tx, holder, name)
    await check_chat_if_match(tx, chat_id)
    place = await enter_place(tx, holder, tx.context.anchor)
    row = (await _rows(tx, holder, name)).get(str(version))
    if row is None or not await place.is_removable(row):
        raise VersionNotFound()
    await tx.apply([remove(holder, row.key, tx.context.anchor)])
    return {"success": True, "currentVersion": await _current(tx, holder, name)}


async def clear_series(tx: Ledger, chat_id: str, name: str) -> Cleared:
    holder = await find_writable_holder(tx, _space(chat_id))
    await check_chat_if_match(tx, chat_id)
    if holder is None:
        return {"clearedCount": 0}
    place = await enter_place(tx, holder, tx.context.anchor)
    # The pointer then points to nothing, which is as good as no pointer.
    versions = [
        row
        for item, row in (await _rows(tx, holder, name)).items()
        if item != CURRENT and await place.is_removable(row)
    ]
    await tx.apply([remove(holder, row.key, tx.context.anchor) for row in versions])
    left = await tx.load_rows(holder, [row.key for row in versions])
    cleared = [
        row.key
        for row in versions
        if row.value is not None and ((now := left[row.key]) is None or now.value is None)
    ]
    return {"clearedCount": len(cleared)}


async def _rows(tx: Ledger, holder: HolderRow, name: str) -> dict[str, DataRow]:
    """Return the rows of a series by version or `current`, also removed ones."""
    found: dict[str, DataRow] = {}
    for row in await tx.list_rows(holder):
        owner, item = split_key(row.key)
        if owner == name:
            found[item] = row
    return found


async def _current(tx: Ledger, holder: HolderRow, name: str) -> int | None:
    values = values_record(await tx.list_values(holder))
    return parse_series(values).get(name, SeriesVersions()).current


def _set(tx: Ledger, holder: HolderRow, name: str, item: str, value: str) -> ChangeValue:
    return ChangeValue(holder, item_key(name, item), value, anchor=tx.context.anchor)
