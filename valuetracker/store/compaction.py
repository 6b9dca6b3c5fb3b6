"""
Folding the log: up to a cutoff only the state is kept, one `base` per key.

The state at the cutoff and everything after it can be read as before. Older states cannot be
read any more, and changes that were dormant at the cutoff are dropped. A base stands where the
last change that was folded into it stood.

The changes of a key are not folded, but move to the table `taken`, so that replay finds them, where
the state of then and the changes since do not make what the key is now:

- A change that is kept stands before one of them.
- A restore that is kept names one of them: which of those count is decided by the story.
- A message of one of them has been hidden or shown since the cutoff, or the key was recomputed.
- Messages of the chat have been put into another order since the cutoff.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import orjson

from valuetracker.engine.statement import Statement
from valuetracker.records import Compaction, moment
from valuetracker.store.log.lists import find_anchors, log_list, taken_list
from valuetracker.store.log.order import Order, order_of
from valuetracker.store.log.replay import Replay
from valuetracker.store.log.state_at import find_moment, revision_of_time, state_until
from valuetracker.store.rows.chat_rows import list_checkpoint_rows
from valuetracker.store.rows.checkpoints import READY
from valuetracker.store.rows.entries import (
    BETWEEN_CHANGES,
    DERIVED,
    IN_ORDER,
    INSERT_ENTRY,
    INSERT_KEYFRAME,
    INSERT_TAKEN,
    KEPT,
    EntryRow,
    KeyframeRow,
    LoggedChange,
    Source,
    encode_change,
)
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import DELETE_ADOPTED
from valuetracker.store.rows.spaces import follows_order
from valuetracker.store.story.point import flips_at
from valuetracker.store.tx.changes import UpdateHead
from valuetracker.store.tx.ledger import Ledger


@dataclass(slots=True, frozen=True)
class Keep:
    """How much to keep: so many revisions, or those of so many days."""

    revisions: int | None = None
    days: float | None = None


DELETE_ENTRIES = Statement("DELETE FROM {schema}.entries WHERE entry <= :until")
SELECT_SUBJECTS_OF_TAKEN = Statement("SELECT DISTINCT subject FROM {schema}.taken")
DELETE_TAKEN = Statement("DELETE FROM {schema}.taken WHERE subject = :subject")
DELETE_KEYFRAMES = Statement("DELETE FROM {schema}.keyframes WHERE entry <= :until")


# Stands for a change that is not needed, so that the others keep their index.
OMITTED = "\x1a"

Key = tuple[int, str]


class Folded:
    """The entries that are about to be folded."""

    def __init__(self, tx: Ledger) -> None:
        self._tx = tx
        # How many changes there are.
        self.changes = 0
        # The last entry of each subject, in their order, without its changes.
        self.last: dict[int, EntryRow] = {}
        # Where the last change of each key stands: its position, and a place there.
        self.standing: dict[Key, tuple[int, int]] = {}
        self._orders: dict[int, Order] = {}
        # The keys of the changes that a flip can reach, by place.
        self._at_places: dict[int, set[Key]] = {}

    async def add(self, entry: EntryRow) -> None:
        await self.note(entry)
        self.changes += sum(1 for change in entry.logged if change.op not in KEPT)
        self.last.pop(entry.subject, None)
        self.last[entry.subject] = _without_changes(entry)

    async def note(self, entry: EntryRow) -> None:
        """Note where the changes of an entry stand."""
        if entry.is_flippable and entry.place is not None:
            keys = self._at_places.setdefault(entry.place, set())
            keys.update(
                (entry.subject, change.key)
                for change in entry.logged
                if change.key and change.op not in DERIVED
            )
        if not entry.took_effect and not entry.is_live:
            return
        for index, change in enumerate(entry.logged):
            if not _is_of_holder(change) or change.op in DERIVED:
                continue
            source = Source(entry, index, change)
            order = await self.order(entry.subject)
            place = order.place(source)
            key = (entry.subject, change.key)
            if place is not None and order.chain is not None:
                self.standing[key] = max(
                    self.standing.get(key, (0, 0)), (order.position(source), place)
                )

    async def order(self, subject: int) -> Order:
        if subject not in self._orders:
            self._orders[subject] = await order_of(self._tx, await self._tx.get_holder(subject))
        return self._orders[subject]

    async def flipped_keys(self, cutoff: int) -> dict[Key, None]:
        """Return the keys with a change at a place that is hidden now, and was not, or shown."""
        then = await flips_at(self._tx, list(self._at_places), cutoff)
        now = await self._tx.load_places(list(self._at_places))
        found: dict[Key, None] = {}
        for number, keys in self._at_places.items():
            was_visible = number in then and bool(then[number].visible)
            if bool(now[number].visible) != was_visible:
                found |= dict.fromkeys(sorted(keys))
        return found

    async def reordered_keys(self, cutoff: int) -> dict[Key, None]:
        """Return the keys of chats whose messages were put into another order since the cutoff."""
        found: dict[Key, None] = {}
        for key in self.standing:
            order = await self.order(key[0])
            if key[1] and order.reordered > cutoff and follows_order(order.space, key[1]):
                found[key] = None
        return found

    async def kept_keys(self, until: int) -> dict[Key, None]:
        """
        Return the keys with a change behind the cutoff that needs those to be folded.

        That is one that stands before one of them, a restore that names one, or a derived one:
        the state at the cutoff is not what they make now.
        """
        found: dict[Key, None] = {}
        async for chunk in (await log_list(self._tx)).oldest_first(self._tx, until + 1):
            for entry in chunk:
                for index, change in enumerate(entry.logged):
                    needs = await self._is_late(Source(entry, index, change))
                    asks = change.op == "reconcile" or _names_folded(change, until)
                    if not needs and change.key and asks:
                        needs = await self.folds(entry.subject)
                    if needs:
                        found[entry.subject, change.key] = None
        return found

    async def folds(self, subject: int) -> bool:
        """Return True if entries of a subject are folded: all that it has taken is then, too."""
        last = self.last.get(subject)
        # The space of a chat that was purged before it became a branch is older than the branch.
        return (
            last is not None and last.revision > (await self._tx.get_holder(subject)).readable_from
        )

    async def _is_late(self, source: Source) -> bool:
        change = source.change
        key = (source.entry.subject, change.key)
        if not change.key or change.op in DERIVED or key not in self.standing:
            return False
        order = await self.order(source.entry.subject)
        before = order.key(source)[0] < self.standing[key][0]
        return before and follows_order(order.space, change.key)


def _names_folded(change: LoggedChange, until: int) -> bool:
    if change.op != "restore":
        return False
    return any(number <= until for number, _, _ in orjson.loads(change.operand or "[]"))


def _is_of_holder(change: LoggedChange) -> bool:
    """Return True if a change is about an instance or a value, not about a character or chat."""
    return (
        bool(change.key)
        or change.op.endswith("_instance")
        or (change.op == "base" and change.operand is not None)
    )


def _without_changes(entry: EntryRow) -> EntryRow:
    entry.changes = ""
    entry.forget_logged()
    return entry


async def compact(tx: Ledger, keep: Keep) -> Compaction:
    head = await tx.load_head()
    cutoff = await _cutoff(tx, head, keep)
    # A state that a checkpoint names must stay readable.
    needed = await _oldest_needed(tx)
    if needed is not None:
        cutoff = min(cutoff, needed)
    if cutoff <= head.oldest:
        return {"oldest": head.oldest, "removed": 0}
    at = await find_moment(tx, cutoff)
    folded = Folded(tx)
    async for chunk in (await log_list(tx)).oldest_first(tx, until=at.entry):
        await find_anchors(tx, chunk)
        for entry in chunk:
            await folded.add(entry)
    dropped = await _branches_to_drop(tx, folded)
    retained = Retained(tx, at.entry)
    needed_keys = await folded.kept_keys(at.entry)
    needed_keys |= await folded.flipped_keys(cutoff) | await folded.reordered_keys(cutoff)
    for number, key in needed_keys:
        await retained.add(number, key)
    bases, kept = await _bases(tx, folded, retained.newest)
    for subject in dropped:
        await tx.execute(DELETE_TAKEN, subject=subject)
    await tx.execute_many(INSERT_TAKEN, retained.entries())
    await tx.execute(DELETE_ENTRIES, until=at.entry)
    await tx.execute(DELETE_KEYFRAMES, until=at.entry)
    await tx.execute_many(INSERT_ENTRY, bases)
    # Entries after it, and keyframes, find a folded value by the keyframe that stands there.
    await tx.execute_many(INSERT_KEYFRAME, [_frame(base) for base in bases])
    if head.adopted and head.adopted <= cutoff:
        await tx.execute(DELETE_ADOPTED)
    await tx.apply([UpdateHead(oldest=cutoff)])
    # Kept answers about the folded past are no longer true.
    tx.invalidate_everything()
    return {"oldest": cutoff, "removed": max(folded.changes - kept, 0)}


async def _branches_to_drop(tx: Ledger, folded: Folded) -> list[int]:
    """Return the holders whose own beginning is folded: their taken entries are not needed."""
    found: list[int] = []
    for (subject,) in await tx.fetch_all(SELECT_SUBJECTS_OF_TAKEN):
        if await folded.folds(subject):
            found.append(subject)
            holder = await tx.get_holder(subject)
            async for chunk in (await taken_list(tx, holder)).oldest_first(tx):
                await find_anchors(tx, chunk)
                for entry in chunk:
                    await folded.note(entry)
    return found


class Retained:
    """The changes up to the cutoff that cannot be folded."""

    def __init__(self, tx: Ledger, until: int) -> None:
        self._tx = tx
        self._until = until
        # By subject and entry: the entry, and of each index the encoded change.
        self._found: dict[tuple[int, int], tuple[EntryRow, dict[int, str]]] = {}
        # The entry of the newest of a key.
        self.newest: dict[Key, int] = {}

    async def add(self, number: int, key: str) -> None:
        """
        Retain the changes of a key: as of some message, each of them may be the last.

        Dormant ones, too: a restore may name them, and they may be live at the next cutoff.
        """
        holder = await self._tx.get_holder(number)
        row = await self._tx.find_value(holder, key)
        assert row is not None
        replay = Replay(self._tx)
        sources = [source async for source in replay.walk(number, key, row.last_change)]
        previous = 0
        for source in reversed(sources):
            if source.entry.entry <= self._until:
                self._keep(number, source, previous)
                previous = source.entry.entry
        self.newest[number, key] = previous
        for restore in sources:
            for named in await replay.list_named(restore):
                if named is not None and named.entry.entry <= self._until:
                    # In a branch, those that never count by themselves are named by restores alone.
                    self._keep(number, named, 0)

    def _keep(self, number: int, source: Source, previous: int) -> None:
        entry, change = source.entry, source.change
        _, changes = self._found.setdefault((number, entry.entry), (entry, {}))
        if source.index not in changes:
            # A value that is left out stays out: only the operand is replayed.
            changes[source.index] = encode_change(
                entry.entry,
                change.key,
                change.op,
                previous,
                change.ordinal,
                change.held,
                change.operand,
            )

    def entries(self) -> list[EntryRow]:
        """Return what is retained, as entries of the table `taken`."""
        rows: list[EntryRow] = []
        for entry, changes in self._found.values():
            omitted = encode_change(entry.entry, OMITTED, "state", 0, 0, None)
            texts = [changes.get(index, omitted) for index in range(max(changes) + 1)]
            row = replace(entry, back=0, changes=BETWEEN_CHANGES.join(texts))
            row.seal()
            rows.append(row)
        return rows


async def _bases(
    tx: Ledger, folded: Folded, retained: dict[Key, int]
) -> tuple[list[EntryRow], int]:
    """
    Return for every subject an entry with its state, which replaces the last one it had.

    Also for subjects without any state: the entry after it names it. A key that was removed at a
    message keeps a base, too: it covers what is written before that later.
    """
    bases: list[EntryRow] = []
    kept = 0
    needed: dict[int, dict[str, None]] = {}
    for number, key in [*folded.standing, *retained]:
        needed.setdefault(number, {})[key] = None
    for entry in folded.last.values():
        state = await state_until(tx, entry.subject, entry.entry)
        changes = [change for change in state.values() if change.after is not None]
        # A keyframe does not name absent keys, so the state may lack them.
        absent = needed.get(entry.subject, {}).keys() - {change.key for change in changes}
        changes += [LoggedChange(key, "base", 0, 0, None, None) for key in sorted(absent)]
        kept += sum(1 for change in changes if change.after is not None and change.op not in KEPT)
        changes.sort(key=lambda change: change.ordinal)
        bases.append(_base(entry, changes, folded, retained))
    for base in bases:
        # All that is folded has one time, that of the last entry.
        base.at = bases[-1].at
        base.seal()
    return bases, kept


def _base(
    entry: EntryRow, changes: list[LoggedChange], folded: Folded, retained: dict[Key, int]
) -> EntryRow:
    encoded: list[str] = []
    for change in changes:
        key = (entry.subject, change.key)
        op, operand = "base", None
        if key in retained:
            op, operand = "state", str(retained[key]) if retained[key] else None
        elif key in folded.standing:
            operand = str(folded.standing[key][1])
        encoded.append(
            encode_change(entry.entry, change.key, op, 0, change.ordinal, change.after, operand)
        )
    entry.changes = BETWEEN_CHANGES.join(encoded)
    entry.place = entry.stands = None
    entry.effect, entry.left_at, entry.dropped, entry.back = IN_ORDER, 0, 0, 0
    return entry


def _frame(base: EntryRow) -> KeyframeRow:
    keys = [(change.key, base.entry) for change in base.logged if change.after is not None]
    return KeyframeRow.of(base.subject, base.entry, keys)


async def _oldest_needed(tx: Ledger) -> int | None:
    """Return the oldest revision that a checkpoint needs; None if there is no checkpoint."""
    needed: list[int] = []
    for chat in await tx.list_chats():
        for row in await list_checkpoint_rows(tx, chat):
            if row.status == READY and row.message_id is None:
                needed.append(row.revision)
            elif row.status == READY:
                # As of a message, every change that stands at one matters: of folded ones only
                # the last state is left.
                places = (await tx.load_chain(chat.number)).places.values()
                seen = [place.first_seen for place in places]
                needed.append(min([row.revision, *(first - 1 for first in seen)]))
    return min(needed, default=None)


async def _cutoff(tx: Ledger, head: Head, keep: Keep) -> int:
    if keep.revisions is not None:
        return head.revision - keep.revisions
    assert keep.days is not None
    try:
        since = datetime.fromisoformat(tx.now) - timedelta(days=keep.days)
    except OverflowError:
        # Longer than there has been time: everything is kept.
        return head.oldest
    revision = await revision_of_time(tx, moment(since))
    return revision if revision is not None else head.oldest
