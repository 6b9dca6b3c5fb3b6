"""
The keys that programs written for the older bridge read from these routes.
"""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.bridge.upstream import FakeSillyTavern
from valuetracker.settings import PREFIX

# In the notation of its documentation: a dot for an object, brackets for a list.
HEALTH_KEYS = [
    "status",
    "alerts[]",
    "versions.extension",
    "versions.extension.source",
    "versions.extension.installed",
    "versions.plugin",
    "versions.plugin.bundled",
    "versions.plugin.installed",
    "versions.plugin.remote",
    "extension.plugin_needs_sync",
    "extension.overall_needs_sync",
    "extension.dest_manifest",
    "extension.plugin.destination_package",
    "extension.watch_paths[].path",
    "ping.latency_ms",
    "paths.watch_paths[].path",
]
SYNC_KEYS = ["ok", "latency_ms", "reply", "panel_reply", "reply_text", "context", "message_count"]
SYNC_KEYS += ["endpoint", "scene_source", "timeout", "dry_run", "context.messages[].content"]
COPY_KEYS = ["created", "updated", "skipped", "dirs_created", "files_processed"]
COPY_KEYS += ["paths.resolution_chain[].source", "actions[].action", "dry_run"]

SESSION = {
    "scene_id": "chapter_03",
    "pov": "narrator",
    "variables": {"affinity": 0.42},
    "messages": [
        {"role": "narrator", "content": "Evening settles over the city."},
        {"role": "alice", "content": "Did you find the clue?"},
    ],
    "limit_messages": 40,
}


def has(document: object, key: str) -> bool:
    for part in key.split("."):
        name, is_list = part.removesuffix("[]"), part.endswith("[]")
        if not isinstance(document, dict) or name not in document:
            return False
        document = document[name]
        if is_list:
            if not isinstance(document, list):
                return False
            document = document[0] if document else None
    return True


@pytest.mark.parametrize("key", HEALTH_KEYS)
def test_health_serves(bridge: httpx.Client, key: str) -> None:
    assert has(bridge.get("/st/health").json(), key)


@pytest.mark.parametrize("key", COPY_KEYS)
def test_extension_sync_serves(bridge: httpx.Client, sillytavern: Path, key: str) -> None:
    body = {"dry_run": True, "destination": str(sillytavern)}

    assert has(bridge.post("/st/extension/sync", json=body).json(), key)


@pytest.mark.parametrize("key", SYNC_KEYS)
@pytest.mark.parametrize("dry_run", [True, False])
def test_session_sync_serves(
    bridge: httpx.Client, upstream: FakeSillyTavern, key: str, dry_run: bool
) -> None:
    upstream.says(f"{PREFIX}/session/sync", {"ok": True, "reply": "Yes."})

    answer = bridge.post("/st/session/sync", json={**SESSION, "dry_run": dry_run})

    assert answer.status_code == 200
    assert has(answer.json(), key)


def test_the_plugins_package_is_among_the_watched_paths(bridge: httpx.Client) -> None:
    purposes = {each["purpose"] for each in bridge.get("/st/health").json()["paths"]["watch_paths"]}

    assert purposes >= {"plugin_bundle_package", "plugin_destination_package"}


def test_latency_stays_below_two_seconds(bridge: httpx.Client, upstream: FakeSillyTavern) -> None:
    upstream.says(f"{PREFIX}/session/sync", {"ok": True})

    def latency() -> int:
        return int(bridge.post("/st/session/sync", json=SESSION).json()["latency_ms"])

    # One of them may be slow because the machine is busy.
    assert min(latency() for _ in range(5)) < 2_000
