"""Pages of another origin: only the configured origin is allowed, and only what is configured."""

from __future__ import annotations

import httpx
import pytest

from tests.conftest import RunningServer
from tests.security.conftest import FRIEND, TokenServer
from tests.security.raw import cors_headers, refused

PREFLIGHT = {
    "origin": FRIEND,
    "access-control-request-method": "PUT",
    "access-control-request-headers": "content-type, x-extension-id",
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "cors",
}


def test_a_preflight_of_the_configured_origin_allows_our_methods_and_headers(
    server: RunningServer,
) -> None:
    with server.client() as client:
        answer = client.options("/instances/sword/data", headers=PREFLIGHT)

    assert answer.status_code == 204
    assert answer.headers["access-control-allow-origin"] == FRIEND
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers
    assert "*" not in answer.headers["access-control-allow-headers"]
    allowed = answer.headers["access-control-allow-headers"].split(", ")
    for header in ("authorization", "x-extension-id", "idempotency-key", "if-match", "x-session"):
        assert header in allowed
    assert [each for each in allowed if each.startswith("x-vt-")] == []
    methods = answer.headers["access-control-allow-methods"].split(", ")
    assert methods == ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


@pytest.mark.parametrize("origin", ["null", "https://evil.example", f"{FRIEND}.evil.example"])
def test_a_preflight_of_any_other_origin_is_refused_without_a_cors_header(
    server: RunningServer, origin: str
) -> None:
    with server.client() as client:
        answer = client.options("/characters", headers={**PREFLIGHT, "origin": origin})

    assert refused(answer) == (403, "origin_not_allowed")
    assert cors_headers(answer) == []


def test_a_page_without_an_origin_is_allowed_nothing_by_a_preflight(server: RunningServer) -> None:
    with server.client() as client:
        answer = client.options(
            "/characters", headers={"access-control-request-method": "GET", "origin": server.url}
        )

    assert answer.status_code == 204
    assert cors_headers(answer) == []


def test_reaching_a_machine_at_home_is_allowed_to_the_configured_origin_only(
    server: RunningServer,
) -> None:
    asked = {**PREFLIGHT, "access-control-request-private-network": "true"}

    with server.client() as client:
        friend = client.options("/characters", headers=asked)
        stranger = client.options(
            "/characters", headers={**asked, "origin": "https://evil.example"}
        )

    assert friend.headers["access-control-allow-private-network"] == "true"
    assert cors_headers(stranger) == []


@pytest.mark.parametrize(
    ("path", "status"),
    [("/characters", 200), ("/characters/nobody", 404), ("/nowhere", 404), ("/probe", 204)],
)
def test_the_configured_origin_may_read_answers_and_refusals(
    server: RunningServer, path: str, status: int
) -> None:
    with server.client("demo") as client:
        # The second answer comes from the answer cache.
        answers = [
            client.get(path, headers={"origin": FRIEND, "sec-fetch-site": "cross-site"})
            for _ in range(2)
        ]

    for answer in answers:
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == FRIEND
        assert "x-revision" in answer.headers["access-control-expose-headers"]
        assert answer.headers["vary"] == "Origin"


def test_a_kept_answer_for_one_origin_has_no_header_of_it_for_another(
    server: RunningServer,
) -> None:
    with server.client("demo") as client:
        client.get("/characters", headers={"origin": FRIEND})

        plain = client.get("/characters")
        stranger = client.get("/characters", headers={"origin": "https://evil.example"})

    assert plain.status_code == 200
    assert cors_headers(plain) == []
    assert refused(stranger) == (403, "origin_not_allowed")


def test_the_feed_can_be_read_from_the_configured_origin(server: RunningServer) -> None:
    with (
        server.client("demo") as client,
        client.stream("GET", "/events", headers={"origin": FRIEND}) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == FRIEND


def test_the_origin_is_echoed_as_the_browser_wrote_it_and_cannot_bring_headers(
    server: RunningServer,
) -> None:
    with server.client() as client:
        answer = client.get("/health", headers={"origin": FRIEND.upper()})

    assert answer.headers["access-control-allow-origin"] == FRIEND.upper()
    assert answer.headers.get_list("access-control-allow-origin") == [FRIEND.upper()]


def test_an_origin_that_is_allowed_still_needs_a_token(guarded: TokenServer) -> None:
    def ask(token: str | None) -> httpx.Response:
        with guarded.client(token, "demo") as client:
            return client.get("/characters", headers={"origin": FRIEND})

    assert refused(ask(None)) == (401, "token_required")
    assert ask(guarded.demo).status_code == 200
    for answer in (ask(None), ask(guarded.demo), ask("vt_wrong")):
        # The page must be able to read the reason.
        assert answer.headers["access-control-allow-origin"] == FRIEND


def test_a_preflight_needs_no_token_because_browsers_send_none(guarded: TokenServer) -> None:
    with guarded.client(None) as client:
        assert client.options("/characters", headers=PREFLIGHT).status_code == 204
