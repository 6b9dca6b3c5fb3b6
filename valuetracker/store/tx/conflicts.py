"""Conflicts: changes that are skipped, because they do not apply to the value they meet now."""

from __future__ import annotations

from typing import Any, TypeVar

from valuetracker.store.log.replay import Conflict
from valuetracker.store.rows.holders import HolderRow, owner_record
from valuetracker.store.rows.spaces import shown_key
from valuetracker.store.tx.ledger import Ledger

Answer = TypeVar("Answer")


def conflict_records(conflicts: list[tuple[HolderRow, Conflict]]) -> list[Any]:
    return [
        {
            **owner_record(holder),
            "key": shown_key(holder.space, conflict.source.change.key) or "",
            "op": conflict.source.change.op,
            "revision": conflict.source.entry.revision,
            "reason": conflict.reason,
        }
        for holder, conflict in conflicts
    ]


def with_conflicts(tx: Ledger, answer: Answer) -> Answer:
    """Return the answer to a write, with the later changes that no longer apply, if any."""
    if tx.conflicts:
        answer["conflicts"] = conflict_records(tx.conflicts)  # type: ignore[index]
    return answer
