"""
The source changes that made an old state, for a restore that names them.

A restored value follows the story by them. Nothing here writes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from valuetracker.store.log.order import Order
from valuetracker.store.log.replay import Replay
from valuetracker.store.rows.entries import BASES, EntryRow, Source
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.numbers import Moment
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.story.point import Point, chain_at, flips_at


@dataclass(slots=True, frozen=True)
class Chats:
    """The chat that a holder will be in, and the one it was in then."""

    now: int | None
    then: int | None


@dataclass(slots=True, frozen=True)
class Named:
    """A change that a restore names; `always` is 1 if it counts, visible or not."""

    source: Source
    always: int

    @property
    def is_flippable(self) -> bool:
        return not self.always and self.source.entry.is_flippable


class FormerSources:
    """Finds the source changes that made the values of a moment, or of a point of the story."""

    def __init__(self, tx: RowReader, moment: Moment, point: Point | None) -> None:
        self._tx = tx
        self._moment = moment
        # The point of the story, if it is more than a moment.
        self._point = point
        self._replay = Replay(tx)
        self._visible: dict[int, bool] = {}
        # By chat, and True for that of then.
        self._orders: dict[tuple[int, bool], Order] = {}

    async def is_other(self, row: DataRow, value: str | None) -> bool:
        """
        Return True if a key has changed since, or has another value than this.

        As of a message: if it has any change that is not in that state.
        """
        if row.last_change > self._moment.entry or row.value != value:
            return True
        if self._point is not None and self._point.message_id is not None:
            async for source in self._replay.walk(row.holder, row.key, row.last_change):
                if not self._point.takes(source):
                    return True
        return False

    async def find(self, holder: HolderRow, row: DataRow, chats: Chats) -> list[Named]:
        """
        Return the source changes that made the value, in the order of then.

        They go back to a base that no flip can reach: older changes can never count again.
        """
        order = await self.order(holder, chats.then, then=True)
        counted: list[Source] = []
        async for source in self._replay.walk(row.holder, row.key, row.last_change):
            if await self._counted(source):
                counted.append(source)
                if order.covers_older(source) and not source.entry.is_flippable:
                    break
        found: list[Named] = []
        for source in sorted(counted, key=order.key):
            if source.change.op == "restore" and source.change.operand is not None:
                found = await self._named_by(source, chats.now, order)
            else:
                found.append(Named(source, int(not _follows(source.entry, chats.now))))
        for index in range(len(found) - 1, 0, -1):
            if found[index].source.change.op in BASES and not found[index].is_flippable:
                return found[index:]
        return found

    async def _named_by(self, restore: Source, chat: int | None, order: Order) -> list[Named]:
        """Return the changes a restore names, as far as they were live at the moment."""
        found: list[Named] = []
        for number, index, always in orjson.loads(restore.change.operand or "[]"):
            named = await self._replay.find_named(restore, number, index)
            if named is None:
                # Some were folded: it is as good as a set.
                return [Named(restore, 0)]
            if always or await self._counted(named):
                follows = not always and _follows(named.entry, chat)
                found.append(Named(named, int(not follows)))
        return sorted(found, key=lambda each: order.key(each.source))

    async def order(self, holder: HolderRow, chat: int | None, then: bool = False) -> Order:
        """Return the order that the changes of a holder have, or had, in a chat."""
        if chat is None:
            return Order(holder.space, None)
        if then and self._point is not None:
            return self._point.order(holder.space)
        if (chat, then) not in self._orders:
            row = await self._tx.get_chat(chat)
            revision = self._moment.revision if then else None
            is_same = revision is None or row.reordered <= revision
            chain = await chain_at(self._tx, row, None if is_same else revision)
            self._orders[chat, then] = Order("", chain, row.reordered, revision)
        return replace(self._orders[chat, then], space=holder.space)

    async def _counted(self, source: Source) -> bool:
        """Return True if a change was one of those that made the old state."""
        if self._point is not None:
            return self._point.counts(source)
        entry = source.entry
        return entry.revision <= self._moment.revision and await self._was_live(entry)

    async def _was_live(self, entry: EntryRow) -> bool:
        """Return True if the place of an entry was visible at the moment."""
        if entry.left_at and entry.left_at <= self._moment.revision:
            return not entry.dropped
        if entry.place is None or not entry.anchor_chat:
            return True
        if entry.place not in self._visible:
            flips = await flips_at(self._tx, [entry.place], self._moment.revision)
            flip = flips.get(entry.place)
            self._visible[entry.place] = flip is not None and bool(flip.visible)
        return self._visible[entry.place]


def _follows(entry: EntryRow, chat: int | None) -> bool:
    """Return True if a change goes on following the story: visible, and in this chat."""
    if entry.place is None:
        return True
    elsewhere = chat is not None and entry.anchor_chat != chat
    return entry.is_flippable and entry.is_live and not elsewhere
