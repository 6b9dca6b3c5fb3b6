"""
The listening server: sockets, signals, the ready line.

uvicorn does the work; this binds the socket first, so that a taken port is an error of
ours, and says when requests are answered.
"""

from __future__ import annotations

import asyncio
import contextlib
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
from valuetracker.http.connection import Connection
from valuetracker.http.limits import LOOK_SECONDS, Wire
from valuetracker.http.replies import header_block
from valuetracker.settings import Settings

# New objects between two looks of the collector.
COLLECT_AFTER = 10_000


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; uvicorn begins to listen on it when the application has started."""
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


def keep_what_is_there() -> None:
    """
    Tell the collector that what was made so far stays, and to look less often.

    Requests leave next to nothing that only the collector can free, and at its default it
    would go through all modules and tables again and again while answering them.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER, 20, 20)


# What files are open for beside connections: databases, their logs, their readers.
FILES_BESIDE = 1_024


def allow_open_files(wanted: int) -> int:
    """Ask the system for as many open files; how many connections there is room for then."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = wanted + FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < files:
        soft = files if hard == resource.RLIM_INFINITY else min(files, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= files:
        return wanted
    # Whoever is let in must find a file left to be answered from.
    return min(wanted, max(soft - FILES_BESIDE, soft // 2))


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and ends with 0 when told to stop."""

    def __init__(self, app: Starlette, settings: Settings, listener: socket.socket) -> None:
        # uvloop does not exist for Windows; asyncio's own loop is the fallback.
        has_uvloop = importlib.util.find_spec("uvloop") is not None
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop" if has_uvloop else "asyncio",
                http=Connection,
                # Headers that say who is behind a proxy are not believed.
                proxy_headers=False,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=settings.shutdown_seconds,
            )
        )
        self._app = app
        self._wire: Wire = app.state.wire
        self._wire.connections = allow_open_files(self._wire.connections)
        self._watch_stdin = settings.watch_stdin
        self._listener = listener
        self._looked_after: list[Connection] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            keep_what_is_there()
            if self._watch_stdin:
                self._stop_when_stdin_ends()
            print(f"Value Tracker listening on {url_of(self._listener)}", flush=True)

    async def on_tick(self, counter: int) -> bool:
        should_exit = await super().on_tick(counter)
        if counter % 10 == 0:
            self._wire.date = header_block(self.server_state.default_headers)
        # uvicorn ticks ten times a second; a part of all connections each time, so that nobody
        # has to wait for all of them to be looked after.
        parts = round(LOOK_SECONDS * 10)
        if counter % parts == 0:
            self._looked_after = cast("list[Connection]", list(self.server_state.connections))
        now = asyncio.get_running_loop().time()
        for connection in self._looked_after[counter % parts :: parts]:
            connection.look_after(now)
        return should_exit

    def _stop_when_stdin_ends(self) -> None:
        # A thread, because not every system can wait for a pipe on an event loop. Whoever
        # started us holds the other end: when that process ends, however it ends, so does this.
        def read() -> None:
            with contextlib.suppress(OSError, ValueError):
                while os.read(0, 4096):
                    pass
            self.should_exit = True

        threading.Thread(target=read, name="stdin", daemon=True).start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Readers of the feed would otherwise be waited for, and they never end.
        self._app.state.end_feeds()
        await super().shutdown(sockets=sockets)

    def run_until_stopped(self) -> None:
        # uvicorn raises the signal again once it has shut down; by then it has been
        # obeyed, and the exit code is to say so.
        for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda *_: None)
        try:
            self.run(sockets=[self._listener])
        except SystemExit:
            # uvicorn ends the process when the application does not start; why is known
            # to the application.
            failure: StartupError | None = getattr(self._app.state, "start_failure", None)
            if failure is not None:
                raise failure from None
            raise
