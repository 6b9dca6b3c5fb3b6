"""
Many readers of the feed in one process:
`python -m bench.readers <url> <extension> <count> <patience in seconds>`.

It says when all of them are connected. Then it is told on its standard input which revision
is the last; each reader goes on until it has that or patience ends, and it is printed what
they were given and how many had not reached the end.

A reader that the server closes because it does not keep up comes back, as a browser's
`EventSource` does, and goes on from where it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import cast
from urllib.parse import urlsplit

import uvloop

from valuetracker.settings import PREFIX

ID = b"\nid: "
END = b"\n\n"
OVERFLOW = b"event: overflow"


class Readers:
    """What the readers share."""

    def __init__(self, url: str, extension: str, count: int) -> None:
        place = urlsplit(url)
        self.host, self.port = place.hostname or "", place.port or 0
        self.extension = extension
        self.count = count
        self.loop = asyncio.get_running_loop()
        self.connected = 0
        self.all_connected = asyncio.Event()
        self.final: int | None = None
        self.behind: set[Reader] = set()
        self.none_behind = asyncio.Event()
        self.failure: asyncio.Future[str] = self.loop.create_future()
        # The loop itself holds tasks only weakly.
        self._returning: set[asyncio.Task[None]] = set()
        self.events = 0
        self.bytes = 0
        self.overflows = 0

    async def connect(self, reader: Reader) -> None:
        try:
            await self.loop.create_connection(lambda: reader, self.host, self.port)
        except OSError as error:
            self.fail(f"a reader cannot connect: {error}")

    def come_back(self, reader: Reader) -> None:
        task = self.loop.create_task(self.connect(reader))
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    def fail(self, reason: str) -> None:
        if not self.failure.done():
            self.failure.set_result(reason)

    def is_ready(self) -> None:
        self.connected += 1
        if self.connected == self.count:
            self.all_connected.set()

    def has_all(self, reader: Reader) -> None:
        self.behind.discard(reader)
        if not self.behind:
            self.none_behind.set()


class Reader(asyncio.Protocol):
    """One reader; it checks that what it is given goes on from what it was given before."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._tail = b""
        self._answered = False
        self._ready = False
        self.last: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclasses, only alike.
        self._transport = cast(asyncio.Transport, transport)
        self._rest = b""
        self._answered = False
        since = "" if self.last is None else f"&since={self.last}"
        self._transport.write(
            f"GET {PREFIX}/events?extensionId={self._readers.extension}{since} HTTP/1.1\r\n"
            f"host: {self._readers.host}\r\nconnection: close\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        readers = self._readers
        readers.bytes += len(data)
        data = self._rest + data
        self._tail = data[-len(OVERFLOW) - 40 :]
        if not self._answered:
            if b"\r\n\r\n" not in data:
                self._rest = data
                return
            if not data.startswith(b"HTTP/1.1 200 "):
                readers.fail(f"a reader was answered {data[:300]!r}")
            self._answered = True
            if not self._ready:
                self._ready = True
                readers.is_ready()
        end = data.rfind(END) + 1
        self._take(data, end)
        # The line break before an `id:` belongs to it, here and above.
        self._rest = data[end:]

    def _take(self, data: bytes, end: int) -> None:
        # Each piece must begin where the last one ended, and hold as many events as lie
        # between its first and its last. Looking at every event in Python would cost
        # more than sending them does.
        count = data.count(ID, 0, end)
        if not count:
            return
        first = number_at(data, data.find(ID, 0, end))
        last = number_at(data, data.rfind(ID, 0, end))
        if last - first != count - 1 or (self.last is not None and first != self.last + 1):
            self._readers.fail(f"after {self.last} came {count} events, {first} to {last}")
        self._readers.events += count
        self.last = last
        final = self._readers.final
        if final is not None and last >= final:
            self._readers.has_all(self)

    def connection_lost(self, error: Exception | None) -> None:
        readers = self._readers
        if self not in readers.behind:
            return
        if OVERFLOW not in self._tail or self.last is None:
            readers.fail(f"a reader was closed after {self.last}: {error or self._tail!r}")
            return
        readers.overflows += 1
        readers.come_back(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


def number_at(data: bytes, position: int) -> int:
    start = position + len(ID)
    return int(data[start : data.index(b"\n", start)])


async def read(url: str, extension: str, count: int, patience: float) -> int:
    readers = Readers(url, extension, count)
    everyone = [Reader(readers) for _ in range(count)]
    readers.behind.update(everyone)
    work = asyncio.ensure_future(follow(readers, everyone, url, patience))
    await asyncio.wait((work, readers.failure), return_when=asyncio.FIRST_COMPLETED)
    if readers.failure.done():
        work.cancel()
        print(readers.failure.result(), file=sys.stderr)
        return 1
    return work.result()


async def follow(readers: Readers, everyone: list[Reader], url: str, patience: float) -> int:
    for reader in everyone:
        await readers.connect(reader)
    await readers.all_connected.wait()
    print(f"readers listening on {url}", flush=True)
    began, used = time.perf_counter(), time.process_time()
    told: asyncio.Future[bytes] = readers.loop.create_future()
    readers.loop.add_reader(0, lambda: told.set_result(os.read(0, 100)))
    told.add_done_callback(lambda _: readers.loop.remove_reader(0))
    await told
    started = time.perf_counter()
    meanwhile = readers.events
    # If they took all they could get of their core, they set the pace, not the server.
    busy = (time.process_time() - used) / (started - began)
    readers.final = int(told.result())
    for reader in everyone:
        if reader.last is not None and reader.last >= readers.final:
            readers.has_all(reader)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(patience):
            await readers.none_behind.wait()
    took = time.perf_counter() - started
    behind = len(readers.behind)
    readers.behind.clear()
    for reader in everyone:
        reader.close()
    print(
        json.dumps(
            {
                "events": readers.events,
                "events_meanwhile": meanwhile,
                "bytes": readers.bytes,
                "overflows": readers.overflows,
                "seconds_late": round(took, 3),
                "behind": behind,
                "busy": round(busy, 3),
            }
        ),
        flush=True,
    )
    return 0


def main() -> int:
    url, extension, count, patience = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(read(url, extension, int(count), float(patience)))


if __name__ == "__main__":
    sys.exit(main())
