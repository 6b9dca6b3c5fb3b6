"""
The server without the writing of log rows.

Only the benchmark uses this module, to measure what the log costs. All else is done: log rows
are made and sealed, revisions are counted, values are written and synced.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from valuetracker.cli.main import main
from valuetracker.engine.sqlite_connection import SQLiteTransaction
from valuetracker.engine.statement import Statement
from valuetracker.store.rows.entries import INSERT_ENTRY, INSERT_KEYFRAME

LOG = (INSERT_ENTRY, INSERT_KEYFRAME)


def leave_out_log() -> None:
    # Replace every way of writing many rows; the benchmark checks in the file that none is left.
    for name in ("execute_many", "execute_tuples"):
        setattr(SQLiteTransaction, name, except_log(getattr(SQLiteTransaction, name)))


def except_log(write: Any) -> Any:
    async def write_except_log(
        transaction: SQLiteTransaction, statement: Statement, rows: Sequence[Any]
    ) -> None:
        if statement not in LOG:
            await write(transaction, statement, rows)

    return write_except_log


if __name__ == "__main__":
    leave_out_log()
    main()
