"""The bridge against a real SillyTavern: its folders, its CSRF, its lorebooks."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from tests.conftest import running_server
from tests.sillytavern.conftest import StartTavern
from tests.sillytavern.host import SillyTavern
from tests.sillytavern.installation import valuetracker
from tests.support.folders import tree
from valuetracker import __version__


def test_seen_from_inside_all_is_well(tavern: SillyTavern) -> None:
    with tavern.client() as client:
        health = client.get("/st/health", params={"timeout": 20}).json()

    assert (health["status"], health["alerts"]) == ("ok", []), health
    assert health["base_url"] == tavern.url
    assert health["versions"]["plugin"] == {
        "bundled": __version__,
        "installed": __version__,
        "remote": __version__,
        "status": "match",
    }
    assert health["extension"]["overall_needs_sync"] is False
    assert health["paths"]["resolved_from"] == "env_root"
    assert health["paths"]["destination_dir"].startswith(str(tavern.server))


def test_seen_from_outside_all_is_well(tavern: SillyTavern, tmp_path: Path) -> None:
    given = {"st_root": (tavern.server,), "st_base_url": tavern.url}
    with running_server(tmp_path, **given) as server, server.client() as client:
        health = client.get("/st/health", params={"timeout": 20}).json()

    assert (health["status"], health["alerts"]) == ("ok", []), health


def test_the_command_sees_what_is_running(tavern: SillyTavern) -> None:
    done = valuetracker("sillytavern", "status", tavern.server, "--url", tavern.url, "--json")

    report = json.loads(done.stdout)
    assert (report["bundled"], report["installed"], report["running"]) == (__version__,) * 3
    assert report["needsSync"] is False


def test_a_session_goes_there_with_its_token_and_a_page_replies(
    tavern: SillyTavern, tmp_path: Path
) -> None:
    session = {"session_id": "a lake", "variables": {"gold": 1}, "messages": ["Hm?"]}
    with (
        running_server(tmp_path, st_base_url=tavern.url) as server,
        server.client() as outside,
        tavern.client() as page,
        ThreadPoolExecutor(1) as pool,
    ):
        # Somebody is listening from now on, for as long as it takes to ask again.
        page.get("/session/pending")
        sent = pool.submit(outside.post, "/st/session/sync", json={**session, "timeout": 30})
        prompt = None
        while prompt is None:
            prompt = page.get("/session/pending", params={"wait": 1}).json()["prompt"]
        page.post("/session/reply", json={"id": prompt["id"], "reply": {"content": "Yes."}})
        found = sent.result().json()
        values = page.get("/chats/a%20lake/data", headers={"x-extension-id": "session-sync"})

    assert prompt["context"] == found["context"]
    assert found["panel_reply"] == {"role": "assistant", "content": "Yes."}
    assert found["received"]["variables"] == values.json() == {"gold": 1}


def world(session: httpx.Client, name: str) -> list[dict[str, object]]:
    """The entries of a lorebook as SillyTavern itself reads them."""
    found = session.post("/api/worldinfo/get", json={"name": name}).json()
    return list(found["entries"].values())


def test_a_lorebook_of_sillytavern_is_copied_with_all_its_entries(tavern: SillyTavern) -> None:
    with tavern.client() as client, tavern.session() as session:
        answer = client.post("/st/lorebooks/Eldoria/clone", json={"as": "Eldoria - what if"})
        original, copied = world(session, "Eldoria"), world(session, "Eldoria - what if")
        listed = session.post("/api/worldinfo/list", json={}).json()

    assert answer.status_code == 200, answer.text
    assert len(original) == answer.json()["entries"] > 0
    uids = answer.json()["uids"]
    assert copied == [{**each, "uid": uids[str(each["uid"])]} for each in original]
    assert "Eldoria - what if" in [each["file_id"] for each in listed]


def test_a_checkpoint_copies_a_lorebook_there(tavern: SillyTavern) -> None:
    tavern.register("recap-of-lorebooks")
    with tavern.client("recap-of-lorebooks") as client, tavern.session() as session:
        client.post("/chats/lake/data", json={"key": "hp", "value": 50})
        body = {"name": "duel", "lorebook": {"name": "Eldoria", "as": "Eldoria - duel"}}
        made = client.post("/chats/lake/checkpoints", json=body)

        assert made.status_code == 201, made.text
        assert made.json()["state"]["lorebook"]["name"] == "Eldoria - duel"
        assert len(world(session, "Eldoria - duel")) == len(world(session, "Eldoria"))


def test_what_was_installed_and_run_is_taken_out_without_a_trace(
    start_tavern: StartTavern,
) -> None:
    tavern = start_tavern(installed=False, boot=False)
    before = tree(tavern.server)
    assert valuetracker("sillytavern", "install", tavern.server).returncode == 0
    tavern.boot()
    with tavern.client() as client:
        assert client.get("/health").json()["ok"] is True
    tavern.stop()

    done = valuetracker("sillytavern", "uninstall", tavern.server)

    assert done.returncode == 0, done.stderr
    after = tree(tavern.server)
    # What SillyTavern itself builds on its first boot.
    own = {name for name in {*before, *after} if name.startswith(("dist", "public/css/"))}
    assert {name: after.get(name) for name in {*before, *after} - own} == {
        name: before.get(name) for name in {*before, *after} - own
    }
