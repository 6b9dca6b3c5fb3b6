"""
The campaign: bits flipped anywhere in files at rest.

Each damaged file is opened and read. Every answer is right, or a refusal; never silently wrong.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.integrity.populated import Answer, Populated, populate, read
from tests.integrity.story import HERO, reads_of_story, write_story
from tests.support.databases import SCHEMA
from valuetracker.engine.sqlite_verification import verify_file
from valuetracker.errors import DatabaseDamaged, DatabaseTooNew

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
# Of each of the four kinds.
FLIPS = 2_500 if SOAK else 75
FLIPS_OF_THE_LOG = 2_000 if SOAK else 60
# How many reads are tried on a file that is refused: the first one, and these.
MORE_READS = 2

HEADER, FRAME, PAGE = 32, 24, 4096


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Populated]:
    folder = tmp_path_factory.mktemp("scenes")
    return {
        "values": populate(folder / "values"),
        "story": populate(folder / "story", write_story, reads_of_story),
    }


def put(server: RunningServer, client: httpx.Client, content: bytes) -> None:
    """Put another file in place of the extension's, and have it opened."""
    file = server.data_dir / "demo.db"
    fresh = server.data_dir.parent / "fresh.db"
    fresh.write_bytes(content)
    fresh.replace(file)
    # If the file before was open, this request notices that it was replaced; the next opens it.
    client.get("/characters")


@pytest.mark.parametrize("where", ["anywhere", "in an index"])
@pytest.mark.parametrize("scene", ["values", "story"])
def test_a_flipped_bit_never_gives_a_wrong_answer(
    scenes: dict[str, Populated], tmp_path: Path, where: str, scene: str
) -> None:
    populated = scenes[scene]
    offsets = populated.offsets(indexes=where == "in an index")
    wrong: list[tuple[int, str, Any]] = []
    outcomes: Counter[str] = Counter()

    with (
        running_server(populated.copy(tmp_path / "db"), cache_mb=0) as server,
        server.client("demo") as client,
        server.client("twin") as other,
    ):
        for _ in range(FLIPS):
            offset, content = populated.flip_bit(offsets)
            put(server, client, content)
            refused = read(client, populated.paths[0])[0] == 503
            outcomes["refused" if refused else "accepted"] += 1
            paths = populated.paths
            if refused:
                paths = populated.chance.sample(paths, MORE_READS)
            for path in paths:
                answer = read(client, path)
                if answer != populated.answers[path] and not (refused and is_refusal(answer)):
                    wrong.append((offset, path, answer))
            assert read(other, "/characters") == populated.other
        put(server, client, populated.good)
        healed = {path: read(client, path) for path in populated.paths}

    print(f"{scene}, {where}: {dict(outcomes)}, {len(wrong)} wrong answers")
    assert healed == populated.answers
    assert outcomes["refused"]
    assert wrong == [], f"{len(wrong)} wrong answers after {len({w[0] for w in wrong})} flips"


def is_refusal(answer: Answer) -> bool:
    return answer[0] == 503 and answer[1]["code"] in ("database_damaged", "database_too_new")


# The log that a killed process leaves


@dataclass
class Killed:
    """A file and its log as a killed process leaves them."""

    path: Path
    log: bytes
    # The answers after the last write, and before it.
    answers: dict[str, Answer]
    before: dict[str, Answer]
    # Where the last transaction begins in the log.
    last: int

    def flip_bit(self, chance: random.Random, number: int) -> tuple[bytes, bytes, bool]:
        """
        Flip a bit of the file, of the log, of a header in the log, or of its last transaction.

        Return the file, the log, and if the bit is in the last transaction.
        """
        file, log = bytearray((self.path / "demo.db").read_bytes()), bytearray(self.log)
        bit = 1 << chance.randrange(8)
        if number % 4 == 0:
            file[chance.randrange(len(file))] ^= bit
            return bytes(file), bytes(log), False
        offset = {
            1: chance.randrange(self.last),
            2: chance.choice(range(HEADER, self.last, FRAME + PAGE)) + chance.randrange(FRAME),
            3: chance.randrange(self.last, len(log)),
        }[number % 4]
        log[offset] ^= bit
        return bytes(file), bytes(log), offset >= self.last


@pytest.fixture(scope="module")
def killed(scenes: dict[str, Populated], tmp_path_factory: pytest.TempPathFactory) -> Killed:
    story = scenes["story"]
    data_dir = story.copy(tmp_path_factory.mktemp("killed") / "db")
    with running_server(data_dir, cache_mb=0) as server, server.client("demo") as client:
        for number in range(20):
            before = {path: read(client, path) for path in story.paths} if number == 19 else {}
            body = {"key": "hp", "value": number}
            assert client.post(f"/instances/{HERO}/data", json=body).status_code == 200
        answers = {path: read(client, path) for path in story.paths}
        left = data_dir.parent / "left"
        shutil.copytree(data_dir, left, ignore=shutil.ignore_patterns("*-shm", ".lock", ".pid"))
    log = (left / "demo.db-wal").read_bytes()
    ends = [
        offset
        for offset in range(HEADER, len(log), FRAME + PAGE)
        if log[offset + 4 : offset + 8] != bytes(4)
    ]
    return Killed(left, log, answers, before, ends[-2] + FRAME + PAGE)


def test_a_flipped_bit_in_a_log_or_beside_it_never_gives_a_wrong_answer(
    scenes: dict[str, Populated], killed: Killed, tmp_path: Path
) -> None:
    chance = scenes["story"].chance
    wrong: list[int] = []
    outcomes: Counter[str] = Counter()
    for number in range(FLIPS_OF_THE_LOG):
        file, log, is_last = killed.flip_bit(chance, number)
        data_dir = tmp_path / str(number)
        shutil.copytree(killed.path, data_dir)
        (data_dir / "demo.db").write_bytes(file)
        (data_dir / "demo.db-wal").write_bytes(log)

        found = open_and_read(data_dir, killed.answers)

        shutil.rmtree(data_dir)
        if found is None:
            outcomes["refused"] += 1
        elif found == killed.answers:
            outcomes["right"] += 1
        elif found == killed.before and is_last:
            outcomes["the last write was lost"] += 1
        else:
            wrong.append(number)

    print(f"log: {dict(outcomes)}, {len(wrong)} wrong answers")
    assert outcomes["refused"]
    assert outcomes["the last write was lost"]
    assert wrong == []


def open_and_read(data_dir: Path, paths: Iterable[str]) -> dict[str, Answer] | None:
    """Return the answers to all reads of a damaged file; None if it is refused."""
    try:
        verify_file(data_dir / "demo.db", SCHEMA)
    except (DatabaseDamaged, DatabaseTooNew):
        return None
    with running_server(data_dir, cache_mb=0) as server, server.client("demo") as client:
        return {path: read(client, path) for path in paths}
