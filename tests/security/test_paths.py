"""Attempts to leave the data directory, in every id, header, query and body."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.security.conftest import SECRET
from tests.security.raw import ROOT, ask, get, refused

# As a path contains them.
ENCODED = [
    "..",
    "../",
    "../..",
    "../../../../etc/passwd",
    "..%2f..%2fsecret",
    "%2e%2e",
    "%2e%2e%2fsecret",
    "%2e%2e/secret",
    ".%2e/secret",
    "%252e%252e%252fsecret",
    "..%5csecret",
    "..%255csecret",
    "..\\secret",
    "%c0%ae%c0%ae%c0%afsecret",
    "%e0%80%ae%e0%80%ae%2fsecret",
    "%c0%2e%c0%2e/secret",
    "..%00",
    "secret%00.db",
    "%uff0e%uff0e",
    "%ef%bc%8e%ef%bc%8e%ef%bc%8fsecret",
    "..;/secret",
    "%2fetc%2fpasswd",
    "file:%2f%2f%2fetc%2fpasswd",
    "C:%5csecret",
    "%5c%5cserver%5cshare",
    "~root",
    "$HOME",
    ".registry",
    ".tokens.json",
    "secret.db%3fmode=rwc",
    "%0a..%0a",
]
# As a body contains them.
TEXTS = [
    "..",
    "../secret.db",
    "../../secret.db",
    "/etc/passwd",
    "..\\secret.db",
    "x/../../secret.db",
    "x/./../../secret.db",
    "....//secret.db",
    "\uff0e\uff0e\uff0fsecret.db",
    "%2e%2e%2fsecret.db",
    "secret.db\x00.txt",
    "file:../secret.db",
    "file:///etc/passwd?mode=rwc",
    "C:\\secret.db",
    "\\\\server\\share\\x.db",
    "//server/share/x.db",
    "~/secret.db",
    ".registry.db",
    ".tokens.json",
    ".users/alice/demo.db",
    "trash/demo.1.db",
    "demo.db-wal",
    "link/secret.db",
    ":memory:",
    "",
    ".",
    "./",
    "a" * 5_000,
    "CON",
    "nul",
    "COM1",
]


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[RunningServer, Path]]:
    """A server whose data directory is deep in a folder that also has a secret file."""
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret").write_text("secret")
    (outside / "secret.db").write_text("secret")
    directory = outside / "below" / "db"
    directory.mkdir(parents=True)
    (directory / "link").symlink_to(outside, target_is_directory=True)
    with running_server(directory, bridge_secret=SECRET) as server:
        server.register("demo")
        with server.client("demo") as client:
            made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
            assert made.status_code == 200
        yield server, outside


def tree(outside: Path) -> dict[str, bytes]:
    """Return all files outside the data directory."""
    return {
        str(each): each.read_bytes() if each.is_file() else b""
        for each in sorted(outside.rglob("*"))
        if "db" not in each.relative_to(outside).parts
    }


ROUTES = [
    "/characters/{}",
    "/characters/{}/instances",
    "/instances/{}",
    "/instances/{}/data",
    "/instances/sword/data/{}",
    "/instances/{}/history",
    "/chats/{}",
    "/chats/{}/data",
    "/chats/c/series/{}",
    "/chats/c/series/s/{}",
    "/chats/c/processed/{}",
    "/chats/c/processed/p/{}",
    "/chats/c/operations/{}",
    "/chats/c/checkpoints/{}",
    "/cross-extension/characters/{}",
    "/cross-extension/instances/{}/sword",
    "/cross-extension/chats/{}",
    "/cross-extension/events/{}",
    "/extensions/{}",
    "/{}",
]


@pytest.mark.parametrize("route", ROUTES)
def test_no_path_reaches_a_file_outside_the_database(
    walled: tuple[RunningServer, Path], route: str
) -> None:
    server, outside = walled
    before = tree(outside)

    for segment in ENCODED:
        target = ROOT + route.format(segment).encode()
        for method in (b"GET", b"DELETE", b"PUT"):
            request = get(target, b"x-extension-id: demo").replace(b"GET", method, 1)
            answer = ask(server, request)
            assert answer.status_code < 500, (method, segment, answer.text)
            assert b"root:" not in answer.content
            assert answer.text != "secret"

    assert tree(outside) == before


@pytest.mark.parametrize("text", TEXTS)
def test_an_extension_id_is_a_name_and_no_path(
    walled: tuple[RunningServer, Path], text: str
) -> None:
    server, outside = walled
    before = tree(outside)
    # Percent-decoded or not.
    headers = [
        b"x-extension-id: " + text.encode(),
        b"x-extension-id: " + quote(text, safe="").encode(),
    ]

    with server.client() as client:
        answers = [
            client.post("/register", json={"extensionId": text}),
            client.request("DELETE", "/register", json={"extensionId": text, "purge": True}),
            client.get("/changes", params={"extensionId": text}),
        ]
    answers += [ask(server, get(ROOT + b"/characters", each)) for each in headers]

    for answer in answers:
        assert refused(answer)[0] in (400, 431), text
    assert tree(outside) == before


@pytest.mark.parametrize("text", TEXTS)
def test_a_database_is_inside_the_data_directory_or_refused(
    walled: tuple[RunningServer, Path], text: str
) -> None:
    server, outside = walled
    before = tree(outside)

    with server.client() as client:
        body = {"extensionId": "elsewhere", "dbPath": text}
        answer = client.post("/register", json=body)
        assert answer.status_code in (200, 400, 409), answer.text
        if answer.status_code == 200:
            (found,) = [
                each for each in client.get("/extensions").json() if each["id"] == "elsewhere"
            ]
            place = (server.data_dir / found["path"]).resolve()
            assert place.is_relative_to(server.data_dir.resolve())
            assert place.is_file()
        purge = {"extensionId": "elsewhere", "purge": True}
        assert client.request("DELETE", "/register", json=purge).status_code == 200

    assert tree(outside) == before


@pytest.mark.parametrize("header", ["x-message-id", "x-swipe-id", "x-chat-id", "idempotency-key"])
def test_no_header_reaches_a_file_outside_the_data_directory(
    walled: tuple[RunningServer, Path], header: str
) -> None:
    server, outside = walled
    before = tree(outside)

    with server.client("demo") as client:
        for number, segment in enumerate(ENCODED):
            answer = client.post(
                "/instances/sword/data",
                json={"key": f"{header}-{number}", "value": 1},
                headers={header: segment},
            )
            assert answer.status_code in (200, 400, 409, 422), (segment, answer.text)

    assert tree(outside) == before


def test_an_id_that_looks_like_a_path_is_an_id_like_any_other(
    walled: tuple[RunningServer, Path],
) -> None:
    server, outside = walled
    before = tree(outside)
    ids = ["..", "../secret", "/etc/passwd", "a/b", "%2e%2e", "\uff0e\uff0e", ".", "~", "C:\\x"]

    with server.client("demo") as client:
        for each in ids:
            made = client.post("/instances", json={"id": each, "characterId": each})
            assert made.status_code == 200
            path = f"{ROOT.decode()}/instances/{quote(each, safe='')}/data"
            target = {"target": path.encode()}
            sent = client.post("/", json={"key": each, "value": each}, extensions=target)
            assert sent.status_code == 200, sent.text
            assert read(client, each) == {each: each}

    assert tree(outside) == before


def read(client: httpx.Client, id: str) -> object:
    quoted = quote(id, safe="").replace(".", "%2e")
    target = f"{ROOT.decode()}/instances/{quoted}/data".encode()
    return client.get("/", extensions={"target": target}).json()


@pytest.mark.parametrize(
    "filters",
    [
        "instanceId=sword'--",
        "instanceId=%25",
        "key=' OR 1=1 --",
        "chatId=c'; DROP TABLE data; --",
        "key=\"; SELECT load_extension('x') --",
    ],
)
def test_sql_in_a_filter_is_text(walled: tuple[RunningServer, Path], filters: str) -> None:
    server, _ = walled
    with server.client("demo") as client:
        client.post("/instances/sword/data", json={"key": "here", "value": 1})

        answer = client.get(f"/changes?since=0&{filters}")

        assert answer.status_code == 200
        assert answer.json()["items"] == []
        assert client.get("/instances/sword/data/here").json() == {"here": 1}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        "/cross-extension/characters/demo",
        "/cross-extension/characters/demo/arthur",
        "/cross-extension/instances/demo/sword",
        "/cross-extension/instances/demo/sword/data",
        "/cross-extension/instances/demo/sword/data/k",
        "/cross-extension/chats/demo/c/data",
        "/cross-extension/events/demo",
    ],
)
def test_the_routes_that_read_across_extensions_refuse_writes(
    walled: tuple[RunningServer, Path], method: str, path: str
) -> None:
    server, _ = walled
    with server.client("other") as client:
        answer = client.request(method, path, json={"key": "k", "value": "forged"})

    assert refused(answer) == (405, "method_not_allowed")


def test_extension_ids_that_differ_only_in_case_cannot_both_be_registered(
    walled: tuple[RunningServer, Path],
) -> None:
    server, _ = walled
    with server.client() as client:
        answer = client.post("/register", json={"extensionId": "DEMO"})
        read = client.get("/characters", headers={"x-extension-id": "Demo"})

    assert refused(answer) == (409, "extension_exists")
    assert refused(read) == (404, "extension_not_registered")


@pytest.mark.parametrize(
    "headers",
    [
        (b"x-extension-id: demo", b"x-extension-id: demo"),
        (b"x-extension-id: demo, other",),
        (b"x-extension-id: demo other",),
        (b"x-extension-id: demo;other",),
        (b"x-extension-id: " + b"d" * 10_000,),
        (b"x-extension-id: d\xc3\xa9mo",),
    ],
)
def test_an_extension_is_named_once(
    walled: tuple[RunningServer, Path], headers: tuple[bytes, ...]
) -> None:
    server, _ = walled

    answer = ask(server, get(ROOT + b"/characters", *headers))

    assert refused(answer) == (400, "invalid_extension_id")
