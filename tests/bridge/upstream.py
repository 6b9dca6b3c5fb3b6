"""A SillyTavern over HTTP: a real server with prepared answers."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from valuetracker.settings import PREFIX

TOKEN = "a-token-of-csrf"
COOKIES = ("session-1=abc; path=/; httponly", "X-CSRF=def; path=/; httponly")


@dataclass
class Said:
    """One prepared answer."""

    body: bytes
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0


@dataclass
class Asked:
    """One received request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class FakeSillyTavern:
    """The prepared answers by path, and the received requests."""

    url: str
    answers: dict[str, Said]
    asked: list[Asked] = field(default_factory=list)

    def says(self, path: str, document: Any, status: int = 200, **more: Any) -> None:
        self.answers[path] = Said(json.dumps(document).encode(), status, **more)

    def paths(self) -> list[str]:
        return [each.path.partition("?")[0] for each in self.asked]


def make_handler(sillytavern: FakeSillyTavern) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            sillytavern.asked.append(Asked(self.command, self.path, headers, body))
            said = sillytavern.answers.get(self.path.partition("?")[0], Said(b"Not found", 404))
            time.sleep(said.delay)
            self.send_response(said.status)
            if self.path == "/csrf-token":
                for cookie in COOKIES:
                    self.send_header("set-cookie", cookie)
            for name, value in said.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        do_GET = do_POST = answer

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    return Handler


class QuietServer(ThreadingHTTPServer):
    """A server that ignores callers who disconnect before the answer."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def fake_sillytavern(version: str) -> Iterator[FakeSillyTavern]:
    """A healthy SillyTavern with the plugin."""
    sillytavern = FakeSillyTavern("", {})
    server = QuietServer(("127.0.0.1", 0), make_handler(sillytavern))
    sillytavern.url = f"http://127.0.0.1:{server.server_port}"
    sillytavern.says("/csrf-token", {"token": TOKEN})
    sillytavern.says(f"{PREFIX}/health", {"ok": True, "plugin": "valuetracker", "version": version})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield sillytavern
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def closed_port() -> int:
    """Return a port that no process listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
