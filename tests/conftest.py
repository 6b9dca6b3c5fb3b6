"""
Fixtures: real servers on real sockets with real files.

`client` sends requests to a server that many tests share; each test has an extension of its
own there. `running_server` runs a server in this process, on a data directory of the test's
own. `run_program` (tests/system) runs the program itself.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from hypothesis import settings as hypothesis_settings
from starlette.applications import Starlette

from tests.support.postgres import PostgresServer
from valuetracker import create_app
from valuetracker.http.server import Server, listen, url_of
from valuetracker.settings import PREFIX, Settings

# How long a test waits for something before it fails.
PATIENCE_SECONDS = 60.0
# How long a stock uvicorn waits for requests in progress when it stops. It does not tell the
# application that it stops, so readers of a feed are still there.
STOPPING_SECONDS = 1

hypothesis_settings.register_profile("test", deadline=None, derandomize=True)
hypothesis_settings.load_profile("test")


# The folders with the slowest files. They come first, and short files last, so that all workers
# end at about the same time. A worker boots SillyTavern once if it runs those tests in a row.
SLOW = (
    "tests/sillytavern/",
    "tests/model/",
    "tests/system/",
    "tests/integrity/",
    "tests/security/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    sizes = Counter(file_of(item) for item in items)

    def order(item: pytest.Item) -> tuple[int, int, str]:
        file = file_of(item)
        slow = (index for index, folder in enumerate(SLOW) if file.startswith(folder))
        return next(slow, len(SLOW)), -sizes[file], file

    items.sort(key=order)


def file_of(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def wait_for(condition: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until `condition` returns something true, and return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


@dataclass
class RunningServer:
    """A server in a thread of this process."""

    url: str
    data_dir: Path
    app: Starlette
    settings: Settings

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


class Answering:
    """How the servers of the running test answer HTTP: see `http` below."""

    http = "fast"


def stock_uvicorn(app: Starlette) -> uvicorn.Server:
    """Return uvicorn as anybody would run it, without a class of ours."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            timeout_graceful_shutdown=STOPPING_SECONDS,
        )
    )


@contextmanager
def running_server(data_dir: Path, **given: Any) -> Iterator[RunningServer]:
    """Run a server in a thread: `fast` is the built-in connection, `asgi` a stock uvicorn."""
    settings = Settings(port=0, data_dir=data_dir, **{"http": Answering.http, **given})
    app = create_app(settings)
    listener = listen(settings.host, settings.port)
    server: uvicorn.Server = (
        Server(app, settings, listener) if settings.http == "fast" else stock_uvicorn(app)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        yield RunningServer(url_of(listener), data_dir, app, settings)
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listener.close()
        assert not thread.is_alive(), "the server did not stop"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL that the tests share; each makes a database of its own in it."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.end()


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def engine_name(request: pytest.FixtureRequest) -> str:
    """Run each test that uses this, directly or through another fixture, on both engines."""
    return str(request.param)


@pytest.fixture(scope="session")
def http() -> str:
    """Return how the shared server answers HTTP; tests/api runs both ways."""
    return "fast"


@pytest.fixture(scope="session")
def database_url(engine_name: str, request: pytest.FixtureRequest) -> str:
    """Return the value of `--database` for that engine."""
    return database_for(engine_name, request)


def database_for(engine_name: str, request: pytest.FixtureRequest) -> str:
    if engine_name == "sqlite":
        return ""
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return postgres.create_database()


@pytest.fixture(scope="session")
def shared_servers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Callable[[str, str], RunningServer]]:
    """Start one server for each engine and way to answer HTTP, and keep it for all tests."""
    with ExitStack() as stack:

        @cache
        def server(engine_name: str, http: str) -> RunningServer:
            folder = tmp_path_factory.mktemp("shared")
            url = database_for(engine_name, request)
            return stack.enter_context(running_server(folder, http=http, database=url))

        yield server


@pytest.fixture
def shared_server(
    shared_servers: Callable[[str, str], RunningServer], engine_name: str, http: str
) -> RunningServer:
    return shared_servers(engine_name, http)


@pytest.fixture
def extension_id(request: pytest.FixtureRequest, shared_server: RunningServer) -> str:
    """Register an extension of the test's own on the shared server."""
    name = f"ext-{next(NUMBERS)}"
    shared_server.register(name)
    return name


NUMBERS = itertools.count()


@pytest.fixture
def client(shared_server: RunningServer, extension_id: str) -> Iterator[httpx.Client]:
    """Send requests for that extension; paths are relative to the prefix."""
    with shared_server.client(extension_id) as client:
        yield client
