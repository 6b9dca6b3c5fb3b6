"""
Reading the log: the state at a moment.

The state of a key at a moment is that of its last change up to it that took effect. A
moment is a revision, or a time: then it is the highest revision recorded at or before it.
A holder's state is found from the keyframe before the moment and the entries since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from valuetracker.engine import Row
from valuetracker.engine.statement import Statement
from valuetracker.errors import Compacted, DatabaseDamaged, RevisionUnknown
from valuetracker.model import Character, Instance
from valuetracker.store import statements as sql
from valuetracker.store.entries import EntryRow, KeyframeRow, Record, first_of, last_of
from valuetracker.store.rows import CharacterRow, ChatRow, Head, HolderRow

# A revision, or a time as the API writes times.
At = int | str


class Reader(Protocol):
    """What both kinds of transaction can do."""

    async def load_head(self) -> Head: ...
    async def fetch_all(self, statement: Statement, **parameters: Any) -> list[Row]: ...
    async def fetch_one(self, statement: Statement, **parameters: Any) -> Row | None: ...
    async def chat_id(self, number: int | None) -> str | None: ...
    async def find_any_holder(self, space: str, id: str) -> HolderRow | None: ...
    async def find_any_character(self, character_id: str) -> CharacterRow | None: ...
    async def find_chat(self, chat_id: str) -> ChatRow | None: ...


@dataclass(slots=True, frozen=True)
class Moment:
    """A revision, and the highest number an entry up to it can have."""

    revision: int

    @property
    def entry(self) -> int:
        return last_of(self.revision)


# Backwards from the newest: the clock may have been set back, the revisions never are.
SELECT_MOMENT_OF_TIME = Statement(
    "SELECT entry FROM {schema}.entries WHERE at <= :at ORDER BY entry DESC LIMIT 1"
)


async def find_moment(tx: Reader, at: At) -> Moment:
    head = await tx.load_head()
    if isinstance(at, str):
        row = await tx.fetch_one(SELECT_MOMENT_OF_TIME, at=at)
        # Below the oldest only what was last then is left; it stood for all up to there.
        revision = max(EntryRow.revision_of(row[0]), head.oldest) if row is not None else 0
    else:
        if at > head.revision:
            raise RevisionUnknown(f"The latest revision is {head.revision}.", current=head.revision)
        revision = at
    check_not_compacted(head, revision)
    return Moment(revision)


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

# Of the log alone, without names: the state is asked for by number.
SELECT_EFFECTS = Statement(
    f"""
    SELECT {sql.names(sql.ENTRIES)} FROM {{schema}}.entries
    WHERE subject = :subject AND entry BETWEEN :since AND :until AND effect = 1
    ORDER BY entry DESC
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


async def state_at(tx: Reader, number: int, moment: Moment) -> dict[str, Record]:
    """
    What each key of a holder was then, also those that were gone.

    The empty key is the holder itself.
    """
    return await state_until(tx, number, moment.entry)


async def state_until(tx: Reader, number: int, until: int) -> dict[str, Record]:
    """The same up to an entry."""
    state: dict[str, Record] = {}
    row = await tx.fetch_one(SELECT_KEYFRAME, holder=number, until=until)
    frame = KeyframeRow(*row).verify() if row is not None else None
    since = frame.entry + 1 if frame is not None else 0
    _collect(state, await tx.fetch_all(SELECT_EFFECTS, subject=number, since=since, until=until))
    if frame is None:
        return state
    head = await tx.load_head()
    pointers = {key: rev for key, rev in frame.revisions().items() if key not in state}
    if pointers:
        ranges = [_range(revision, head, until) for revision in sorted(set(pointers.values()))]
        framed: dict[str, Record] = {}
        _collect(
            framed,
            await tx.fetch_all(
                SELECT_EFFECTS_IN,
                subject=number,
                ranges=orjson.dumps(list(dict.fromkeys(ranges))).decode(),
            ),
        )
        for key in pointers:
            if key not in framed:
                raise DatabaseDamaged()
            state[key] = framed[key]
    return state


def _range(revision: int, head: Head, until: int) -> tuple[int, int]:
    # What lies below the oldest was folded into one entry per holder.
    if revision <= head.oldest:
        return (0, last_of(head.oldest))
    return (first_of(revision), min(last_of(revision), until))


def _collect(state: dict[str, Record], rows: list[Row]) -> None:
    """Take the last record of each key, from entries that come newest first."""
    for row in rows:
        for record in reversed(EntryRow(*row).verify().records):
            state.setdefault(record.key, record)


async def values_at(tx: Reader, holder: HolderRow, moment: Moment) -> list[Record]:
    """What each key of a holder was then, in the order of the keys then."""
    check_not_purged(holder, moment)
    return present_values(await state_at(tx, holder.number, moment))


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
    state = await state_at(tx, holder.number, moment)
    shape = state.get("")
    if shape is None or shape.after is None:
        return None
    stored = orjson.loads(shape.after)
    record = await instance_record(tx, stored)
    return FormerInstance(holder, shape.place, record, stored["chat"], present_values(state))


SELECT_TAKEN_SHAPES = sql.taken(
    """
    WHERE entries.subject = :subject AND entries.chat = :chat AND entry <= :until
    ORDER BY entry DESC
    """
)


async def taken_instance_at(
    tx: Reader, holder: HolderRow, moment: Moment, chat: int
) -> FormerInstance | None:
    """An instance of a branch as it was then in the parent, from what was taken over."""
    for row in await tx.fetch_all(
        SELECT_TAKEN_SHAPES, subject=holder.number, chat=chat, until=moment.entry
    ):
        for record in reversed(EntryRow(*row).verify().records):
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


SELECT_LAST_EFFECT = Statement(
    f"""
    SELECT {sql.names(sql.ENTRIES)} FROM {{schema}}.entries
    WHERE subject = :subject AND entry <= :until AND effect = 1
    ORDER BY entry DESC LIMIT 1
    """
)


async def shape_at(tx: Reader, number: int, moment: Moment) -> Record | None:
    """The last change of a character or a chat itself up to then."""
    until = moment.entry
    while True:
        row = await tx.fetch_one(SELECT_LAST_EFFECT, subject=number, until=until)
        if row is None:
            return None
        entry = EntryRow(*row).verify()
        shapes = [record for record in entry.records if not record.key]
        if shapes:
            return shapes[-1]
        until = entry.entry - 1


async def character_at(tx: Reader, character_id: str, moment: Moment) -> Character | None:
    row = await tx.find_any_character(character_id)
    shape = await shape_at(tx, row.number, moment) if row is not None else None
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


async def members_at(tx: Reader, parent: int, moment: Moment) -> list[FormerInstance]:
    """What ever belonged to a character or a chat, as far as it was there then."""
    found: list[FormerInstance] = []
    for row in await tx.fetch_all(SELECT_MEMBERS, parent=parent):
        holder = HolderRow(*row).verify()
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
    members = await members_at(tx, character.number, moment)
    # It may have gone to another character by then.
    return [each for each in members if each.record["characterId"] == character_id]


async def chat_instances_at(
    tx: Reader, chat: int, moment: Moment, in_story: bool = False
) -> list[FormerInstance]:
    """
    The instances that were bound to a chat then.

    In the story of a branch, what it took over happened to itself.
    """
    members = await members_at(tx, chat, moment)
    if in_story:
        for row in await tx.fetch_all(SELECT_MEMBERS, parent=chat):
            holder = HolderRow(*row).verify()
            if holder.origin is not None:
                # Only what was before its own log began.
                state = await state_at(tx, holder.number, moment)
                former = None
                if "" not in state:
                    former = await taken_instance_at(tx, holder, moment, chat)
                if former is not None:
                    members.append(former)
        members.sort(key=lambda former: former.place)
    return [each for each in members if each.chat == chat]
