"""How changes of values are applied: rows in the cache, and entries for the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.log.lists import find_entry
from valuetracker.store.rows.chats import ChatRow
from valuetracker.store.rows.entries import DERIVED, LARGEST_SHOWN, encode_change, left_out
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import (
    DataRow,
    HolderRow,
    adopted_row,
    content_sum,
    history_sum,
)
from valuetracker.store.rows.places import PlaceRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.tx.changes import ChangeValue, InheritKey
from valuetracker.store.tx.context import Anchor
from valuetracker.store.tx.log_writer import LogWriter, is_frame_due
from valuetracker.store.tx.touched import Touched, TouchedHolder

# The log leaves a value out if it has at least this many characters, if the operand has at most
# one in so many of them, and at most so many times in a row: then it holds the value again. So a
# value of the past is made of one that is held and of that many operands, which together are at
# most four times as long as the value.
LARGE_CHARACTERS = 2048
OPERAND_SHARE = 8
LONGEST_WITHOUT_WHOLE = 32
# Of so many values is known how long they have been left out.
KNOWN_SINCE_WHOLE = 10_000

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
        # False if a change of the request was stored dormant.
        self.live = True
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
        for key, value in values.items():
            old = rows[key]
            previous = ordinal = anchored = 0
            if old is not None:
                previous, anchored = old.dormant_entry or old.entry, old.anchored
                if old.value is not None:
                    weight -= len(old.value)
                    digest ^= old.content
                    ordinal = old.ordinal
                    if adopted and old.revision == adopted:
                        # The log does not have this value.
                        cache.adopted.append(adopted_row(old))
            if not ordinal:
                created += 1
                ordinal = head.next_ordinal()
            content = content_sum(number, key, value)
            digest ^= content
            weight += len(value)
            row = DataRow(
                number, key, value, ordinal, entry, 0, anchored,
                content ^ history_sum(ordinal, entry, 0, anchored), content,
            )  # fmt: skip
            rows[key] = changed[key] = row
            encoded.append(encode_change(entry, key, "set", previous, ordinal, value))
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
        if flippable and place is not None and place.position is None:
            await self._store_dormant(holder, chat, place, changes, head)
            return
        may_leave_out = [each.recomputable and _is_small_change(each) for each in changes]
        if any(may_leave_out):
            small = {each.key for each, may in zip(changes, may_leave_out, strict=True) if may}
            await self._load_since_whole(holder, small)
        entry = await self._log.entry_for(holder, holder.space, chat, place)
        touched = self._touched.holder(holder, chat, head.revision)
        items: list[Item] = []
        for number, (each, may) in enumerate(zip(changes, may_leave_out, strict=True)):
            items.append((each.key, each.op, each.after, each.operand, may))
            if may and each.after is not None and len(each.after) <= LARGEST_SHOWN:
                # The feed shows it, and need not read the log for it.
                entry.known[len(entry.changes) + number] = each.after
        entry.changes += self._write(holder, touched, entry.number, items, head, flippable)

    def _write(
        self,
        holder: HolderRow,
        touched: TouchedHolder,
        entry: int,
        items: Iterable[Item],
        head: Head,
        flippable: bool,
    ) -> list[str]:
        """Change the rows of a holder; return the changes encoded for the log."""
        # Nearly all writing goes through here, key by key, so what is the same for all
        # keys is done once, and nothing is called that need not be.
        number, adopted = holder.number, head.adopted
        table = self._cache.values[number]
        rows = table.rows
        encoded: list[str] = []
        weight = 0
        for key, op, value, operand, may_leave_out in items:
            if op not in DERIVED:
                self.logged = True
            old = rows[key]
            previous = ordinal = anchored = 0
            if old is not None:
                previous, anchored = old.last_change, old.anchored
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
            if value is None:
                ordinal = 0
            elif not ordinal:
                ordinal = head.next_ordinal()
            content = content_sum(number, key, value)
            checksum = content ^ history_sum(ordinal, entry, 0, anchored)
            if value is not None:
                holder.digest ^= content
                holder.keys += 1
                head.keys += 1
                weight += len(value)
            row = DataRow(number, key, value, ordinal, entry, 0, anchored, checksum, content)
            table.put(key, row)
            touched.rows[key] = row
            held = value
            if may_leave_out and old is not None and value is not None:
                held = self._held(old, entry, value)
            encoded.append(encode_change(entry, key, op, previous, ordinal, held, operand))
        self._cache.touch_values(number, weight)
        return encoded

    def _held(self, old: DataRow, entry: int, value: str) -> str:
        """Return what the log holds of a value that it may leave out."""
        known = self._cache.since_whole
        last, count = known.get((old.holder, old.key), (0, 0))
        # A change that takes no effect stands between a value and the one it is made of.
        leaves_out = (
            old.value is not None
            and not old.dormant_entry
            and last == old.entry
            and count < LONGEST_WITHOUT_WHOLE
        )
        if len(known) >= KNOWN_SINCE_WHOLE:
            known.clear()
        count = count + 1 if leaves_out else 0
        known[old.holder, old.key] = entry, count
        return left_out(count, len(value)) if leaves_out else value

    async def _load_since_whole(self, holder: HolderRow, keys: set[str]) -> None:
        """Look up in the log for how long values have been left out, as far as it is not known."""
        known = self._cache.since_whole
        rows = self._cache.values[holder.number].rows
        for key in keys:
            row = rows[key]
            if row is None or row.value is None or row.dormant_entry:
                continue
            if known.get((row.holder, key), (0, 0))[0] != row.entry:
                entry = await find_entry(self._reader, row.holder, row.entry)
                indexes = entry.indexes(key) if entry is not None else []
                if entry is None or not indexes:
                    raise DatabaseDamaged()
                count = entry.logged[indexes[0]].since_whole
                known[row.holder, key] = row.entry, count

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
        entry = await self._log.entry_for(holder, holder.space, chat, place, effect=0)
        table = self._cache.values[holder.number]
        for change in changes:
            key = change.key
            operand = change.operand if change.operand is not None else change.after
            old = table.rows[key] or DataRow(holder.number, key, None, 0, 0, 0, 1)
            entry.changes.append(
                encode_change(entry.number, key, change.op, old.last_change, 0, None, operand)
            )
            row = DataRow(holder.number, key, old.value, old.ordinal, old.entry, entry.number, 1)
            row.seal()
            table.put(key, row)
        self._cache.touch_values(holder.number)
        self._cache.put_holder(holder)

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
        row = DataRow(
            holder.number, change.key, None, 0, 0, change.last_change, int(change.anchored)
        )
        row.seal()
        self._cache.values_of(holder.number).put(change.key, row)
        self._cache.touch_values(holder.number)
        self._cache.put_holder(holder)


def _is_small_change(change: ChangeValue) -> bool:
    """Return True if a change of a large value is much shorter than the value."""
    after, operand = change.after, change.operand
    return (
        after is not None
        and operand is not None
        and len(after) >= LARGE_CHARACTERS
        and OPERAND_SHARE * len(operand) <= len(after)
    )
