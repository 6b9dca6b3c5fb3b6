"""A data directory with two extensions, and the answers to all reads of the first."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import running_server

CHARACTERS = [f"Character {number}.png" for number in range(4)]
INSTANCES = [f"instance {number}" for number in range(10)]
KEYS = [f"key {number}" for number in range(12)]
PAGE = 4096
# Codes of the errors that a damaged file may be answered with.
DECLARED = {"database_damaged", "database_too_new", "database_unavailable"}

Answer = tuple[int, Any]


def reads() -> list[str]:
    return [
        "/characters",
        "/instances",
        "/instances?chatId=chat",
        "/characters/nobody",
        "/instances/nothing/data",
        *(f"/characters/{id}" for id in CHARACTERS),
        *(f"/characters/{id}/instances" for id in CHARACTERS),
        *(f"/instances?characterId={id}" for id in CHARACTERS[:2]),
        *(f"/instances/{id}" for id in INSTANCES[::2]),
        *(f"/instances/{id}/data" for id in INSTANCES[1:4]),
        *(f"/instances/{INSTANCES[1]}/data/{key}" for key in KEYS[::3]),
        f"/instances/{INSTANCES[2]}/data/absent",
        f"/cross-extension/instances/demo/{INSTANCES[0]}/data",
    ]


def read(client: httpx.Client, path: str) -> Answer:
    answer = client.get(path)
    return answer.status_code, answer.json()


@dataclass
class Populated:
    """The directory as a server left it, and the right answer to every read."""

    path: Path
    answers: dict[str, Answer]
    other: Answer
    chance: random.Random = field(default_factory=lambda: random.Random(20_260_101))

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.path, to)
        return to

    @property
    def paths(self) -> list[str]:
        return list(self.answers)

    def offsets(self, indexes: bool = False) -> list[int]:
        """Return the offsets of bytes in use, on any page or on the root pages of indexes."""
        content = self.good
        pages = range(1, len(content) // PAGE + 1)
        return [
            offset
            for page in (pages_of_indexes(self.path / "demo.db") if indexes else pages)
            for offset in range((page - 1) * PAGE, page * PAGE)
            # Zeros are mostly unused space.
            if content[offset] or offset % 97 == 0
        ]

    def flip_bit(self, offsets: list[int]) -> tuple[int, bytes]:
        """Flip one bit at one of these offsets; return the offset and the damaged content."""
        offset = self.chance.choice(offsets)
        content = bytearray(self.good)
        content[offset] ^= 1 << self.chance.randrange(8)
        return offset, bytes(content)

    @property
    def good(self) -> bytes:
        return (self.path / "demo.db").read_bytes()

    def is_allowed(self, path: str, answer: Answer) -> bool:
        """True if an answer is right, or a declared refusal."""
        status, body = answer
        return answer == self.answers[path] or (status == 503 and body["code"] in DECLARED)


def pages_of_indexes(file: Path) -> list[int]:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'index'")
        return [page for (page,) in found]


def populate(
    path: Path,
    fill: Callable[[httpx.Client, str], None] | None = None,
    paths: Callable[[], list[str]] = reads,
) -> Populated:
    fill = fill or fill_with_values
    with running_server(path) as server:
        # Names of one length, so that the pages of both files are laid out alike.
        for name in ("demo", "twin"):
            server.register(name)
            with server.client(name) as client:
                fill(client, name)
        with server.client("demo") as client, server.client("twin") as other:
            answers = {each: read(client, each) for each in paths()}
            return Populated(path, answers, read(other, "/characters"))


def fill_with_values(client: httpx.Client, name: str) -> None:
    for number, id in enumerate(INSTANCES):
        character = CHARACTERS[number % 3]
        chat = {"chatId": "chat"} if number % 2 else {}
        client.post("/instances", json={"id": id, "characterId": character, "name": name, **chat})
        values = {key: {"of": name, "text": f"{number} {key} " * 6} for key in KEYS}
        client.put(f"/instances/{id}/data/merge", json=values)
    client.post("/characters", json={"id": CHARACTERS[3], "name": "Alone"})
