"""
Fixtures: real servers on real sockets with real files.

`client` sends requests to a server that many tests share; each test has an extension of its
own there. `running_server` runs a server in this process, on a data directory of the test's
own. `run_program` (tests/system) runs the program itself.

The files are in memory where the system offers that, because thousands of tests create
databases. Those of tests/system are on the disk.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import uvicorn
from hypothesis import settings as hypothesis_settings
from starlette.applications import Starlette
from uvicorn import server as uvicorn_server

from tests.support.clock import SettableClock
from tests.support.postgres import PostgresServer
from valuetracker.app import create_app
from valuetracker.http.server import Server, listen, url_of
from valuetracker.settings import PREFIX, Settings

# How long a test waits for something before it fails.
PATIENCE_SECONDS = 60.0
# How long a stock uvicorn waits for requests in progress when it stops. It does not tell the
# application that it stops, so readers of a feed are still there.
STOPPING_SECONDS = 1

# The file system in memory, and how many bytes must be free there and in memory to use it.
MEMORY = Path("/dev/shm")
ROOM = 3 << 30


def make_files_in_memory() -> None:
    """Create temporary files in memory, unless a TMPDIR is given or there is too little of it."""
    if "TMPDIR" in os.environ or not MEMORY.is_dir():
        return
    if min(shutil.disk_usage(MEMORY).free, psutil.virtual_memory().available) < ROOM:
        return
    # Some tests run programs that they have made.
    if os.statvfs(MEMORY).f_flag & os.ST_NOEXEC:
        return
    # The environment is for programs that the tests start.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)


make_files_in_memory()
# A server that a test starts makes no backup by itself.
os.environ["VALUETRACKER_BACKUP_AT"] = "off"


class Hasty:
    """asyncio for uvicorn, which waits for a tenth of a second, twice, until it has stopped."""

    NAP_SECONDS = 0.01

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, self.NAP_SECONDS))


# Hundreds of tests stop a server. Those in processes of their own keep uvicorn's time.
uvicorn_server.asyncio = Hasty()  # type: ignore[attr-defined, assignment]

hypothesis_settings.register_profile("test", deadline=None, derandomize=True)
hypothesis_settings.load_profile("test")


# About how many seconds a test takes, by the fixture that takes longest, and in files whose tests
# take long by themselves. The files that take longest come first, so that all workers end at about
# the same time.
SECONDS = {
    "start_tavern": 15.0,
    "open_tab": 9.0,
    "shared_tabs": 6.0,
    "run_program": 2.0,
    "tests/sillytavern/test_client_units.py": 6.0,
    "tests/inspector/test_inspector.py": 4.0,
    "tests/inspector/test_trouble.py": 6.0,
    "tests/model/test_branch_model.py": 10.0,
    "tests/model/test_chat_model.py": 10.0,
    "tests/model/test_queue_model.py": 10.0,
    "tests/model/test_values_model.py": 10.0,
}
OTHERS = 0.06
# A worker boots SillyTavern once if it runs the tests of this folder in a row.
FIRST = "tests/sillytavern/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seconds: defaultdict[str, float] = defaultdict(float)
    for item in items:
        seconds[file_of(item)] += seconds_of(item)

    def order(item: pytest.Item) -> tuple[bool, float, str]:
        file = file_of(item)
        return not file.startswith(FIRST), -seconds[file], file

    items.sort(key=order)


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what pytest keeps of twenty thousand tests."""
    gc.collect()
    gc.freeze()


def seconds_of(item: pytest.Item) -> float:
    names = (file_of(item), *getattr(item, "fixturenames", ()))
    return max((SECONDS[name] for name in names if name in SECONDS), default=OTHERS)


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


def wait_for_equal(read: Callable[[], Any], expected: Any) -> None:
    """Wait until `read` returns what is expected; a failure shows the difference."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (found := read()) != expected and time.monotonic() < end:
        time.sleep(0.02)
    assert found == expected


@dataclass
class RunningServer:
    """A server in a thread of this process."""

    url: str
    data_dir: Path
    app: Starlette
    settings: Settings
    clock: SettableClock = field(default_factory=SettableClock)

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
    clock: SettableClock = given.pop("clock", None) or SettableClock()
    given = {"http": Answering.http, "backup_at": "off", **given}
    settings = Settings(port=0, data_dir=data_dir, **given)
    app = create_app(settings, clock)
    listener = listen(settings.host, settings.port)
    server: uvicorn.Server = (
        Server(app, settings, listener) if settings.http == "fast" else stock_uvicorn(app)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started or not thread.is_alive())
        assert server.started, "the server did not start"
        if settings.http == "fast":
            # The built-in server says in a file where it answers, right after it has started.
            wait_for(lambda: (data_dir / ".server.json").exists())
        yield RunningServer(url_of(listener), data_dir, app, settings, clock)
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


class SharedServers:
    """
    The servers of one engine, one for each way to answer HTTP, lent to one test after another.

    The more extensions it has, the longer a server takes to register one, on PostgreSQL most of
    all. So another server follows after some tests.
    """

    TESTS = 150

    def __init__(self, start: Callable[[str], AbstractContextManager[RunningServer]]) -> None:
        self._start = start
        self._running: dict[str, RunningServer] = {}
        self._stops: dict[str, ExitStack] = {}
        self._lent: Counter[str] = Counter()

    def lend(self, http: str) -> RunningServer:
        if self._lent[http] % self.TESTS == 0:
            self._stop(http)
            self._stops[http] = ExitStack()
            self._running[http] = self._stops[http].enter_context(self._start(http))
        self._lent[http] += 1
        return self._running[http]

    def _stop(self, http: str) -> None:
        if http in self._stops:
            self._stops.pop(http).close()

    def stop(self) -> None:
        for http in list(self._stops):
            self._stop(http)


@pytest.fixture(scope="session")
def sqlite_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServers]:
    @contextmanager
    def start(http: str) -> Iterator[RunningServer]:
        folder = tmp_path_factory.mktemp("shared")
        with running_server(folder, http=http) as server:
            yield server
        shutil.rmtree(folder)

    servers = SharedServers(start)
    yield servers
    servers.stop()


@pytest.fixture(scope="session")
def postgresql_servers(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[SharedServers]:
    @contextmanager
    def start(http: str) -> Iterator[RunningServer]:
        url = postgres.create_database()
        with running_server(tmp_path_factory.mktemp("shared"), http=http, database=url) as server:
            yield server
        postgres.drop_database(url)

    servers = SharedServers(start)
    yield servers
    servers.stop()


@pytest.fixture
def shared_server(request: pytest.FixtureRequest, engine_name: str, http: str) -> RunningServer:
    servers: SharedServers = request.getfixturevalue(f"{engine_name}_servers")
    return servers.lend(http)


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
