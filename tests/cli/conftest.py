"""
The program as people use it: in a terminal and in a pipe, with a server and without one.

`run` starts the program with pipes; `terminal` starts it in a pseudo-terminal; `call` needs no
process of its own. `server` is one
server that the tests of a module share. `files` is a data directory that no server uses.
"""

from __future__ import annotations

import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.conftest import PATIENCE_SECONDS, RunningServer, running_server, wait_for
from valuetracker.cli import demo
from valuetracker.cli.in_process import InProcess
from valuetracker.cli.main import main
from valuetracker.http.run_file import read_run
from valuetracker.settings import PREFIX, Settings

PROGRAM = [sys.executable, "-m", "valuetracker"]
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# The commands are told where the data is, not the environment of whoever runs the tests.
UNSET = ("VALUETRACKER_URL", "VALUETRACKER_TOKEN", "VALUETRACKER_DATA_DIR", "NO_COLOR", "CI")


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in UNSET}
    return {**kept, "TERM": "xterm-256color", "COLUMNS": "160", "LINES": "50", **given}


@dataclass
class Done:
    """The output of a program, and its exit code."""

    code: int
    out: str
    err: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run(*arguments: object, given: bytes = b"", **variables: str) -> Done:
    """Run a command with pipes."""
    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        input=given,
        capture_output=True,
        env=environment(**variables),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def call(*arguments: object, given: bytes = b"", **variables: str) -> Done:
    """Run a command with pipes in this process, which is quicker: its files are as real."""
    unset = dict.fromkeys(UNSET)
    done = CliRunner().invoke(
        main, [str(each) for each in arguments], input=given, env={**unset, **variables}
    )
    assert isinstance(done.exception, SystemExit | None), done.exception
    return Done(done.exit_code, done.stdout, done.stderr)


class Terminal:
    """A program in a pseudo-terminal: both of its outputs appear on it."""

    def __init__(self, *arguments: object, **variables: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [*PROGRAM, *map(str, arguments)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(**variables),
            # Ctrl-C reaches the program through its own terminal.
            start_new_session=True,
            preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
        )
        os.close(slave)
        self.raw = ""

    def wait_for(self, text: str) -> None:
        """Read until a text is there."""
        while text not in self.shown:
            if not self._read():
                self.process.wait(PATIENCE_SECONDS)
                raise AssertionError(f"ended without {text!r}: {self.shown!r}")

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def end(self) -> Done:
        """Read to the end."""
        while self._read():
            pass
        os.close(self._master)
        return Done(self.process.wait(PATIENCE_SECONDS), self.shown)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE_SECONDS)
        if not ready:
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)
            raise AssertionError(f"nothing came: {self.shown!r}")
        try:
            piece = os.read(self._master, 65536)
        except OSError:
            # Linux says so when the program has ended.
            return False
        self.raw += piece.decode(errors="replace")
        return bool(piece)

    @property
    def shown(self) -> str:
        """Return the text on the terminal, without colours and movements of the cursor."""
        return ESCAPES.sub("", self.raw).replace("\r\n", "\n")


def terminal(*arguments: object, **variables: str) -> Done:
    """Run a command in a terminal, to its end."""
    return Terminal(*arguments, **variables).end()


@pytest.fixture(scope="package")
def story() -> bytes:
    return demo.make_story()


@pytest.fixture(scope="package")
def filled(story: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with the story, to be copied."""
    folder = tmp_path_factory.mktemp("filled") / "db"
    with filling(folder) as client:
        client.post("/register", json={"extensionId": "demo"}).raise_for_status()
        client.post("/import", content=story).raise_for_status()
    return folder


@contextmanager
def filling(folder: Path) -> Iterator[Any]:
    with httpx.Client(
        transport=InProcess(Settings(data_dir=folder, backup_at="off")),
        base_url=f"http://localhost{PREFIX}",
        headers={"x-extension-id": "demo"},
        timeout=PATIENCE_SECONDS,
    ) as client:
        yield client


@pytest.fixture
def files(filled: Path, tmp_path: Path) -> Path:
    """A data directory with the story that no server uses."""
    return Path(shutil.copytree(filled, tmp_path / "files"))


@contextmanager
def serving(folder: Path, **given: Any) -> Iterator[RunningServer]:
    """Run a server that says where it is, as `valuetracker serve` does when it is ready."""
    with running_server(folder, http="fast", **given) as server:
        wait_for(lambda: read_run(folder))
        yield server


@pytest.fixture(scope="module")
def server(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the story, for the tests of a module."""
    folder = tmp_path_factory.mktemp("served") / "db"
    shutil.copytree(filled, folder)
    with serving(folder) as server:
        yield server
