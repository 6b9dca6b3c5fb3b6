"""The program itself, as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import orjson
import psutil
import pytest

from tests.conftest import PATIENCE_SECONDS, wait_for
from valuetracker.settings import PREFIX

# Programs keep temporary files here that are too large for memory: this is on the disk.
DISK = Path("/var/tmp")
READY = re.compile(r"Value Tracker listening on (http://\S+)\n")


@dataclass
class Program:
    """A running `valuetracker serve`, or one that failed to start."""

    process: subprocess.Popen[str]
    data_dir: Path
    log_file: Path
    output: list[str] = field(default_factory=list)
    url: str = ""

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.output.append(line)
        found = READY.fullmatch(line)
        assert found, f"no ready line: {line!r}; log: {self.log}"
        self.url = found[1]

    def client(self, extension_id: str | None = None) -> httpx.Client:
        headers = {"x-extension-id": extension_id} if extension_id else {}
        # Without `verify` each client would read all certificates of the system.
        return httpx.Client(
            base_url=self.url + PREFIX, headers=headers, timeout=PATIENCE_SECONDS, verify=False
        )

    def register(self, extension_id: str) -> None:
        with self.client() as client:
            answer = client.post("/register", json={"extensionId": extension_id})
            assert answer.status_code == 200, answer.text

    @property
    def server_pid(self) -> int:
        """The process id of the server itself, also if another program started it."""
        return int((self.data_dir / ".pid").read_text())

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def log_entries(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.log.splitlines()]

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        """Kill the program and all processes it started."""
        if self.process.poll() is None:
            for child in psutil.Process(self.process.pid).children(recursive=True):
                child.kill()
            self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


RunProgram = Callable[..., Program]


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on the disk, where people have their files; other tests work in memory."""
    with tempfile.TemporaryDirectory(dir=DISK, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture
def run_program(tmp_path: Path) -> Iterator[RunProgram]:
    """Starts `serve` on a free port, by default in `tmp_path / "db"`, and waits until ready."""
    programs: list[Program] = []

    def run(
        *arguments: str,
        data_dir: Path | None = tmp_path / "db",
        under: tuple[str, ...] = (),
        port: str | None = "0",
        ready: bool = True,
        **environment: str,
    ) -> Program:
        log_file = tmp_path / f"log-{len(programs)}"
        options = ["--data-dir", str(data_dir)] if data_dir is not None else []
        options += ["--port", port] if port is not None else []
        with log_file.open("w") as log:
            process = subprocess.Popen(
                [*under, sys.executable, "-m", "valuetracker", "serve", *options, *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**os.environ, **environment},
                cwd=tmp_path,
            )
        program = Program(process, data_dir or tmp_path / "elsewhere", log_file)
        programs.append(program)
        if ready:
            program.wait_until_ready()
        else:
            wait_for(lambda: process.poll() is not None)
        return program

    yield run
    for program in programs:
        program.end()
