"""
HTTP byte for byte: requests that no client library would send, and the whole answers.
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
    """Return the head of a request, with the empty line that ends it."""
    return b"\r\n".join([*each, b"", b""])


def get(target: bytes = HEALTH, *headers: bytes, host: bytes = HOST) -> bytes:
    return lines(b"GET " + target + b" HTTP/1.1", host, *headers)


def post(target: bytes, body: bytes, *headers: bytes, host: bytes = HOST) -> bytes:
    length = b"content-length: %d" % len(body)
    return lines(b"POST " + target + b" HTTP/1.1", host, length, *headers) + body


def ping(message: str, *headers: bytes) -> bytes:
    return post(ROOT + b"/ping", orjson.dumps({"message": message}), *headers)


class Line:
    """One connection, and the bytes received over it."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_as_far_as_taken(self, data: bytes) -> None:
        """Send these bytes, or as many as the other side accepts."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)

    def answer(self) -> httpx.Response:
        """Return the next answer, which must have a length."""
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
        """Return the bytes up to this mark, and the mark."""
        while mark not in self._received:
            self._more()
        found, _, self._received = self._received.partition(mark)
        return found + mark

    def rest(self) -> bytes:
        """Return the bytes until the other side closes the connection."""
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
    """Send these bytes on a new connection, and return the one answer."""
    with connected(server) as line:
        line.send_as_far_as_taken(request)
        return line.answer()


def refused(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of a refusal, which must have the shape and headers of every one."""
    body: dict[str, Any] = answer.json()
    assert set(body) == {"error", "code", "hint", "details"}, body
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer.status_code, body["code"]


def cors_headers(answer: httpx.Response) -> list[str]:
    return [name for name in answer.headers if name.startswith("access-control-")]


def is_well(server: RunningServer) -> bool:
    """True if the server still answers."""
    return ask(server, get()).json()["ok"] is True


@contextmanager
def crowd(host: str, port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open that many connections that send nothing."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection((host, port), PATIENCE_SECONDS))
            for _ in range(count)
        ]
