"""
The API is tested three times: the fast connection on both engines, and a stock uvicorn that
runs the application through ASGI, on SQLite.

A test marked `one_engine` does not run on PostgreSQL: its requests are refused or answered in the
same way before any engine takes part.
"""

from __future__ import annotations

import pytest

from tests.conftest import Answering

# The engine, and how HTTP is answered.
WAYS = {
    "sqlite": ("sqlite", "fast"),
    "postgresql": ("postgresql", "fast"),
    "asgi": ("sqlite", "asgi"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "way" in metafunc.fixturenames:
        metafunc.parametrize("way", ways_of(metafunc), indirect=True, scope="session")


def ways_of(metafunc: pytest.Metafunc) -> list[str]:
    if "engine_name" in metafunc.fixturenames:
        one_engine = metafunc.definition.get_closest_marker("one_engine")
        return [way for way in WAYS if not (one_engine and way == "postgresql")]
    # A server needs a folder: a test without one needs no server.
    return ["sqlite", "asgi"] if "tmp_path" in metafunc.fixturenames else ["sqlite"]


@pytest.fixture(scope="session")
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def engine_name(way: str) -> str:
    return WAYS[way][0]


@pytest.fixture(scope="session")
def http(way: str) -> str:
    return WAYS[way][1]


@pytest.fixture(autouse=True)
def own_servers(http: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the servers that a test starts itself answer in the same way as the shared one."""
    monkeypatch.setattr(Answering, "http", http)
