"""A write to a damaged file is right or refused; a refused one changes nothing."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.integrity.populated import PAGE, Answer, Populated, populate, read
from tests.integrity.story import HERO, MULE, PACK, reads_of_story, write_story
from tests.support.chat import anchor_of

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
FLIPS = 3_000 if SOAK else 38


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
SET = {"key": "gold", "value": 1}
COUNT = {"op": "increment", "instanceId": HERO, "key": "counter", "by": 1}
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
        return Written(found, answers(client, populated))


@pytest.mark.parametrize("where", ["anywhere", "in an index"])
def test_a_write_to_a_damaged_file_is_right_or_refused(
    story: Populated, tmp_path: Path, where: str
) -> None:
    offsets = story.offsets(indexes=where == "in an index")
    before = {path: (status, certain(body)) for path, (status, body) in story.answers.items()}
    wrong: list[tuple[int, Write, str, Any]] = []
    rights: dict[int, Written] = {}

    for number in range(FLIPS):
        kind = number % len(WRITES)
        write = WRITES[kind]
        if kind not in rights:
            rights[kind] = write_to(story, tmp_path / f"good {kind}", story.good, write)
        right = rights[kind]
        offset, content = story.flip_bit(offsets)

        found = write_to(story, tmp_path / f"{number}", content, write)

        refused = found.answer[0] == 503
        if found.answer != right.answer and not refused:
            wrong.append((offset, write, "itself", found.answer))
        allowed = before if refused else right.after
        for path, answer in found.after.items():
            if answer != allowed[path] and answer[0] != 503:
                wrong.append((offset, write, path, answer))
        shutil.rmtree(tmp_path / f"{number}")

    assert wrong == [], f"{len(wrong)} wrong answers after {len({w[0] for w in wrong})} flips"


# The rows that are deleted, and a write that would create them again or continue from them.
LOST = [
    ("instances WHERE id = 'hero'", Write("POST", "/instances", {"id": HERO, "characterId": "c"})),
    ("instances WHERE id = 'hero'", Write("POST", f"/instances/{HERO}/data", SET)),
    ("characters WHERE id = 'character 0'", Write("POST", "/characters", {"id": "character 0"})),
    ("chats WHERE id = 'aside'", Write("POST", "/chats/aside/data", SET)),
    ("aliases", Write("POST", "/chats/other/data", SET)),
    (
        "data WHERE key = 'weather'",
        Write("POST", "/chats/chat/data", {"key": "weather", "value": 1}),
    ),
    ("data WHERE key = 'counter'", Write("POST", "/batch", {"operations": [COUNT]})),
    ("entries WHERE effect = 0", Write("POST", "/chats/chat/reconcile", chain("m0", "m5"))),
    ("members", Write("POST", "/characters/character 0/restore", {"revision": 110})),
    ("places WHERE message_id = 'm5'", Write("POST", "/chats/chat/reconcile", chain("m0"))),
]


@pytest.mark.parametrize(("lost", "write"), LOST, ids=lambda each: getattr(each, "path", each))
def test_a_write_does_not_create_lost_rows_again(
    story: Populated, tmp_path: Path, lost: str, write: Write
) -> None:
    file = tmp_path / "lost.db"
    file.write_bytes(story.good)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute(f"DELETE FROM {lost}").rowcount
        connection.commit()
        connection.execute("PRAGMA journal_mode = DELETE")

    written = write_to(story, tmp_path / "db", file.read_bytes(), write)

    assert (written.answer[0], written.answer[1]["code"]) == (503, "database_damaged")


def test_a_write_does_not_create_again_an_instance_that_an_index_has_lost(
    story: Populated, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(story.path / "demo.db")) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'instances_by_id'"
        ).fetchone()
    content = bytearray(story.good)
    offset = content.index(PACK.encode(), (root - 1) * PAGE, root * PAGE)
    content[offset] ^= 1
    again = Write("POST", "/instances", {"id": PACK, "characterId": "character 0"})

    written = write_to(story, tmp_path / "db", bytes(content), again)

    assert (written.answer[0], written.answer[1]["code"]) == (503, "database_damaged")
