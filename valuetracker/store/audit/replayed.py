"""
The log of one subject, replayed from its first entry on.

Every entry is compared with those before it. In the end there is the state that the log describes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from valuetracker.errors import ValueTrackerError
from valuetracker.store.audit.findings import Findings
from valuetracker.store.log.operators import ABSENT, OPERATORS, apply_operator
from valuetracker.store.rows.entries import (
    DERIVED,
    DORMANT,
    KEPT,
    LATE,
    EntryRow,
    LoggedChange,
)
from valuetracker.store.rows.numbers import last_of
from valuetracker.values import canonical, load_text

# Changes of a value whose operand is not that of an operator.
WITHOUT_OPERATOR = {"set", "remove", "restore", "adopt", *DERIVED, *KEPT}
SHAPES = ("create_", "update_", "delete_", "rename_", "base", "reconcile")


@dataclass(slots=True)
class Replayed:
    """The state of a key, or of the subject itself, after the entries replayed so far."""

    after: str | None = None
    ordinal: int = 0
    # The entry of the last change that took effect, and of the last that was asked for.
    entry: int = 0
    last_change: int = 0


class SubjectReplay:
    """Replays the entries of one subject."""

    def __init__(self, number: int, is_holder: bool, oldest: int, findings: Findings) -> None:
        self._number = number
        self._is_holder = is_holder
        self._oldest = oldest
        self._findings = findings
        # By key; the empty key is the subject itself.
        self.keys: dict[str, Replayed] = {}
        self.last = 0
        self.count = 0

    def agree(self, stored: int, replayed: int) -> bool:
        """Compare two entries; of a folded one it is only known that it is folded."""
        folded = last_of(self._oldest)
        return stored == replayed if replayed > folded else stored <= folded

    def take_over(self, entries: Iterable[EntryRow]) -> None:
        """Note the changes that a branch has taken over: they have no effect, but keys."""
        for entry in entries:
            self._findings.where = f"taken entry {entry.entry} of {self._number}"
            for change in entry.logged:
                if change.op not in DERIVED and not entry.dropped:
                    if change.key:
                        self._check_operand(change, None)
                    self.keys[change.key] = Replayed(last_change=entry.entry)

    def add(self, entry: EntryRow) -> None:
        """Replay the next entry."""
        findings = self._findings
        findings.where = f"entry {entry.entry} of {self._number}"
        findings.expect(entry.subject == self._number, "It belongs to another subject.")
        findings.expect(entry.prev_of_subject == self.last, "It names a wrong entry before it.")
        findings.expect(DORMANT <= entry.effect <= LATE, "Its effect is unknown.")
        self.last = entry.entry
        self.count += 1
        for change in entry.logged:
            self._add_change(entry, change)

    def _add_change(self, entry: EntryRow, change: LoggedChange) -> None:
        expect = self._findings.expect
        key = repr(change.key)[:100]
        state = self.keys.setdefault(change.key, Replayed())
        if change.key or change.op.endswith("_instance"):
            known = self.agree(change.prev_of_key, state.last_change)
            expect(known, f"The change of {key} names a wrong change before it.")
        expect(bool(not change.key or self._is_holder), "It changes a value of what has none.")
        if not change.key:
            known = change.op.startswith(SHAPES) or change.op in DERIVED
            expect(known, f"The operator {change.op[:40]!r} is unknown.")
            self._check_shape(change)
        else:
            self._check_operand(change, state.after)
        if change.is_left_out:
            change.held = self._left_out(change, state)
        state.last_change = entry.entry
        if not entry.took_effect:
            expect(
                (change.held, change.ordinal) == (None, 0),
                f"The change of {key} took no effect and has a result.",
            )
            return
        if change.op == "base" and entry.revision > self._oldest:
            # The instance left its chat: it keeps the value it has.
            expect(
                (change.held, change.ordinal) == (state.after, state.ordinal),
                f"The value of {key} is another when it left its chat.",
            )
            return
        if change.held is not None and state.after is not None:
            expect(change.ordinal == state.ordinal, f"An update of {key} moves it.")
        state.after, state.ordinal, state.entry = change.held, change.ordinal, entry.entry

    def _check_shape(self, change: LoggedChange) -> None:
        for text in (change.held, change.operand):
            if text is not None and change.op not in ("base", *DERIVED):
                expected = isinstance(orjson.loads(text), dict)
                self._findings.expect(expected, "What it says of its subject is no object.")

    def _check_operand(self, change: LoggedChange, before: str | None) -> None:
        """Check that the operator is known, and that it can do something with the operand."""
        add, key = self._findings.add, repr(change.key)[:100]
        try:
            operand = load_text(change.operand) if change.operand is not None else None
            if change.op in OPERATORS and not change.is_left_out:
                value = ABSENT if before is None else load_text(before)
                apply_operator(change.op, value, operand)
            elif change.op == "restore":
                for number, index, always in operand or ():
                    if type(number) is not int or type(index) is not int or index < 0:
                        add(f"A restore of {key} names no change.")
                    bool(always)
            elif change.op in DERIVED | {"base"}:
                if operand is not None and type(operand) is not int:
                    add(f"The operand of a change of {key} is wrong.")
            elif change.op not in WITHOUT_OPERATOR | OPERATORS.keys():
                add(f"The operator {change.op[:40]!r} of a change of {key} is unknown.")
        except ValueTrackerError:
            # It does not apply, which replay allows.
            return
        except (TypeError, ValueError, AttributeError, KeyError, RecursionError):
            add(f"The operand of a change of {key} is wrong.")

    def _left_out(self, change: LoggedChange, state: Replayed) -> str | None:
        """Return a value that the log leaves out, made of the one before."""
        key = repr(change.key)[:100]
        try:
            before: Any = load_text(state.after or "")
            operand = load_text(change.operand or "")
            value = canonical(apply_operator(change.op, before, operand))
        except (ValueTrackerError, TypeError, ValueError, KeyError):
            self._findings.add(f"The value of {key}, which is left out, cannot be made.")
            return None
        expected = len(value) == change.size and state.entry == state.last_change
        self._findings.expect(expected, f"The value of {key}, which is left out, is another.")
        return value
