"""
The server as it is, except that the rows of the log are not written.

Only the benchmark has this, to tell what keeping the log costs. All else is done: rows of
the log are made and sealed, revisions are counted, values are written and synced.
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
    # Every way of writing many rows; that none was missed is checked in the file.
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
