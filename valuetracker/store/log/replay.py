"""
Replay: recompute a key from its source changes, in the order of the story.

The changes of a key are a linked list: each names the entry of the one before it. So a key
is recomputed by going back from its last change to a base that no older one stands behind, and
applying the changes from there in their order; how much else has happened does not matter.

The log leaves out large values that change a little. They are made in the same way, of the last
value that is held whole: `tx/leaving_out.py` says how far back that is at the most.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import DatabaseDamaged, ValueTrackerError
from valuetracker.store.log.lists import (
    SELECT_ENTRY,
    find_anchors,
    find_entry,
    find_state,
    read_entries,
)
from valuetracker.store.log.operators import ABSENT, apply_operator
from valuetracker.store.log.order import Order
from valuetracker.store.rows.entries import (
    BASES,
    DERIVED,
    EntryRow,
    LoggedChange,
    Source,
    Walk,
)
from valuetracker.store.rows.reader import RowReader
from valuetracker.values import canonical, load_text

Counts = Callable[[Source], bool]


@dataclass(slots=True)
class Conflict:
    """A change that does not apply to the value it meets."""

    source: Source
    reason: str


@dataclass(slots=True)
class Replayed:
    """The result of a replay: the value as text (None: absent), and the skipped changes."""

    value: str | None
    conflicts: list[Conflict]
    sources: list[Source]
    # The entry of the newest source, whether it counts or not.
    newest: int


class Replay:
    """Replays keys of one transaction."""

    def __init__(self, tx: RowReader) -> None:
        self._tx = tx

    async def walk(self, holder: int, key: str, last: int) -> AsyncIterator[Source]:
        """Yield the source changes of a key, newest first, from the entry of its last change."""
        read = self._tx.read_entries
        known = read.walks.get((holder, key))
        if known is not None and known.last == last:
            walk = known
        else:
            walk = read.begin_walk(holder, key, last)
        index = 0
        while True:
            while index < len(walk.sources):
                read.visits += 1
                yield walk.sources[index]
                index += 1
            if not walk.next:
                return
            if known is not None and walk is not known and walk.next == known.last:
                # From here on it has been read before.
                walk.sources += known.sources
                walk.next = known.next
            else:
                await self._read_on(holder, key, walk)

    async def _read_on(self, holder: int, key: str, walk: Walk) -> None:
        """Read the next entry of a walk."""
        entry = await self.find_entry(holder, walk.next, key)
        # Of folded changes only values are left, and the key had none.
        number = 0
        for index in entry.indexes(key) if entry is not None else ():
            assert entry is not None
            change = entry.logged[index]
            number = change.prev_of_key
            if change.op not in DERIVED:
                walk.sources.append(Source(entry, index, change))
            elif change.operand is not None:
                # Past all other derived changes, however often it has flipped.
                number = int(change.operand)
        walk.next = number

    async def find_entry(self, holder: int, number: int, key: str) -> EntryRow | None:
        """Return an entry of a holder by its number; see `find_entry` of the lists."""
        return await find_entry(self._tx, holder, number, key)

    async def find_own_entry(self, holder: int, number: int) -> EntryRow | None:
        """Return the entry of a holder that has this number, if it is neither taken nor folded."""
        row = await self._tx.fetch_one(SELECT_ENTRY, entry=number, subject=holder)
        if row is None:
            return None
        entries = await read_entries(self._tx, [row])
        await find_anchors(self._tx, entries)
        return entries[0]

    async def collect(
        self, holder: int, key: str, last: int, counts: Counts, order: Order
    ) -> tuple[list[Source], int]:
        """
        Return the changes that count, in their order, as far back as they matter.

        Also the entry of the newest change, whether it counts or not.
        """
        found: list[Source] = []
        newest = 0
        async for source in self.walk(holder, key, last):
            newest = newest or source.entry.entry
            if not counts(source):
                continue
            found.append(source)
            if order.covers_older(source):
                break
        found.sort(key=order.key)
        return found, newest

    async def _since_base(self, found: list[Source], counts: Counts, order: Order) -> list[Source]:
        """Return the changes from the last base on; a restore is replaced by those it names."""
        found = _from_last_base(found)
        if found and found[0].change.op == "restore":
            named = await self._named(found[0], counts, order)
            if named is not None:
                found[:1] = named
        return found

    async def _named(self, restore: Source, counts: Counts, order: Order) -> list[Source] | None:
        """
        Return the changes a restore names, as far as they count; None if some were folded.

        Changes whose message was hidden at the restore always count. A restore that names none,
        not even an empty list, is as good as a set.
        """
        if restore.change.operand is None:
            return None
        found: list[Source] = []
        for number, index, always in orjson.loads(restore.change.operand):
            source = await self.find_named(restore, number, index)
            if source is None:
                return None
            if always or counts(source):
                found.append(source)
        found.sort(key=order.key)
        return _from_last_base(found)

    async def list_named(self, restore: Source) -> list[Source | None]:
        """Return the changes that a restore names, None for one that was folded."""
        if restore.change.op != "restore":
            return []
        names = orjson.loads(restore.change.operand or "[]")
        return [await self.find_named(restore, number, index) for number, index, _ in names]

    async def find_named(self, restore: Source, number: int, index: int) -> Source | None:
        """Return a change that a restore names; None if it was folded."""
        entry = await self.find_entry(restore.entry.subject, number, restore.change.key)
        if entry is None or entry.entry != number or index >= len(entry.logged):
            return None
        change = entry.logged[index]
        # The entry that others were folded into may have the number of the named one.
        return Source(entry, index, change) if change.key == restore.change.key else None

    async def replay(
        self, holder: int, key: str, last: int, counts: Counts, order: Order
    ) -> Replayed:
        found, newest = await self.collect(holder, key, last, counts, order)
        sources = await self._since_base(found, counts, order)
        value, conflicts = fold(sources)
        return Replayed(value, conflicts, sources, newest)

    async def survey(
        self, holder: int, key: str, last: int, order: Order
    ) -> tuple[int | None, bool]:
        """
        Return where the last change of a key stands, live or dormant; None for the beginning.

        Also True if a flip can reach a change of it.
        """
        found = [source async for source in self.walk(holder, key, last)]
        found = [source for source in found if not source.entry.dropped]
        found.sort(key=order.key)
        furthest = order.place(found[-1]) if found and order.key(found[-1])[0] else None
        for source in reversed(found):
            if source.entry.is_flippable:
                return furthest, True
            if source.change.op in BASES:
                return furthest, await self._names_flippable(source)
        return furthest, False

    async def _names_flippable(self, base: Source) -> bool:
        """Return True if a restore names a change that a flip can reach."""
        if base.change.op != "restore":
            return False
        for number, index, always in orjson.loads(base.change.operand or "[]"):
            source = None if always else await self.find_named(base, number, index)
            if source is not None and source.entry.is_flippable:
                return True
        return False


def fold(sources: list[Source], value: str | None = None) -> tuple[str | None, list[Conflict]]:
    """Apply changes to a value, one after the other; return it, and those that do not apply."""
    conflicts: list[Conflict] = []
    for source in sources:
        try:
            value = _apply(source.change, value)
        except ValueTrackerError as refusal:
            conflicts.append(Conflict(source, refusal.message))
    return value, conflicts


def _from_last_base(sources: list[Source]) -> list[Source]:
    for index in range(len(sources) - 1, -1, -1):
        if sources[index].change.op in BASES:
            return sources[index:]
    return sources


def is_live(source: Source) -> bool:
    return source.entry.is_live


def _apply(change: LoggedChange, value: str | None) -> str | None:
    if change.op == "remove":
        return None
    if change.op == "set":
        # Of one that is late or took no effect, `after` says what the key read then.
        return change.operand if change.operand is not None else change.after
    if change.op in BASES:
        return change.after
    before: Any = ABSENT if value is None else load_text(value)
    assert change.operand is not None
    return canonical(apply_operator(change.op, before, load_text(change.operand)))


# Values that the log leaves out


async def resolve_value(tx: RowReader, entry: EntryRow, index: int) -> LoggedChange:
    """Return a change of an entry, with its value."""
    change = last = entry.logged[index]
    steps: list[LoggedChange] = []
    while last.is_left_out:
        steps.append(last)
        entry, index = await _change_before(tx, entry, index)
        last = entry.logged[index]
    if steps:
        change.held = _apply_all(last, steps[::-1])
    return change


async def _change_before(tx: RowReader, entry: EntryRow, index: int) -> tuple[EntryRow, int]:
    """Return the change of the same key before a change that leaves the value out."""
    change = entry.logged[index]
    earlier = [each for each in entry.indexes(change.key) if each < index]
    if earlier:
        return entry, earlier[0]
    found = await find_state(tx, entry.subject, change.prev_of_key, change.key)
    if found is None:
        raise DatabaseDamaged()
    return found, found.indexes(change.key)[0]


def _apply_all(whole: LoggedChange, steps: list[LoggedChange]) -> str:
    """Return the value after changes of a value that is held whole."""
    # Parsed and written once, however many changes there are.
    value: Any = load_text(whole.after or "null")
    for step in steps:
        value = apply_operator(step.op, value, load_text(step.operand or "null"))
    text = orjson.dumps(value).decode()
    if len(text) != steps[-1].size:
        raise DatabaseDamaged()
    return text
