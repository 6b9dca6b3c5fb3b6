"""
Many slow or idle connections, while others send good requests.

With VALUETRACKER_SOAK=1 the server is a process of its own with its real limits, and has 500
slow and 2,000 idle connections. The test prints how long good requests take with and without
them. Otherwise there are few such connections, and the limits are short.
"""

from __future__ import annotations

import os
import resource
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS, running_server, wait_for
from tests.security.raw import crowd, get, ping
from tests.system.conftest import RunProgram
from valuetracker.http import limits
from valuetracker.settings import PREFIX

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
SLOW, IDLE = (500, 2_000) if SOAK else (25, 100)
WORKERS = 4
REQUESTS = 2_000 if SOAK else 100


@pytest.fixture
def url(run_program: RunProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if SOAK:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8_192)), hard))
        yield run_program().url
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        return
    monkeypatch.setattr(limits, "HEADER_SECONDS", 2.0)
    monkeypatch.setattr(limits, "BODY_GRACE_SECONDS", 2.0)
    with running_server(tmp_path / "db") as server:
        yield server.url


class Drips:
    """Connections that send a byte now and then, until the server closes them."""

    def __init__(self, connections: list[socket.socket]) -> None:
        self._begun = time.monotonic()
        self._left = set(connections)
        self._stopped = threading.Event()
        self.ended_after: list[float] = []
        head = ping("x" * 1_000).partition(b"\r\n\r\n")[0]
        for number, each in enumerate(connections):
            each.setblocking(False)
            # Half of them send their headers slowly, half their body.
            each.send(head + b"\r\n\r\n{" if number % 2 else head[:20])

    def stop(self) -> None:
        self._stopped.set()

    @property
    def all_ended(self) -> bool:
        return not self._left

    def run(self) -> None:
        with selectors.DefaultSelector() as selector:
            for each in self._left:
                selector.register(each, selectors.EVENT_READ)
            while self._left and not self._stopped.wait(0.5):
                for key, _ in selector.select(0):
                    self._hear(selector, key.fileobj)
                for each in self._left:
                    with suppress(OSError):
                        each.send(b"x")

    def _hear(self, selector: selectors.BaseSelector, connection: object) -> None:
        assert isinstance(connection, socket.socket)
        try:
            said = connection.recv(4_096)
        except BlockingIOError:
            return
        except ConnectionResetError:
            said = b""
        # Whatever the server sends, it sends nothing after it.
        assert said == b"" or said.startswith(b"HTTP/1.1 408 "), said
        selector.unregister(connection)
        self._left.discard(connection)
        self.ended_after.append(time.monotonic() - self._begun)


@contextmanager
def dripping(connections: list[socket.socket]) -> Iterator[Drips]:
    drips = Drips(connections)
    thread = threading.Thread(target=drips.run)
    thread.start()
    try:
        yield drips
    finally:
        drips.stop()
        thread.join(PATIENCE_SECONDS)


def good_requests(url: str) -> list[float]:
    """Return how long each of many reads and writes took; all must succeed."""

    def work(number: int) -> list[float]:
        times: list[float] = []
        headers = {"x-extension-id": "demo"}
        with httpx.Client(base_url=url + PREFIX, headers=headers, timeout=PATIENCE_SECONDS) as one:
            for count in range(REQUESTS // WORKERS):
                begun = time.perf_counter()
                if count % 4:
                    answer = one.get("/instances/sword/data")
                else:
                    body = {"key": f"k{number}", "value": count}
                    answer = one.post("/instances/sword/data", json=body)
                times.append(time.perf_counter() - begun)
                assert answer.status_code == 200, answer.text
        return times

    with ThreadPoolExecutor(WORKERS) as pool:
        return sorted(each for times in pool.map(work, range(WORKERS)) for each in times)


def describe(times: list[float]) -> str:
    p50, p99 = (times[int(len(times) * part)] * 1_000 for part in (0.5, 0.99))
    return f"p50 {p50:.2f} ms, p99 {p99:.2f} ms"


def test_slow_and_idle_connections_do_not_keep_good_requests_from_being_answered(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    address = urlsplit(url)
    assert address.hostname is not None
    assert address.port is not None
    with httpx.Client(base_url=url + PREFIX, headers={"x-extension-id": "demo"}) as client:
        client.post("/register", json={"extensionId": "demo"})
        client.post("/instances", json={"id": "sword", "characterId": "arthur"})
    good_requests(url)
    alone = good_requests(url)

    with (
        crowd(address.hostname, address.port, IDLE) as idle,
        crowd(address.hostname, address.port, SLOW) as slow,
    ):
        for each in idle:
            each.sendall(get())
        for each in idle:
            assert each.recv(4_096).startswith(b"HTTP/1.1 200 ")
        with dripping(slow) as drips:
            among = good_requests(url)
            wait_for(lambda: drips.all_ended)
            after = good_requests(url)
        # The idle connections are still open.
        for each in idle:
            each.sendall(get())
        for each in idle:
            assert each.recv(4_096).startswith(b"HTTP/1.1 200 ")

    assert len(drips.ended_after) == SLOW
    if SOAK:
        with capsys.disabled():
            print(
                f"\ngood requests alone: {describe(alone)}\n"
                f"among {SLOW} slow and {IDLE} idle connections: {describe(among)}\n"
                f"among {IDLE} idle ones, the slow ended within {max(drips.ended_after):.1f} s: "
                f"{describe(after)}"
            )
