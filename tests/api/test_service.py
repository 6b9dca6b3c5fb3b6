"""Routes about the server itself: probe, ping, health, limits, reference."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.support.answers import outcome, refusal
from tests.support.clock import DAY_MS
from valuetracker import __version__
from valuetracker.errors import InvalidBody, RouteNotFound
from valuetracker.runtime import nightly
from valuetracker.settings import PREFIX

pytestmark = pytest.mark.one_engine


def test_the_probe_has_an_empty_answer(client: httpx.Client) -> None:
    answer = client.get("/probe")

    assert (answer.status_code, answer.content) == (204, b"")
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("message", ["hello", "", "é 🗡️", 'quote"', "a\nb"])
def test_a_ping_is_answered_with_its_message(client: httpx.Client, message: str) -> None:
    answer = client.post("/ping", json={"message": message})

    assert outcome(answer) == (200, {"message": f"Pong! {message}"})


@pytest.mark.parametrize("body", [{}, {"message": None}, {"message": 5}, {"message": {}}])
def test_a_ping_needs_a_message(client: httpx.Client, body: dict[str, Any]) -> None:
    answer = client.post("/ping", json=body)

    message = "The text must be a string." if body else "`message` is required."
    assert outcome(answer) == refusal(InvalidBody(message))


def test_the_health_route_answers_name_and_version(client: httpx.Client) -> None:
    assert outcome(client.get("/health")) == (
        200,
        {"ok": True, "plugin": "valuetracker", "version": __version__},
    )


def test_the_servers_health_is_at_the_root_and_under_the_prefix(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("one") as client:
        server.register("one")
        server.register("two")
        client.get("/characters")

        at_root = client.get(server.url + "/healthz")

        assert outcome(at_root) == (
            200,
            {
                "status": "ok",
                "version": __version__,
                "engine": "sqlite",
                "engineVersion": sqlite3.sqlite_version,
                "extensions": 2,
                "openDatabases": 1,
                "large": 0,
                "full": 0,
                "backup": {
                    "lastAt": None,
                    "failed": 0,
                    "hook": None,
                    "error": None,
                    "overdue": False,
                },
            },
        )
        assert outcome(client.get("/healthz")) == outcome(at_root)


def test_the_servers_health_tells_that_a_backup_is_overdue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No backup is made by itself while the test looks.
    monkeypatch.setattr(nightly, "LOOKS_EVERY_SECONDS", 3_600)
    with running_server(tmp_path, backup_at="03:00") as server, server.client() as client:

        def is_overdue() -> Any:
            return client.get("/healthz").json()["backup"]["overdue"]

        server.clock.set_forward(3 * DAY_MS)
        assert is_overdue() is False, "there is nothing to back up"
        server.register("one")
        assert is_overdue() is True
        job = client.post("/backup").json()["job"]
        wait_for(lambda: client.get(f"/jobs/{job}").json()["status"] == "done")
        assert is_overdue() is False
        server.clock.set_forward(DAY_MS)
        assert is_overdue() is False
        server.clock.set_forward(2 * DAY_MS)
        assert is_overdue() is True
    with (
        running_server(tmp_path, backup_at="off", clock=server.clock) as server,
        server.client() as client,
    ):
        assert is_overdue() is False


@pytest.mark.parametrize("path", ["/health", "/probe", "/limits", "/characters"])
def test_nothing_else_is_at_the_root(shared_server: RunningServer, path: str) -> None:
    with shared_server.client("x") as client:
        answer = client.get(shared_server.url + path)

    assert outcome(answer) == refusal(RouteNotFound())


def test_the_limits_answered_are_those_in_force(client: httpx.Client) -> None:
    assert outcome(client.get("/limits")) == (
        200,
        {
            "bodyBytes": 32 * 1024 * 1024,
            "valueBytes": 8 * 1024 * 1024,
            "valueDepth": 128,
            "keysPerRequest": 10_000,
            "batchOperations": 1_000,
            "batchResultBytes": 16 * 1024 * 1024,
            "patchOperations": 1_000,
            "patchCopiedBytes": 1024 * 1024,
            "chainMessages": 100_000,
            "processedIds": 10_000,
            "leaseMs": 7 * 24 * 60 * 60 * 1000,
            "pageItems": 1_000,
            "pageBytes": 16 * 1024 * 1024,
            "waitSeconds": 60,
            "extensionIdLength": 128,
            "characterIdLength": 256,
            "instanceIdLength": 256,
            "chatIdLength": 512,
            "messageIdLength": 512,
            "swipeLength": 512,
            "processedIdLength": 512,
            "clientLength": 256,
            "seriesNameLength": 256,
            "setNameLength": 256,
            "operationIdLength": 256,
            "checkpointNameLength": 256,
            "keyLength": 1024,
            "nameLength": 1024,
            "hashLength": 512,
            "headerTextLength": 512,
            "integerMinimum": -(2**63),
            "integerMaximum": 2**64 - 1,
            "headerBytes": 32 * 1024,
            "headerCount": 100,
            "connections": 4_096,
            "feedExtensions": 32,
            "feedReaders": 50,
            "allFeedReaders": 2_000,
        },
    )


def test_the_reference_is_served_as_a_page(client: httpx.Client) -> None:
    answer = client.get("/docs")

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text.startswith("<!doctype html>")
    for path in ("/characters", "/instances/{instance}/data/merge", "/cross-extension/"):
        assert path in answer.text


def test_the_reference_is_served_as_openapi(client: httpx.Client) -> None:
    answer = client.get("/openapi.json")

    document = answer.json()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert document["openapi"].startswith("3.1")
    assert document["info"]["version"] == __version__
    assert f"{PREFIX}/characters" in document["paths"]


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("target", ["/", "/?from=a-bookmark"])
def test_the_root_leads_to_a_page(shared_server: RunningServer, method: str, target: str) -> None:
    with shared_server.client() as client:
        answer = client.request(method, shared_server.url + target)
        page = client.request(method, shared_server.url + target, follow_redirects=True)

    assert answer.status_code == 302
    assert answer.headers["location"] == "/inspector/"
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("header", [None, "not an id", "nobody"])
@pytest.mark.parametrize(
    "path", ["/probe", "/health", "/healthz", "/caller", "/limits", "/docs", "/openapi.json"]
)
def test_these_routes_need_no_extension(
    shared_server: RunningServer, path: str, header: str | None
) -> None:
    with shared_server.client(header) as client:
        assert client.get(path).status_code in (200, 204)
