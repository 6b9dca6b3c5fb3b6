"""
The scenarios of chat metadata storage: running scene recaps, cross-chat contamination,
processed recaps, and structures that are created on first access.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.conftest import running_server
from tests.support.answers import MOMENT, done, head, outcome, refused
from tests.support.chat import Chat, furnish

RECAPS = "running scene recaps"


def scene(number: int) -> dict[str, Any]:
    """Return the metadata of a recap."""
    return {
        "scene_count": number,
        "excluded_count": 0,
        "prev_scene_index": number - 1,
        "new_scene_index": number,
    }


def recap(number: int) -> dict[str, Any]:
    return {
        "version": number,
        "content": f"Scene {number}",
        "createdAt": MOMENT,
        **scene(number),
    }


def write_story(chat: Chat, *numbers: int) -> None:
    for number in numbers:
        added = chat.add_version(RECAPS, f"Scene {number}", f"m{number}", **scene(number))
        assert added == number


# 1. Running scene recap versioning.


def test_scenario_1_versions_are_stored_and_retrieved(chat: Chat) -> None:
    assert chat.series(RECAPS) == {"currentVersion": None, "versions": []}

    write_story(chat, 1, 2, 3)

    assert chat.series(RECAPS) == {
        "currentVersion": 3,
        "versions": [recap(1), recap(2), recap(3)],
    }


def test_scenario_1_the_version_to_use_is_chosen(chat: Chat) -> None:
    write_story(chat, 1, 2, 3)

    answer = chat.send("PUT", "/series/running%20scene%20recaps/current", {"version": 2})

    assert outcome(answer) == (200, {"currentVersion": 2})
    current = chat.send("GET", "/series/running%20scene%20recaps/current")
    assert outcome(current) == (200, recap(2))


def test_scenario_1_all_versions_are_cleared_and_counted(chat: Chat) -> None:
    write_story(chat, 1, 2, 3)

    answer = chat.send("DELETE", "/series/running%20scene%20recaps")

    assert outcome(answer) == (200, {"clearedCount": 3})
    assert chat.series(RECAPS) == {"currentVersion": None, "versions": []}


def test_scenario_1_recaps_follow_the_story(chat: Chat) -> None:
    write_story(chat, 1, 2, 3)

    chat.reconcile("m1")

    assert chat.series(RECAPS) == {"currentVersion": 1, "versions": [recap(1)]}


def test_scenario_1_versions_are_durable_across_reloads(tmp_path: Path, own_database: str) -> None:
    with running_server(tmp_path, database=own_database) as server:
        server.register("demo")
        with server.client("demo") as client:
            write_story(Chat(client, "chat"), 1, 2)
            before = Chat(client, "chat").series(RECAPS)

    with (
        running_server(tmp_path, database=own_database) as server,
        server.client("demo") as client,
    ):
        assert Chat(client, "chat").series(RECAPS) == before
        assert Chat(client, "chat").add_version(RECAPS, "Scene 3") == 3


# 2. Cross-chat contamination prevention.


def test_scenario_2_switching_chats_shows_nothing_of_the_old_one(client: httpx.Client) -> None:
    old, new = furnish(client), Chat(client, "new chat")
    old.session("tab")

    body = new.open("tab")

    assert (body["created"], body["data"], body["instances"]) == (True, {}, [])
    assert (body["series"], body["processed"]) == ({}, {})
    assert new.series("recap") == {"currentVersion": None, "versions": []}
    assert new.processed("seen") == {"ids": []}


def test_scenario_2_switching_back_finds_all_as_it_was(client: httpx.Client) -> None:
    old, new = furnish(client), Chat(client, "new chat")
    before = old.open("tab")
    new.open("tab")
    new.set("hp", 1)

    after = old.open("tab")

    for body in (before, after):
        del body["session"], body["revision"]
    assert after == before


def test_scenario_2_nothing_late_reaches_the_chat_that_is_open_now(client: httpx.Client) -> None:
    old, new = furnish(client), Chat(client, "new chat")
    kept = old.session("tab")
    new.session("tab")
    late: list[tuple[str, str, Any]] = [
        ("POST", "/data", {"key": "auto_recap", "value": 1}),
        ("POST", "/series/recap", {"content": "late"}),
        ("POST", "/processed/seen", {"ids": ["late"]}),
    ]

    for method, path, body in late:
        for chat in (old, new):
            answer = chat.send(method, path, body, x_session=kept)
            assert refused(answer)[:2] == (409, "stale_session")

    assert head(client) == 6
    assert new.data() == {}


def test_scenario_2_isolation_needs_no_field_to_compare(client: httpx.Client) -> None:
    one, two = Chat(client, "one"), Chat(client, "two")
    one.set("auto_recap", {"chat_id": "one", "enabled": True})
    two.set("auto_recap", {"chat_id": "one", "enabled": False})

    done(two.send("DELETE", "/data"))

    assert one.data() == {"auto_recap": {"chat_id": "one", "enabled": True}}


# 3. Creation on first access. (Pending entries are operations, which have tests of their own.)


def test_scenario_3_structures_are_created_on_first_access(chat: Chat) -> None:
    defaults = {
        "auto_recap": {"enabled": True, "settings_hash": None, "combined_recap": ""},
        "autoLorebooks": {"pendingOps": {}},
    }

    first = chat.open(defaults=defaults)
    chat.run({"op": "merge", "key": "auto_recap", "value": {"enabled": False}})
    again = chat.open(defaults=defaults)

    assert first["data"] == defaults
    assert again["data"]["auto_recap"]["enabled"] is False
    assert again["data"]["autoLorebooks"] == {"pendingOps": {}}


# 4. Processed recap tracking.


def test_scenario_4_recaps_are_marked_and_checked(chat: Chat) -> None:
    def is_processed(id: str) -> Any:
        return chat.send("GET", f"/processed/recaps/{id}").json()

    assert is_processed("recap_1") == {"processed": False}
    marking = chat.send("PUT", "/processed/recaps/recap_1")

    assert outcome(marking) == (200, {"processed": True, "already": False})
    assert is_processed("recap_1") == {"processed": True}
    assert is_processed("recap_2") == {"processed": False}
    assert chat.processed("recaps") == {"ids": ["recap_1"]}


def test_scenario_4_a_recap_is_processed_once(chat: Chat) -> None:
    assert chat.claim("recaps", "recap_1", "recap_2")["new"] == ["recap_1", "recap_2"]

    assert chat.claim("recaps", "recap_2", "recap_3") == {"new": ["recap_3"], "seen": ["recap_2"]}


def test_scenario_4_a_recap_of_a_deleted_message_is_to_be_processed_again(chat: Chat) -> None:
    write_story(chat, 1, 2)
    for number in (1, 2):
        chat.claim("recaps", f"recap_{number}", message=f"m{number}")

    chat.reconcile("m1")

    assert chat.processed("recaps") == {"ids": ["recap_1"]}
    assert chat.claim("recaps", "recap_1", "recap_2") == {"new": ["recap_2"], "seen": ["recap_1"]}


def test_scenario_4_each_chat_tracks_its_own_recaps(client: httpx.Client) -> None:
    Chat(client, "one").claim("recaps", "recap_1")

    assert Chat(client, "two").processed("recaps") == {"ids": []}
