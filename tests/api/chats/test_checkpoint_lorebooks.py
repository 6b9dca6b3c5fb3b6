"""
The lorebook that was copied with a checkpoint: copied again when a waiting checkpoint is made, and
missed when it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.api.chats.points import (
    VALID,
    await_checkpoint,
    get_checkpoint,
    make_checkpoint,
    post_branch,
    post_checkpoint,
    restore_checkpoint,
    statuses,
    validate,
    validate_branch,
)
from tests.api.chats.queue import Queue
from tests.bridge.worlds import entry, read_world, recap_world, write_world
from tests.conftest import RunningServer, running_server
from tests.support.answers import refused
from tests.support.chat import Chat

NAME = "Eldoria - duel"
LOREBOOK = {"name": "Eldoria", "as": NAME}
# The world that the operations leave.
LATER = {**recap_world(), "entries": {"0": entry(0, "Bob"), "1": entry(1, "Ann")}}


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # The home of the person who runs the tests may hold a SillyTavern.
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SILLYTAVERN_PATH", raising=False)
    folder = tmp_path / "data/default-user/worlds"
    write_world(folder, "Eldoria", recap_world())
    return folder


def start(worlds: Path, database: str, **settings: Any) -> Any:
    """Run a server that knows SillyTavern's data folder."""
    given = {"st_data_root": str(worlds.parent.parent), **settings}
    return running_server(worlds.parent.parent.parent / "db", database=database, **given)


@pytest.fixture
def server(worlds: Path, own_database: str) -> Iterator[RunningServer]:
    with start(worlds, own_database) as running:
        running.register("demo")
        yield running


@pytest.fixture
def chat(server: RunningServer) -> Iterator[Chat]:
    with server.client("demo") as client:
        chat = Chat(client, "lake")
        chat.set("hp", 50)
        yield chat


def comments(worlds: Path) -> list[str]:
    return [each["comment"] for each in read_world(worlds, NAME)["entries"].values()]


# A checkpoint that waits.


def test_the_copy_of_a_waiting_checkpoint_is_made_again_with_it(chat: Chat, worlds: Path) -> None:
    queue = Queue(chat)
    queue.add("a")
    queue.add("b")
    await_checkpoint(chat, lorebook=LOREBOOK)
    assert len(comments(worlds)) == 8
    write_world(worlds, "Eldoria", LATER)
    queue.end("a")
    # Only the last one makes the checkpoint.
    assert (statuses(chat), len(comments(worlds))) == ([("here", "waiting")], 8)

    queue.end("b")

    found = get_checkpoint(chat)
    assert statuses(chat) == [("here", "ready")]
    assert found["state"]["lorebook"] == {"source": "Eldoria", "name": NAME, "entries": 2}
    assert (found["expect"], found["warnings"]) == ({"lorebook": NAME}, [])
    assert comments(worlds) == ["Bob", "Ann"]
    assert validate(chat, lorebook=NAME) == VALID
    assert sorted(path.stem for path in worlds.iterdir()) == ["Eldoria", NAME]


def test_without_operations_nothing_waits(chat: Chat, worlds: Path) -> None:
    answer = post_checkpoint(chat, name="here", lorebook=LOREBOOK, whenReady=True)

    assert (answer.status_code, answer.json()["state"]["lorebook"]["entries"]) == (201, 8)
    assert len(comments(worlds)) == 8


@pytest.mark.parametrize("world", [None, "{"])
def test_the_first_copy_stays_if_the_lorebook_cannot_be_copied_again(
    chat: Chat, worlds: Path, world: str | None
) -> None:
    queue = Queue(chat)
    queue.add("a")
    await_checkpoint(chat, lorebook=LOREBOOK)
    if world is None:
        (worlds / "Eldoria.json").unlink()
    else:
        write_world(worlds, "Eldoria", world)

    assert queue.end("a").status_code == 200

    found = get_checkpoint(chat)
    assert (found["status"], found["state"]["lorebook"]["entries"]) == ("ready", 8)
    assert found["warnings"][-1].startswith("The lorebook could not be copied again: ")
    assert len(comments(worlds)) == 8


def test_a_copy_that_was_removed_meanwhile_is_made_again(chat: Chat, worlds: Path) -> None:
    queue = Queue(chat)
    queue.add("a")
    await_checkpoint(chat, lorebook=LOREBOOK)
    (worlds / f"{NAME}.json").unlink()

    queue.end("a")

    assert len(comments(worlds)) == 8


def test_a_refused_request_leaves_no_copy(chat: Chat, worlds: Path) -> None:
    queue = Queue(chat)
    queue.add("a")
    await_checkpoint(chat)

    taken = post_checkpoint(chat, name="here", lorebook=LOREBOOK, whenReady=True)
    missing = post_checkpoint(chat, name="x", lorebook="Nothing", whenReady=True)

    assert refused(taken)[:2] == (409, "checkpoint_exists")
    assert refused(missing)[:2] == (404, "lorebook_not_found")
    assert [path.stem for path in worlds.iterdir()] == ["Eldoria"]


def test_a_checkpoint_that_waits_over_a_restart_has_its_lorebook(
    worlds: Path, own_database: str
) -> None:
    with start(worlds, own_database) as server, server.client("demo") as client:
        server.register("demo")
        chat = Chat(client, "lake")
        chat.set("hp", 50)
        Queue(chat).add("a")
        await_checkpoint(chat, lorebook=LOREBOOK)
    write_world(worlds, "Eldoria", LATER)

    with start(worlds, own_database) as server, server.client("demo") as client:
        chat = Chat(client, "lake")
        Queue(chat).end("a")
        assert get_checkpoint(chat)["state"]["lorebook"]["entries"] == 2
    assert comments(worlds) == ["Bob", "Ann"]


# A copy that is gone.


MISSING = f"Lorebook {NAME} is missing: it was deleted or renamed."


@pytest.mark.parametrize("fate", ["deleted", "renamed", "with its folder"])
def test_a_copy_that_is_gone_is_a_warning_wherever_the_checkpoint_is_used(
    chat: Chat, worlds: Path, fate: str
) -> None:
    make_checkpoint(chat, lorebook=LOREBOOK)
    branch = Chat(chat.client, "branch")
    assert post_branch(chat, checkpoint="here").json()["warnings"] == []
    assert validate(chat) == validate_branch(branch) == VALID
    copy = worlds / f"{NAME}.json"
    if fate == "renamed":
        copy.rename(worlds / "Another.json")
    else:
        copy.unlink()
    if fate == "with its folder":
        (worlds / "Eldoria.json").unlink()
        worlds.rmdir()

    assert validate(chat) == validate_branch(branch) == {**VALID, "warnings": [MISSING]}
    answers = [
        restore_checkpoint(chat, dryRun=True),
        restore_checkpoint(chat),
        post_branch(chat, "another", checkpoint="here"),
    ]
    assert [each.json()["warnings"] for each in answers] == [[MISSING]] * 3
    assert [each.status_code for each in answers] == [200, 200, 201]


def test_where_sillytavern_is_not_known_nothing_is_missing(worlds: Path, own_database: str) -> None:
    with start(worlds, own_database) as server, server.client("demo") as client:
        server.register("demo")
        chat = Chat(client, "lake")
        chat.set("hp", 50)
        make_checkpoint(chat, lorebook=LOREBOOK)
    (worlds / f"{NAME}.json").unlink()

    with start(worlds, own_database, st_data_root="") as server, server.client("demo") as client:
        assert validate(Chat(client, "lake")) == VALID


def test_a_lorebook_that_is_only_expected_is_not_looked_for(chat: Chat) -> None:
    make_checkpoint(chat, expect={"lorebook": "Nowhere"})

    assert validate(chat, lorebook="Nowhere") == VALID
