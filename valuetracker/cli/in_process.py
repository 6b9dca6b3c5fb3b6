"""
The server inside the program: commands use it where no other server runs.

`InProcess` is a transport of httpx. It runs the application on an event loop in a thread of its
own and passes requests and answers on piece by piece, so that a command cannot tell it from a
server that listens. No port is opened. The data directory is locked as by any server.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
from starlette.applications import Starlette
from starlette.types import Message

from valuetracker.app import create_app
from valuetracker.clock import Clock
from valuetracker.records import Salvaged
from valuetracker.runtime.repairing import salvage
from valuetracker.settings import Settings

T = TypeVar("T")

# How many pieces of an answer may wait until the command takes them.
WAITING_PIECES = 16
# Ctrl-C is noticed this soon while an answer is awaited, also on Windows.
LOOK_SECONDS = 0.2


class InProcess(httpx.BaseTransport):
    """Answers the requests of a client with an application of its own."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        self._app: Starlette = create_app(settings, clock)
        self.token: str = self._app.state.run_token
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server", daemon=True)
        self._lifespan = self._app.router.lifespan_context(self._app)
        self._thread.start()
        try:
            self._app.state.engine.lock()
            self._run(self._lifespan.__aenter__())
        except BaseException:
            self._end_loop()
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        while True:
            with contextlib.suppress(TimeoutError):
                return future.result(LOOK_SECONDS)

    def salvage(self, user: str, extension_id: str, path: Path) -> Salvaged:
        """Write what is intact of a damaged extension to a file; no route does that."""

        async def work() -> Salvaged:
            async with self._app.state.users.of(user) as extensions:
                return await salvage(extensions, extension_id, path)

        return self._run(work())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        exchange = Exchange(self._app, self._loop, request)
        start = exchange.take()
        assert start is not None, "the application answers every request"
        return httpx.Response(start["status"], headers=start["headers"], stream=exchange)

    def close(self) -> None:
        """Close the databases and unlock the data directory."""
        if self._loop.is_closed():
            return
        try:
            self._loop.call_soon_threadsafe(self._app.state.end_waiting)
            self._run(self._lifespan.__aexit__(None, None, None))
        finally:
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Exchange(httpx.SyncByteStream):
    """One request and its answer, which the client reads as a stream."""

    def __init__(
        self, app: Starlette, loop: asyncio.AbstractEventLoop, request: httpx.Request
    ) -> None:
        self._app = app
        self._loop = loop
        self._request = request
        self._body = iter(request.stream)  # type: ignore[arg-type]
        self._is_sent = False
        # A message, None at the end, or what the application has raised.
        self._messages: queue.SimpleQueue[Message | BaseException | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(WAITING_PIECES)
        self._closed = asyncio.Event()
        self._ended = False
        asyncio.run_coroutine_threadsafe(self._answer(), loop)

    # On the event loop

    async def _answer(self) -> None:
        try:
            await self._app(self._scope(), self._receive, self._send)
        except BaseException as error:
            self._messages.put(error)
            raise
        self._messages.put(None)

    def _scope(self) -> dict[str, Any]:
        url = self._request.url
        path, _, query = url.raw_path.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self._request.headers.raw],
            "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 0),
        }

    async def _receive(self) -> Message:
        if self._is_sent:
            await self._closed.wait()
            return {"type": "http.disconnect"}
        if isinstance(self._request.stream, httpx.ByteStream):
            piece = next(self._body, None)
        else:
            # A file, or standard input, which may have nothing to read for a while.
            piece = await asyncio.to_thread(next, self._body, None)
        self._is_sent = piece is None
        return {"type": "http.request", "body": piece or b"", "more_body": piece is not None}

    async def _send(self, message: Message) -> None:
        await self._room.acquire()
        if not self._closed.is_set():
            self._messages.put(message)

    # On the thread of the command

    def take(self) -> Message | None:
        """Return the next message of the answer; None at its end."""
        while True:
            with contextlib.suppress(queue.Empty):
                found = self._messages.get(timeout=LOOK_SECONDS)
                break
        if isinstance(found, BaseException):
            raise found
        self._ended = found is None
        self._loop.call_soon_threadsafe(self._room.release)
        return found

    def __iter__(self) -> Iterator[bytes]:
        while (message := self.take()) is not None:
            if message["body"]:
                yield message["body"]

    def close(self) -> None:
        """Tell the application that nobody waits for the rest, and wait until it has ended."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._closed.set)
        while not self._ended:
            try:
                self.take()
            except Exception:
                return
