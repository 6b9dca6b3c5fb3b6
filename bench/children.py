"""
The processes of a benchmark: each runs on its core, and ends with the benchmark.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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

    def memory(self) -> int:
        """Return the resident memory in bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

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
def running(
    core: int, module: list[str], log: Path, stdin: int = subprocess.DEVNULL
) -> Iterator[Child]:
    """Run a Python module that prints `… listening on <url>` once it is ready."""
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            on_core(core, [sys.executable, "-m", *module]),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(),
        )
    try:
        ready = next_line(process, log, START_SECONDS)
        yield Child(ready.rsplit(" ", 1)[-1], process, log)
    finally:
        end(process)


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
