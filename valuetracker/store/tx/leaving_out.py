"""
Leaving values out of the log: a small change of a large value is logged without the value.

Operator and operand make it of the value before, in the order of revisions. So that holds for a
change that was applied to what its key read, and for none that is late, dormant or derived.
"""

from __future__ import annotations

from collections.abc import Iterable

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.log.lists import find_state
from valuetracker.store.rows.entries import left_out
from valuetracker.store.rows.holders import DataRow, HolderRow
from valuetracker.store.rows.reader import RowReader
from valuetracker.store.tx.changes import ChangeValue

# The log leaves a value out if it has at least this many characters, if the operand has at most
# one in so many of them, and at most so many times in a row: then it holds the value again. So a
# value of the past is made of one that is held and of that many operands, which together are at
# most four times as long as the value.
LARGE_CHARACTERS = 2048
OPERAND_SHARE = 8
LONGEST_WITHOUT_WHOLE = 32
# Of so many values is known how long they have been left out.
KNOWN_SINCE_WHOLE = 10_000


class LeavingOut:
    """Decides which values the log leaves out."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader
        self._cache = reader.cache

    async def load(self, holder: HolderRow, keys: Iterable[str]) -> None:
        """Look up in the log for how long values have been left out, as far as it is not known."""
        known = self._cache.since_whole
        rows = self._cache.values[holder.number].rows
        for key in keys:
            row = rows[key]
            if row is None or row.value is None or row.dormant_entry:
                continue
            if known.get((row.holder, key), (0, 0))[0] != row.entry:
                entry = await find_state(self._reader, row.holder, row.entry, key)
                if entry is None:
                    raise DatabaseDamaged()
                count = entry.logged[entry.indexes(key)[0]].since_whole
                known[row.holder, key] = row.entry, count

    def held(self, old: DataRow, entry: int, value: str) -> str:
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


def may_leave_out(change: ChangeValue) -> bool:
    """Return True for a change of a large value that is much shorter than the value."""
    after, operand = change.after, change.operand
    return (
        change.recomputable
        and after is not None
        and operand is not None
        and len(after) >= LARGE_CHARACTERS
        and OPERAND_SHARE * len(operand) <= len(after)
    )
