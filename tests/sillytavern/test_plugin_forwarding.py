"""Requests and answers through SillyTavern and the plugin."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest

from tests.conftest import PATIENCE_SECONDS, wait_for
from tests.sillytavern.conftest import NUMBERS
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.processes import server_pids
from valuetracker import __version__
from valuetracker.settings import PREFIX

BEYOND_JAVASCRIPT = '{"n":9007199254740993,"top":18446744073709551615,"f":1.0,"10":0,"2":0}'


@pytest.fixture
def client(tavern: SillyTavern) -> Iterator[httpx.Client]:
    """A client of an extension made for one test, with an instance `run`."""
    name = f"forwarding-{next(NUMBERS)}"
    tavern.register(name)
    with tavern.client(name) as client:
        answer = client.post("/instances", json={"id": "run", "characterId": "hero"})
        assert answer.status_code == 200, answer.text
        yield client


def data(client: httpx.Client) -> str:
    return client.get("/instances/run/data").text


def write(client: httpx.Client, key: str, value: Any) -> int:
    answer = client.post("/instances/run/data", json={"key": key, "value": value})
    assert answer.status_code == 200, answer.text
    return int(answer.headers["x-revision"])


def test_the_plugin_is_there_with_the_version_of_the_package(client: httpx.Client) -> None:
    answer = client.get("/health")

    assert answer.json() == {"ok": True, "plugin": "valuetracker", "version": __version__}
    assert answer.headers["cache-control"] == "no-store"


def test_the_server_knows_the_sillytavern_it_belongs_to(
    tavern: SillyTavern, client: httpx.Client
) -> None:
    paths = client.get("/st/paths").json()
    health = client.get("/st/health").json()

    roots = {each["source"]: each["candidate"] for each in paths["resolution_chain"]}
    assert str(tavern.server) in roots["env_root"]
    assert health["base_url"] == tavern.url
    assert health["ping"]["ok"]
    assert health["versions"]["plugin"]["remote"] == __version__
    assert health["status"] == "ok", health


@pytest.mark.parametrize(
    "media_type", ["application/merge-patch+json", "application/vnd.valuetracker+json"]
)
def test_what_sillytavern_does_not_parse_arrives_byte_for_byte(
    client: httpx.Client, media_type: str
) -> None:
    method, path = ("PATCH", "") if "patch" in media_type else ("PUT", "/override")

    answer = client.request(
        method,
        f"/instances/run/data{path}",
        content=BEYOND_JAVASCRIPT,
        headers={"content-type": media_type},
    )

    assert answer.status_code == 200, answer.text
    assert data(client) == BEYOND_JAVASCRIPT


def test_json_patch_goes_through(client: httpx.Client) -> None:
    answer = client.patch(
        "/instances/run/data",
        content='[{"op":"add","path":"/n","value":9007199254740993}]',
        headers={"content-type": "application/json-patch+json"},
    )

    assert answer.status_code == 200, answer.text
    assert data(client) == '{"n":9007199254740993}'


def test_json_is_taken_as_sillytavern_understood_it(client: httpx.Client) -> None:
    text = json.dumps({"name": "Zoë 😀", "__proto__": {"x": 1}, "n": 2**53})

    for encoding, coding, body in (
        ("utf-8", "identity", text.encode()),
        ("utf-16", "identity", text.encode("utf-16")),
        ("utf-8", "gzip", gzip.compress(text.encode())),
    ):
        media_type = f"application/json; charset={encoding}"
        headers = {"content-type": media_type, "content-encoding": coding}
        answer = client.put("/instances/run/data/override", content=body, headers=headers)

        assert answer.status_code == 200, answer.text
        assert json.loads(data(client)) == json.loads(text)


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        ({}, b""),
        ({"content-encoding": "gzip"}, gzip.compress(b"")),
        ({"transfer-encoding": "chunked"}, b"0\r\n\r\n"),
    ],
    ids=["empty", "compressed", "chunked"],
)
@pytest.mark.parametrize("path", ["/override", "/merge", "/remove", ""])
def test_a_missing_body_never_clears_anything(
    client: httpx.Client, path: str, headers: dict[str, str], body: bytes
) -> None:
    write(client, "hp", 7)

    # Raw, because a client library would not send some of these.
    answer = raw_put(client, f"{PREFIX}/instances/run/data{path}", headers, body)

    assert b" 400 " in answer.split(b"\r\n")[0], answer
    assert b'"A JSON body is required."' in answer
    assert data(client) == '{"hp":7}'


def raw_put(client: httpx.Client, path: str, headers: dict[str, str], body: bytes) -> bytes:
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
    sent = {
        "host": client.base_url.netloc.decode(),
        "cookie": cookies,
        "x-csrf-token": client.headers["x-csrf-token"],
        "x-extension-id": client.headers["x-extension-id"],
        "content-type": "application/json",
        "connection": "close",
        **headers,
    }
    if "transfer-encoding" not in headers:
        sent["content-length"] = str(len(body))
    address = (client.base_url.host, client.base_url.port or 80)
    lines = [f"PUT {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    with socket.create_connection(address, PATIENCE_SECONDS) as link:
        link.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return b"".join(iter(lambda: link.recv(65536), b""))


@pytest.mark.parametrize(
    "given", [{"files": {"avatar": ("x.txt", b"words")}}, {"data": {"key": "value"}}]
)
def test_uploads_and_forms_are_refused(client: httpx.Client, given: dict[str, Any]) -> None:
    answer = client.post("/instances/run/data", **given)

    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


def test_a_body_above_the_limit_is_refused_in_the_servers_words(client: httpx.Client) -> None:
    for media_type in ("application/json", "application/merge-patch+json"):
        answer = client.patch(
            "/instances/run/data",
            content=json.dumps({"a": "x" * (40 * 1024 * 1024)}),
            headers={"content-type": media_type},
        )

        assert (answer.status_code, answer.json()["code"]) == (413, "body_too_large")


def test_conditions_and_their_answers_pass_through(client: httpx.Client) -> None:
    revision = write(client, "hp", 7)
    read = client.get("/instances/run/data/hp")

    again = client.get("/instances/run/data/hp", headers={"if-none-match": read.headers["etag"]})
    stale = client.post(
        "/instances/run/data",
        json={"key": "hp", "value": 8},
        headers={"if-match": f'"{revision - 1}"'},
    )

    assert (again.status_code, again.content) == (304, b"")
    assert (stale.status_code, stale.json()["code"]) == (412, "revision_conflict")


def test_a_large_answer_is_compressed_and_whole(client: httpx.Client) -> None:
    value = "words " * 100_000
    write(client, "text", value)

    answer = client.get("/instances/run/data/text", headers={"accept-encoding": "gzip"})

    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json() == {"text": value}


def test_the_feed_comes_at_once_also_to_who_accepts_gzip(client: httpx.Client) -> None:
    headers = {"accept-encoding": "gzip, deflate, br"}
    with client.stream("GET", "/events?since=0", headers=headers) as answer:
        lines = answer.iter_lines()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-cache, no-transform"
        assert "content-encoding" not in answer.headers
        assert next_id(lines) == 1

        # Written only now: what comes did not wait in anybody's buffer.
        for value in range(5):
            revision = write(client, "hp", value)
            assert next_id(lines) == revision


def next_id(lines: Iterator[str]) -> int:
    return int(next(line for line in lines if line.startswith("id:")).removeprefix("id:"))


def test_the_feed_resumes_where_a_reader_was(client: httpx.Client) -> None:
    revisions = [write(client, "hp", value) for value in range(4)]

    with client.stream("GET", "/events", headers={"last-event-id": str(revisions[1])}) as answer:
        lines = answer.iter_lines()

        assert [next_id(lines), next_id(lines)] == revisions[2:]


def test_a_reader_that_leaves_is_not_kept(tavern: SillyTavern, client: httpx.Client) -> None:
    (pid,) = server_pids(tavern)
    before = open_connections(pid)

    for _ in range(40):
        with client.stream("GET", "/events?since=0") as answer:
            assert next_id(answer.iter_lines()) == 1

    wait_for(lambda: open_connections(pid) <= before + 2)


def open_connections(pid: int) -> int:
    links = psutil.Process(pid).net_connections()
    return len([link for link in links if link.status == psutil.CONN_ESTABLISHED])


def test_each_module_of_the_client_library_is_served_as_a_script(tavern: SillyTavern) -> None:
    folder = tavern.server / "plugins/valuetracker/client"
    modules = sorted(folder.rglob("*.js"))
    assert {folder / "valuetracker.js", folder / "state/json.js"} < set(modules)

    for module in modules:
        with tavern.session() as session:
            answer = session.get(f"{PREFIX}/client/{module.relative_to(folder).as_posix()}")

        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert answer.text == module.read_text()


def test_sillytavern_is_none_the_worse_for_what_is_thrown_at_it(
    tavern: SillyTavern, client: httpx.Client
) -> None:
    address = ("127.0.0.1", tavern.port)
    half = (
        f"PATCH {PREFIX}/instances/run/data HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n"
    )
    for text in (
        half,
        half + "Content-Type: application/merge-patch+json\r\n\r\n{",
        half + "Content-Type: application/json\r\n\r\n{",
        f"GET {PREFIX}/events?extensionId=x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET {PREFIX}/%zz%00%ff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET http://evil.example{PREFIX}/characters HTTP/1.1\r\nHost: localhost\r\n\r\n",
        f"GET {PREFIX}/characters HTTP/1.1\r\nHost: localhost\r\nx-a: \xff\xfe\r\n\r\n",
    ):
        for _ in range(10):
            with socket.create_connection(address) as link:
                link.sendall(text.encode("latin-1"))
        with socket.create_connection(address) as link:
            link.sendall(text.encode("latin-1"))
            link.settimeout(0.2)
            with contextlib.suppress(TimeoutError):
                link.recv(100)

    assert write(client, "hp", 1) > 0
    assert tavern.process is not None
    assert tavern.process.poll() is None
    assert "Uncaught exception" not in tavern.log
