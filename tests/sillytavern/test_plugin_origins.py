"""The plugin refuses pages of other sites, with any method; SillyTavern alone would not."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.sillytavern.conftest import StartTavern
from tests.sillytavern.host import SillyTavern
from valuetracker.settings import PREFIX

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]

FOREIGN: list[tuple[dict[str, str], str]] = [
    ({"origin": "null"}, "origin_not_allowed"),
    ({"origin": "https://evil.example"}, "origin_not_allowed"),
    ({"origin": "http://127.0.0.1:1"}, "origin_not_allowed"),
    ({"origin": "http://localhost"}, "origin_not_allowed"),
    ({"sec-fetch-site": "cross-site"}, "cross_site"),
    ({"sec-fetch-site": "same-site"}, "cross_site"),
    ({"host": "evil.example"}, "host_not_allowed"),
    ({"host": "127.0.0.1.evil.example:8000"}, "host_not_allowed"),
    ({"host": "evil.example", "origin": "http://evil.example"}, "host_not_allowed"),
    ({"host": "evil.example", "x-forwarded-host": "localhost"}, "host_not_allowed"),
]


@pytest.mark.parametrize("method", METHODS)
def test_requests_of_other_sites_are_refused_on_every_method(
    tavern: SillyTavern, method: str
) -> None:
    with tavern.client("origins") as client:
        for headers, code in FOREIGN:
            answer = client.request(method, "/characters", headers=headers)

            assert answer.status_code == 403, (headers, answer.text)
            assert "access-control-allow-origin" not in answer.headers
            if method != "HEAD":
                assert answer.json()["code"] == code
                assert list(answer.json()) == ["error", "code", "hint", "details"]


@pytest.mark.parametrize("path", ["/events?extensionId=x", "/client/valuetracker.js", "/health"])
def test_the_feed_and_files_are_no_exception(tavern: SillyTavern, path: str) -> None:
    with tavern.client() as client:
        for headers, code in FOREIGN:
            answer = client.get(path, headers=headers)

            assert (answer.status_code, answer.json()["code"]) == (403, code)


def test_our_own_page_is_answered_under_each_of_its_names(tavern: SillyTavern) -> None:
    hosts = ["127.0.0.1", "localhost", "[::1]", "192.168.1.20", "tavern.localhost"]
    with tavern.client() as client:
        for host in (f"{name}:{tavern.port}" for name in hosts):
            for more in ({}, {"origin": f"http://{host}"}, {"sec-fetch-site": "same-origin"}):
                answer = client.get("/health", headers={"host": host, **more})

                assert answer.status_code == 200, (host, more, answer.text)


def configure(tavern: SillyTavern, **config: Any) -> None:
    file = tavern.server / "plugins/valuetracker/config.json"
    file.write_text(json.dumps(config))


def test_names_can_be_added_in_either_configuration(start_tavern: StartTavern) -> None:
    tavern = start_tavern(
        boot=False, config={"hostWhitelist": {"enabled": False, "hosts": [".tavern.example"]}}
    )
    configure(tavern, allowedHosts=["mine.example"], allowedOrigins=["https://proxied.example"])
    tavern.boot()

    with tavern.client() as client:

        def status(**headers: str) -> int:
            return client.get(
                "/health", headers={name.replace("_", "-"): each for name, each in headers.items()}
            ).status_code

        assert status(host="a.tavern.example", origin="https://a.tavern.example") == 200
        assert status(host="mine.example", origin="https://mine.example") == 200
        assert status(origin="https://proxied.example", sec_fetch_site="cross-site") == 200
        assert status(host="other.example") == 403
        assert status(host="mine.example", origin="https://other.example") == 403


def test_sillytavern_itself_would_have_answered(tavern: SillyTavern) -> None:
    # Why all this is needed; if it ever fails, SillyTavern has become stricter.
    answer = httpx.get(f"{tavern.url}/version", headers={"origin": "null"}, verify=False)

    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "null"
    assert httpx.get(tavern.url + PREFIX + "/health", verify=False).status_code == 200
