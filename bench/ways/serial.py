"""
Send requests one after the other over one connection, and time each of them.

This is for requests that wrk cannot send or check. The two sides of a comparison take turns,
request by request, so both run in the same conditions. The bytes of the requests are made
beforehand, so that little of the measured time is spent here.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any
from urllib.parse import urlsplit

import orjson

from bench.children import Child, Failure
from bench.wrk import Measurement
from valuetracker.settings import PREFIX

PATIENCE_SECONDS = 60.0
RECEIVED_BYTES = 1 << 20
END = b"\r\n\r\n"
SUCCESS = re.compile(rb"HTTP/1\.1 20[01] ")
LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)


class Connection:
    """One connection to a server, kept alive."""

    def __init__(self, child: Child) -> None:
        place = urlsplit(child.url)
        self._socket = socket.create_connection(
            (place.hostname, place.port), timeout=PATIENCE_SECONDS
        )
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, request: bytes) -> bytes:
        """Send a request; return the body of the answer, which must be a success."""
        self._socket.sendall(request)
        answer = self._receive()
        while (end := answer.find(END)) < 0:
            answer += self._receive()
        length = LENGTH.search(answer, 0, end + len(END))
        if length is None or not SUCCESS.match(answer):
            raise Failure(f"{request[:100]!r} was answered {answer[:500]!r}")
        body = end + len(END)
        while len(answer) < body + int(length[1]):
            answer += self._receive()
        return answer[body:]

    def _receive(self) -> bytes:
        received = self._socket.recv(RECEIVED_BYTES)
        if not received:
            raise Failure("The server closed the connection.")
        return received

    def close(self) -> None:
        self._socket.close()


def request(method: str, path: str, extension: str, body: Any = None) -> bytes:
    """Return the bytes of a request."""
    content = b"" if body is None else orjson.dumps(body)
    head = (
        f"{method} {PREFIX}{path} HTTP/1.1\r\nhost: 127.0.0.1\r\nx-extension-id: {extension}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


@dataclass
class Way:
    """One thing that is timed: the request or requests that each repetition sends."""

    requests: Iterator[Sequence[bytes]]
    # Each answer must contain this text to count as a success.
    proof: bytes
    seconds: list[float] = field(default_factory=list)

    def go(self, connection: Connection) -> None:
        requests = next(self.requests)
        started = time.perf_counter()
        answers = [connection.ask(each) for each in requests]
        self.seconds.append(time.perf_counter() - started)
        for answer in answers:
            if self.proof not in answer:
                raise Failure(f"{requests[0][:100]!r} did nothing: {answer[:500]!r}")

    def measurement(self) -> Measurement:
        return Measurement(
            requests=len(self.seconds),
            rate=len(self.seconds) / sum(self.seconds),
            p50_ms=median(self.seconds) * 1e3,
            p99_ms=quantiles(self.seconds, n=100, method="inclusive")[-1] * 1e3,
        )


def take_turns(connection: Connection, ways: Sequence[Way], seconds: float) -> list[Measurement]:
    """Measure each way for about that many seconds."""
    for way in ways:
        way.seconds.clear()
    deadline = time.perf_counter() + seconds * len(ways)
    # A percentile needs two measurements of each.
    while time.perf_counter() < deadline or len(ways[0].seconds) < 2:
        for way in ways:
            way.go(connection)
    return [way.measurement() for way in ways]
