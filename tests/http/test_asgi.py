"""
The application under ASGI: as a Starlette application, mounted in another one, and under a
stock uvicorn. tests/api runs through a stock uvicorn too; this file has what those tests lack.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Match, Mount, NoMatchFound, Route
from starlette.types import Message, Scope

from tests.conftest import RunningServer, running_server, wait_for
from tests.support.walk.server import take_whole_walk
from tests.support.walk.story import WALK
from valuetracker import create_app
from valuetracker.api import ENDPOINTS
from valuetracker.errors import MethodNotAllowed, RouteNotFound, StartupError
from valuetracker.http.asgi import is_network_address, route_path
from valuetracker.http.tokens import TokenFile
from valuetracker.settings import PREFIX, Settings
from valuetracker.values import BODY_BYTES


def app_on(data_dir: Path, **given: Any) -> Starlette:
    return create_app(Settings(data_dir=data_dir, **given))


@asynccontextmanager
async def running(app: Starlette, base_url: str = "http://localhost") -> AsyncIterator[Any]:
    """Run the lifespan of an application, and give a client that needs no socket."""
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url=base_url) as client,
    ):
        yield client


def mounted(inner: Starlette, path: str = "/tools/tracker") -> Starlette:
    """Return another application that has `inner` in it, and runs its lifespan."""

    @asynccontextmanager
    async def lifespan(outer: Starlette) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    async def hello(request: Request) -> PlainTextResponse:
        return PlainTextResponse("hello")

    return Starlette(routes=[Route("/hello", hello), Mount(path, inner)], lifespan=lifespan)


# The application


def test_importing_the_package_imports_almost_nothing() -> None:
    code = "import sys, valuetracker; print('starlette' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout == "False\n"


def test_creating_the_application_touches_no_file(tmp_path: Path) -> None:
    app = app_on(tmp_path / "db")

    assert isinstance(app, Starlette)
    assert list(tmp_path.iterdir()) == []


def test_without_settings_the_environment_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VALUETRACKER_DATA_DIR", str(tmp_path / "db"))
    monkeypatch.setenv("VALUETRACKER_FEED_READERS", "7")

    async def session() -> Any:
        async with running(create_app()) as client:
            return (await client.get(PREFIX + "/limits")).json()["feedReaders"]

    assert asyncio.run(session()) == 7
    assert (tmp_path / "db" / ".registry.db").exists()


def test_the_error_names_an_invalid_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALUETRACKER_PORT", "http")

    with pytest.raises(StartupError, match="VALUETRACKER_PORT"):
        create_app()


def test_routes_are_the_rows_of_the_route_table(tmp_path: Path) -> None:
    routes = [each for each in app_on(tmp_path).routes if isinstance(each, Route)]

    assert {(each.path, each.name) for each in routes} == {
        (path, row.handler.__name__)
        for row in ENDPOINTS
        for path in [PREFIX + row.path] + [row.path] * row.at_root
    }
    for row in ENDPOINTS:
        methods = {*row.methods, *(["HEAD"] if "GET" in row.methods else [])}
        found = [each for each in routes if each.endpoint is row.handler]
        assert any(each.methods == methods and each.path == PREFIX + row.path for each in found)


def test_the_path_of_a_route_is_found_by_its_name(tmp_path: Path) -> None:
    app = app_on(tmp_path)

    assert app.url_path_for("get_character", character="arthur") == PREFIX + "/characters/arthur"
    with pytest.raises(NoMatchFound):
        app.url_path_for("get_nothing")


@pytest.mark.parametrize(
    ("method", "path", "names"),
    [
        ("GET", PREFIX + "/characters/a%2Fb/", {"get_character"}),
        ("HEAD", PREFIX + "/healthz", {"healthz"}),
        ("GET", "/healthz", {"healthz"}),
        ("GET", PREFIX + "/nowhere", set()),
        ("PATCH", PREFIX + "/characters", set()),
    ],
)
def test_at_most_one_route_matches(tmp_path: Path, method: str, path: str, names: set[str]) -> None:
    scope: Scope = {"type": "http", "method": method, "raw_path": path.encode(), "path": path}

    found = [each for each in app_on(tmp_path).routes if each.matches(scope)[0] is Match.FULL]

    assert {each.name for each in found if isinstance(each, Route)} == names
    assert len(found) == len(names)


def test_a_websocket_is_closed(tmp_path: Path) -> None:
    sent: list[Message] = []

    async def session() -> None:
        async def receive() -> Message:
            return {"type": "websocket.connect"}

        async def send(message: Message) -> None:
            sent.append(message)

        app = app_on(tmp_path)
        async with app.router.lifespan_context(app):
            scope = {"type": "websocket", "path": "/", "raw_path": b"/", "headers": []}
            await app(scope, receive, send)

    asyncio.run(session())

    assert [each["type"] for each in sent] == ["websocket.close"]


# The lifespan


def test_the_lifespan_locks_the_data_directory_and_releases_it(tmp_path: Path) -> None:
    first, second = app_on(tmp_path), app_on(tmp_path)

    async def session() -> None:
        async with running(first):
            with pytest.raises(StartupError, match="Another server"):
                async with running(second):
                    raise AssertionError("a second server on the same files")
        async with running(second) as client:
            assert (await client.get("/healthz")).status_code == 200

    asyncio.run(session())


def test_the_lifespan_can_run_again(tmp_path: Path) -> None:
    app = app_on(tmp_path)
    headers = {"x-extension-id": "demo"}

    async def session() -> Any:
        async with running(app) as client:
            await client.post(PREFIX + "/register", json={"extensionId": "demo"})
            await client.post(PREFIX + "/characters", json={"id": "arthur"}, headers=headers)
        async with running(app) as client:
            return (await client.get(PREFIX + "/characters", headers=headers)).json()

    assert [each["id"] for each in asyncio.run(session())] == ["arthur"]


def test_a_request_without_the_lifespan_says_what_is_missing(tmp_path: Path) -> None:
    outer = Starlette(routes=[Mount("/tracker", app_on(tmp_path))])

    async def session() -> None:
        async with running(outer) as client:
            await client.get("/tracker/healthz")

    with pytest.raises(RuntimeError, match="lifespan_context"):
        asyncio.run(session())


# Mounted in another application

Session = Callable[[httpx.AsyncClient], Coroutine[Any, Any, Any]]


def in_mounted(tmp_path: Path, session: Session, path: str = "/tools/tracker") -> Any:
    async def run() -> Any:
        async with running(mounted(app_on(tmp_path), path)) as client:
            return await session(client)

    return asyncio.run(run())


def test_a_mounted_application_answers_below_its_mount(tmp_path: Path) -> None:
    async def session(client: httpx.AsyncClient) -> None:
        root = "/tools/tracker" + PREFIX
        headers = {"x-extension-id": "demo"}
        await client.post(root + "/register", json={"extensionId": "demo"})
        await client.post(root + "/characters", json={"id": "a/b"}, headers=headers)

        # An escaped slash is data, and a slash at the end makes no difference.
        for path in ("/characters/a%2Fb", "/characters/a%2Fb/"):
            found = await client.get(root + path, headers=headers)
            assert (found.status_code, found.json()["character"]["id"]) == (200, "a/b")
        missing = await client.get(root + "/nowhere")
        assert (missing.status_code, missing.json()) == (404, RouteNotFound().body())
        wrong = await client.patch(root + "/characters")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET, HEAD, POST")
        expected = MethodNotAllowed("PATCH is not possible here.", allow=["GET", "HEAD", "POST"])
        assert wrong.json() == expected.body()
        # The prefix alone is no route of the outer application.
        assert (await client.get(PREFIX + "/healthz")).status_code == 404
        assert (await client.get("/hello")).text == "hello"

    in_mounted(tmp_path, session)


@pytest.mark.parametrize("path", ["/tracker", "/my tracker", "/größe", "/a/b/c"])
def test_the_application_can_be_mounted_anywhere(tmp_path: Path, path: str) -> None:
    async def session(client: httpx.AsyncClient) -> None:
        home = await client.get(path + "/")
        assert home.status_code == 302
        document = await client.get(home.headers["location"])
        assert document.status_code == 200
        assert document.headers["content-type"].startswith("text/html")

    in_mounted(tmp_path, session, path)


@pytest.mark.parametrize(
    ("raw", "root", "rest"),
    [
        (b"/healthz", "", b"/healthz"),
        (b"/vt/healthz", "/vt", b"/healthz"),
        (b"/vt", "/vt", b"/"),
        (b"/vt/a%2Fb", "/vt", b"/a%2Fb"),
        (b"/%76t/x", "/vt", b"/x"),
        (b"/my%20vt/x", "/my vt", b"/x"),
        # A proxy has removed the root path.
        (b"/healthz", "/vt", b"/healthz"),
        (b"/vtx/y", "/vt", b"/vtx/y"),
        (b"/%zz/x", "/vt", b"/%zz/x"),
        (b"/v", "/vt", b"/v"),
    ],
)
def test_the_root_path_is_removed_from_the_raw_path(raw: bytes, root: str, rest: bytes) -> None:
    assert route_path({"raw_path": raw, "path": "", "root_path": root}) == rest


def test_the_path_is_used_if_there_is_no_raw_path() -> None:
    assert route_path({"path": "/my key"}) == b"/my%20key"


# Who is admitted


@pytest.mark.parametrize(
    ("host", "is_network"),
    [
        ("127.0.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("/run/tracker.sock", False),
        ("testserver", False),
        ("0.0.0.0", True),
        ("192.0.2.7", True),
        ("fe80::1%eth0", True),
        ("::ffff:192.0.2.7", True),
    ],
)
def test_network_addresses_are_distinguished_from_loopback(host: str, is_network: bool) -> None:
    assert is_network_address(host) == is_network


def test_without_a_token_requests_from_the_network_are_refused(tmp_path: Path) -> None:
    async def session(token: str | None) -> tuple[int, Any]:
        headers = {"host": "localhost", "authorization": f"Bearer {token}"}
        if token is None:
            del headers["authorization"]
        async with running(app_on(tmp_path), "http://192.0.2.7") as client:
            answer = await client.get(PREFIX + "/extensions", headers=headers)
            return answer.status_code, answer.json()

    status, body = asyncio.run(session(None))
    _, token = TokenFile(tmp_path).create("me", (), read_others=False, admin=True)

    assert (status, body["code"]) == (401, "token_required")
    assert "token create" in body["hint"]
    assert asyncio.run(session(token)) == (200, [])


# A stock uvicorn answers as the fast connection does


def test_a_session_of_every_route_is_answered_alike(tmp_path: Path) -> None:
    fast = take_whole_walk(tmp_path / "fast", http="fast")

    asgi = take_whole_walk(tmp_path / "asgi", http="asgi")

    assert len(fast) == len(WALK)
    for one, other in zip(fast, asgi, strict=True):
        assert other == one, one.step


FRIEND = "https://friend.example"
PREFLIGHT = {"origin": FRIEND, "access-control-request-method": "PUT"}

# The method, the path and the headers of requests about which the two could differ.
REQUESTS: list[tuple[str, str, dict[str, str]]] = [
    ("GET", "/", {}),
    ("HEAD", "/", {}),
    ("GET", "/healthz", {"host": "evil.example"}),
    ("GET", "/healthz", {"host": "localhost:99999"}),
    ("GET", PREFIX + "/extensions", {"origin": "https://evil.example"}),
    ("GET", PREFIX + "/limits", {"origin": FRIEND}),
    ("GET", PREFIX + "/extensions", {"sec-fetch-site": "cross-site"}),
    ("GET", PREFIX + "/extensions", {"authorization": "Bearer nonsense"}),
    ("GET", PREFIX + "/extensions", {"authorization": "Basic bm9uc2Vuc2U="}),
    ("OPTIONS", PREFIX + "/instances/a/data", PREFLIGHT),
    ("OPTIONS", PREFIX + "/instances/a/data", {"origin": FRIEND}),
    ("OPTIONS", PREFIX + "/instances/a/data", {}),
    ("HEAD", PREFIX + "/limits", {}),
    ("HEAD", PREFIX + "/docs", {}),
    ("GET", "/inspector", {}),
    ("GET", "/inspector/", {}),
    ("GET", PREFIX + "/inspector/", {"accept-encoding": "gzip"}),
    ("HEAD", PREFIX + "/inspector/", {}),
    ("GET", "/inspector/nothing.js", {}),
    ("GET", "/inspector/../healthz", {}),
    ("POST", "/inspector/", {}),
    ("HEAD", PREFIX + "/events?since=0", {}),
    ("HEAD", PREFIX + "/nowhere", {}),
    ("GET", PREFIX, {}),
    ("GET", PREFIX + "/", {}),
    ("GET", PREFIX + "/limits/", {}),
    ("GET", PREFIX + "/limits//", {}),
    ("GET", PREFIX + "/nowhere", {}),
    ("PUT", PREFIX + "/limits", {}),
    ("DELETE", PREFIX + "/instances/a/data/", {}),
    ("GET", PREFIX + "/characters/a%2Fb", {}),
    ("GET", PREFIX + "/characters/%zz", {}),
    ("GET", PREFIX + "/characters/%ff", {}),
    ("GET", PREFIX + "/characters?at=%zz", {}),
    ("GET", PREFIX + "/characters?at=1&at=2", {}),
    ("GET", PREFIX + "/characters", {"x-extension-id": ""}),
    ("GET", PREFIX + "/characters", {"x-extension-id": "not registered"}),
    ("GET", PREFIX + "/characters", {"if-none-match": '"0"'}),
    ("GET", PREFIX + "/characters", {"if-none-match": "*"}),
    ("POST", PREFIX + "/characters", {}),
    ("POST", PREFIX + "/characters", {"content-type": "text/plain"}),
    ("POST", PREFIX + "/characters", {"content-encoding": "gzip"}),
    ("POST", PREFIX + "/characters", {"if-match": "1"}),
]
# They are about the connection or the moment, not about the answer.
APART = ("date", "server", "connection", "x-request-id")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningServer]]:
    """A fast server and a stock uvicorn, with the same settings and the extension `demo`."""
    given: dict[str, Any] = {"allow_origin": (FRIEND,)}
    with (
        running_server(tmp_path_factory.mktemp("fast"), http="fast", **given) as fast,
        running_server(tmp_path_factory.mktemp("asgi"), http="asgi", **given) as asgi,
    ):
        for server in (fast, asgi):
            server.register("demo")
        yield [fast, asgi]


def answer_of(server: RunningServer, method: str, path: str, **given: Any) -> Any:
    """Return the whole answer: status, headers in their order, body."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        answer = client.request(method, path, **given)
    headers = [each for each in answer.headers.multi_items() if each[0] not in APART]
    return answer.status_code, headers, answer.content


@pytest.mark.parametrize(("method", "path", "headers"), REQUESTS)
def test_a_request_is_answered_alike(
    both: list[RunningServer], method: str, path: str, headers: dict[str, str]
) -> None:
    headers = {"x-extension-id": "demo", **headers}

    fast, asgi = (answer_of(server, method, path, headers=headers) for server in both)

    assert asgi == fast


def pieces_of(size: int) -> Iterator[bytes]:
    for _ in range(size // 65_536 + 1):
        yield b" " * 65_536


@pytest.mark.parametrize("size", [BODY_BYTES + 1, 3 * BODY_BYTES])
def test_a_body_that_is_too_large_is_refused_alike(both: list[RunningServer], size: int) -> None:
    def send(server: RunningServer, content: Any) -> Any:
        return answer_of(server, "POST", PREFIX + "/ping", content=content)

    fast, asgi = (send(server, b" " * size) for server in both)
    in_pieces = send(both[1], pieces_of(BODY_BYTES))

    assert fast[0] == 413
    assert asgi == in_pieces == fast


def test_a_large_body_is_refused_unread_if_the_caller_is_not_allowed(tmp_path: Path) -> None:
    TokenFile(tmp_path).create("me", (), read_others=False, admin=True)

    with running_server(tmp_path, http="asgi") as server:
        status, _, body = answer_of(server, "POST", PREFIX + "/ping", content=b" " * 100_000)

    assert status == 401
    assert b"token_required" in body


# Clients that disconnect


def readers_of(server: RunningServer) -> int:
    found: int = server.app.state.capacity.readers
    return found


@pytest.mark.parametrize("path", ["/events", "/changes?since=0&wait=60"])
def test_the_server_does_not_wait_for_a_client_that_disconnects(
    both: list[RunningServer], path: str
) -> None:
    server = both[1]
    url = urlsplit(server.url)
    lines = [f"GET {PREFIX}{path} HTTP/1.1", "host: localhost", "x-extension-id: demo", "", ""]
    for _ in range(3):
        with socket.create_connection((url.hostname, url.port), 60) as connection:
            connection.sendall("\r\n".join(lines).encode())
            wait_for(lambda: readers_of(server) == 1)

        wait_for(lambda: readers_of(server) == 0)


def write_scope() -> Scope:
    """Return a request that sets one key, as a server hands it over."""
    path = PREFIX + "/instances/sword/data"
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"x-extension-id", b"demo")],
    }


@pytest.mark.parametrize("ends_by", ["the client", "the server"])
def test_a_write_that_nobody_waits_for_is_finished(tmp_path: Path, ends_by: str) -> None:
    messages = [{"type": "http.request", "body": b'{"key":"edge","value":"keen"}'}]

    async def session() -> Any:
        app = app_on(tmp_path)
        headers = {"x-extension-id": "demo"}

        async def receive() -> Message:
            if messages:
                return messages.pop()
            if ends_by == "the server":
                request.cancel()
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            pass

        async with running(app) as client:
            sword = {"id": "sword", "characterId": "arthur"}
            await client.post(PREFIX + "/register", json={"extensionId": "demo"})
            await client.post(PREFIX + "/instances", json=sword, headers=headers)
            request = asyncio.ensure_future(app(write_scope(), receive, send))
            await asyncio.wait({request})
            assert request.cancelled() == (ends_by == "the server")
        # The lifespan ends after the write.
        async with running(app) as client:
            answer = await client.get(PREFIX + "/instances/sword/data", headers=headers)
            return answer.json()

    assert asyncio.run(session()) == {"edge": "keen"}
