"""
Reading the log: the state at a moment.

The state of a key at a moment is that of its last change up to it that took effect. A
moment is a revision, or a time: then it is the highest revision recorded at or before it.
A holder's state is found from the keyframe before the moment and the entries since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import Compacted, DatabaseDamaged, RevisionUnknown
from valuetracker.records import Character, Instance
from valuetracker.store.log.links import CHUNK, LOG, OF_SUBJECT, back, subject_list, taken_list
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.entries import (
    EntryRow,
    KeyframeRow,
    Record,
    first_of,
    last_of,
    record_sum,
)
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import CharacterRow, ChatRow, Head, HolderRow, verify_members

# A revision, or a time as the API writes times.
At = int | str


@dataclass(slots=True, frozen=True)
class Moment:
    """A revision, and the highest number an entry up to it can have."""

    revision: int

    @property
    def entry(self) -> int:
        return last_of(self.revision)


# Backwards from the newest: the clock may have been set back, the revisions never are.
SELECT_LAST_UP_TO_TIME = sql.entries("WHERE at <= :at ORDER BY entry DESC LIMIT 1")


async def find_moment(tx: Reader, at: At) -> Moment:
    head = await tx.load_head()
    if isinstance(at, str):
        found = await revision_of_time(tx, at)
        # Below the oldest only what was last then is left; it stood for all up to there.
        revision = max(found, head.oldest) if found is not None else 0
    else:
        if at > head.revision:
            raise RevisionUnknown(f"The latest revision is {head.revision}.", current=head.revision)
        revision = at
    check_not_compacted(head, revision)
    return Moment(revision)


async def revision_of_time(tx: Reader, at: str) -> int | None:
    """The highest revision that was made up to a time."""
    row = await tx.fetch_one(SELECT_LAST_UP_TO_TIME, at=at)
    entry = EntryRow(*row).verify() if row is not None else None
    number = entry.entry if entry is not None else 0
    head = await tx.load_head()
    if number != head.entry:
        # The one after it is of later; one whose time has changed since would be that one.
        after = await tx.fetch_one(LOG.next, until=number)
        if after is None or EntryRow(*after).verify().prior != number:
            raise DatabaseDamaged()
    return entry.revision if entry is not None else None


def check_not_compacted(head: Head, revision: int) -> None:
    if revision < head.oldest:
        raise Compacted(f"The log begins with revision {head.oldest}.", oldest=head.oldest)


def check_not_purged(holder: HolderRow | ChatRow, moment: Moment) -> None:
    if moment.revision < holder.floor:
        raise Compacted(
            f"What was there before revision {holder.floor} has been purged.", oldest=holder.floor
        )


SELECT_KEYFRAME = Statement(
    f"""
    SELECT {sql.names(sql.KEYFRAMES)} FROM {{schema}}.keyframes
    WHERE holder = :holder AND entry <= :until ORDER BY entry DESC LIMIT 1
    """
)

# `ranges` is a JSON array of [first, last].
SELECT_EFFECTS_IN = Statement(
    f"""
    SELECT {sql.names(sql.ENTRIES, "entries")}
    FROM json_each(:ranges) AS range CROSS JOIN {{schema}}.entries
    WHERE subject = :subject AND effect = 1
        AND entry BETWEEN json_extract(range.value, '$[0]') AND json_extract(range.value, '$[1]')
    ORDER BY entry DESC
    """,
    postgres=f"""
    SELECT {sql.names(sql.ENTRIES, "entries")}
    FROM json_array_elements(CAST(:ranges AS json)) AS range (value)
    JOIN {{schema}}.entries ON subject = :subject AND effect = 1
        AND entry BETWEEN CAST(range.value ->> 0 AS bigint) AND CAST(range.value ->> 1 AS bigint)
    ORDER BY entry DESC
    """,
)


async def state_at(tx: Reader, holder: HolderRow, moment: Moment) -> dict[str, Record]:
    """
    What each key of a holder was then, also those that were gone.

    The empty key is the holder itself.
    """
    until = await subject_list(holder).last_up_to(tx, moment.entry)
    return await state_until(tx, holder.number, until)


async def state_until(tx: Reader, number: int, until: int) -> dict[str, Record]:
    """The same up to an entry, which must be one of its own, or 0."""
    state: dict[str, Record] = {}
    if not until:
        return state
    row = await tx.fetch_one(SELECT_KEYFRAME, holder=number, until=until)
    frame = KeyframeRow(*row).verify() if row is not None else None
    since = frame.entry + 1 if frame is not None else 0
    async for chunk in back(tx, OF_SUBJECT, number, until, since, CHUNK):
        _collect(state, chunk)
    if frame is None:
        return state
    head = await tx.load_head()
    # Also of keys that changed since: the keyframe is checked as a whole.
    pointers = frame.revisions()
    if pointers:
        # Up to the keyframe itself: its revision may have gone on.
        ranges = [_range(rev, head, frame.entry) for rev in sorted(set(pointers.values()))]
        framed: dict[str, Record] = {}
        rows = await tx.fetch_all(
            SELECT_EFFECTS_IN,
            subject=number,
            ranges=orjson.dumps(list(dict.fromkeys(ranges))).decode(),
        )
        _collect(framed, [OF_SUBJECT.read(row, number) for row in rows])
        for key in pointers:
            if key not in framed:
                raise DatabaseDamaged()
            frame.digest ^= record_sum(number, key, framed[key].after)
            state.setdefault(key, framed[key])
    if frame.digest:
        raise DatabaseDamaged()
    return state


def _range(revision: int, head: Head, until: int) -> tuple[int, int]:
    # What lies below the oldest was folded into one entry per holder.
    if revision <= head.oldest:
        return (0, last_of(head.oldest))
    return (first_of(revision), min(last_of(revision), until))


def _collect(state: dict[str, Record], entries: list[EntryRow]) -> None:
    """Take the last record of each key, from entries that come newest first."""
    for entry in entries:
        if entry.effect:
            for record in reversed(entry.records):
                state.setdefault(record.key, record)


async def values_at(tx: Reader, holder: HolderRow, moment: Moment) -> list[Record]:
    """What each key of a holder was then, in the order of the keys then."""
    check_not_purged(holder, moment)
    return present_values(await state_at(tx, holder, moment))


def present_values(state: dict[str, Record]) -> list[Record]:
    present = [record for key, record in state.items() if key and record.after is not None]
    return sorted(present, key=lambda record: record.place)


def former_values_record(records: list[Record]) -> dict[str, Any]:
    """Values by key as the log has them."""
    return {
        record.key: orjson.Fragment(record.after) for record in records if record.after is not None
    }


@dataclass(slots=True)
class FormerInstance:
    """An instance as it was at a moment."""

    holder: HolderRow
    place: int
    record: Instance
    chat: int | None
    values: list[Record]


async def instance_at(tx: Reader, holder: HolderRow, moment: Moment) -> FormerInstance | None:
    """An instance as it was then, with its values; None if it was not there."""
    check_not_purged(holder, moment)
    state = await state_at(tx, holder, moment)
    shape = state.get("")
    if shape is None or shape.after is None:
        return None
    stored = orjson.loads(shape.after)
    record = await instance_record(tx, stored)
    return FormerInstance(holder, shape.place, record, stored["chat"], present_values(state))


async def taken_instance_at(
    tx: Reader, holder: HolderRow, moment: Moment, chat: int
) -> FormerInstance | None:
    """An instance of a branch as it was then in the parent, from what was taken over."""
    async for chunk in taken_list(holder).newest_first(tx, 0, moment.entry):
        for entry in chunk:
            for record in reversed(entry.records) if entry.chat == chat else ():
                if not record.key:
                    if record.after is None:
                        return None
                    stored = orjson.loads(record.after)
                    shown = await instance_record(tx, stored)
                    return FormerInstance(holder, record.place, shown, stored["chat"], [])
    return None


async def instance_record(tx: Reader, stored: dict[str, Any]) -> Instance:
    """What the log keeps of an instance, as it is answered."""
    record: Instance = {
        "id": stored["id"],
        "characterId": stored["characterId"],
        "name": stored["name"],
        "chatId": await tx.chat_id(stored["chat"]),
        "createdAt": stored["createdAt"],
        "updatedAt": stored["updatedAt"],
    }
    if stored["origin"] is not None:
        record["origin"] = stored["origin"]
    return record


async def shape_at(tx: Reader, subject: CharacterRow | ChatRow, moment: Moment) -> Record | None:
    """The last change of a character or a chat itself up to then."""
    async for chunk in subject_list(subject).newest_first(tx, 0, moment.entry):
        for entry in chunk:
            shapes = [record for record in entry.records if not record.key]
            if shapes:
                return shapes[-1]
    return None


async def character_at(tx: Reader, character_id: str, moment: Moment) -> Character | None:
    row = await tx.find_any_character(character_id)
    shape = await shape_at(tx, row, moment) if row is not None else None
    if shape is None or shape.after is None:
        return None
    record: Character = orjson.loads(shape.after)
    return record


SELECT_MEMBERS = Statement(
    f"""
    SELECT {sql.names(sql.HOLDERS, "holders")}
    FROM {{schema}}.members JOIN {{schema}}.holders ON holders.number = members.holder
    WHERE parent = :parent
    """
)


async def _members(tx: Reader, parent: CharacterRow | ChatRow) -> list[HolderRow]:
    """What ever belonged to a character or a chat."""
    rows = await tx.fetch_all(SELECT_MEMBERS, parent=parent.number)
    holders = [HolderRow(*row).verify() for row in rows]
    verify_members(parent, (holder.number for holder in holders))
    return holders


async def _members_at(tx: Reader, members: list[HolderRow], moment: Moment) -> list[FormerInstance]:
    """The same, as far as it was there then."""
    found: list[FormerInstance] = []
    for holder in members:
        if moment.revision >= holder.floor:
            former = await instance_at(tx, holder, moment)
            if former is not None:
                found.append(former)
    return sorted(found, key=lambda former: former.place)


async def instances_at(tx: Reader, character_id: str, moment: Moment) -> list[FormerInstance]:
    """The instances a character had then, in the order in which they came into being."""
    character = await tx.find_any_character(character_id)
    if character is None:
        return []
    members = await _members_at(tx, await _members(tx, character), moment)
    # It may have gone to another character by then.
    return [each for each in members if each.record["characterId"] == character_id]


async def chat_instances_at(
    tx: Reader, chat: ChatRow, moment: Moment, in_story: bool = False
) -> list[FormerInstance]:
    """
    The instances that were bound to a chat then.

    In the story of a branch, what it took over happened to itself.
    """
    holders = await _members(tx, chat)
    members = await _members_at(tx, holders, moment)
    if in_story:
        for holder in holders:
            if holder.origin is not None:
                # Only what was before its own log began.
                state = await state_at(tx, holder, moment)
                former = None
                if "" not in state:
                    former = await taken_instance_at(tx, holder, moment, chat.number)
                if former is not None:
                    members.append(former)
        members.sort(key=lambda former: former.place)
    return [each for each in members if each.chat == chat.number]
