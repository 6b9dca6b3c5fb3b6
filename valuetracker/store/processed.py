"""
Processed ids: what an extension has dealt with already, in sets, per chat.

An id is a key of the chat's space for them, so it follows the story. A claim with a lease
does not: it says that somebody is working on the id, ends after a time, and is kept outside
the log until it is confirmed.
"""

from __future__ import annotations

from valuetracker.errors import ProcessedNotFound
from valuetracker.records import (
    Claimed,
    IsProcessed,
    Processed,
    ProcessedIds,
    Success,
)
from valuetracker.store.log.state_at import ChatAt
from valuetracker.store.rows.claims import DELETE_CLAIM, INSERT_CLAIM, SELECT_CLAIM, ClaimRow
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.leases import lease_time
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import Address, item_key
from valuetracker.store.story.contents import values_of_space
from valuetracker.store.story.series import processed_sets
from valuetracker.store.tx.changes import Change, ChangeValue, remove
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.places import register_place
from valuetracker.store.tx.write_place import enter_place
from valuetracker.store.tx.write_target import (
    check_chat_if_match,
    find_writable_holder,
    get_or_create_holder,
)


def _space(chat_id: str) -> Address:
    return Address("processed", chat_id)


async def list_processed(
    tx: Snapshot, chat_id: str, name: str, at: ChatAt | None = None
) -> ProcessedIds:
    holder = await tx.find_addressed(_space(chat_id))
    keys: list[str] = []
    if at is not None:
        keys = await _former_keys(tx, chat_id, at)
    elif holder is not None and not holder.deleted:
        keys = [row.key for row in await tx.list_values(holder)]
    tx.etag = None
    return {"ids": processed_sets(keys).get(name, [])}


async def is_processed(
    tx: Snapshot, chat_id: str, name: str, id: str, at: ChatAt | None = None
) -> IsProcessed:
    holder = await tx.find_addressed(_space(chat_id))
    if at is not None:
        found = item_key(name, id) in await _former_keys(tx, chat_id, at)
        tx.etag = None
        return {"processed": found}
    tx.etag = None
    if holder is None or holder.deleted:
        return {"processed": False}
    row = await tx.find_value(holder, item_key(name, id))
    return {"processed": row is not None and row.value is not None}


async def _former_keys(tx: Snapshot, chat_id: str, at: ChatAt) -> list[str]:
    return [value.key for value in await values_of_space(tx, _space(chat_id), at)]


async def claim(tx: Ledger, chat_id: str, name: str, ids: list[str], lease: int | None) -> Claimed:
    """Claim ids nobody has claimed: for good, or with a lease (in milliseconds) until confirmed."""
    holder = await get_or_create_holder(tx, _space(chat_id))
    if lease is None:
        await register_place(tx, holder, tx.context.anchor)
    keys = {id: item_key(name, id) for id in ids}
    rows = await tx.load_rows(holder, list(keys.values()))
    new: list[str] = []
    seen: list[str] = []
    for id, key in keys.items():
        row = rows[key]
        taken = (row is not None and row.value is not None) or await _is_claimed(tx, holder, key)
        (seen if taken else new).append(id)
    if lease is None:
        changes: list[Change] = [_set(tx, holder, keys[id]) for id in new]
        await tx.apply(changes)
    else:
        for id in new:
            await _claim(tx, holder, keys[id], lease)
    return {"new": new, "seen": seen}


async def mark_processed(tx: Ledger, chat_id: str, name: str, id: str) -> Processed:
    holder = await get_or_create_holder(tx, _space(chat_id))
    key = item_key(name, id)
    await register_place(tx, holder, tx.context.anchor)
    row = await tx.find_value(holder, key)
    already = row is not None and row.value is not None
    if not already:
        await tx.apply([_set(tx, holder, key)])
    if await _find_claim(tx, holder, key) is not None:
        await tx.execute(DELETE_CLAIM, chat=holder.chat, key=key)
    return {"processed": True, "already": already}


async def forget_processed(tx: Ledger, chat_id: str, name: str, id: str) -> Success:
    """Remove an id; this also ends a claim."""
    holder = await find_writable_holder(tx, _space(chat_id))
    if holder is None:
        raise ProcessedNotFound()
    key = item_key(name, id)
    place = await enter_place(tx, holder, tx.context.anchor)
    known = await place.is_removable(await tx.find_value(holder, key))
    claimed = await _is_claimed(tx, holder, key)
    if not known and not claimed:
        raise ProcessedNotFound()
    await check_chat_if_match(tx, chat_id)
    if claimed:
        await tx.execute(DELETE_CLAIM, chat=holder.chat, key=key)
    if known:
        await tx.apply([remove(holder, key, tx.context.anchor)])
    return {"success": True}


async def _find_claim(tx: Ledger, holder: HolderRow, key: str) -> ClaimRow | None:
    row = await tx.fetch_one(SELECT_CLAIM, chat=holder.chat, key=key)
    return ClaimRow(*row).verify() if row is not None else None


async def _is_claimed(tx: Ledger, holder: HolderRow, key: str) -> bool:
    claim = await _find_claim(tx, holder, key)
    return claim is not None and (await lease_time(tx)).holds(claim.since, claim.lease)


async def _claim(tx: Ledger, holder: HolderRow, key: str, lease: int) -> None:
    assert holder.chat is not None
    row = ClaimRow(holder.chat, key, (await lease_time(tx)).now, lease)
    row.seal()
    await tx.execute(DELETE_CLAIM, chat=holder.chat, key=key)
    await tx.execute_many(INSERT_CLAIM, [row])


def _set(tx: Ledger, holder: HolderRow, key: str) -> ChangeValue:
    return ChangeValue(holder, key, "true", anchor=tx.context.anchor)
