"""
All that a chat holds: now, at a moment, or at a point of its story.

One shape for all three, read with a few statements however many instances there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from valuetracker.records import FullInstance
from valuetracker.store.log.order import Source
from valuetracker.store.log.replay import Replay
from valuetracker.store.log.state_at import (
    FormerInstance,
    Moment,
    chat_instances_at,
    former_values_record,
    full_former,
    shown_instance,
    values_at,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import LoggedChange
from valuetracker.store.rows.holders import SELECT_VALUES_OF_CHAT, HolderRow, values_record
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.spaces import SPACES
from valuetracker.store.story.point import Point


@dataclass(slots=True)
class Contents:
    """The values of a chat's spaces, and its instances."""

    spaces: dict[str, dict[str, Any]] = field(
        default_factory=lambda: {space: {} for space in SPACES}
    )
    instances: list[FullInstance] = field(default_factory=list)
    # The holder of each instance's values.
    holders: list[HolderRow] = field(default_factory=list)


async def contents_now(tx: RowReader, chat: ChatRow) -> Contents:
    holders = await tx.list_holders_of_chat(chat)
    values = await tx.list_values_of(holders, SELECT_VALUES_OF_CHAT, chat.number)
    contents = Contents()
    for holder in holders:
        data = values_record(values[holder.number])
        if holder.space == "instance":
            record = await shown_instance(tx, holder.shape())
            contents.instances.append({"instance": record, "data": data})
            contents.holders.append(holder)
        else:
            contents.spaces[holder.space] = data
    return contents


async def contents_at(tx: RowReader, chat: ChatRow, moment: Moment) -> Contents:
    contents = Contents()
    for space in SPACES:
        holder = await tx.find_space(chat, space)
        if holder is not None:
            contents.spaces[space] = former_values_record(await values_at(tx, holder, moment))
    former = await chat_instances_at(tx, chat, moment)
    contents.instances = [full_former(each) for each in former]
    contents.holders = [each.holder for each in former]
    return contents


async def contents_of(tx: RowReader, point: Point) -> Contents:
    """Return what the source changes that are live at a point make."""
    replay = Replay(tx)
    contents = Contents()
    for space in SPACES:
        holder = await tx.find_space(point.chat, space)
        if holder is not None:
            values = await replayed_values(tx, replay, holder, point)
            contents.spaces[space] = former_values_record(values)
    for former in await instances_of(tx, replay, point):
        values = await replayed_values(tx, replay, former.holder, point)
        data = former_values_record(values)
        contents.instances.append({"instance": former.record, "data": data})
        contents.holders.append(former.holder)
    return contents


async def replayed_values(
    tx: RowReader, replay: Replay, holder: HolderRow, point: Point
) -> list[LoggedChange]:
    """Return the values of a holder at a point, in the order of their keys."""
    found: list[LoggedChange] = []
    order = point.order(holder.space)
    for row in await tx.list_rows(holder):
        replayed = await replay.replay(holder.number, row.key, row.last_change, point.counts, order)
        if replayed.value is not None:
            ordinal = replayed.sources[0].change.ordinal or row.ordinal
            found.append(LoggedChange(row.key, "", 0, ordinal, replayed.value, None))
    return sorted(found, key=lambda change: (change.ordinal, change.key))


# Instances


async def instances_of(tx: RowReader, replay: Replay, point: Point) -> list[FormerInstance]:
    """
    Return the instances of a chat at a point.

    As of a message, that is those that were created at or before it, or have a live change there,
    and were not deleted by then. One that came to the chat later counts from the beginning.
    """
    if point.message_id is None:
        return await chat_instances_at(tx, point.chat, Moment(point.revision))
    found: list[FormerInstance] = []
    for holder in await tx.list_members(point.chat):
        shape = await _shape_of(tx, replay, point, holder)
        if shape is not None and shape.after is not None:
            stored = orjson.loads(shape.after)
            record = await shown_instance(tx, stored)
            found.append(FormerInstance(holder, shape.ordinal, record, stored["chat"], []))
    return sorted(found, key=lambda former: former.ordinal)


async def _shape_of(
    tx: RowReader, replay: Replay, point: Point, holder: HolderRow
) -> LoggedChange | None:
    """Return the last change of an instance itself at a point; None if it was not there yet."""
    here: list[Source] = []
    async for source in replay.walk(holder.number, "", holder.shape_entry):
        if source.entry.revision > max(point.revision, point.oldest):
            continue
        shape = orjson.loads(source.change.after or source.change.operand or "null")
        if shape is None or shape["chat"] != point.chat.number:
            break
        here.append(source)
    before = sorted(filter(point.takes, here), key=point.order("instance").key)
    if before:
        return before[-1].change
    if here and await _has_live_change(tx, replay, point, holder):
        return here[-1].change
    return None


async def _has_live_change(tx: RowReader, replay: Replay, point: Point, holder: HolderRow) -> bool:
    """Return True if a live change of an instance stands at a message before the end of a point."""
    for row in await tx.list_rows(holder):
        async for source in replay.walk(holder.number, row.key, row.last_change):
            if point.counts(source) and point.position(source):
                return True
    return False


async def last_shape_of(replay: Replay, point: Point, holder: HolderRow) -> int:
    """Return the entry of the last change of an instance itself that belongs to a point."""
    async for source in replay.walk(holder.number, "", holder.shape_entry):
        if point.takes(source):
            return source.entry.entry
    return 0
