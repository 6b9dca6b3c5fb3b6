"""A checkpoint with a copy of a lorebook: both or neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.bridge.conftest import StartServer
from tests.bridge.worlds import UNREADABLE, read_world, recap_world, write_world
from tests.conftest import wait_for
from tests.support.folders import tree
from valuetracker.http.tokens import TokenFile


@pytest.fixture
def chat(library: httpx.Client) -> str:
    library.post("/register", json={"extensionId": "recap"})
    library.headers["x-extension-id"] = "recap"
    library.post("/chats/lake/data", json={"key": "hp", "value": 50})
    return "/chats/lake"


def test_a_checkpoint_copies_a_lorebook_in_the_same_step(
    library: httpx.Client, chat: str, worlds: Path
) -> None:
    made = library.post(
        f"{chat}/checkpoints",
        json={"name": "duel", "lorebook": {"name": "Eldoria", "as": "Eldoria - duel"}},
    )

    assert made.status_code == 201, made.text
    body = made.json()
    assert body["state"]["lorebook"] == {
        "source": "Eldoria",
        "name": "Eldoria - duel",
        "entries": 8,
    }
    assert body["expect"] == {"lorebook": "Eldoria - duel"}
    assert body["warnings"] == [UNREADABLE]
    assert library.get(f"{chat}/checkpoints/duel").json() == body
    assert len(read_world(worlds, "Eldoria - duel")["entries"]) == 8


def test_validation_compares_the_lorebook_in_use(library: httpx.Client, chat: str) -> None:
    library.post(
        f"{chat}/checkpoints", json={"name": "duel", "lorebook": "Eldoria", "expect": {"a": 1}}
    )

    def validate(lorebook: str) -> Any:
        body = {"actual": {"lorebook": lorebook}}
        return library.post(f"{chat}/checkpoints/duel/validate", json=body).json()

    right, wrong = validate("Eldoria (copy)"), validate("Eldoria")

    assert (right["success"], right["warnings"]) == (True, [])
    assert wrong["success"] is True
    assert wrong["warnings"] == [
        "lorebook was expected to be Eldoria (copy) and is Eldoria.",
    ]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"lorebook": "Nothing"}, 404),
        ({"lorebook": "Broken"}, 409),
        ({"lorebook": {"name": "Eldoria", "as": "Broken"}}, 409),
        ({"lorebook": "../x"}, 400),
        ({"lorebook": {"as": "x"}}, 400),
        ({"lorebook": 5}, 400),
        ({"lorebook": {"name": "Eldoria", "uids": "x"}}, 400),
    ],
)
def test_without_the_copy_there_is_no_checkpoint(
    library: httpx.Client, chat: str, worlds: Path, body: dict[str, Any], status: int
) -> None:
    write_world(worlds, "Broken", "{")
    before = tree(worlds)

    answer = library.post(f"{chat}/checkpoints", json={"name": "duel", **body})

    assert answer.status_code == status, answer.text
    assert library.get(f"{chat}/checkpoints").json() == []
    assert tree(worlds) == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chats/lake", {"name": "taken"}),
        ("/chats/nowhere", {"name": "duel"}),
        ("/chats/lake", {"name": "duel", "messageId": "unseen"}),
        ("/chats/busy", {"name": "duel"}),
    ],
)
def test_without_the_checkpoint_there_is_no_copy(
    library: httpx.Client, chat: str, worlds: Path, path: str, body: dict[str, Any]
) -> None:
    library.post("/chats/lake/checkpoints", json={"name": "taken"})
    library.post("/chats/busy/operations", json={"type": "recap"})
    before = tree(worlds)

    answer = library.post(f"{path}/checkpoints", json={**body, "lorebook": "Eldoria"})

    assert answer.status_code in (404, 409)
    assert tree(worlds) == before


def test_a_request_sent_again_makes_no_second_copy(
    library: httpx.Client, chat: str, worlds: Path
) -> None:
    body = {"name": "duel", "lorebook": {"name": "Eldoria", "as": "Copy"}}
    headers = {"idempotency-key": "once"}

    first = library.post(f"{chat}/checkpoints", json=body, headers=headers)
    again = library.post(f"{chat}/checkpoints", json=body, headers=headers)
    other = library.post(f"{chat}/checkpoints", json={**body, "name": "x"}, headers=headers)

    assert (first.status_code, again.status_code, other.status_code) == (201, 201, 422)
    assert again.json() == first.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert sorted(path.stem for path in worlds.iterdir()) == ["Copy", "Eldoria"]


def test_a_user_may_have_their_own_lorebook_copied(
    start_server: StartServer, tmp_path: Path
) -> None:
    write_world(tmp_path / "data/alice/worlds", "Hers", recap_world())
    server = start_server(st_data_root=str(tmp_path / "data"), bridge_secret="s")
    with server.client("recap") as library:
        library.headers.update({"x-vt-secret": "s", "x-vt-user": "alice", "x-vt-admin": "false"})
        library.post("/register", json={"extensionId": "recap"})
        library.post("/chats/lake/data", json={"key": "hp", "value": 50})

        answer = library.post("/chats/lake/checkpoints", json={"lorebook": "Hers"})

    assert answer.status_code == 201
    assert len(list((tmp_path / "data/alice/worlds").iterdir())) == 2


def test_a_token_for_one_extension_copies_no_lorebook(
    start_server: StartServer, tmp_path: Path
) -> None:
    worlds = tmp_path / "data/default-user/worlds"
    write_world(worlds, "Theirs", recap_world())
    server = start_server(st_data_root=str(tmp_path / "data"))
    with server.client("recap") as library:
        library.post("/register", json={"extensionId": "recap"})
        library.post("/chats/lake/data", json={"key": "hp", "value": 50})
        _, token = TokenFile(server.data_dir).create("one", ("recap",), False, False)
        wait_for(lambda: library.get("/characters").status_code == 401)
        library.headers["authorization"] = f"Bearer {token}"

        kept = library.post("/chats/lake/checkpoints", json={"lorebook": "Theirs"})
        copied = library.post("/st/lorebooks/Theirs/clone", json={})

    assert [each.json()["code"] for each in (kept, copied)] == ["admin_required"] * 2
    assert [path.stem for path in worlds.iterdir()] == ["Theirs"]
