"""
The state at a moment, read from the log.

The state of a key at a moment is that of its last change up to it that took effect. A
moment is a revision, or a time: then it is the highest revision recorded at or before it.
The state of a holder is the last keyframe before the moment and the entries since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import Compacted, DatabaseDamaged, RevisionUnknown
from valuetracker.records import Character, FullInstance, Instance, milliseconds_of
from valuetracker.store.log.lists import (
    CHUNK,
    back,
    read_entries,
    subject_list,
)
from valuetracker.store.log.replay import resolve_value
from valuetracker.store.rows.characters import CharacterRow
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import (
    SELECT_KEYFRAME,
    EntryRow,
    KeyframeRow,
    LoggedChange,
    select_entries,
)
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import HolderRow, Shape, instance_record
from valuetracker.store.rows.numbers import Moment, last_of
from valuetracker.store.rows.reader import RowReader

# A revision, or a time as the API writes times.
At = int | str


@dataclass(slots=True, frozen=True)
class AsOf:
    """As of a message of the visible chain."""

    message_id: str


# A moment, or a message: where the past of a chat can be read.
ChatAt = At | AsOf


# Backwards from the newest: the clock may have been set back, revisions never are.
SELECT_LAST_UP_TO_TIME = select_entries("WHERE at <= :at ORDER BY entry DESC LIMIT 1")


async def find_moment(tx: RowReader, at: At) -> Moment:
    head = await tx.load_head()
    if isinstance(at, str):
        found = await revision_of_time(tx, at)
        # The oldest revision stands for all folded ones.
        revision = max(found, head.oldest) if found is not None else 0
    else:
        if at > head.revision:
            raise RevisionUnknown(f"The latest revision is {head.revision}.", current=head.revision)
        revision = at
    check_not_compacted(head, revision)
    return Moment(revision)


async def revision_of_time(tx: RowReader, at: str) -> int | None:
    """Return the highest revision that was made up to a time."""
    row = await tx.fetch_one(SELECT_LAST_UP_TO_TIME, at=milliseconds_of(at))
    return EntryRow(*row).verify().revision if row is not None else None


def check_not_compacted(head: Head, revision: int) -> None:
    if revision < head.oldest:
        raise Compacted(f"The log begins with revision {head.oldest}.", oldest=head.oldest)


def check_not_purged(holder: HolderRow | ChatRow, moment: Moment) -> None:
    if moment.revision < holder.readable_from:
        raise Compacted(
            f"What was there before revision {holder.readable_from} has been purged.",
            oldest=holder.readable_from,
        )


# `numbers` is a JSON array.
SELECT_NUMBERED = select_entries(
    "WHERE entry IN (SELECT value FROM json_each(:numbers)) AND subject = :subject",
    postgres="WHERE entry IN (SELECT CAST(value AS bigint)"
    " FROM json_array_elements_text(CAST(:numbers AS json)) AS value) AND subject = :subject",
)


async def state_at(tx: RowReader, holder: HolderRow, moment: Moment) -> dict[str, LoggedChange]:
    """
    Return the last change of each key of a holder up to a moment, also of absent keys.

    The empty key is the holder itself.
    """
    until = await subject_list(holder).last_up_to(tx, moment.entry)
    return await state_until(tx, holder.number, until)


async def state_until(tx: RowReader, number: int, until: int) -> dict[str, LoggedChange]:
    """Return the same up to an entry, which must be one of the holder, or 0."""
    if not until:
        return {}
    found: Found = {}
    row = await tx.fetch_one(SELECT_KEYFRAME, holder=number, until=until)
    frame = KeyframeRow(*row).verify() if row is not None else None
    last, since = until, frame.entry + 1 if frame is not None else 1
    while last >= since:
        chunk = await back(tx, number, last, since, CHUNK)
        _collect(found, chunk)
        last = chunk[-1].prev_of_subject
    if frame is not None:
        # The keys that did not change since.
        framed = {key: entry for key, entry in frame.entries().items() if key not in found}
        await _add_framed(tx, number, framed, found)
    return {key: await resolve_value(tx, *place) for key, place in found.items()}


# The last change of each key: its entry, and its index there.
Found = dict[str, tuple[EntryRow, int]]


async def _add_framed(tx: RowReader, number: int, framed: dict[str, int], found: Found) -> None:
    """Add the changes of keys, each by its key and the number of its entry."""
    if not framed:
        return
    oldest = last_of((await tx.load_head()).oldest)
    if any(entry <= oldest for entry in framed.values()):
        # All of those were folded into one entry, where a keyframe stands.
        row = await tx.fetch_one(SELECT_KEYFRAME, holder=number, until=oldest)
        if row is None:
            raise DatabaseDamaged()
        folded = KeyframeRow(*row).verify().entry
        framed = {key: entry if entry > oldest else folded for key, entry in framed.items()}
    numbers = orjson.dumps(sorted(set(framed.values()))).decode()
    rows = await tx.fetch_all(SELECT_NUMBERED, subject=number, numbers=numbers)
    entries = {entry.entry: entry for entry in await read_entries(tx, rows)}
    for key, entry_number in framed.items():
        entry = entries.get(entry_number)
        indexes = entry.indexes(key) if entry is not None else []
        if entry is None or not indexes:
            raise DatabaseDamaged()
        found[key] = entry, indexes[0]


def _collect(found: Found, entries: list[EntryRow]) -> None:
    """Take the last change of each key, from entries that come newest first."""
    for entry in entries:
        if entry.took_effect:
            for index in range(len(entry.logged) - 1, -1, -1):
                found.setdefault(entry.logged[index].key, (entry, index))


async def values_at(tx: RowReader, holder: HolderRow, moment: Moment) -> list[LoggedChange]:
    """Return the values of a holder at a moment, in the order of the keys then."""
    check_not_purged(holder, moment)
    return present_values(await state_at(tx, holder, moment))


def present_values(state: dict[str, LoggedChange]) -> list[LoggedChange]:
    present = [change for key, change in state.items() if key and change.after is not None]
    return sorted(present, key=lambda change: change.ordinal)


def former_values_record(changes: list[LoggedChange]) -> dict[str, Any]:
    """Return values by key, from changes of the log."""
    return {
        change.key: orjson.Fragment(change.after) for change in changes if change.after is not None
    }


@dataclass(slots=True)
class FormerInstance:
    """An instance as it was at a moment."""

    holder: HolderRow
    ordinal: int
    record: Instance
    chat: int | None
    values: list[LoggedChange]


async def instance_at(tx: RowReader, holder: HolderRow, moment: Moment) -> FormerInstance | None:
    """Return an instance at a moment with its values; None if it did not exist."""
    check_not_purged(holder, moment)
    state = await state_at(tx, holder, moment)
    shape = state.get("")
    if shape is None or shape.after is None:
        return None
    stored = orjson.loads(shape.after)
    record = await shown_instance(tx, stored)
    return FormerInstance(holder, shape.ordinal, record, stored["chat"], present_values(state))


async def shown_instance(tx: RowReader, shape: Shape) -> Instance:
    """Return an instance as the API answers it, from what the log keeps of it."""
    return instance_record(shape, await tx.chat_id(shape["chat"]))


def full_former(former: FormerInstance) -> FullInstance:
    """Return a former instance with its values, as the API answers it."""
    return {"instance": former.record, "data": former_values_record(former.values)}


async def shape_at(
    tx: RowReader, subject: CharacterRow | ChatRow, moment: Moment
) -> LoggedChange | None:
    """Return the last change of a character or chat itself up to a moment."""
    async for chunk in subject_list(subject).newest_first(tx, 0, moment.entry):
        for entry in chunk:
            shapes = [change for change in entry.logged if not change.key]
            if shapes:
                return shapes[-1]
    return None


async def character_at(tx: RowReader, character_id: str, moment: Moment) -> Character | None:
    row = await tx.find_any_character(character_id)
    shape = await shape_at(tx, row, moment) if row is not None else None
    if shape is None or shape.after is None:
        return None
    record: Character = orjson.loads(shape.after)
    return record


async def _members_at(
    tx: RowReader, members: list[HolderRow], moment: Moment
) -> list[FormerInstance]:
    """Return those of the members that existed at a moment."""
    found: list[FormerInstance] = []
    for holder in members:
        if moment.revision >= holder.readable_from:
            former = await instance_at(tx, holder, moment)
            if former is not None:
                found.append(former)
    return sorted(found, key=lambda former: former.ordinal)


async def instances_at(tx: RowReader, character_id: str, moment: Moment) -> list[FormerInstance]:
    """Return the instances of a character at a moment, in the order of their creation."""
    character = await tx.find_any_character(character_id)
    if character is None:
        return []
    members = await _members_at(tx, await tx.list_members(character), moment)
    # Some may have belonged to another character then.
    return [each for each in members if each.record["characterId"] == character_id]


async def chat_instances_at(tx: RowReader, chat: ChatRow, moment: Moment) -> list[FormerInstance]:
    """Return the instances that were bound to a chat at a moment."""
    members = await _members_at(tx, await tx.list_members(chat), moment)
    return [each for each in members if each.chat == chat.number]
