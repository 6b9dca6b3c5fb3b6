"""
Visibility: the values that a chat has when places are hidden and shown.

Changes anchored to a hidden place are dormant, those at a visible place are live. Only the
keys that have a change at a place that flips are recomputed. Nothing here writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import orjson

from valuetracker.store.log.lists import find_anchors
from valuetracker.store.log.replay import Conflict, Replay
from valuetracker.store.rows.entries import TAKEN, EntryRow, select_entries
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader

# `places` is a JSON array of their numbers.
_AT = """
    WHERE place IN (SELECT value FROM json_each(:places)) AND place IS NOT NULL ORDER BY entry
"""
_AT_OF_POSTGRES = """
    WHERE place IN (
        SELECT CAST(value AS bigint) FROM json_array_elements_text(CAST(:places AS json)) AS value
    ) ORDER BY entry
"""
SELECT_ENTRIES_AT = select_entries(_AT, _AT_OF_POSTGRES)
SELECT_TAKEN_AT = select_entries(_AT, _AT_OF_POSTGRES, TAKEN)


@dataclass(slots=True)
class FlippedValue:
    """A value that becomes another one, or absent (None)."""

    holder: HolderRow
    key: str
    before: str | None
    after: str | None
    # The entry of the newest source of the key.
    newest: int


@dataclass(slots=True)
class Flips:
    """The effects of hiding and showing places."""

    # How many changes become dormant, and how many live.
    dormant: int = 0
    revived: int = 0
    values: list[FlippedValue] = field(default_factory=list)
    conflicts: list[tuple[HolderRow, Conflict]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


async def preview_flips(
    tx: RowReader, hidden: Sequence[PlaceRow], shown: Sequence[PlaceRow]
) -> Flips:
    """Compute what the values become once these places are hidden and shown."""
    flips = Flips()
    oldest = (await tx.load_head()).oldest
    places = [*hidden, *shown]
    visible = {place.place: False for place in hidden} | {place.place: True for place in shown}
    if not any(place.first_written for place in places):
        return flips
    flips.warnings = [
        f"What message {place.message_id} changed up to revision {oldest} was folded and stays."
        for place in places
        if 0 < place.first_written <= oldest
    ]

    def counts(entry: EntryRow) -> bool:
        if not entry.left_at and entry.place in visible:
            return visible[entry.place]
        return entry.is_live

    affected: dict[tuple[int, str], None] = {}
    for entry in await _entries_at(tx, [place for place in places if place.first_written]):
        if entry.left_at:
            continue
        if counts(entry):
            flips.revived += len(entry.logged)
        else:
            flips.dormant += len(entry.logged)
        for change in entry.logged:
            affected[entry.subject, change.key] = None
    replay = Replay(tx)
    for number, key in affected:
        holder = await tx.get_holder(number)
        row = await tx.find_value(holder, key)
        assert row is not None, "a key that the log mentions has a row"
        replayed = await replay.replay(number, key, row.last_change, counts)
        flips.conflicts += [(holder, conflict) for conflict in replayed.conflicts]
        if replayed.value != row.value:
            flips.values.append(
                FlippedValue(holder, key, row.value, replayed.value, replayed.newest)
            )
    return flips


async def _entries_at(tx: RowReader, places: list[PlaceRow]) -> list[EntryRow]:
    """Return all entries that are anchored to these places."""
    numbers = orjson.dumps([place.place for place in places]).decode()
    taken = await tx.fetch_all(SELECT_TAKEN_AT, places=numbers)
    rows = [*taken, *await tx.fetch_all(SELECT_ENTRIES_AT, places=numbers)]
    entries = {(row[1], row[0]): EntryRow(*row).verify() for row in rows}
    await find_anchors(tx, entries.values())
    return list(entries.values())


async def has_dormant_change(tx: RowReader, row: DataRow) -> bool:
    """Return True if a change of this key waits for its place to be shown again."""
    if not row.anchored:
        return False
    # A batch may ask again and again.
    known = tx.read_entries.without_dormant
    asked = (row.holder, row.key, row.last_change, tx.cache.flip_count)
    if asked in known:
        return False
    async for source in Replay(tx).walk(row.holder, row.key, row.last_change):
        if not source.entry.left_at and not source.entry.is_live:
            return True
    known.add(asked)
    return False


async def is_removable(tx: RowReader, row: DataRow) -> bool:
    """Return True if a removal of this key has to be logged."""
    # Without it, a dormant change would bring the key back when its place is shown again.
    return row.value is not None or await has_dormant_change(tx, row)


async def removable_keys(tx: RowReader, holder: HolderRow) -> list[str]:
    """Return the keys that a clear of this holder removes."""
    return [row.key for row in await tx.list_rows(holder) if await is_removable(tx, row)]
