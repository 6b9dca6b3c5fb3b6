"""
HTTP byte for byte: what no client library would send, and all that is answered to it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson

from tests.conftest import PATIENCE_SECONDS, RunningServer
from valuetracker.settings import PREFIX

ROOT = PREFIX.encode()
HEALTH = ROOT + b"/health"
HOST = b"host: localhost"


def lines(*each: bytes) -> bytes:
    """The head of a request, ended."""
    return b"\r\n".join([*each, b"", b""])


def get(target: bytes = HEALTH, *headers: bytes, host: bytes = HOST) -> bytes:
    return lines(b"GET " + target + b" HTTP/1.1", host, *headers)


def post(target: bytes, body: bytes, *headers: bytes, host: bytes = HOST) -> bytes:
    length = b"content-length: %d" % len(body)
    return lines(b"POST " + target + b" HTTP/1.1", host, length, *headers) + body


def ping(message: str, *headers: bytes) -> bytes:
    return post(ROOT + b"/ping", orjson.dumps({"message": message}), *headers)


class Line:
    """One connection, and what has come over it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_as_far_as_taken(self, data: bytes) -> None:
        """Send it, or as much of it as the other side waits for."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self) -> httpx.Response:
        """The next answer, whose length must be known."""
        status, headers = self.head()
        if status == 100:
            return httpx.Response(100, headers=headers)
        length = 0 if status in (204, 304) else int(dict(headers)["content-length"])
        while len(self._received) < length:
            self._more()
        body, self._received = self._received[:length], self._received[length:]
        return httpx.Response(status, headers=headers, content=body)

    def head(self) -> tuple[int, list[tuple[str, str]]]:
        while b"\r\n\r\n" not in self._received:
            self._more()
        head, _, self._received = self._received.partition(b"\r\n\r\n")
        status, *fields = head.decode("latin-1").split("\r\n")
        assert status.startswith("HTTP/1.1 "), status
        return int(status.split()[1]), [(name, text) for name, _, text in split(fields)]

    def until(self, mark: bytes) -> bytes:
        """What comes up to and with this mark."""
        while mark not in self._received:
            self._more()
        found, _, self._received = self._received.partition(mark)
        return found + mark

    def rest(self) -> bytes:
        """What comes until the other side ends it."""
        try:
            while piece := self.socket.recv(65_536):
                self._received += piece
        except ConnectionResetError:
            pass
        found, self._received = self._received, b""
        return found

    def _more(self) -> None:
        piece = self.socket.recv(65_536)
        assert piece, f"the connection ended after {self._received!r}"
        self._received += piece


def split(fields: list[str]) -> Iterator[tuple[str, str, str]]:
    return (each.partition(": ") for each in fields)


@contextmanager
def connected(server: RunningServer, *options: tuple[int, int, int | bytes]) -> Iterator[Line]:
    url = urlsplit(server.url)
    family = socket.AF_INET6 if ":" in str(url.hostname) else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        for option in options:
            connection.setsockopt(*option)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect((url.hostname, url.port))
        yield Line(connection)


def ask(server: RunningServer, request: bytes) -> httpx.Response:
    """The one answer to these bytes on a connection of their own."""
    with connected(server) as line:
        line.send_as_far_as_taken(request)
        return line.answer()


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of an answer that must be a refusal in the one shape, and guarded."""
    body: dict[str, Any] = answer.json()
    assert set(body) == {"error", "code", "hint", "details"}, body
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer.status_code, body["code"]


def cors_headers(answer: httpx.Response) -> list[str]:
    return [name for name in answer.headers if name.startswith("access-control-")]


def is_well(server: RunningServer) -> bool:
    """Whether the server goes on answering."""
    return ask(server, get()).json()["ok"] is True


@contextmanager
def crowd(host: str, port: int, count: int) -> Iterator[list[socket.socket]]:
    """So many connections that say nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((host, port), PATIENCE_SECONDS))
            for _ in range(count)
        ]
