"""
All that a chat holds: now, at a moment, or at a point of its story.

One shape for all three, read with a few statements however many instances there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from valuetracker.records import FullInstance
from valuetracker.store.log.replay import Counts, Replay
from valuetracker.store.log.state_at import (
    chat_instances_at,
    former_values_record,
    full_former,
    shown_instance,
    values_at,
)
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import LoggedChange
from valuetracker.store.rows.holders import SELECT_VALUES_OF_CHAT, HolderRow, values_record
from valuetracker.store.rows.numbers import Moment
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
        if holder.space in ("instance", "chat"):
            data = tx.values_record(values[holder.number])
        else:
            # The answer shows what is made of these.
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
            values = await replayed_values(tx, replay, holder, point.counts)
            contents.spaces[space] = former_values_record(values)
    for former in await chat_instances_at(tx, point.chat, point.moment, in_story=True):
        values = await replayed_values(tx, replay, former.holder, point.counts)
        data = former_values_record(values)
        contents.instances.append({"instance": former.record, "data": data})
        contents.holders.append(former.holder)
    return contents


async def replayed_values(
    tx: RowReader, replay: Replay, holder: HolderRow, counts: Counts
) -> list[LoggedChange]:
    """Return the values of a holder that these changes make, in the order of their keys."""
    found: list[LoggedChange] = []
    for row in await tx.list_rows(holder):
        replayed = await replay.replay(holder.number, row.key, row.last_change, counts)
        if replayed.value is not None:
            ordinal = replayed.sources[0].change.ordinal or row.ordinal
            found.append(LoggedChange(row.key, "", 0, ordinal, replayed.value, None))
    return sorted(found, key=lambda change: (change.ordinal, change.key))
