"""Requests that a web page can make a browser send: foreign origins, cross-site, forms."""

from __future__ import annotations

import httpx
import pytest

from tests.conftest import RunningServer
from tests.security.conftest import FRIEND
from tests.security.raw import ROOT, ask, cors_headers, get, lines, post, refused

FOREIGN = [
    "null",
    "",
    "https://evil.example",
    "http://localhost:1",
    "http://127.0.0.1",
    "http://localhost.evil.example",
    "http://localhost@evil.example",
    f"{FRIEND}.evil.example",
    f"{FRIEND}:8443",
    FRIEND.replace("https", "http"),
    f"{FRIEND}, {FRIEND}",
    f"{FRIEND} https://evil.example",
    "file://",
    "chrome-extension://abcdef",
    "javascript://localhost",
]


def own_origin(server: RunningServer) -> str:
    return server.url


@pytest.mark.parametrize("origin", FOREIGN)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/health"),
        ("GET", "/characters"),
        ("GET", "/events"),
        ("GET", "/cross-extension/characters/demo"),
        ("GET", "/openapi.json"),
        ("HEAD", "/health"),
        ("POST", "/register"),
        ("POST", "/ping"),
        ("PUT", "/instances/sword/data/override"),
        ("PATCH", "/instances/sword/data"),
        ("DELETE", "/characters/arthur"),
        ("OPTIONS", "/characters"),
    ],
)
def test_a_foreign_origin_is_refused_on_every_method_without_a_cors_header(
    server: RunningServer, origin: str, method: str, path: str
) -> None:
    with server.client("demo") as client:
        answer = client.request(method, path, headers={"origin": origin}, content=b"{}")

        assert answer.status_code == 403
        assert cors_headers(answer) == []
        if method != "HEAD":
            assert refused(answer) == (403, "origin_not_allowed")
        assert client.get("/characters/arthur").status_code == 200


def test_our_own_pages_may_send_requests(server: RunningServer) -> None:
    own = {"origin": own_origin(server), "sec-fetch-site": "same-origin"}

    with server.client("demo") as client:
        assert client.get("/characters", headers=own).status_code == 200


def test_two_origins_are_refused(server: RunningServer) -> None:
    answer = ask(server, get(ROOT + b"/health", b"origin: null", b"origin: http://localhost"))

    assert refused(answer) == (400, "invalid_header")


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense", "", "Same-Origin"])
@pytest.mark.parametrize("path", ["/characters", "/events", "/health", "/docs"])
def test_a_request_that_fetch_metadata_calls_foreign_is_refused_even_a_read(
    server: RunningServer, site: str, path: str
) -> None:
    with server.client("demo") as client:
        answer = client.get(path, headers={"sec-fetch-site": site, "sec-fetch-mode": "no-cors"})

    assert refused(answer) == (403, "cross_site")
    assert cors_headers(answer) == []


def test_a_cross_site_request_with_our_own_origin_is_refused(server: RunningServer) -> None:
    lie = {"origin": own_origin(server), "sec-fetch-site": "cross-site"}

    with server.client() as client:
        assert refused(client.get("/health", headers=lie)) == (403, "cross_site")


def test_an_address_typed_by_a_person_is_answered(server: RunningServer) -> None:
    with server.client() as client:
        answer = client.get("/docs", headers={"sec-fetch-site": "none"})

    assert answer.status_code == 200
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


FORMS = [
    ("text/plain", b'{"key":"edge","value":"forged"}'),
    ("text/plain;charset=utf-8", b'{"key":"edge","value":"forged","x":"="}'),
    ("application/x-www-form-urlencoded", b"key=edge&value=forged"),
    ("multipart/form-data; boundary=x", b'--x\r\n\r\n{"key":"edge","value":"forged"}\r\n--x--'),
    ("application/json, text/plain", b'{"key":"edge","value":"forged"}'),
    ("text/json", b'{"key":"edge","value":"forged"}'),
    ("application/jsonp", b'{"key":"edge","value":"forged"}'),
]


@pytest.mark.parametrize(("media_type", "body"), FORMS)
def test_a_form_cannot_write_even_if_no_header_says_its_origin(
    server: RunningServer, media_type: str, body: bytes
) -> None:
    with server.client("demo") as client:
        sent = client.post(
            "/instances/sword/data", content=body, headers={"content-type": media_type}
        )

        assert refused(sent) == (415, "unsupported_media_type")
        assert client.get("/instances/sword/data/edge").json() == {}


@pytest.mark.parametrize(("media_type", "body"), FORMS)
def test_a_form_of_a_foreign_page_is_refused_for_its_origin(
    server: RunningServer, media_type: str, body: bytes
) -> None:
    browser = {
        "origin": "https://evil.example",
        "sec-fetch-site": "cross-site",
        "content-type": media_type,
    }

    with server.client() as client:
        answer = client.post("/register", content=body, headers=browser)

    assert refused(answer) == (403, "origin_not_allowed")


@pytest.mark.parametrize(
    "header", ["x-http-method-override", "x-http-method", "x-method-override", "_method"]
)
def test_no_header_overrides_the_method(server: RunningServer, header: str) -> None:
    with server.client("demo") as client:
        read = client.get("/characters/arthur", headers={header: "DELETE"})
        queried = client.get("/characters/arthur?_method=DELETE")

        assert (read.status_code, queried.status_code) == (200, 200)
        assert client.get("/characters/arthur").status_code == 200


@pytest.mark.parametrize(
    "target", [b"//evil.example", b"//evil.example/%2e%2e", b"/\\evil.example"]
)
def test_no_redirect_leads_to_an_address_that_the_request_names(
    server: RunningServer, target: bytes
) -> None:
    answer = ask(server, get(target))

    assert refused(answer)[0] in (400, 404)
    assert "location" not in answer.headers


def test_the_one_redirect_leads_to_our_own_page_whatever_the_query(server: RunningServer) -> None:
    answer = ask(server, get(b"/?next=//evil.example"))

    assert answer.status_code == 302
    assert answer.headers["location"] == "/inspector/"


def guards(answer: httpx.Response) -> dict[str, str]:
    names = (
        "x-content-type-options",
        "x-frame-options",
        "referrer-policy",
        "cross-origin-resource-policy",
    )
    return {name: answer.headers.get(name, "") for name in names}


@pytest.mark.parametrize(
    "request_bytes",
    [
        get(),
        get(b"/"),
        get(ROOT + b"/docs"),
        get(ROOT + b"/openapi.json"),
        get(ROOT + b"/probe"),
        get(ROOT + b"/nowhere"),
        get(ROOT + b"/events?extensionId=nobody"),
        get(host=b"host: evil.example"),
        post(ROOT + b"/ping", b"{"),
        lines(b"BREW / HTTP/1.1"),
        get(ROOT + b"/health", *[b"x: y"] * 200),
    ],
)
def test_every_answer_has_the_security_headers(server: RunningServer, request_bytes: bytes) -> None:
    answer = ask(server, request_bytes)

    assert guards(answer) == {
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-resource-policy": "same-origin",
    }
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert "server" not in answer.headers
