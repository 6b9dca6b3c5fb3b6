"""
Verifying an extension: the checksum of every row, the audit, and every checkpoint.
"""

from __future__ import annotations

from valuetracker.engine.statement import Statement
from valuetracker.errors import Compacted, DatabaseDamaged, ValueTrackerError
from valuetracker.records import Verified
from valuetracker.store.audit.audit import Audit, Report
from valuetracker.store.audit.findings import MOST_FINDINGS
from valuetracker.store.rows.chat_rows import list_checkpoint_rows
from valuetracker.store.rows.checkpoints import READY
from valuetracker.store.rows.entries import TAKEN, EntryRow
from valuetracker.store.rows.row import Row, names
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.story.validation import Check, compare
from valuetracker.store.verification import ROWS

TABLES: tuple[tuple[str, type[Row]], ...] = (
    *((row.table, row) for row in ROWS),
    (TAKEN, EntryRow),
)


async def verify(tx: Snapshot, extension_id: str, report: Report) -> Verified:
    """Compare all that an extension has, and say what is wrong, and where."""
    tx.takes_no_revision()
    rows, findings = await _verify_rows(tx)
    audit = Audit(tx, report)
    checkpoints = 0
    if not findings:
        findings = await audit.run()
        checkpoints, invalid = await _verify_checkpoints(tx)
        findings += invalid
    return {
        "extension": extension_id,
        "sound": not findings,
        "findings": findings[:MOST_FINDINGS],
        "revision": tx.head.revision,
        "rows": rows,
        "entries": audit.entries,
        "checkpoints": checkpoints,
        "repaired": False,
    }


async def _verify_rows(tx: Snapshot) -> tuple[int, list[str]]:
    """Verify the checksum of every row; return how many there are, and the damaged ones."""
    count, findings = 0, []
    for table, kind in TABLES:
        statement = Statement(f"SELECT {names(kind.columns)} FROM {{schema}}.{table}")
        async for chunk in tx.fetch_chunks(statement):
            for columns in chunk:
                count += 1
                try:
                    kind(*columns).verify()
                except DatabaseDamaged:
                    named = repr(columns[:2])[:200]
                    findings.append(f"The table {table} has a damaged row: {named}")
            if len(findings) >= MOST_FINDINGS:
                return count, findings
    return count, findings


async def _verify_checkpoints(tx: Snapshot) -> tuple[int, list[str]]:
    count, findings = 0, []
    for chat in await tx.list_chats():
        for row in await list_checkpoint_rows(tx, chat):
            if row.status != READY:
                continue
            count += 1
            where = f"checkpoint {row.name[:100]!r} of chat {chat.id[:100]!r}"
            try:
                errors = (await compare(tx, chat, row, Check()))["errors"]
            except Compacted:
                errors = ["Its revision has been folded."]
            except ValueTrackerError as error:
                errors = [error.message]
            findings += [f"{where}: {error}" for error in errors]
    return count, findings
