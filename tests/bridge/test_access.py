"""Access to the bridge: only an admin changes folders or chooses addresses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.bridge.upstream import FakeSillyTavern, closed_port
from tests.support.folders import tree
from valuetracker import __version__
from valuetracker.bridge.install.bundle import bundle_directory
from valuetracker.bridge.install.manifests import read_manifest
from valuetracker.settings import PREFIX


@pytest.fixture
def player(
    start_server: StartServer, sillytavern: Path, upstream: FakeSillyTavern
) -> Iterator[httpx.Client]:
    """A SillyTavern user who is not an admin."""
    server = start_server(st_root=(sillytavern,), st_base_url=upstream.url, bridge_secret="s")
    with server.client() as client:
        client.headers.update({"x-vt-secret": "s", "x-vt-user": "alice", "x-vt-admin": "false"})
        yield client


def test_only_an_admin_may_change_folders(player: httpx.Client, sillytavern: Path) -> None:
    before = tree(sillytavern)

    answer = player.post("/st/extension/sync", json={"dry_run": False})

    assert (answer.status_code, answer.json()["code"]) == (403, "admin_required")
    assert tree(sillytavern) == before


@pytest.mark.parametrize(
    "asked", [{"base_url": "http://127.0.0.1:{port}"}, {"plugin_base": "/api/other"}]
)
def test_only_an_admin_chooses_the_address(
    player: httpx.Client, upstream: FakeSillyTavern, asked: dict[str, Any]
) -> None:
    chosen = {name: text.replace("{port}", str(closed_port())) for name, text in asked.items()}

    answers = [
        player.get("/st/health", params=chosen),
        player.post("/st/session/sync", json=chosen),
    ]

    assert [(each.status_code, each.json()["code"]) for each in answers] == [
        (403, "admin_required")
    ] * 2
    assert upstream.asked == []


def test_everybody_may_use_the_configured_address(
    player: httpx.Client, upstream: FakeSillyTavern
) -> None:
    upstream.says(f"{PREFIX}/session/sync", {"ok": True})

    health = player.get("/st/health", params={"base_url": upstream.url, "plugin_base": PREFIX})
    sync = player.post("/st/session/sync", json={"base_url": upstream.url})

    assert (health.status_code, sync.status_code) == (200, 200)


def test_bundled_files_have_the_version_of_the_package() -> None:
    bundle = bundle_directory()

    versions = {
        read_manifest(bundle / "plugin/package.json")["version"],
        read_manifest(bundle / "extension/manifest.json")["version"],
    }

    assert versions == {__version__}
