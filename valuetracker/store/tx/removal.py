"""The changes that delete an instance with its values."""

from __future__ import annotations

from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.tx.changes import Change, DropInstance, remove
from valuetracker.store.tx.ledger import Ledger


async def removal_of(
    tx: Ledger, holder: HolderRow, op: str = "remove", operand: str | None = None
) -> list[Change]:
    """Return the changes that delete an instance: each of its values, then itself."""
    # Also keys that were removed at some message: they must not be back when it is hidden.
    keys = [row.key for row in await tx.list_rows(holder) if row.is_removable]
    return [*(remove(holder, key, None, op, operand) for key in keys), DropInstance(holder)]
