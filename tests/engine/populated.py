"""A data directory with two extensions, and everything that can be read of the first."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.conftest import running_server

CHARACTERS = [f"Character {number}.png" for number in range(4)]
INSTANCES = [f"instance {number}" for number in range(10)]
KEYS = [f"key {number}" for number in range(12)]
# Codes of the answers a damaged file may be given.
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

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.path, to)
        return to

    @property
    def good(self) -> bytes:
        return (self.path / "demo.db").read_bytes()

    def is_allowed(self, path: str, answer: Answer) -> bool:
        """Whether an answer is right, or a declared refusal."""
        status, body = answer
        return answer == self.answers[path] or (status == 503 and body["code"] in DECLARED)


def populate(path: Path) -> Populated:
    with running_server(path) as server:
        # Names of one length: their files are laid out alike, page by page.
        for name in ("demo", "twin"):
            server.register(name)
            with server.client(name) as client:
                fill(client, name)
        with server.client("demo") as client, server.client("twin") as other:
            answers = {each: read(client, each) for each in reads()}
            return Populated(path, answers, read(other, "/characters"))


def fill(client: httpx.Client, name: str) -> None:
    for number, id in enumerate(INSTANCES):
        character = CHARACTERS[number % 3]
        chat = {"chatId": "chat"} if number % 2 else {}
        client.post("/instances", json={"id": id, "characterId": character, "name": name, **chat})
        values = {key: {"of": name, "text": f"{number} {key} " * 6} for key in KEYS}
        client.put(f"/instances/{id}/data/merge", json=values)
    client.post("/characters", json={"id": CHARACTERS[3], "name": "Alone"})
