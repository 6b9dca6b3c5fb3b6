"""
Many readers of the feed in one process:
`python -m bench.ways.readers <url> <extension> <count> <patience in seconds>`.

It prints a line when all of them are connected. Then it reads the last revision from its
standard input. Each reader goes on until it has that revision or patience ends. Then it prints
what the readers received and how many of them did not reach the last revision.

A reader that the server closes because it lags connects again, as a browser's `EventSource`
does, and continues at its cursor. As a browser does, it reads deflate. A piece that many
readers receive is unpacked and parsed once: five hundred readers stand for five hundred
machines, and the work of the readers must not be measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
import time
import zlib
from functools import lru_cache
from typing import NamedTuple, cast
from urllib.parse import urlsplit

import uvloop

from valuetracker.settings import PREFIX

ID = re.compile(rb"^id: ([0-9]+)$", re.MULTILINE)
OVERFLOW = b"event: overflow"
# The first bytes of a deflate stream, and the last bytes of every packed piece of it.
BEGINNING = b"\x78\x01"
BLOCK_END = b"\x00\x00\xff\xff"


class Readers:
    """All readers, and the state they share."""

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

    def reconnect(self, reader: Reader) -> None:
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


class Piece(NamedTuple):
    """The whole events in one piece of a stream, and if it ends because the reader lagged."""

    first: int
    last: int
    events: int
    overflow: bool


@lru_cache(maxsize=64)
def unpack(packed: bytes) -> Piece:
    """Events lie between the first and the last id, as many as there are numbers."""
    text = zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed)
    ids = [int(each[1]) for each in ID.finditer(text)]
    if ids and ids != list(range(ids[0], ids[0] + len(ids))):
        raise ValueError(f"{len(ids)} events, {ids[0]} to {ids[-1]}")
    return Piece(ids[0] if ids else 0, ids[-1] if ids else 0, len(ids), OVERFLOW in text)


class Reader(asyncio.Protocol):
    """One reader; it checks that each event follows the one before it."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers
        self._transport: asyncio.Transport | None = None
        self._rest: list[bytes] = []
        self._answered = False
        self._ready = False
        self._overflown = False
        self.last: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # The transports of uvloop are alike, but no subclasses.
        self._transport = cast(asyncio.Transport, transport)
        self._rest = []
        self._answered = self._overflown = False
        since = "" if self.last is None else f"&since={self.last}"
        self._transport.write(
            f"GET {PREFIX}/events?extensionId={self._readers.extension}{since} HTTP/1.1\r\n"
            f"host: {self._readers.host}\r\naccept-encoding: gzip, deflate, br\r\n"
            "connection: close\r\n\r\n".encode()
        )

    def data_received(self, data: bytes) -> None:
        self._readers.bytes += len(data)
        self._rest.append(data)
        if not self._answered:
            self._take_head()
        # A piece ends with an empty block, so the next one refers to nothing in it.
        elif data.endswith(BLOCK_END):
            packed = b"".join(self._rest)
            self._rest = []
            self._take(packed)

    def _take_head(self) -> None:
        head, end, rest = b"".join(self._rest).partition(b"\r\n\r\n" + BEGINNING)
        if not end:
            return
        if not head.startswith(b"HTTP/1.1 200 ") or b"content-encoding: deflate" not in head:
            self._readers.fail(f"a reader was answered {head[:300]!r}")
        self._answered = True
        self._rest = [rest]
        if not self._ready:
            self._ready = True
            self._readers.is_ready()

    def _take(self, packed: bytes) -> None:
        readers = self._readers
        try:
            piece = unpack(packed)
        except (ValueError, zlib.error) as error:
            readers.fail(f"after {self.last} came what cannot be read: {error}")
            return
        self._overflown = piece.overflow
        if not piece.events:
            return
        if self.last is not None and piece.first != self.last + 1:
            readers.fail(f"after {self.last} came {piece.first} to {piece.last}")
        readers.events += piece.events
        self.last = piece.last
        if readers.final is not None and piece.last >= readers.final:
            readers.has_all(self)

    def connection_lost(self, error: Exception | None) -> None:
        readers = self._readers
        if self not in readers.behind:
            return
        if not self._overflown or self.last is None:
            readers.fail(f"a reader was closed after {self.last}: {error}")
            return
        readers.overflows += 1
        readers.reconnect(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


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
    last: asyncio.Future[bytes] = readers.loop.create_future()
    readers.loop.add_reader(0, lambda: last.set_result(os.read(0, 100)))
    last.add_done_callback(lambda _: readers.loop.remove_reader(0))
    await last
    started = time.perf_counter()
    meanwhile = readers.events
    # If the readers used all of their core, they set the pace, not the server.
    busy = (time.process_time() - used) / (started - began)
    readers.final = int(last.result())
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
