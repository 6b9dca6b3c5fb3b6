"""
The listening server: sockets, signals, the ready line.

uvicorn does the work. This module binds the socket first, so that a port in use is an error
with a hint, and prints a line when the server is ready.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib.util
import os
import signal
import socket
import threading
from typing import cast

import uvicorn
from starlette.applications import Starlette

from valuetracker.errors import PortUnusable, StartupError
from valuetracker.http.fast.connection import Connection
from valuetracker.http.fast.shared_state import SharedState
from valuetracker.http.limits import CHECK_SECONDS, IDLE_SECONDS
from valuetracker.http.replies import header_block
from valuetracker.http.run_file import remove_run, write_run
from valuetracker.settings import Settings

# New objects between two runs of the garbage collector.
COLLECT_AFTER = 10_000


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket; uvicorn listens on it once the application has started."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        # On Windows this would let a second server steal the port.
        if hasattr(signal, "SIGKILL"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        raise PortUnusable(f"Cannot listen on {host}:{port}: {error}.") from error
    return listener


def url_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def relax_garbage_collector() -> None:
    """
    Exempt the objects made so far from garbage collection, and collect less often.

    Requests leave almost nothing that only the collector can free. With its default it would
    traverse all modules and tables again and again while requests are answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


# Of glibc: blocks above this size are given back to the system when they are freed, and threads
# share a few heaps. By default it keeps larger ones, and a heap for each thread, for later.
M_MMAP_THRESHOLD, LARGE_BLOCK = -3, 256 * 1024
M_ARENA_MAX, HEAPS = -8, 2


def return_memory_early() -> None:
    """Tell the C library, if it is glibc, to give memory back that was needed for a moment."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(M_ARENA_MAX, HEAPS)


# Open files beside connections: databases, their logs, their readers.
OTHER_FILES = 1_024


def allow_open_files(wanted: int) -> int:
    """Ask the system for so many open files, and return how many connections that allows."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= files:
        return wanted
    # A request on an accepted connection must still be able to open a database.
    return min(wanted, max(soft - OTHER_FILES, soft // 2))


class Server(uvicorn.Server):
    """uvicorn's server; it prints a line when it is ready, and exits with 0 on a signal."""

    def __init__(self, app: Starlette, settings: Settings, listener: socket.socket) -> None:
        self._is_fast = settings.http == "fast"
        # uvloop does not exist for Windows; asyncio's own loop is the fallback.
        has_uvloop = importlib.util.find_spec("uvloop") is not None
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop" if has_uvloop else "asyncio",
                http=Connection if self._is_fast else "auto",
                # `X-Forwarded-For` and its like are not trusted.
                proxy_headers=False,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=settings.shutdown_seconds,
                # The fast connection ignores these two and has limits of its own.
                timeout_keep_alive=round(IDLE_SECONDS),
                limit_concurrency=None if self._is_fast else settings.connections,
            )
        )
        self._app = app
        self._data_dir = settings.data_dir
        self._shared: SharedState = app.state.shared
        self._shared.connections = allow_open_files(self._shared.connections)
        self._watch_stdin = settings.watch_stdin
        self._listener = listener
        self._checked: list[Connection] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            relax_garbage_collector()
            if self._watch_stdin:
                self._stop_when_stdin_ends()
            await asyncio.to_thread(
                write_run, self._data_dir, self._listener, self._app.state.run_token
            )
            print(f"Value Tracker listening on {url_of(self._listener)}", flush=True)

    async def on_tick(self, counter: int) -> bool:
        should_exit = await super().on_tick(counter)
        if self._is_fast:
            self._tick_connections(counter)
        return should_exit

    def _tick_connections(self, counter: int) -> None:
        """Refresh the date of the answers, and close connections that are overdue."""
        if counter % 10 == 0:
            self._shared.date = header_block(self.server_state.default_headers)
        # uvicorn ticks ten times a second. Each tick checks a part of all connections, so that
        # no request has to wait until all of them are checked.
        parts = round(CHECK_SECONDS * 10)
        if counter % parts == 0:
            self._checked = cast("list[Connection]", list(self.server_state.connections))
        now = asyncio.get_running_loop().time()
        for connection in self._checked[counter % parts :: parts]:
            connection.check_deadlines(now)

    def _stop_when_stdin_ends(self) -> None:
        # A thread, because not every system can wait for a pipe on an event loop. The program
        # that started this one holds the other end: when it ends, however it ends, so does this.
        def read() -> None:
            with contextlib.suppress(OSError, ValueError):
                while os.read(0, 4096):
                    pass
            self.should_exit = True

        threading.Thread(target=read, name="stdin", daemon=True).start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for all requests, and readers of a feed would never end.
        self._app.state.end_waiting()
        # While the data directory is still locked: the next server writes a file of its own.
        await asyncio.to_thread(remove_run, self._data_dir, self._app.state.run_token)
        await super().shutdown(sockets=sockets)

    def run_until_stopped(self) -> None:
        return_memory_early()
        # uvicorn raises the signal again after it has shut down. The signal has been obeyed
        # then, and the exit code must be 0.
        for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: None)
        try:
            self.run(sockets=[self._listener])
        except SystemExit:
            # uvicorn ends the process if the application does not start; the application
            # knows why.
            failure: StartupError | None = getattr(self._app.state, "start_failure", None)
            if failure is not None:
                raise failure from None
            raise
