"""
The scenarios of checkpoints and branches: the five tests and four edge cases of their
requirements by name, and the lifecycle of pending entries.
"""

from __future__ import annotations

from typing import Any

import httpx

from tests.api.chats.points import (
    VALID,
    branch_off,
    diff_checkpoint,
    make_checkpoint,
    post_branch,
    post_checkpoint,
    restore_checkpoint,
    rows,
    send_checkpoint,
    state_of,
    validate,
    validate_branch,
)
from tests.api.chats.queue import Queue, operation
from tests.conftest import RunningServer
from tests.support.answers import done, outcome, refused
from tests.support.chat import NO_OPERATIONS, Chat
from tests.support.clock import DAY_MS

RECAPS = "running_scene_recaps"
USER_ENTRIES = ["Ann", "The old mill", "The fire"]
INTERNAL_ENTRIES = ["_registry_character", "_registry_location", "__index_all", "__index_names"]
QUEUE_ENTRY = "__operation_queue"


def write_story(chat: Chat, first: int, last: int) -> None:
    """Add a recap for each message, and one of all messages."""
    for number in range(first, last + 1):
        message = f"m{number}"
        version = chat.add_version(
            RECAPS, f"Scene {number}", message, scene_count=number, excluded_count=0
        )
        assert version == number
        combined = {"content": f"All {number} scenes", "message_count": 10 * number}
        chat.set("combined_recap", combined, message)


def recaps(chat: Chat) -> tuple[int, list[int]]:
    found = chat.series(RECAPS)
    return found["currentVersion"], [each["version"] for each in found["versions"]]


def entries(chat: Chat, *names: str) -> Any:
    """Make a lorebook as an instance of the chat, with an entry for each name."""
    book = chat.instance("lorebook", "world")
    for number, name in enumerate(names):
        book.set(name, {"uid": number, "comment": name, "order": 100})
    return book


# The five tests.


def test_1_queue_blocking(chat: Chat) -> None:
    write_story(chat, 1, 1)
    queue = Queue(chat)
    queue.add("generate")

    answer = post_checkpoint(chat, name="here")

    assert outcome(answer)[0] == 409
    assert answer.json()["error"] == (
        "Cannot create checkpoint: 1 operations in queue. Please wait for queue to finish."
    )
    # Or it is created when ready.
    assert post_checkpoint(chat, name="when ready", whenReady=True).status_code == 202
    queue.end("generate")
    assert post_checkpoint(chat, name="here").status_code == 201
    assert validate(chat, "when ready") == validate(chat) == VALID


def test_2_all_entries_cloned(chat: Chat) -> None:
    names = [*USER_ENTRIES, *INTERNAL_ENTRIES, QUEUE_ENTRY]
    book = entries(chat, *names)

    made = make_checkpoint(chat)
    branched = post_branch(chat, checkpoint="here").json()

    assert made["rows"] == branched["rows"] == rows(instances=1, values=8)
    assert list(branched["instances"]) == ["lorebook"]
    clone = chat.client.get(f"/instances/{branched['instances']['lorebook']}/data")
    assert (clone.text, list(clone.json())) == (book.text(), names)


def test_3_running_recap_isolation(chat: Chat) -> None:
    write_story(chat, 1, 5)
    made = make_checkpoint(chat)
    write_story(chat, 6, 10)

    branch = branch_off(chat, checkpoint="here")

    recorded = made["state"]["series"][RECAPS]
    versions = [(each["version"], each["scene_count"]) for each in recorded["versions"]]
    assert (recorded["currentVersion"], versions) == (5, [(n, n) for n in range(1, 6)])
    assert recaps(branch) == (5, [1, 2, 3, 4, 5])
    assert recaps(chat) == (10, [*range(1, 11)])
    # Loading it is checked: its record, and the version that the extension finds.
    loaded = branch.open()["origin"]["record"]
    assert (loaded["name"], loaded["versions"]) == ("here", {RECAPS: 5})
    assert validate_branch(branch, series={RECAPS: 5}) == VALID
    wrong = validate_branch(branch, series={RECAPS: 10})
    assert (wrong["success"], len(wrong["errors"])) == (False, 1)
    # The versions can be read at the checkpoint without loading it.
    contents = [each["content"] for each in state_of(chat)["series"][RECAPS]["versions"]]
    assert contents == [f"Scene {number}" for number in range(1, 6)]


def test_4_combined_recap_preservation(chat: Chat) -> None:
    write_story(chat, 1, 10)
    made = make_checkpoint(
        chat,
        expect={"keys": ["combined_recap"], "messageCount": 100},
        capture=[{"key": "combined_recap", "fields": ["message_count"]}],
    )
    write_story(chat, 11, 12)

    branch = branch_off(chat, checkpoint="here")

    assert branch.data()["combined_recap"]["message_count"] == 100
    (captured,) = made["state"]["capture"]
    assert captured["fields"] == {"message_count": 100}
    assert captured["size"] == len('{"content":"All 10 scenes","message_count":100}')
    assert validate(chat, messageCount=100) == VALID
    assert validate_branch(branch, messageCount=100) == VALID
    regenerated = validate(chat, messageCount=120)
    assert (regenerated["success"], len(regenerated["warnings"])) == (True, 1)


def test_5_complete_state_restoration(chat: Chat) -> None:
    book = entries(chat)
    write_story(chat, 1, 5)
    book.set("_registry_1", {"uid": 1}, "m5")
    write_story(chat, 6, 10)
    for number in range(2, 21):
        book.set(f"_registry_{number}", {"uid": number}, "m10")
    later = chat.state()

    make_checkpoint(chat, messageId="m5")
    branch = branch_off(chat, checkpoint="here")

    # The checkpoint: message 5, v5, the state of then.
    assert validate(chat) == validate_branch(branch) == VALID
    there = state_of(chat)
    assert there["series"][RECAPS] == branch.series(RECAPS)
    assert (there["data"], there["instances"][0]["data"]) == (
        branch.data(),
        branch.state()["instances"][0]["data"],
    )
    assert recaps(branch) == (5, [1, 2, 3, 4, 5])
    assert branch.data() == {
        "combined_recap": {"content": "All 5 scenes", "message_count": 50},
    }
    assert branch.state()["instances"][0]["data"] == {"_registry_1": {"uid": 1}}
    # Main: message 10, v10, as it is.
    assert {**chat.state(), "checkpoints": []} == later
    assert recaps(chat) == (10, [*range(1, 11)])
    assert len(book.data()) == 20
    # Restore back and forth, in the chat itself.
    then = chat.as_of("m5")
    done(restore_checkpoint(chat))
    assert (recaps(chat), chat.data()) == ((5, [1, 2, 3, 4, 5]), then["data"])
    assert book.data() == {"_registry_1": {"uid": 1}}
    assert chat.restore(later["revision"])[0] == 200
    assert (recaps(chat), len(book.data())) == ((10, [*range(1, 11)]), 20)
    assert recaps(branch) == (5, [1, 2, 3, 4, 5])


# The edge cases.


def test_edge_case_1_queue_entry_in_cloned_lorebook(chat: Chat) -> None:
    book = entries(chat, "Ann")
    book.set(QUEUE_ENTRY, {"content": {"queue": []}})
    Queue(chat).add("generate", "completed")

    branch = branch_off(chat)

    # It is an entry like any other; the branch has a queue of its own, which is empty.
    clone = branch.state()["instances"][0]["data"]
    assert clone[QUEUE_ENTRY] == {"content": {"queue": []}}
    assert Queue(branch).listed() == []
    assert make_checkpoint(branch)["rows"] == rows(instances=1, values=2)


def test_edge_case_2_both_sides_progress_after_branch(chat: Chat) -> None:
    write_story(chat, 1, 5)
    make_checkpoint(chat)
    branch = branch_off(chat, checkpoint="here")

    write_story(chat, 6, 10)
    write_story(branch, 6, 8)

    assert recaps(chat) == (10, [*range(1, 11)])
    assert recaps(branch) == (8, [*range(1, 9)])
    make_checkpoint(branch)
    assert validate(chat) == validate(branch) == VALID
    # The branch has gone on; its beginning is still that of the checkpoint.
    assert validate_branch(branch) == VALID
    # Parent and branch have different messages m7.
    branch.reconcile("m1", "m2", "m3", "m4", "m5", "m6")
    assert (recaps(branch)[0], recaps(chat)[0]) == (6, 10)


def test_edge_case_3_legacy_checkpoints(chat: Chat) -> None:
    write_story(chat, 1, 2)
    # A checkpoint without `expect` is used without any comparison,
    make_checkpoint(chat)
    write_story(chat, 3, 3)
    assert validate(chat, lorebook="any", messageCount=7, theme="dark") == VALID
    assert restore_checkpoint(chat).json()["success"] is True
    assert recaps(chat) == (2, [1, 2])

    # and a chat without checkpoints is no error: there is nothing to validate.
    legacy = Chat(chat.client, "legacy")
    write_story(legacy, 1, 1)
    assert legacy.open()["checkpoints"] == []
    assert validate_branch(legacy, series={RECAPS: 7}) == {**VALID, "validated": False}
    unknown = send_checkpoint(legacy, "POST", verb="/validate", body={})
    assert refused(unknown)[:2] == (404, "checkpoint_not_found")


def test_edge_case_4_lorebook_name_mismatch(chat: Chat) -> None:
    write_story(chat, 1, 1)
    make_checkpoint(chat, expect={"lorebook": "world - checkpoint"})
    write_story(chat, 2, 2)

    report = validate(chat, lorebook="world")

    # A warning names both, and the restore is done.
    assert (report["success"], report["errors"], len(report["warnings"])) == (True, [], 1)
    assert "world - checkpoint" in report["warnings"][0]
    restored = restore_checkpoint(chat, actual={"lorebook": "world"}).json()
    assert (restored["success"], restored["warnings"]) == (True, report["warnings"])
    assert recaps(chat) == (1, [1])
    # So is loading it as a branch.
    loaded = post_branch(chat, checkpoint="here", more={"actual": {"lorebook": "world"}})
    assert (loaded.status_code, loaded.json()["warnings"]) == (201, report["warnings"])
    found = validate_branch(Chat(chat.client, "branch"), lorebook="world")
    assert (found["success"], found["warnings"]) == (True, report["warnings"])


# Requirements that no test above is named after.


def test_nothing_is_lost_forwards_or_backwards(chat: Chat) -> None:
    write_story(chat, 1, 3)
    names = [f"as of m{number}" for number in (1, 2, 3)]
    for number, name in enumerate(names, 1):
        make_checkpoint(chat, name, messageId=f"m{number}")

    for number in (1, 3, 2, 1, 2, 3):
        done(restore_checkpoint(chat, names[number - 1]))
        assert recaps(chat) == (number, [*range(1, number + 1)])
        assert diff_checkpoint(chat, names[number - 1]) == []
    assert [validate(chat, name) for name in names] == [VALID] * 3


# The lifecycle of a pending entry.


def test_pending_entry_lifecycle(chat: Chat) -> None:
    queue = Queue(chat)
    entry = {"comment": "Ann", "content": "Ann lives at the mill.", "keys": ["Ann"]}

    created = queue.add("entry_1", type="lorebook_entry", data=entry)
    assert created == operation("entry_1", type="lorebook_entry", data=entry)

    updated = queue.patch(
        "entry_1", status="in_progress", stage="lookup_complete", data={"type": "character"}
    )
    looked_up = {**entry, "type": "character"}
    assert outcome(updated) == (
        200,
        operation(
            "entry_1", "in_progress", type="lorebook_entry", stage="lookup_complete", data=looked_up
        ),
    )
    merged = queue.patch("entry_1", stage="merging", data={"content": "Ann left the mill."})
    assert merged.json()["data"] == {**looked_up, "content": "Ann left the mill."}

    completed = queue.end("entry_1")
    assert (completed.json()["status"], completed.json()["stage"]) == ("completed", "merging")
    assert queue.counts() == NO_OPERATIONS
    assert refused(queue.patch("entry_1", stage="late"))[:2] == (409, "illegal_move")


def test_each_chat_has_its_own_pending_entries(client: httpx.Client) -> None:
    one, two = Queue(Chat(client, "one")), Queue(Chat(client, "two"))
    one.add("entry_1")

    assert (one.ids(), two.ids()) == (["entry_1"], [])


def test_stale_pending_entries_are_cleaned_up(queue: Queue, shared_server: RunningServer) -> None:
    for id in ("stale", "updated since"):
        queue.add(id, "in_progress")
    shared_server.clock.pass_time(DAY_MS)
    queue.patch("updated since", stage="merging")
    queue.add("new")

    assert queue.clean_up() == {"removedCount": 1, "ids": ["stale"]}

    assert queue.ids() == ["updated since", "new"]
