"""
How a command reaches the data: over HTTP if a server runs, else with a server of its own.

`.server.json` in the data directory names the running server. Without one the application runs
inside the program, on the files, under the lock of the data directory. Commands cannot tell the
two apart, so there is one implementation of everything.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import click
import httpx

from valuetracker.cli.failure import Failure, Refused, Unreachable
from valuetracker.http.run_file import Run, read_run
from valuetracker.names import DEFAULT_USER
from valuetracker.settings import DEFAULT_DATA_DIR, PREFIX, Settings

if TYPE_CHECKING:
    from valuetracker.cli.in_process import InProcess

CONNECT_SECONDS = 5.0
# How long a server may take to say that it is there.
PROBE_SECONDS = 10.0
SERVE = "Start it with `valuetracker serve`, or say where it answers with `--url`."


def part(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


class Server:
    """The server a command works with."""

    def __init__(self, client: httpx.Client, is_own: bool) -> None:
        self._client = client
        # True if it runs inside this program.
        self.is_own = is_own

    def get(self, path: str, extension: str | None = None, **query: Any) -> Any:
        return self.send("GET", path, extension, query=query)

    def send(
        self,
        method: str,
        path: str,
        extension: str | None = None,
        *,
        body: Any = None,
        content: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """Send a request and return the JSON of its answer; raise if it is refused."""
        with self.stream(
            method, path, extension, body=body, content=content, query=query, headers=headers
        ) as answer:
            return read_json(answer)

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        extension: str | None = None,
        *,
        body: Any = None,
        content: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request and return its answer, to be read piece by piece."""
        given = {name: value for name, value in (query or {}).items() if value is not None}
        named = {"x-extension-id": extension} if extension is not None else {}
        if body is not None:
            content = json.dumps(body, ensure_ascii=False).encode()
            named["content-type"] = "application/json"
        with (
            reachable(),
            self._client.stream(
                method, path, params=given, content=content, headers={**named, **(headers or {})}
            ) as answer,
        ):
            if answer.status_code >= 400:
                refuse(answer)
            yield answer


def read_json(answer: httpx.Response) -> Any:
    content = answer.read()
    if not content:
        return None
    try:
        # Python's own parser: it keeps whole numbers of any size.
        return json.loads(content)
    except ValueError:
        raise Unreachable(f"{answer.url} is not a Value Tracker server.", SERVE) from None


def refuse(answer: httpx.Response) -> None:
    try:
        body = json.loads(answer.read())
        is_ours = isinstance(body, dict) and "code" in body
    except ValueError:
        is_ours = False
    if not is_ours:
        raise Unreachable(
            f"{answer.url} answers {answer.status_code}, but not as Value Tracker does.", SERVE
        )
    raise Refused(answer.status_code, body)


@contextmanager
def reachable() -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise Unreachable(f"The server cannot be reached: {reason}.", SERVE) from error


@dataclass(frozen=True)
class Target:
    """The options that say where the data is."""

    url: str | None
    data_dir: Path
    database: str
    user: str | None
    silent: bool

    @contextmanager
    def open(self, create: bool = False) -> Iterator[Server]:
        """Connect to the data; make a data directory that is missing only if `create` is given."""
        with self._client(create) as (client, is_own):
            yield Server(client, is_own)

    @contextmanager
    def _client(self, create: bool) -> Iterator[tuple[httpx.Client, bool]]:
        token = os.environ.get("VALUETRACKER_TOKEN") or None
        if self.url is not None:
            self._refuse_user(True)
            with client_of(self.url, token) as client:
                yield client, False
            return
        run = self.find_run()
        if run is None:
            with self._own(create) as client:
                yield client, True
            return
        self._refuse_user(token is not None)
        with client_of(run.url, token or run.token, self.user, local=True) as client:
            yield client, False

    def find_run(self) -> Run | None:
        """Return the run of the server that uses the data directory; None if none does."""
        run = read_run(self.data_dir)
        return run if run is not None and is_running(run) else None

    def _refuse_user(self, others: bool) -> None:
        if self.user is not None and others:
            raise click.UsageError(
                "`--user` works with the server of this machine, and without `--url` and "
                "VALUETRACKER_TOKEN."
            )

    @contextmanager
    def _own(self, create: bool) -> Iterator[httpx.Client]:
        transport = self.start_own(create)
        with client_of("http://localhost", transport.token, self.user, True, transport) as client:
            yield client

    def start_own(self, create: bool = False) -> InProcess:
        """Start a server inside the program; the caller must `close` it."""
        if not create:
            self._require_data()
        # Imported here: it takes longer than most commands over HTTP.
        from valuetracker.cli.in_process import InProcess

        # Errors come as answers. What else is logged is for those who run a server.
        logging.getLogger().addHandler(logging.NullHandler())
        return InProcess(self.own_settings())

    def own_settings(self) -> Settings:
        """Return the settings of a server that does nothing by itself."""
        return replace(
            Settings.from_environment(),
            host="127.0.0.1",
            data_dir=self.data_dir,
            database=self.database,
            backup_at="off",
            keep_revisions=0,
            keep_days=0,
            rate_per_second=0,
        )

    def _require_data(self) -> None:
        if self.database:
            return
        folder = self.data_dir
        if self.user not in (None, DEFAULT_USER):
            folder = folder / ".users" / str(self.user)
        if not folder.is_dir() or not any(folder.glob("*.db")):
            raise Failure(
                f"There is no data in {folder}.",
                "Say where it is with `--data-dir`, or make some: `valuetracker demo`.",
            )


def client_of(
    url: str,
    token: str | None,
    user: str | None = None,
    local: bool = False,
    transport: httpx.BaseTransport | None = None,
) -> httpx.Client:
    """Return a client whose paths are relative to the prefix."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise click.UsageError(f"{url} is no URL: it must look like http://127.0.0.1:8420.")
    headers = {}
    if token is not None:
        if not token.isascii() or not token.isprintable():
            raise click.UsageError("VALUETRACKER_TOKEN has characters that no token has.")
        headers["authorization"] = f"Bearer {token}"
    if user is not None:
        headers["x-vt-user"] = user
    if local:
        # The server may listen on an address that it does not allow as a name.
        headers["host"] = "localhost"
    base = url.rstrip("/")
    return httpx.Client(
        base_url=base if base.endswith(PREFIX) else base + PREFIX,
        headers=headers,
        timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
        # Certificates take a while to load, and a proxy must not see requests to this machine.
        verify=address.scheme == "https",
        trust_env=not local,
        transport=transport,
    )


def is_running(run: Run) -> bool:
    """Return True if the server still runs: no other accepts its token."""
    try:
        with client_of(run.url, run.token, local=True) as client:
            return client.get("/healthz", timeout=PROBE_SECONDS).status_code == 200
    except httpx.TimeoutException:
        raise Unreachable(
            f"The server with the process id {run.pid} does not answer at {run.url}."
        ) from None
    except (httpx.TransportError, click.UsageError):
        return False


def connecting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where the data is, as one argument `target`."""

    @click.option(
        "--url",
        envvar="VALUETRACKER_URL",
        show_envvar=True,
        help="Where a server answers; its token is read from VALUETRACKER_TOKEN.",
    )
    @click.option(
        "--data-dir",
        envvar="VALUETRACKER_DATA_DIR",
        type=click.Path(path_type=Path),
        default=DEFAULT_DATA_DIR,
        show_default=True,
        show_envvar=True,
        help="Where the databases are kept.",
    )
    @click.option(
        "--database",
        envvar="VALUETRACKER_DATABASE",
        default="",
        show_envvar=True,
        help="Database URL, if no server runs. Empty means files in the data directory.",
    )
    @click.option("--user", help="The SillyTavern user whose data it is.")
    @click.option("--silent", is_flag=True, help="Show no progress and no notes.")
    @wraps(function)
    def run(
        url: str | None,
        data_dir: Path,
        database: str,
        user: str | None,
        silent: bool,
        **given: Any,
    ) -> Any:
        return function(target=Target(url, data_dir, database, user, silent), **given)

    return run


def list_all(server: Server, path: str, extension: str, **query: Any) -> Iterator[Any]:
    """Yield the items of a list that is answered in pages."""
    cursor = None
    while True:
        page = server.get(path, extension, limit=1000, cursor=cursor, **query)
        yield from page["items"]
        cursor = page["next"]
        if cursor is None:
            return
