"""The memory of a server that is a process of its own, while clients do something to it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import psutil

from tests.conftest import PATIENCE_SECONDS
from tests.security.raw import Line
from tests.system.conftest import Program

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
MB = 1_000_000
SMALL_BUFFER = (socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)


class Memory:
    """The memory that a process has now, and the most it had while it was watched."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.before = self.now
        self.most = self.before
        self._stopped = threading.Event()

    @property
    def now(self) -> int:
        return int(self._process.memory_info().rss)

    @property
    def growth(self) -> int:
        """How many bytes it grew by at the most."""
        return self.most - self.before

    def run(self) -> None:
        while not self._stopped.wait(0.005):
            self.most = max(self.most, self.now)

    def stop(self) -> None:
        self._stopped.set()


@contextmanager
def watched(program: Program) -> Iterator[Memory]:
    memory = Memory(program.server_pid)
    thread = threading.Thread(target=memory.run)
    thread.start()
    try:
        yield memory
    finally:
        memory.stop()
        thread.join(PATIENCE_SECONDS)


@contextmanager
def reaching(program: Program, *options: tuple[int, int, int]) -> Iterator[Line]:
    """Connect to a program."""
    url = urlsplit(program.url)
    with socket.socket() as connection:
        for option in options:
            connection.setsockopt(*option)
        connection.settimeout(PATIENCE_SECONDS)
        connection.connect((url.hostname, url.port))
        yield Line(connection)
