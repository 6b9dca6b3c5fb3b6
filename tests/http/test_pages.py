"""The files of the inspector as they are served."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from valuetracker.http.pages import FOLDER, POLICY, Pages
from valuetracker.settings import PREFIX

ROOTS = ("/inspector/", PREFIX + "/inspector/")


@pytest.fixture(scope="module", params=["fast", "asgi"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("pages"), http=request.param) as server:
        yield server


@pytest.fixture
def client(server: RunningServer) -> Iterator[httpx.Client]:
    assert (FOLDER / "index.html").exists(), "build the inspector: `make .cache/inspector/ready`"
    with httpx.Client(base_url=server.url, headers={"accept-encoding": "identity"}) as client:
        yield client


def names_in(page: str) -> list[str]:
    """Return the files that the page names."""
    return re.findall(r'(?:src|href)="\./([^"]+)"', page)


@pytest.mark.parametrize("root", ROOTS)
def test_the_page_is_asked_for_every_time_and_its_files_once(
    client: httpx.Client, root: str
) -> None:
    page = client.get(root)
    again = client.get(root, headers={"if-none-match": page.headers["etag"]})

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.headers["content-security-policy"] == POLICY
    assert page.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["cache-control"] == "no-cache"
    names = names_in(page.text)
    assert len(names) == 2
    for name in names:
        file = client.get(root + name)
        head = client.head(root + name)
        assert file.status_code == head.status_code == 200
        assert file.content == (FOLDER / name).read_bytes()
        assert head.content == b""
        assert head.headers["content-length"] == str(len(file.content))
        assert "immutable" in file.headers["cache-control"]
        assert file.headers["x-content-type-options"] == "nosniff"
        assert file.headers["content-type"].startswith(
            "text/css" if name.endswith(".css") else "text/javascript"
        )


def test_files_are_packed_for_whoever_accepts_it(client: httpx.Client) -> None:
    for path in FOLDER.glob("*.js"):
        url = f"/inspector/{path.name}"
        plain = client.get(url)
        packed = client.get(url, headers={"accept-encoding": "br, gzip"})
        refused = client.get(url, headers={"accept-encoding": "gzip;q=0"})

        assert packed.headers["content-encoding"] == "gzip"
        assert int(packed.headers["content-length"]) < len(plain.content)
        assert packed.content == plain.content == refused.content
        assert packed.headers["etag"] != plain.headers["etag"]
        assert packed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
        assert "content-encoding" not in refused.headers


@pytest.mark.parametrize(("path", "location"), [("/", "/inspector/"), ("/inspector", "inspector/")])
def test_the_root_and_the_page_without_its_slash_lead_to_the_page(
    client: httpx.Client, path: str, location: str
) -> None:
    answer = client.get(path)

    assert (answer.status_code, answer.headers["location"]) == (302, location)
    assert client.get(path, follow_redirects=True).url.path == "/inspector/"


@pytest.mark.parametrize(
    "path",
    [
        "/inspector/nothing.js",
        "/inspector/main",
        "/inspector/index.html.gz",
        "/inspector/..%2fapp.py",
        "/inspector/%2e%2e/app.py",
        "/inspector/sub/index.html",
        "/inspector//",
        "/inspectors/",
        "/inspector/%00",
        "/inspector/\\..\\app.py",
    ],
)
def test_no_path_leads_out_of_the_folder(client: httpx.Client, path: str) -> None:
    answer = client.get(client.base_url.copy_with(raw_path=path.encode()))

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_sent_to_the_page(client: httpx.Client, method: str) -> None:
    answer = client.request(method, "/inspector/")

    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_an_instance_may_have_the_name_of_the_page(client: httpx.Client) -> None:
    headers = {"x-extension-id": "named"}
    client.post(PREFIX + "/register", json={"extensionId": "named"})
    body = {"id": "inspector", "characterId": "inspector"}

    made = client.post(PREFIX + "/instances", json=body, headers=headers)

    assert made.status_code < 300, made.text
    found = client.get(PREFIX + "/instances/inspector", headers=headers)
    assert found.json()["instance"]["id"] == "inspector"


def test_a_page_of_another_site_gets_nothing(client: httpx.Client) -> None:
    answer = client.get("/inspector/", headers={"sec-fetch-site": "cross-site"})

    assert answer.json()["code"] == "cross_site"


def test_without_the_built_files_the_page_says_how_to_build_them(tmp_path: Path) -> None:
    pages = Pages(tmp_path / "inspector")

    reply = pages.find("GET", b"/inspector/", {})

    assert reply is not None
    assert b"make .cache/inspector/ready" in reply.body
    (tmp_path / "inspector").mkdir()
    (tmp_path / "inspector" / "main.js").write_bytes(b"1")
    (tmp_path / "inspector" / "main.js.gz").write_bytes(gzip.compress(b"1"))
    (tmp_path / "inspector" / "index.html").write_bytes(b"<p>built</p>")
    built = pages.find("GET", b"/inspector/", {})
    assert built is not None
    assert built.body == b"<p>built</p>"
