"""
What changes do to the rows and leave in the log: one place for both.

A `Journal` belongs to one group of writes. It brings the rows of the working set to what
the changes make of them, notes what was touched, and tells the log, all in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import cast

from valuetracker.store.rows.cached_table import Table
from valuetracker.store.rows.entries import (
    DERIVED,
    EntryRow,
    KeyframeRow,
    encode_name,
    encode_record,
)
from valuetracker.store.rows.row_cache import WorkingSet
from valuetracker.store.rows.row_types import (
    ChatRow,
    DataRow,
    Head,
    HolderRow,
    PlaceRow,
    content_sum,
    history_sum,
)
from valuetracker.store.tx.apply_subjects import Shapes
from valuetracker.store.tx.changes import Anchor, Change, Context, RemoveValue, SetValue
from valuetracker.store.tx.log_writer import is_frame_due

ValueChange = SetValue | RemoveValue


class Journal(Shapes):
    """The changes of one group, as they are made."""

    def __init__(self, rows: WorkingSet) -> None:
        super().__init__(rows)
        self._chat: ChatRow | None = None
        # Whether all changes of the request took effect.
        self.live = True
        # Whether it has changed any value, or asked to.
        self.logged = False

    def begin(self, context: Context, now: str) -> None:
        """A new request."""
        self._log.begin(context, now)
        self._chat = None
        self.live = True
        self.logged = False

    def take(self) -> tuple[list[EntryRow], list[KeyframeRow]]:
        """The rows of the log collected since last asked."""
        return self._log.take()

    @property
    def is_open(self) -> bool:
        """Whether an entry is being written."""
        return self._log.is_open

    async def close(self) -> None:
        """Write down the entry that is open."""
        await self._log.close()

    async def record(self, changes: Sequence[Change], head: Head, chat: ChatRow | None) -> None:
        """
        Make these changes part of the head's revision.

        `chat` is the one the request says it is in, for what belongs to none itself.
        """
        self._chat = chat
        await self._load_for(changes)
        for where, run in groupby(changes, _where):
            if where is not None:
                await self._change_values(*where, cast(Iterable[ValueChange], run), head)
                continue
            for change in run:
                await self._reshape(change, head)

    async def _load_for(self, changes: Sequence[Change]) -> None:
        """The rows the changes are about, as far as their verb has not loaded them."""
        tables = self._rows.values
        missing: list[tuple[int, str]] = []
        for change in changes:
            if isinstance(change, SetValue | RemoveValue):
                if not change.key:
                    # In the log it would stand for the holder itself.
                    raise RuntimeError("A value has no key.")
                number = change.holder.number
                table = tables.get(number)
                if table is None or change.key not in table.rows:
                    missing.append((number, change.key))
        if missing:
            await self._rows.load_values(missing)

    # Values

    async def _change_values(
        self, number: int, anchor: Anchor | None, changes: Iterable[ValueChange], head: Head
    ) -> None:
        # Nearly all writing goes through here, key by key, so what is the same for all
        # keys of a holder is done once, and nothing is called that need not be.
        changes = list(changes)
        holder = changes[0].holder
        chat = self._chat
        if holder.chat is not None:
            chat = await self._rows.get_chat(holder.chat)
        place = None
        flippable = False
        if anchor is not None:
            place = await self._place(chat, anchor, head.revision)
            flippable = bool(place.chat)
            if flippable and place.position is None:
                await self._store_dormant(holder, chat, place, changes, head)
                return
        entry = await self._log.enter(holder, holder.space, chat, place)
        self._touch_holder(holder, chat, head.revision)
        table = self._rows.values[number]
        rows, revision = table.rows, head.revision
        tags, records, space, id = self.tags, entry.records, holder.space, holder.id
        weight = 0
        for change in changes:
            key, op, operand = change.key, change.op, change.operand
            if op not in DERIVED:
                self.logged = True
            value = change.after if isinstance(change, SetValue) else None
            old = rows[key]
            previous = place_of_row = anchored = 0
            if old is not None:
                previous, anchored = old.last, old.anchored
                if old.value is not None:
                    holder.digest ^= old.content
                    holder.keys -= 1
                    head.keys -= 1
                    place_of_row = old.place
            else:
                holder.known += 1
            if flippable:
                anchored = 1
            if value is None:
                place_of_row = 0
            elif not place_of_row:
                place_of_row = head.next_place()
            content = content_sum(number, key, value)
            checksum = content ^ history_sum(place_of_row, revision, revision, anchored)
            if value is not None:
                holder.digest ^= content
                holder.keys += 1
                head.keys += 1
                weight += len(value)
            table.put(
                key,
                DataRow(
                    number,
                    key,
                    value,
                    place_of_row,
                    revision,
                    revision,
                    anchored,
                    checksum,
                    content,
                ),
            )
            tags.add((space, id, key))
            records.append(encode_record(key, op, previous, place_of_row, value, operand))
        self._rows.values_touched(number, weight)

    def can_set_plainly(
        self, holder: HolderRow, table: Table[str, DataRow], values: dict[str, str]
    ) -> bool:
        """Whether all rows it takes are known."""
        if is_frame_due(holder, len(values)) and not self._rows.is_complete(holder.number):
            return False
        rows = table.rows
        return all(key in rows for key in values)

    def set_plainly(
        self,
        holder: HolderRow,
        table: Table[str, DataRow],
        values: dict[str, str],
        head: Head,
    ) -> None:
        """The same as changing values, for an entry of nothing but unanchored sets."""
        number, revision = holder.number, head.revision
        space, id, tags, rows = holder.space, holder.id, self.tags, table.rows
        records: list[str] = []
        digest = holder.digest
        weight = 0
        for key, value in values.items():
            old = rows[key]
            previous = place = anchored = 0
            if old is not None:
                previous, anchored, place = old.last, old.anchored, old.place
                if old.value is not None:
                    digest ^= old.content
            else:
                holder.known += 1
            if not place:
                place = head.next_place()
                holder.keys += 1
                head.keys += 1
            content = content_sum(number, key, value)
            checksum = content ^ history_sum(place, revision, revision, anchored)
            digest ^= content
            weight += len(value)
            table.put(
                key,
                DataRow(number, key, value, place, revision, revision, anchored, checksum, content),
            )
            tags.add((space, id, key))
            records.append(f"{encode_name(key)}\x1fset\x1f{previous}\x1f{place}\x1f{value}\x1f")
        holder.digest = digest
        self.logged = True
        self._touch_holder(holder, None, revision)
        self._rows.values_touched(number, weight)
        self._log.add_plain(holder, revision, records)

    async def _store_dormant(
        self,
        holder: HolderRow,
        chat: ChatRow | None,
        place: PlaceRow,
        changes: Iterable[ValueChange],
        head: Head,
    ) -> None:
        """Keep what was asked for at a hidden place; no value changes."""
        self.live = False
        self.logged = True
        entry = await self._log.enter(holder, holder.space, chat, place, effect=0)
        table = self._rows.values[holder.number]
        for change in changes:
            key = change.key
            operand = change.operand
            if operand is None and isinstance(change, SetValue):
                operand = change.after
            old = table.rows[key]
            if old is None:
                old = DataRow(holder.number, key, None, 0, 0, 0, 1)
                holder.known += 1
            entry.records.append(encode_record(key, change.op, old.last, 0, None, operand))
            row = DataRow(holder.number, key, old.value, old.place, old.revision, head.revision, 1)
            row.seal()
            table.put(key, row)
        self._rows.values_touched(holder.number)
        self._rows.put_holder(holder)

    # Places

    async def _place(self, chat: ChatRow | None, anchor: Anchor, revision: int) -> PlaceRow:
        """The place a change is anchored to, which must have been seen before."""
        if chat is None:
            place = await self._rows.find_lone_place(anchor.message_id, anchor.swipe)
        else:
            chain = await self._rows.load_chain(chat.number)
            place = chain.places.get((anchor.message_id, anchor.swipe))
        if place is None:
            raise RuntimeError("A change was made at a place that nobody has seen.")
        if not place.written or place.hash is not None:
            place.written = place.written or revision
            place.hash = None
            self._rows.places.put(place.place, place)
        return place


def _where(change: Change) -> tuple[int, Anchor | None] | None:
    """The holder a value is changed in, and the anchor; None for any other change."""
    if isinstance(change, SetValue | RemoveValue):
        return change.holder.number, change.anchor
    return None
