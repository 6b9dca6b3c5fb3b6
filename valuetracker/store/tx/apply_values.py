"""How changes of values are applied: rows in the cache, and entries for the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from zlib import crc32

from valuetracker.store.log.order import Order, order_of
from valuetracker.store.log.replay import Conflict, Replay, fold, is_live
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import (
    BASES,
    DERIVED,
    DORMANT,
    LARGEST_SHOWN,
    LATE,
    SUPERSEDED,
    encode_change,
    encode_set,
)
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import (
    DataRow,
    HolderRow,
    adopted_row,
    content_sum,
    history_sum,
)
from valuetracker.store.rows.numbers import REVISION_BITS
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.rows.spaces import follows_order
from valuetracker.store.tx.changes import ChangeValue, InheritKey, StandKey
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.leaving_out import LeavingOut, may_leave_out
from valuetracker.store.tx.log_writer import LogWriter, is_frame_due
from valuetracker.store.tx.touched import Touched, TouchedHolder

# A key, the operator, the value after it (None: removed), the operand, and if the log may leave
# the value out.
Item = tuple[str, str, str | None, str | None, bool]


class ApplyValues:
    """Applies changes of values, one holder and one anchor at a time."""

    def __init__(self, reader: RowReader, log: LogWriter, touched: Touched) -> None:
        self._reader = reader
        self._cache = reader.cache
        self._log = log
        self._touched = touched
        self._leaving_out = LeavingOut(reader)
        self.begin()

    def begin(self) -> None:
        """Begin a request."""
        # False if a change of the request was stored dormant.
        self.live = True
        # How many changes of the request were superseded.
        self.superseded = 0
        # Later changes that no longer apply after those of the request.
        self.conflicts: list[tuple[HolderRow, Conflict]] = []
        # True if there was a source change.
        self.logged = False

    async def load_for(self, changes: Sequence[object]) -> None:
        """Load the rows the changes are about, as far as their verb has not."""
        tables = self._cache.values
        missing: list[tuple[int, str]] = []
        for change in changes:
            if isinstance(change, ChangeValue):
                if not change.key:
                    # In the log it would stand for the holder itself.
                    raise RuntimeError("A change of a value names no key.")
                number = change.holder.number
                table = tables.get(number)
                if table is None or change.key not in table.rows:
                    missing.append((number, change.key))
        if missing:
            await self._reader.load_values(missing)

    def set_at_once(self, holder: HolderRow, values: dict[str, str], head: Head) -> bool:
        """
        Set values of an instance that is in no chat, if all rows it takes are known.

        Nearly every write is this one. So it does what `_write` does with as few calls as it can,
        and awaits nothing. Returns False if it did nothing.
        """
        cache, number = self._cache, holder.number
        table = cache.values.get(number)
        if table is None:
            return False
        rows = table.rows
        for key in values:
            if key not in rows:
                return False
        if is_frame_due(holder, len(values)) and number not in cache.complete_holders:
            return False
        head.revision += 1
        entry = self._log.next_number()
        changed = self._touched.holder(holder, None, head.revision).rows
        digest, adopted = holder.digest, head.adopted
        created = weight = 0
        encoded: list[str] = []
        # The parts of checksums that all keys have in common.
        owner, change = f"{number}\0", f".{entry}.0.0."
        for key, value in values.items():
            old = rows[key]
            previous = ordinal = 0
            furthest = None
            if old is not None:
                previous, furthest = old.dormant_entry or old.entry, old.furthest
                if old.value is not None:
                    weight -= len(old.value)
                    digest ^= old.content
                    ordinal = old.ordinal
                    if adopted and old.entry >> REVISION_BITS == adopted:
                        # The log does not have this value.
                        cache.adopted.append(adopted_row(old))
            if not ordinal:
                created += 1
                ordinal = head.next_ordinal()
            # The same as `content_sum` and `history_sum`, written out.
            content = crc32(f"{owner}{key}\0{value}".encode())
            digest ^= content
            weight += len(value)
            # It always counts, and covers the changes before it: no flip reaches one of them.
            checksum = content ^ crc32(f"{ordinal}{change}{furthest}".encode())
            row = DataRow(number, key, value, ordinal, entry, 0, 0, furthest, checksum, content)
            rows[key] = changed[key] = row
            encoded.append(encode_set(entry, key, previous, ordinal, value))
        holder.digest = digest
        holder.keys += created
        head.keys += created
        table.touch(values)
        cache.touch_values(number, weight)
        self.logged = True
        self._log.add(entry, holder, holder.space, encoded)
        return True

    async def change(
        self, changes: Iterable[ChangeValue], head: Head, request_chat: ChatRow | None
    ) -> None:
        """Apply changes of one holder at one anchor."""
        changes = list(changes)
        holder, anchor = changes[0].holder, changes[0].anchor
        chat = request_chat
        if holder.chat is not None:
            chat = await self._reader.get_chat(holder.chat)
        place = await self._place(chat, anchor, head.revision) if anchor is not None else None
        flippable = place is not None and bool(place.chat)
        if place is not None and flippable and not place.visible:
            await self._store_dormant(holder, chat, place, changes, head)
            return
        if holder.chat is None:
            await self._write_run(holder, chat, place, changes, head, None)
            return
        order = await order_of(self._reader, holder)
        rows = self._cache.values[holder.number].rows
        # Nearly always one run, none of it late.
        standings = [(_standing(order, place, rows[each.key], each), each) for each in changes]
        for (stands, late), run in groupby(standings, lambda pair: pair[0]):
            if late and place is not None:
                for _, change in run:
                    await self._write_late(holder, chat, place, change, head, order)
            else:
                each_of = [change for _, change in run]
                await self._write_run(holder, chat, place, each_of, head, stands)

    async def _write_run(
        self,
        holder: HolderRow,
        chat: ChatRow | None,
        place: PlaceRow | None,
        changes: list[ChangeValue],
        head: Head,
        stands: int | None,
    ) -> None:
        """Apply changes that stand behind all others of their keys."""
        small = [may_leave_out(each) for each in changes]
        if any(small):
            keys = {each.key for each, may in zip(changes, small, strict=True) if may}
            await self._leaving_out.load(holder, keys)
        own = stands if place is None else None
        entry = await self._log.entry_for(holder, holder.space, chat, place, stands=own)
        touched = self._touched.holder(holder, chat, head.revision)
        items: list[Item] = []
        for number, (each, may) in enumerate(zip(changes, small, strict=True)):
            items.append((each.key, each.op, each.after, each.operand, may))
            if may and each.after is not None and len(each.after) <= LARGEST_SHOWN:
                # The feed shows it, and need not read the log for it.
                entry.known[len(entry.changes) + number] = each.after
        flippable = place is not None and bool(place.chat)
        reachable = [each.key for each in changes if each.reachable]
        entry.changes += self._write(
            holder, touched, entry.number, items, head, flippable, stands, reachable
        )

    async def _write_late(
        self,
        holder: HolderRow,
        chat: ChatRow | None,
        place: PlaceRow,
        change: ChangeValue,
        head: Head,
        order: Order,
    ) -> None:
        """Apply a change of a key that has others behind it in the story."""
        self.logged = True
        table = self._cache.values[holder.number]
        row = table.rows[change.key]
        assert row is not None
        found, _ = await Replay(self._reader).collect(
            holder.number, change.key, row.last_change, is_live, order
        )
        later = [source for source in found if order.position(source) > place.position]
        bases = [source for source in later if source.change.op in BASES]
        operand = change.operand if change.operand is not None else change.after
        touched = self._touched.holder(holder, chat, head.revision)
        if not bases:
            value, conflicts = fold(later, change.after)
            self.conflicts += [(holder, conflict) for conflict in conflicts]
            entry = await self._log.entry_for(holder, holder.space, chat, place, LATE)
            items = [(change.key, change.op, value, operand, False)]
            entry.changes += self._write(
                holder, touched, entry.number, items, head, True, row.furthest
            )
            return
        self.superseded += 1
        entry = await self._log.entry_for(holder, holder.space, chat, place, SUPERSEDED)
        entry.changes.append(
            encode_change(entry.number, change.key, change.op, row.last_change, 0, None, operand)
        )
        # A base that always counts covers it for good.
        covered = any(not source.entry.is_flippable for source in bases)
        anchored = row.anchored if covered else 1
        self._put_without_effect(row, entry.number, anchored, row.furthest)

    def _put_without_effect(
        self, old: DataRow, entry: int, anchored: int, furthest: int | None
    ) -> None:
        """Note a change of a key in its row; its value stays."""
        row = DataRow(
            old.holder, old.key, old.value, old.ordinal, old.entry, entry, anchored, furthest
        )
        row.seal()
        self._cache.values[old.holder].put(old.key, row)
        self._cache.touch_values(old.holder)

    def _write(
        self,
        holder: HolderRow,
        touched: TouchedHolder,
        entry: int,
        items: Iterable[Item],
        head: Head,
        flippable: bool,
        stands: int | None = None,
        reachable: Collection[str] = (),
    ) -> list[str]:
        """
        Change the rows of a holder; return the changes encoded for the log.

        `stands` is a place of the message at which they stand, `reachable` the keys of which a
        flip can reach a change that is named.
        """
        # Nearly all writing goes through here, key by key, so what is the same for all
        # keys is done once, and nothing is called that need not be.
        number, adopted = holder.number, head.adopted
        table = self._cache.values[number]
        rows = table.rows
        encoded: list[str] = []
        weight = 0
        for key, op, value, operand, may in items:
            if op not in DERIVED:
                self.logged = True
            old = rows[key]
            previous = ordinal = anchored = 0
            furthest = None
            if old is not None:
                previous, anchored, furthest = old.last_change, old.anchored, old.furthest
                if old.value is not None:
                    weight -= len(old.value)
                    holder.digest ^= old.content
                    holder.keys -= 1
                    head.keys -= 1
                    ordinal = old.ordinal
                    if adopted and old.revision == adopted:
                        # The log does not have this value.
                        self._cache.adopted.append(adopted_row(old))
            if flippable:
                anchored = 1
            elif anchored or reachable:
                # A base that always counts covers the others of its key.
                anchored = int(key in reachable) if op in BASES else anchored
            if stands is not None and follows_order(holder.space, key):
                furthest = stands
            if value is None:
                ordinal = 0
            elif not ordinal:
                ordinal = head.next_ordinal()
            content = content_sum(number, key, value)
            checksum = content ^ history_sum(ordinal, entry, 0, anchored, furthest)
            if value is not None:
                holder.digest ^= content
                holder.keys += 1
                head.keys += 1
                weight += len(value)
            row = DataRow(
                number, key, value, ordinal, entry, 0, anchored, furthest, checksum, content
            )
            table.put(key, row)
            touched.rows[key] = row
            held = value
            if may and old is not None and value is not None:
                held = self._leaving_out.held(old, entry, value)
            encoded.append(encode_change(entry, key, op, previous, ordinal, held, operand))
        self._cache.touch_values(number, weight)
        return encoded

    async def _store_dormant(
        self,
        holder: HolderRow,
        chat: ChatRow | None,
        place: PlaceRow,
        changes: Iterable[ChangeValue],
        head: Head,
    ) -> None:
        """Log what was asked for at a hidden place; no value changes."""
        self.live = False
        self.logged = True
        order = await order_of(self._reader, holder)
        for change in changes:
            key = change.key
            operand = change.operand if change.operand is not None else change.after
            old = self._cache.values[holder.number].rows[key]
            if old is None:
                old = DataRow(holder.number, key, None, 0, 0, 0, 1)
            stands, late = _standing(order, place, old, change)
            anchored = 1
            if late:
                anchored = old.anchored if await self._is_covered(old, place, order) else 1
                stands = old.furthest
            entry = await self._log.entry_for(holder, holder.space, chat, place, DORMANT)
            entry.changes.append(
                encode_change(entry.number, key, change.op, old.last_change, 0, None, operand)
            )
            if not follows_order(holder.space, key):
                stands = None
            self._put_without_effect(old, entry.number, anchored, stands)
        self._cache.put_holder(holder)

    async def _is_covered(self, row: DataRow, place: PlaceRow, order: Order) -> bool:
        """Return True if a base that always counts stands behind a place."""
        found, _ = await Replay(self._reader).collect(
            row.holder, row.key, row.last_change, is_live, order
        )
        return any(
            source.change.op in BASES
            and not source.entry.is_flippable
            and order.position(source) > place.position
            for source in found
        )

    async def _place(self, chat: ChatRow | None, anchor: Anchor, revision: int) -> PlaceRow:
        """Return the place a change is anchored to, which must have been registered."""
        if chat is None:
            place = await self._reader.find_lone_place(anchor.message_id, anchor.swipe)
        else:
            chain = await self._reader.load_chain(chat.number)
            place = chain.places.get((anchor.message_id, anchor.swipe))
        if place is None:
            raise RuntimeError("A change is anchored to a place that was not registered.")
        if not place.first_written or place.hash is not None:
            place.first_written = place.first_written or revision
            # The text it was recorded for is not the one this change was made of.
            place.hash = None
            self._cache.places.put(place.place, place)
        return place

    def inherit(self, change: InheritKey) -> None:
        """Add the row of a key without value."""
        holder = change.holder
        row = DataRow(holder.number, change.key, None, 0, 0, change.last_change, 0)
        row.seal()
        self._cache.values_of(holder.number).put(change.key, row)
        self._cache.touch_values(holder.number)
        self._cache.put_holder(holder)

    async def stand(self, change: StandKey) -> None:
        """Note where the changes of a key stand."""
        row = await self._reader.find_value(change.holder, change.key)
        assert row is not None
        if (row.furthest, row.anchored) != (change.furthest, int(change.anchored)):
            row.furthest, row.anchored = change.furthest, int(change.anchored)
            row.seal()
            self._cache.values[row.holder].put(row.key, row)
            self._cache.touch_values(row.holder)

    async def keep(self, holder: HolderRow) -> None:
        """Log the values of a holder as bases; from now on they stand at the beginning."""
        chat = await self._reader.get_chat(holder.chat) if holder.chat is not None else None
        for row in await self._reader.list_rows(holder):
            if row.furthest is not None:
                entry = await self._log.entry_for(holder, holder.space, chat)
                entry.changes.append(
                    encode_change(
                        entry.number, row.key, "base", row.last_change, row.ordinal, row.value
                    )
                )
                self._put_without_effect(row, entry.number, 0, None)
            elif row.anchored:
                await self.stand(StandKey(holder, row.key, None, False))
        self._cache.put_holder(holder)


def _standing(
    order: Order, place: PlaceRow | None, row: DataRow | None, change: ChangeValue
) -> tuple[int | None, bool]:
    """
    Return a place of the message at which a change stands; None for the beginning.

    Also True if other changes of its key stand behind it.
    """
    chain = order.chain
    if change.op in DERIVED or chain is None:
        return None, False
    own = place if place is not None else chain.last()
    if row is None:
        return own.place if own is not None and not change.first else None, False
    if not follows_order(order.space, change.key):
        return own.place if own is not None else None, False
    if chain.position_of(row.furthest) <= (own.position if own is not None else 0):
        return own.place if own is not None else None, False
    # An unanchored change is never superseded when it is made.
    return (None, True) if place is not None else (row.furthest, False)
