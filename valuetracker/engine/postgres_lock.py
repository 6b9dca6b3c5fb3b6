"""
The lock by which only one server at a time uses a PostgreSQL database.

It is an advisory lock on a connection of its own, so it ends with its server, however that ends.
The name of that connection says who has it. Whoever writes asks for the lock first; readers do
not need it. If its connection is lost, the lock is taken again at once, and no write is begun
before that.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from valuetracker.errors import DatabaseInUse, DatabaseUnavailable

logger = logging.getLogger(__name__)

# The key of an advisory lock: a number of ours, and one for what it guards.
LOCK_SPACE = 0x5654
REGISTERING = 1
SERVING = 2

# PostgreSQL needs a moment to notice that a server was killed.
PATIENCE_SECONDS = 1.0
RETRY_SECONDS = 0.1
# How often the connection is used, so that its loss is noticed also where nobody reports it.
HEARTBEAT_SECONDS = 10.0
# How soon the lock is tried for again while it cannot be had.
AGAIN_SECONDS = 1.0

TRY = "SELECT pg_try_advisory_lock($1, $2)"
HOLDER = """
    SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 2
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = $1 AND objid = $2
"""
# The connection of a server whose machine was cut off ends after about half a minute.
SETTINGS = {
    # PostgreSQL keeps 63 bytes.
    "application_name": f"pid {os.getpid()} on {socket.gethostname()}"[:63],
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "4",
}

Connect = Callable[[dict[str, str]], Awaitable[Any]]


class ServerLock:
    """The lock of one server."""

    def __init__(self, connect: Connect, address: str) -> None:
        self._connect = connect
        self._address = address
        self._connection: Any = None
        self._lost = asyncio.Event()
        self._attempt: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def is_held(self) -> bool:
        return self._connection is not None and not self._connection.is_closed()

    async def start(self) -> None:
        """Take the lock; refuse to start if another server has it."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                await self.ensure()
                break
            except DatabaseUnavailable as refusal:
                if time.monotonic() > end:
                    raise DatabaseInUse(refusal.message) from None
            await asyncio.sleep(RETRY_SECONDS)
        self._watch = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        for task in (self._watch, self._attempt):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self.is_held:
            # Closing takes PostgreSQL a moment, and the next server may be about to start.
            with contextlib.suppress(Exception):
                await self._connection.fetchval("SELECT pg_advisory_unlock_all()")
            with contextlib.suppress(Exception):
                await self._connection.close(timeout=1)

    async def ensure(self) -> None:
        """Return once this server has the lock; raise if it cannot be had."""
        if self.is_held:
            return
        if self._attempt is None or self._attempt.done():
            self._attempt = asyncio.get_running_loop().create_task(self._take())
            # Nobody may be left to wait for it.
            self._attempt.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(self._attempt)

    async def _take(self) -> None:
        connection = await self._connect(SETTINGS)
        try:
            if not await connection.fetchval(TRY, LOCK_SPACE, SERVING):
                holder = await connection.fetchval(HOLDER, LOCK_SPACE, SERVING) or "unknown"
                raise DatabaseUnavailable(
                    f"Another server ({holder}) is using the database {self._address}."
                )
        except BaseException:
            connection.terminate()
            raise
        self._lost.clear()
        connection.add_termination_listener(lambda _: self._lost.set())
        self._connection = connection

    async def _keep(self) -> None:
        """Take the lock again whenever its connection is lost."""
        while True:
            # Not `asyncio.wait_for`: on Python 3.11 it may swallow that it was cancelled.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(HEARTBEAT_SECONDS):
                    await self._lost.wait()
            self._lost.clear()
            try:
                if self.is_held:
                    await self._connection.fetchval("SELECT 1")
                else:
                    await self.ensure()
                    logger.warning("the lock of the database was lost and taken again")
            except Exception as error:
                self._connection.terminate()
                logger.warning("the lock of the database is lost", extra={"cause": str(error)})
                await asyncio.sleep(AGAIN_SECONDS)
                self._lost.set()
