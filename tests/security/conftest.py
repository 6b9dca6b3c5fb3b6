"""
Servers to attack: one that admits everybody on this machine, one that requires tokens.

Both trust the bridge, know one host name besides the loopback names, and admit one foreign
origin.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.system.conftest import run_program as run_program
from valuetracker.http.tokens import TokenFile

SECRET = "the secret of the bridge"
FRIEND = "https://friend.example"
NAME = "values.example"
GIVEN = {"bridge_secret": SECRET, "allow_origin": (FRIEND,), "allow_host": (NAME,)}


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server that admits everybody but foreign web pages; it has the extension `demo`."""
    with running_server(tmp_path_factory.mktemp("open"), **GIVEN) as server:
        server.register("demo")
        with server.client("demo") as client:
            made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
            assert made.status_code == 200, made.text
        yield server


@dataclass
class TokenServer:
    """A server with a token of each kind, and the extensions `demo` and `other`."""

    server: RunningServer
    admin: str
    demo: str
    reader: str

    def client(self, token: str | None, extension_id: str | None = None) -> httpx.Client:
        client = self.server.client(extension_id)
        if token is not None:
            client.headers["authorization"] = f"Bearer {token}"
        return client


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    directory = tmp_path_factory.mktemp("guarded")
    tokens = TokenFile(directory)
    _, admin = tokens.create("admin", (), read_others=False, admin=True)
    _, demo = tokens.create("demo", ("demo",), read_others=False, admin=False)
    _, reader = tokens.create("reader", (), read_others=True, admin=False)
    with running_server(directory, **GIVEN) as running:
        guarded = TokenServer(running, admin, demo, reader)
        for extension_id in ("demo", "other"):
            with guarded.client(admin, extension_id) as client:
                body = {"extensionId": extension_id}
                assert client.post("/register", json=body).status_code == 200
                body = {"id": "sword", "characterId": "arthur"}
                assert client.post("/instances", json=body).status_code == 200
        yield guarded
