"""Metrics: what is counted, as Prometheus reads it."""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import RunningServer, running_server, wait_for
from tests.support.answers import outcome

DATA = "/instances/{instance}/data"
KEY = "/instances/{instance}/data/{key}"

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(client: httpx.Client) -> Samples:
    """Return all samples, by their name and labels."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain; version=")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((f"valuetracker_{name}", frozenset(labels.items())), 0.0)


def grown(before: Samples, after: Samples, name: str, **labels: str) -> float:
    return value(after, name, **labels) - value(before, name, **labels)


def add_sword(client: httpx.Client) -> None:
    client.post("/instances", json={"id": "sword", "characterId": "arthur"})


def test_each_answer_is_counted_by_route_method_and_status(client: httpx.Client) -> None:
    add_sword(client)
    before = read(client)

    for _ in range(3):
        client.post("/instances/sword/data", json={"key": "hp", "value": 1})
    client.post("/instances/absent/data", json={"key": "hp", "value": 1})
    client.post("/instances/sword/data", json={})
    client.head("/instances/sword/data")
    client.get("/nowhere")
    client.delete("/characters")

    after = read(client)

    def requests(route: str, method: str, status: str) -> float:
        labels = {"route": route, "method": method, "status": status}
        return grown(before, after, "requests_total", **labels)

    assert requests(DATA, "POST", "2xx") == 3
    assert requests(DATA, "POST", "4xx") == 2
    assert requests(DATA, "GET", "2xx") == 1
    assert requests("", "", "4xx") >= 2
    route = {"route": DATA, "method": "POST"}
    assert grown(before, after, "request_seconds_count", **route) == 5
    assert 0 < grown(before, after, "request_seconds_sum", **route) < 60
    assert grown(before, after, "request_seconds_bucket", le="+Inf", **route) == 5
    assert grown(before, after, "commit_writes_sum") >= 3
    assert grown(before, after, "commit_seconds_count") >= 1
    assert grown(before, after, "commit_seconds_sum") > 0
    # The request for metrics before this one is counted.
    assert requests("/metrics", "GET", "2xx") == 1


def test_kept_answers_are_counted_as_requests_and_as_hits(client: httpx.Client) -> None:
    add_sword(client)
    client.post("/instances/sword/data", json={"key": "hp", "value": 1})
    client.get("/instances/sword/data/hp")
    before = read(client)

    etags = [client.get("/instances/sword/data/hp").headers["etag"] for _ in range(4)]
    for _ in range(2):
        client.get("/instances/sword/data/hp", headers={"if-none-match": etags[0]})
    # The kept answer is made anew, and is still counted.
    client.post("/instances/sword/data", json={"key": "hp", "value": 2})
    client.get("/instances/sword/data/hp")

    after = read(client)
    route = {"route": KEY, "method": "GET"}
    assert grown(before, after, "requests_total", status="2xx", **route) == 5
    assert grown(before, after, "requests_total", status="3xx", **route) == 2
    assert grown(before, after, "cache_hits_total", **route) == 7
    assert grown(before, after, "request_seconds_count", **route) == 0


def test_feeds_databases_and_memory_are_gauged(
    client: httpx.Client, extension_id: str, shared_server: RunningServer
) -> None:
    add_sword(client)
    labels = {"user": "default-user", "extension": extension_id}
    before = read(client)

    with client.stream("GET", "/events"):
        following = read(client)
    client.post("/instances/sword/data", json={"key": "book", "value": secrets.token_hex(250_000)})
    after = read(client)

    assert grown(before, following, "feed_readers") == 1
    assert value(after, "open_databases") >= 1
    assert value(before, "database_bytes", **labels) > 0
    assert grown(before, after, "database_bytes", **labels) > 200_000
    assert after["process_resident_memory_bytes", frozenset()] > 1_000_000
    wait_for(lambda: value(read(client), "feed_readers") == value(before, "feed_readers"))


def test_a_deregistered_extension_has_no_size(shared_server: RunningServer) -> None:
    labels = {"user": "default-user", "extension": "short-lived"}
    shared_server.register("short-lived")
    with shared_server.client("short-lived") as client:
        add_sword(client)
        assert value(read(client), "database_bytes", **labels) > 0

        client.request("DELETE", "/register", json={"extensionId": "short-lived", "purge": True})

        assert value(read(client), "database_bytes", **labels) == 0


@pytest.mark.one_engine
def test_damage_and_backups_are_shown(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("whole")
        server.register("broken")
        with server.client("broken") as client:
            add_sword(client)
    with sqlite3.connect(tmp_path / "broken.db") as file:
        file.execute("UPDATE characters SET name = 'Mordred'")
    file.close()
    with running_server(tmp_path) as server, server.client("broken") as client:
        before = read(client)
        assert client.get("/characters").status_code == 503
        job = client.post("/backup").json()["job"]
        wait_for(lambda: client.get(f"/jobs/{job}").json()["status"] != "running")
        after = read(client)

    assert value(before, "damaged_extensions") == 0
    assert value(before, "backup_last_success_timestamp_seconds") == 0
    assert value(after, "damaged_extensions") == 1
    assert value(after, "backup_last_success_timestamp_seconds") > 1_600_000_000


@pytest.mark.one_engine
def test_prometheus_finds_them_at_its_usual_path(shared_server: RunningServer) -> None:
    with shared_server.client() as client:
        at_root = client.get(f"{shared_server.url}/metrics")

    assert at_root.status_code == 200
    assert "# TYPE valuetracker_requests counter" in at_root.text or (
        "# TYPE valuetracker_requests_total counter" in at_root.text
    )


@pytest.mark.one_engine
def test_a_user_who_is_no_admin_sees_none(tmp_path: Path) -> None:
    headers: dict[str, Any] = {"x-vt-secret": "s", "x-vt-user": "ada", "x-vt-admin": "false"}
    with running_server(tmp_path, bridge_secret="s") as server, server.client() as client:
        client.headers.update(headers)
        for path in ("/metrics", "/settings", "/tokens"):
            status, body = outcome(client.get(path))
            assert (status, body["code"]) == (403, "admin_required")
