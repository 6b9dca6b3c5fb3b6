"""Fixtures: a home, a SillyTavern and a server for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.upstream import FakeSillyTavern, fake_sillytavern
from tests.bridge.worlds import recap_world, write_world
from tests.conftest import RunningServer, running_server
from tests.support.folders import make_sillytavern
from valuetracker import __version__

VARIABLES = (
    "VALUETRACKER_ST_EXTENSIONS_DIR",
    "COMFYVN_ST_EXTENSIONS_DIR",
    "SILLYTAVERN_PATH",
    "VALUETRACKER_LOG_LEVEL",
    "COMFYVN_LOG_LEVEL",
)

StartServer = Callable[..., RunningServer]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, because the user who runs the tests may have a SillyTavern."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def sillytavern(tmp_path: Path) -> Path:
    return make_sillytavern(tmp_path / "SillyTavern")


@pytest.fixture
def upstream() -> Iterator[FakeSillyTavern]:
    with fake_sillytavern(__version__) as running:
        yield running


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts a server with the settings of the test."""
    with ExitStack() as stack:

        def start(**settings: Any) -> RunningServer:
            return stack.enter_context(running_server(tmp_path / "db", **settings))

        yield start


@pytest.fixture
def bridge(
    start_server: StartServer, sillytavern: Path, upstream: FakeSillyTavern
) -> Iterator[httpx.Client]:
    """A client of a server that knows the SillyTavern; paths are relative to the root."""
    server = start_server(st_root=(sillytavern,), st_base_url=upstream.url)
    with httpx.Client(base_url=server.url, timeout=60, verify=False) as client:
        yield client


@pytest.fixture
def worlds(tmp_path: Path) -> Path:
    return tmp_path / "data/default-user/worlds"


@pytest.fixture
def library(start_server: StartServer, tmp_path: Path, worlds: Path) -> Iterator[httpx.Client]:
    """A client of a server that knows a data folder with the lorebook Eldoria."""
    write_world(worlds, "Eldoria", recap_world())
    with start_server(st_data_root=str(tmp_path / "data")).client() as library:
        yield library
