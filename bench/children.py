"""
The processes of a benchmark: each runs on its core, and ends with the benchmark.
"""

from __future__ import annotations

import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

START_SECONDS = 30.0
# More than a server of ours takes to finish what is in flight.
STOP_SECONDS = 15.0


class Failure(Exception):
    """Something did not work, so the benchmark has no result."""


@dataclass(frozen=True)
class Cores:
    """One core for the server, the other for the processes that load it."""

    server: int
    load: int

    @classmethod
    def available(cls) -> Cores:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise Failure("Two cores are needed: one for the server, one for wrk.")
        return cls(cores[0], cores[1])


@dataclass
class Child:
    """A server that is running."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path
    # The second process of a server that has two.
    helper: subprocess.Popen[bytes] | None = None

    def _processes(self) -> list[psutil.Process]:
        started = [psutil.Process(self.process.pid)]
        if self.helper is not None:
            started.append(psutil.Process(self.helper.pid))
        return started + [each for one in started for each in one.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Return the processor time used so far, with that of all its processes."""
        used = 0.0
        for process in self._processes():
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
        return used

    def memory(self) -> int:
        """Return the memory in bytes (PSS: pages shared with other processes count in part)."""
        return sum(int(each.memory_full_info().pss) for each in self._processes())

    def peak_memory(self) -> int:
        """Return the most resident memory the process has had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024

    def log_tail(self) -> str:
        return self.log.read_text(errors="replace")[-2_000:]


def environment() -> dict[str, str]:
    # Settings of whoever runs this must not reach the server.
    return {
        name: value for name, value in os.environ.items() if not name.startswith("VALUETRACKER_")
    }


def on_core(core: int, command: list[str]) -> list[str]:
    return ["taskset", "--cpu-list", str(core), *command]


@contextmanager
def started(
    core: int,
    command: list[str],
    log: Path,
    stdin: int = subprocess.DEVNULL,
    more_environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program on a core until the block ends."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            on_core(core, command),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**environment(), **(more_environment or {})},
        )
    try:
        yield process
    finally:
        end(process)


@contextmanager
def running(
    core: int, module: list[str], log: Path, stdin: int = subprocess.DEVNULL
) -> Iterator[Child]:
    """Run a Python module that prints `… listening on <url>` once it is ready."""
    with started(core, [sys.executable, "-m", *module], log, stdin) as process:
        ready = next_line(process, log, START_SECONDS)
        yield Child(ready.rsplit(" ", 1)[-1], process, log)


def next_line(process: subprocess.Popen[bytes], log: Path, seconds: float) -> str:
    """Return the next line that a child prints."""
    assert process.stdout is not None
    said = b""
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not said.endswith(b"\n"):
            piece = b""
            if selector.select(max(0.0, deadline - time.monotonic())):
                piece = os.read(process.stdout.fileno(), 4096)
            if not piece:
                raise Failure(
                    f"A child did not say what it should; it said {said!r} and\n"
                    + log.read_text(errors="replace")[-2_000:]
                )
            said += piece
    return said.decode().strip()


def wait_until(ready: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for a server that does not say itself when it is ready."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise Failure(f"{process.args!r} does not answer.\n" + log.read_text(errors="replace"))
        time.sleep(0.05)


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def free_port() -> int:
    """Return a port for a server that cannot choose one itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask the process to end, wait, and then kill it."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_SECONDS)
    finally:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
