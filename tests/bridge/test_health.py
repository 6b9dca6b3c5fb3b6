"""The health of SillyTavern and its plugin, and their versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.bridge.upstream import FakeSillyTavern, Said, closed_port
from tests.support.answers import outcome, refused_as
from tests.support.folders import EXTENSIONS
from valuetracker import __version__
from valuetracker.errors import InvalidQuery, OriginNotAllowed
from valuetracker.settings import PREFIX


def install(bridge: httpx.Client) -> None:
    assert bridge.post("/st/extension/sync", json={"dry_run": False}).status_code == 200


def health(bridge: httpx.Client, **query: Any) -> dict[str, Any]:
    answer = bridge.get("/st/health", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_sillytavern_and_plugin_are_healthy(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    install(bridge)

    found = health(bridge)

    ping, plugin = found["ping"], found["plugin"]
    assert (found["status"], found["alerts"], found["enabled"]) == ("ok", [], True)
    assert ping.pop("latency_ms") > 0
    assert ping == {
        "ok": True,
        "status_code": 200,
        "url": f"{upstream.url}/csrf-token",
        "error": None,
    }
    assert plugin.pop("latency_ms") > 0
    assert plugin == {
        "ok": True,
        "status_code": 200,
        "url": f"{upstream.url}{PREFIX}/health",
        "error": None,
        "plugin": "valuetracker",
        "version": __version__,
    }
    assert found["versions"] == {
        "extension": {"source": __version__, "installed": __version__, "status": "match"},
        "plugin": {
            "bundled": __version__,
            "installed": __version__,
            "remote": __version__,
            "status": "match",
        },
    }
    assert found["databases"] == {"engine": "sqlite", "registered": 0, "open": 0}
    assert (found["base_url"], found["plugin_base"]) == (upstream.url, PREFIX)
    assert found["paths"]["watch_paths"] == found["extension"]["watch_paths"]
    assert "sync" not in found["paths"]


@pytest.mark.parametrize("status", [401, 403])
def test_behind_a_login_the_plugin_that_forwards_counts_as_running(
    start_server: StartServer, sillytavern: Path, upstream: FakeSillyTavern, status: int
) -> None:
    server = start_server(st_root=(sillytavern,), st_base_url=upstream.url, bridge_secret="s")
    upstream.answers[f"{PREFIX}/health"] = Said(b"Forbidden", status)
    upstream.answers["/api/other/health"] = Said(b"Forbidden", status)
    with server.client() as player:
        player.headers.update({"x-vt-secret": "s", "x-vt-user": "alice", "x-vt-admin": "true"})
        install(player)

        found, elsewhere = health(player), health(player, plugin_base="/api/other")
    with server.client() as stranger:
        unknown = health(stranger)

    assert (found["status"], found["alerts"]) == ("ok", [])
    assert (found["plugin"]["ok"], found["plugin"]["status_code"]) == (True, status)
    assert found["versions"]["plugin"]["remote"] == __version__
    for each in (elsewhere, unknown):
        assert (each["status"], each["alerts"]) == ("degraded", ["plugin_health_error"])


def test_missing_files_are_reported(bridge: httpx.Client) -> None:
    found = health(bridge)

    assert found["status"] == "degraded"
    assert found["alerts"] == ["extension_missing", "plugin_missing"]
    extension = found["extension"]
    assert {name: extension[name] for name in extension if "needs_sync" in name} == {
        "needs_sync": True,
        "extension_needs_sync": True,
        "plugin_needs_sync": True,
        "overall_needs_sync": True,
    }
    assert extension["dest_manifest"]["error"] == "missing"


def set_version(path: Path, version: str) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "version": version}))


@pytest.mark.parametrize(
    ("file", "alert"),
    [
        (EXTENSIONS / "valuetracker/manifest.json", "extension_mismatch"),
        ("plugins/valuetracker/package.json", "plugin_mismatch"),
    ],
)
def test_another_version_is_a_mismatch(
    bridge: httpx.Client, sillytavern: Path, file: str | Path, alert: str
) -> None:
    install(bridge)
    set_version(sillytavern / file, "0.0.1")

    found = health(bridge)

    assert (found["status"], found["alerts"]) == ("degraded", [alert])
    part = alert.partition("_")[0]
    assert found["versions"][part]["installed"] == "0.0.1"
    assert found["versions"][part]["status"] == "mismatch"
    assert found["extension"][f"{part}_needs_sync"]


def test_changed_bytes_of_the_same_version_need_a_sync(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    install(bridge)
    manifest = sillytavern / EXTENSIONS / "valuetracker/manifest.json"
    manifest.write_text(manifest.read_text() + "\n")

    found = health(bridge)

    assert found["extension"]["version_status"] == "match"
    assert found["extension"]["extension_needs_sync"]
    assert not found["extension"]["plugin_needs_sync"]


def test_a_manifest_that_cannot_be_read_has_no_version(
    bridge: httpx.Client, sillytavern: Path
) -> None:
    install(bridge)
    (sillytavern / EXTENSIONS / "valuetracker/manifest.json").write_text("{")

    found = health(bridge)

    assert found["extension"]["version_status"] == "unknown"
    assert found["extension"]["dest_manifest"]["exists"]
    assert found["extension"]["dest_manifest"]["error"].startswith("unreadable")


def test_another_version_may_be_running(bridge: httpx.Client, upstream: FakeSillyTavern) -> None:
    install(bridge)
    upstream.says(f"{PREFIX}/health", {"ok": True, "plugin": "valuetracker", "version": "9.9"})

    found = health(bridge)

    assert (found["status"], found["alerts"]) == ("degraded", ["plugin_remote_mismatch"])
    assert found["versions"]["plugin"]["remote"] == "9.9"


@pytest.mark.parametrize(
    "said",
    [
        Said(b"Not found", 404),
        Said(b"<html>", 200),
        Said(b"[]", 200),
        Said(b'{"ok": false}', 200),
        Said(b'{"error": "away"}', 503),
        Said(b"{}", 302, {"location": "/csrf-token"}),
        Said(b"[" * 300 + b"]" * 300),
        Said(b"x" * (9 * 1024 * 1024)),
        Said(b"\x1f\x8b", 200, {"content-encoding": "gzip"}),
    ],
    ids=lambda said: f"{said.status} {said.body[:20]!r}",
)
def test_an_unexpected_answer_of_the_plugin_is_an_error(
    bridge: httpx.Client, upstream: FakeSillyTavern, said: Said
) -> None:
    install(bridge)
    upstream.answers[f"{PREFIX}/health"] = said

    found = health(bridge)

    assert (found["status"], found["alerts"]) == ("degraded", ["plugin_health_error"])
    assert found["plugin"]["ok"] is False
    assert found["plugin"]["error"]
    assert upstream.paths().count("/csrf-token") == 1


def test_without_any_answer_the_status_is_offline(bridge: httpx.Client) -> None:
    install(bridge)
    url = f"http://127.0.0.1:{closed_port()}"

    found = health(bridge, base_url=url)

    assert (found["status"], found["alerts"]) == ("offline", ["plugin_health_error"])
    assert found["ping"]["status_code"] is None
    assert found["ping"]["error"]
    assert found["base_url"] == url


def test_a_slow_sillytavern_is_not_waited_for(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    upstream.answers["/csrf-token"] = Said(b"{}", delay=30)
    upstream.answers[f"{PREFIX}/health"] = Said(b"{}", delay=30)

    found = health(bridge, timeout=0.2)

    assert found["status"] == "offline"
    assert found["ping"]["latency_ms"] < 20_000


def test_the_plugin_may_have_another_base_path(
    bridge: httpx.Client, upstream: FakeSillyTavern
) -> None:
    upstream.says("/plugins/mine/health", {"ok": True, "version": __version__})

    found = health(bridge, plugin_base="/plugins/mine")

    assert found["plugin"]["ok"]
    assert found["plugin_base"] == "/plugins/mine"


def test_a_switched_off_bridge_sends_no_request(
    start_server: StartServer, upstream: FakeSillyTavern
) -> None:
    server = start_server(st_enabled=0, st_base_url=upstream.url)
    with server.client() as client:
        found = client.get("/st/health").json()

    assert (found["status"], found["enabled"]) == ("disabled", False)
    assert found["alerts"][0] == "feature_disabled"
    assert (found["ping"], found["plugin"]) == (None, None)
    assert upstream.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org",
        "http://169.254.169.254",
        "http://[::ffff:127.0.0.1]",
        "http://2130706433",
        "http://0x7f000001",
        "http://0177.0.0.1",
        "http://127.1",
        "http://0.0.0.0",
        "http://10.0.0.1",
        "http://[::]",
        "http://user@127.0.0.1",
        "http://127.0.0.1@example.org",
        "http://127.0.0.1:80@example.org",
        "http://127.0.0.1/path",
        "http://127.0.0.1?x",
        "http://127.0.0.1#x",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:08000",
        "http://127.0.0.1\\example.org",
        "http://127.0.0.1 ",
        "http://localhost.example.org",
        "http://localhost.",
        "http://\uff11\uff12\uff17.0.0.1",
        "file:///etc/passwd",
        "ftp://127.0.0.1",
        "gopher://127.0.0.1",
        "127.0.0.1:8000",
        "//127.0.0.1",
        "",
        "http://",
        "http://[fe80::1%25lo]",
    ],
)
def test_other_addresses_are_not_fetched(
    bridge: httpx.Client, upstream: FakeSillyTavern, url: str
) -> None:
    answer = bridge.get("/st/health", params={"base_url": url})
    posted = bridge.post("/st/session/sync", json={"base_url": url, "dry_run": True})

    assert answer.status_code == 403
    assert answer.json()["code"] == OriginNotAllowed.code
    assert posted.status_code == 403
    assert posted.json()["code"] == OriginNotAllowed.code
    assert upstream.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "st.localhost"])
def test_loopback_is_fetched_by_its_names(
    bridge: httpx.Client, upstream: FakeSillyTavern, host: str
) -> None:
    port = upstream.url.rpartition(":")[2]

    found = health(bridge, base_url=f"http://{host}:{port}/")

    if host != "st.localhost" or found["ping"]["ok"]:
        assert found["ping"]["ok"], found["ping"]
        assert upstream.asked[0].headers["host"] == f"{host.lower()}:{port}"


def test_a_configured_origin_is_compared_as_a_whole(start_server: StartServer) -> None:
    server = start_server(st_allow_origin=("https://st.example.org:8443",), st_enabled=0)

    with server.client() as client:
        statuses = {
            url: client.get("/st/health", params={"base_url": url}).status_code
            for url in (
                "https://st.example.org:8443",
                "https://ST.example.org:8443/",
                "http://st.example.org:8443",
                "https://st.example.org",
                "https://st.example.org:84430",
                "https://st.example.org.evil.org:8443",
                "https://x.st.example.org:8443",
            )
        }

    assert list(statuses.values()) == [200, 200, 403, 403, 403, 403, 403]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", "0"),
        ("timeout", "0.09"),
        ("timeout", "30.1"),
        ("timeout", "-1"),
        ("timeout", "nan"),
        ("timeout", "inf"),
        ("timeout", "soon"),
        ("plugin_base", "/../../admin"),
        ("plugin_base", "/a/./b"),
        ("plugin_base", "//evil.org"),
        ("plugin_base", "http://evil.org"),
        ("plugin_base", "/a?b"),
        ("plugin_base", "/a%2e"),
        ("plugin_base", "/a\r\nx: y"),
        ("plugin_base", "api"),
    ],
)
def test_an_invalid_query_is_refused(bridge: httpx.Client, name: str, value: str) -> None:
    answer = bridge.get("/st/health", params={name: value})

    assert outcome(answer) == refused_as(answer, InvalidQuery)
