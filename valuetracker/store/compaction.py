"""
Folding the log: below a cutoff only the state is kept, one `base` per row.

The state at the cutoff and everything after it can be read as before; what lay further
back is gone, and so are the changes that had not taken effect by then.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from valuetracker.engine.statement import Statement
from valuetracker.model import Compaction, moment
from valuetracker.store.ledger import Ledger
from valuetracker.store.log import find_moment
from valuetracker.store.rows import ChangeRow, Head


@dataclass(slots=True, frozen=True)
class Keep:
    """What to keep: so many revisions, or those of so many days."""

    revisions: int | None = None
    days: float | None = None


# The last effective change of every cell up to the cutoff.
SELECT_BASES = Statement(
    """
    SELECT changes.change, changes.revision, changes.cell, op, operand, after, place, parent,
        chat_id, message_id, swipe, effect, live, changes.checksum, space, owner, key
    FROM {schema}.changes JOIN {schema}.cells ON cells.cell = changes.cell
    WHERE changes.change IN (
        SELECT max(last.change) FROM {schema}.changes AS last
        WHERE last.change <= :until AND last.effect = 1 GROUP BY last.cell
    )
    """
)

UPDATE_TO_BASE = Statement(
    """
    UPDATE {schema}.changes SET op = :op, operand = :operand, message_id = :message_id,
        swipe = :swipe, live = :live, checksum = :checksum
    WHERE change = :change
    """,
    postgres="""
    UPDATE {schema}.changes SET op = new.op, operand = new.operand,
        message_id = new.message_id, swipe = new.swipe,
        live = new.live, checksum = new.checksum
    FROM unnest(:op::text[], :operand::text[], :message_id::text[], :swipe::text[], :live::bigint[],
        :checksum::bigint[], :change::bigint[])
        AS new (op, operand, message_id, swipe, live, checksum, change)
    WHERE changes.change = new.change
    """,
)

COUNT_FOLDED = Statement(
    "SELECT count(*) FROM {schema}.changes WHERE change <= :until AND op <> 'base'"
)

DELETE_FOLDED = Statement("DELETE FROM {schema}.changes WHERE change <= :until AND op <> 'base'")

# A base whose row has been removed since the last compaction, or changed and folded anew.
DELETE_OLD_BASES = Statement(
    """
    DELETE FROM {schema}.changes WHERE change <= :until AND op = 'base' AND change NOT IN (
        SELECT max(change) FROM {schema}.changes WHERE change <= :until AND effect = 1
        GROUP BY cell
    )
    """
)

# The revision that is the cutoff stays: it says when the state it names was.
DELETE_REVISIONS = Statement(
    """
    DELETE FROM {schema}.revisions WHERE revision < (
        SELECT max(revision) FROM {schema}.revisions WHERE revision <= :revision
    )
    """
)


async def compact(tx: Ledger, keep: Keep) -> Compaction:
    head = await tx.load_head()
    cutoff = await _cutoff(tx, head, keep)
    if cutoff <= head.oldest:
        return {"oldest": head.oldest, "removed": 0}
    until = (await find_moment(tx, cutoff)).change
    await tx.execute(DELETE_OLD_BASES, until=until)
    bases = [ChangeRow(*row).verify() for row in await tx.fetch_all(SELECT_BASES, until=until)]
    kept = [base for base in bases if base.after is not None]
    for base in kept:
        base.op, base.operand, base.live = "base", None, 1
        base.message_id = base.swipe = None
        base.seal()
    await tx.execute_many(UPDATE_TO_BASE, kept)
    row = await tx.fetch_one(COUNT_FOLDED, until=until)
    await tx.execute(DELETE_FOLDED, until=until)
    await tx.execute(DELETE_REVISIONS, revision=cutoff)
    await tx.set_oldest(cutoff)
    return {"oldest": cutoff, "removed": row[0] if row is not None else 0}


async def _cutoff(tx: Ledger, head: Head, keep: Keep) -> int:
    if keep.revisions is not None:
        return head.revision - keep.revisions
    assert keep.days is not None
    try:
        since = datetime.now(UTC) - timedelta(days=keep.days)
    except OverflowError:
        # Longer than there has been time: everything is kept.
        return head.oldest
    row = await tx.fetch_one(SELECT_REVISION_BEFORE, at=moment(since))
    return row[0] if row is not None else head.oldest


SELECT_REVISION_BEFORE = Statement(
    """
    SELECT revision FROM {schema}.revisions WHERE at <= :at ORDER BY revision DESC LIMIT 1
    """
)
