"""
Growth: how much each database takes, and what happens when that is too much.

Databases are measured every few seconds, and only those that were written since: no write waits
for it. A database counts with the pages that hold something. Pages that compaction has emptied are
used again and do not count, although the file keeps them. PostgreSQL counts them until `VACUUM
FULL` has given them back.

Above a size the log and some routes say that a database is large; nothing is folded by itself.
Above a quota, writes that add something are refused. Because of the seconds between two
measurements, a database may grow somewhat beyond its quota.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging

from valuetracker.engine import Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import ValueTrackerError
from valuetracker.runtime.extension import Extension, Full
from valuetracker.runtime.extensions import Extensions
from valuetracker.runtime.users import Users

logger = logging.getLogger(__name__)

MEASURED_EVERY_SECONDS = 2.0
MEGABYTE = 1024 * 1024

SELECT_BYTES = Statement(
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class"
    " WHERE relnamespace = '{schema}'::regnamespace AND relkind = 'r'",
)

# The handle of a user, and the id of an extension.
Name = tuple[str, str]


class Growth:
    """Measures all databases of the users who are here."""

    def __init__(
        self, users: Users, warn_mb: int = 0, quota_mb: int = 0, user_quota_mb: int = 0
    ) -> None:
        self._users = users
        self._warn_bytes = warn_mb * MEGABYTE
        self._quota_bytes = quota_mb * MEGABYTE
        self._user_quota_bytes = user_quota_mb * MEGABYTE
        # Those that are large, of which the log has told.
        self._large: set[Name] = set()
        # The size of each database when it was last measured, and the revision it had then.
        self.sizes: dict[Name, int] = {}
        self._revisions: dict[Name, int] = {}
        self._measuring = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._measure_often())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _measure_often(self) -> None:
        while True:
            try:
                await self.measure()
            except Exception:
                logger.exception("the databases could not be measured")
            await asyncio.sleep(MEASURED_EVERY_SECONDS)

    async def measure(self) -> None:
        """Measure the databases that were written since they were last measured."""
        async with self._measuring:
            for handle, extensions in self._users.opened():
                await self._measure_user(handle, extensions)

    async def _measure_user(self, handle: str, extensions: Extensions) -> None:
        records = extensions.registry.list_registered()
        registered = {each.id for each in records}
        for name in [each for each in self.sizes if each[0] == handle]:
            if name[1] not in registered:
                self._forget(name)
        closed = [each for each in records if (handle, each.id) not in self.sizes]
        stamps = await extensions.engine.stamps([each.location or "" for each in closed])
        for record, stamp in zip(closed, stamps, strict=True):
            if stamp is not None:
                self.sizes[handle, record.id] = stamp.bytes
            elif self._user_quota_bytes and record.id not in extensions.damaged:
                # It has to be opened to be measured.
                with contextlib.suppress(ValueTrackerError):
                    extensions.release(await extensions.acquire(record.id))
        for extension in extensions.opened:
            if self._revisions.get((handle, extension.id)) != extension.revision:
                await self._measure_one(handle, extensions, extension)
        self._judge(handle, extensions)

    async def _measure_one(self, handle: str, extensions: Extensions, extension: Extension) -> None:
        if extension not in extensions.opened:
            # It was closed meanwhile.
            return
        name = (handle, extension.id)
        self._revisions[name] = extension.revision
        extension.acquire()
        try:
            self.sizes[name] = await extension.database.read(_read_bytes)
        except ValueTrackerError:
            # It is damaged or out of reach: other routes tell of that.
            pass
        finally:
            extensions.release(extension)

    def _forget(self, name: Name) -> None:
        del self.sizes[name]
        self._revisions.pop(name, None)
        self._large.discard(name)

    # Too large

    def _judge(self, handle: str, extensions: Extensions) -> None:
        """Note which databases are large, and which are full."""
        total = 0
        for name, size in self.sizes.items():
            if name[0] == handle:
                total += size
                self._note_large(name, size)
        for extension in extensions.opened:
            extension.full = self._full(self.sizes.get((handle, extension.id), 0), total)

    def _full(self, size: int, total: int) -> Full | None:
        if 0 < self._quota_bytes < size:
            return {"quota": "extension", "bytes": size, "limit": self._quota_bytes}
        if 0 < self._user_quota_bytes < total:
            return {"quota": "user", "bytes": total, "limit": self._user_quota_bytes}
        return None

    def _note_large(self, name: Name, size: int) -> None:
        if not 0 < self._warn_bytes < size:
            self._large.discard(name)
        elif name not in self._large:
            self._large.add(name)
            user, extension_id = name
            logger.warning(
                "a database has grown large",
                extra={
                    "user": user,
                    "extension": extension_id,
                    "megabytes": size // MEGABYTE,
                    "hint": _advice(extension_id),
                },
            )

    def count_large(self, handle: str) -> int:
        """Return how many databases of a user are large."""
        return sum(user == handle for user, _ in self._large)

    def count_full(self, handle: str) -> int:
        """Return how many databases of a user are full."""
        total = sum(size for (user, _), size in self.sizes.items() if user == handle)
        return sum(
            self._full(size, total) is not None
            for (user, _), size in self.sizes.items()
            if user == handle
        )

    def warning(self, handle: str, extension_id: str) -> str | None:
        """Say that a database is large, and what to do; None if it is not."""
        if (handle, extension_id) not in self._large:
            return None
        megabytes = self.sizes[handle, extension_id] // MEGABYTE
        return f"The database takes {megabytes} MB. {_advice(extension_id)}"


def _advice(extension_id: str) -> str:
    return (
        "Nothing is deleted by itself. To fold the history that is older than 90 days, run "
        f"`valuetracker compact {extension_id} --keep-days 90`."
    )


async def _read_bytes(transaction: Transaction) -> int:
    row = await transaction.fetch_one(SELECT_BYTES)
    assert row is not None
    size: int = row[0]
    return size
