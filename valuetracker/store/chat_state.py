"""
What a chat holds, read as a whole: now, at a moment, or as of a message.

One shape for all three, read with a few statements however many instances there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged, MessageNotFound
from valuetracker.records import ChatState, FullInstance
from valuetracker.store.instances import full_former, instance_record
from valuetracker.store.log.replay import Counts, Replay
from valuetracker.store.log.state_at import (
    At,
    Moment,
    chat_instances_at,
    check_not_purged,
    find_moment,
    former_values_record,
    shape_at,
    values_at,
)
from valuetracker.store.operation_guard import count_operations
from valuetracker.store.rows import statements as sql
from valuetracker.store.rows.checkpoint_rows import list_checkpoint_rows
from valuetracker.store.rows.entries import Record
from valuetracker.store.rows.listing import holders_of_chat
from valuetracker.store.rows.reader import Reader
from valuetracker.store.rows.row_types import ChatRow, DataRow, HolderRow, values_record
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import ROOMS
from valuetracker.store.series import summarise_processed, summarise_series
from valuetracker.store.story.point import View, view_of

SELECT_VALUES_OF_CHAT = Statement(
    f"""
    SELECT {sql.names(sql.DATA, "data")}
    FROM {{schema}}.holders JOIN {{schema}}.data ON data.holder = holders.number
    WHERE chat = :chat AND gone = 0 AND value IS NOT NULL
    ORDER BY data.place
    """
)


@dataclass(slots=True, frozen=True)
class AsOf:
    """As of a message of the visible chain."""

    message_id: str


@dataclass(slots=True)
class Contents:
    """What a chat holds: the values of its rooms, and its instances."""

    rooms: dict[str, dict[str, Any]] = field(default_factory=lambda: {space: {} for space in ROOMS})
    instances: list[FullInstance] = field(default_factory=list)
    # What holds the values of each instance.
    holders: list[HolderRow] = field(default_factory=list)


async def contents_now(tx: Reader, chat: ChatRow) -> Contents:
    holders = await holders_of_chat(tx, chat)
    values: dict[int, list[DataRow]] = {holder.number: [] for holder in holders}
    for row in await tx.fetch_all(SELECT_VALUES_OF_CHAT, chat=chat.number):
        value = DataRow(*row).verify()
        if value.holder not in values:
            raise DatabaseDamaged()
        values[value.holder].append(value)
    contents = Contents()
    for holder in holders:
        own = values[holder.number]
        holder.verify_values(own)
        if holder.space == "instance":
            record = await instance_record(tx, holder)
            contents.instances.append({"instance": record, "data": values_record(own)})
            contents.holders.append(holder)
        else:
            contents.rooms[holder.space] = values_record(own)
    return contents


async def contents_at(tx: Reader, chat: ChatRow, moment: Moment) -> Contents:
    contents = Contents()
    for space in ROOMS:
        room = await tx.find_room(chat, space)
        if room is not None:
            contents.rooms[space] = former_values_record(await values_at(tx, room, moment))
    former = await chat_instances_at(tx, chat, moment)
    contents.instances = [full_former(each) for each in former]
    contents.holders = [each.holder for each in former]
    return contents


async def contents_of(tx: Reader, view: View) -> Contents:
    """
    What a chat was as of a message.

    That is what its live changes make that are anchored at or before the message, and the
    unanchored ones that were made before the story went on after it.
    """
    replay = Replay(tx)
    contents = Contents()
    for space in ROOMS:
        room = await tx.find_room(view.chat, space)
        if room is not None:
            contents.rooms[space] = await replayed_values(tx, replay, room, view.counts)
    for former in await chat_instances_at(tx, view.chat, view.moment, in_story=True):
        data = await replayed_values(tx, replay, former.holder, view.counts)
        contents.instances.append({"instance": former.record, "data": data})
        contents.holders.append(former.holder)
    return contents


async def replayed_values(
    tx: Reader, replay: Replay, holder: HolderRow, counts: Counts
) -> dict[str, Any]:
    """The values of a holder that these changes make, in the order of their keys."""
    return former_values_record(await replayed_records(tx, replay, holder, counts))


async def replayed_records(
    tx: Reader, replay: Replay, holder: HolderRow, counts: Counts
) -> list[Record]:
    found: list[Record] = []
    rows = await tx.fetch_all(sql.SELECT_ROWS_OF_HOLDER, holder=holder.number)
    stored = [DataRow(*row).verify() for row in rows]
    holder.verify_rows(stored)
    for data in stored:
        replayed = await replay.replay(holder.number, data.key, data.last, counts)
        if replayed.value is not None:
            place = replayed.sources[0].record.place or data.place
            found.append(Record(data.key, "", 0, place, replayed.value, None))
    return sorted(found, key=lambda record: (record.place, record.key))


async def get_state(tx: Snapshot, chat_id: str, at: At | AsOf | None) -> ChatState | None:
    # Parts of it take no revision.
    tx.etag = None
    tx.keepable = False
    chat = await tx.find_any_chat(chat_id)
    if isinstance(at, AsOf):
        if chat is None or chat.gone:
            raise MessageNotFound()
        view = await view_of(tx, chat, None, at.message_id)
        state = await state_record(tx, chat, await contents_of(tx, view))
        state["warnings"] = view.warnings
        return state
    if at is not None:
        moment = await find_moment(tx, at)
        if chat is None:
            return None
        check_not_purged(chat, moment)
        shape = await shape_at(tx, chat, moment)
        if shape is None or shape.after is None:
            return None
        state = await state_record(tx, chat, await contents_at(tx, chat, moment))
        state["revision"] = moment.revision
        return state
    if chat is None or chat.gone:
        return None
    return await state_record(tx, chat, await contents_now(tx, chat))


async def origin_record(tx: Reader, chat: ChatRow) -> dict[str, Any] | None:
    """Where a branch left its parent."""
    if chat.origin is None:
        return None
    origin = {key: each for key, each in orjson.loads(chat.origin).items() if each is not None}
    return {"chatId": await tx.chat_id(chat.parent), **origin}


async def state_record(tx: Reader, chat: ChatRow, contents: Contents) -> ChatState:
    return {
        "chatId": chat.id,
        "revision": chat.revision,
        "parent": await tx.chat_id(chat.parent),
        "origin": await origin_record(tx, chat),
        "data": contents.rooms["chat"],
        "instances": contents.instances,
        "series": summarise_series(contents.rooms["series"]),
        "processed": summarise_processed(contents.rooms["processed"]),
        "checkpoints": [row.summary() for row in await list_checkpoint_rows(tx, chat)],
        "operations": await count_operations(tx, chat),
        "warnings": [],
    }
