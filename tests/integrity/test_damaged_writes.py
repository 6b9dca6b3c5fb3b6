"""A write to a file with a flipped bit that does not matter is as right as to any other."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.integrity.populated import Answer, Populated, populate, read
from tests.integrity.recount import recount
from tests.integrity.story import HERO, MULE, PACK, reads_of_story, write_story
from tests.support.chat import anchor_of
from tests.support.databases import SCHEMA
from valuetracker.engine.sqlite_verification import verify_file
from valuetracker.errors import DatabaseDamaged, DatabaseTooNew

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
FLIPS = 500 if SOAK else 19


@dataclass(frozen=True)
class Write:
    method: str
    path: str
    body: Any = None


@dataclass(frozen=True)
class Written:
    """The answer to a write, and the answers to all reads after it."""

    answer: Answer
    after: dict[str, Answer]


def chain(*places: Any) -> dict[str, Any]:
    return {"anchors": [anchor_of(place) for place in places]}


WRITES = [
    Write("POST", "/chats/chat/reconcile", chain(*(f"m{number}" for number in range(8)))),
    Write("POST", "/chats/chat/reconcile", chain("m0", ("m3", "1"))),
    Write("POST", "/chats/branch/reconcile", chain("m0", ("m1", "1"), "m3")),
    Write("POST", f"/instances/{HERO}/restore", {"revision": 75}),
    Write("POST", f"/instances/{PACK}/restore", {"revision": 140}),
    Write("POST", "/characters/character 0/restore", {"revision": 110}),
    Write("POST", "/chats/chat/restore", {"revision": 60}),
    Write("POST", "/chats/chat/checkpoints/here/restore"),
    Write("POST", "/chats/aside/checkpoints/there/restore"),
    Write("POST", "/instances", {"id": MULE, "characterId": "character 0", "chatId": None}),
    Write("POST", "/instances", {"id": PACK, "characterId": "character 0", "chatId": "chat"}),
    Write("PUT", f"/instances/{HERO}/data/merge", {"hp": {"of": "nobody"}, "new": 1}),
    Write("DELETE", f"/instances/{HERO}/data"),
    Write("DELETE", "/characters/character 1"),
    Write("PATCH", "/chats/chat", {"chatId": "other"}),
    Write("PATCH", "/chats/other", {"chatId": "third"}),
    Write("POST", "/compact", {"keep": {"revisions": 20}}),
    Write("POST", "/compact", {"keep": {"revisions": 90}}),
    Write("DELETE", "/chats/chat?purge=true"),
]
# Fields that the clock or chance decides.
UNCERTAIN = {"updatedAt", "createdAt", "at", "session"}


def certain(body: Any) -> Any:
    if isinstance(body, dict):
        return {key: certain(value) for key, value in body.items() if key not in UNCERTAIN}
    return [certain(each) for each in body] if isinstance(body, list) else body


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Populated:
    return populate(tmp_path_factory.mktemp("story") / "db", write_story, reads_of_story)


def answers(client: httpx.Client, populated: Populated) -> dict[str, Answer]:
    found = {path: read(client, path) for path in populated.paths}
    return {path: (status, certain(body)) for path, (status, body) in found.items()}


def write_to(populated: Populated, data_dir: Path, content: bytes, write: Write) -> Written:
    """Write to a file of this content; return the answer and all reads after it."""
    populated.copy(data_dir)
    (data_dir / "demo.db").write_bytes(content)
    with running_server(data_dir, cache_mb=0) as server, server.client("demo") as client:
        answer = client.request(write.method, write.path, json=write.body)
        found = answer.status_code, certain(answer.json())
        written = Written(found, answers(client, populated))
    if "purge" not in write.path:
        # Every count and link of the rows that were written is right, too. A purge leaves gaps.
        recount(data_dir / "demo.db")
    return written


def flip_unnoticed(populated: Populated, offsets: list[int], file: Path) -> int:
    """Flip bits of a file, one after the other, until one is accepted; return its offset."""
    while True:
        offset, content = populated.flip_bit(offsets)
        file.write_bytes(content)
        try:
            verify_file(file, SCHEMA)
        except (DatabaseDamaged, DatabaseTooNew):
            continue
        return offset


def test_a_write_to_a_file_that_is_accepted_is_right(story: Populated, tmp_path: Path) -> None:
    offsets = story.offsets()
    file = tmp_path / "flipped.db"
    wrong: list[tuple[int, Write, str, Any]] = []
    rights: dict[int, Written] = {}

    for number in range(FLIPS):
        kind = number % len(WRITES)
        write = WRITES[kind]
        if kind not in rights:
            rights[kind] = write_to(story, tmp_path / f"good {kind}", story.good, write)
        offset = flip_unnoticed(story, offsets, file)

        found = write_to(story, tmp_path / f"{number}", file.read_bytes(), write)

        if found != rights[kind]:
            wrong.append((offset, write, "", found.answer))
        shutil.rmtree(tmp_path / f"{number}")

    assert wrong == []
