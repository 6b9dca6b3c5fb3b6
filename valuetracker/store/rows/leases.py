"""
The time by which leases are counted.

On SQLite it is the run time of the one server that has the file; after a restart the whole length
of a lease begins again. PostgreSQL may serve several servers, so its own clock counts for all of
them, and a restart of a server changes nothing. Neither depends on the clock of the server.
"""

from __future__ import annotations

from typing import NamedTuple

from valuetracker.engine.statement import Statement
from valuetracker.records import time_text
from valuetracker.store.rows.reader import RowReader

# PostgreSQL takes no notice of the parameters, which are about the clock of the server.
SELECT_LEASE_TIME = Statement(
    "SELECT :run_time, :began, :shift",
    postgres="""
    SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint),
        CAST(NULL AS bigint), 0 * (:run_time::bigint + :began::bigint + :shift::bigint)
    """,
)


class LeaseTime(NamedTuple):
    """
    Now, and what makes a time of this counting a time of day.

    `began` is when the run of the server began; None if that makes no difference.
    """

    now: int
    began: int | None
    shift: int

    def holds(self, since: int, length: int) -> bool:
        """Return True if so many milliseconds have not passed since then."""
        return self.now < self._counted(since) + length

    def end_text(self, since: int, length: int) -> str:
        """Return when they will have passed, as the API writes times."""
        return time_text(self._counted(since) + length + self.shift)

    def _counted(self, since: int) -> int:
        if self.began is None or self.began <= since <= self.now:
            return since
        # A time that this run of the server has not seen is of an earlier run.
        return self.began


async def lease_time(tx: RowReader) -> LeaseTime:
    if tx.read_time is None:
        clock = tx.clock
        row = await tx.fetch_one(
            SELECT_LEASE_TIME,
            run_time=clock.run_time,
            began=clock.began,
            shift=clock.began_at - clock.began,
        )
        assert row is not None
        now, began, shift = row
        tx.read_time = now, began, shift
    return LeaseTime(*tx.read_time)
