"""
Fastify with better-sqlite3, as `server.cjs` has it; with `synchronous` FULL and NORMAL.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from bench.children import START_SECONDS, Child, Failure, next_line, started
from bench.dataset import Size, all_characters, all_instances, all_values, instance_id, key_id
from bench.peers.store import CACHE, Kind, Place, Rest

SCRIPT = Path(__file__).with_name("server.cjs")
MODULES = CACHE / "fastify" / "node_modules"
# The numbers that SQLite has for them.
SYNCHRONOUS = {"FULL": 2, "NORMAL": 1}


class Fastify(Rest):
    def __init__(self, child: Child, synchronous: str) -> None:
        super().__init__(child)
        self._synchronous = synchronous

    def check_durability(self) -> None:
        found = self.call("GET", "/durability")
        if found != {"journalMode": "wal", "synchronous": SYNCHRONOUS[self._synchronous]}:
            raise Failure(f"Fastify is to run with WAL and {self._synchronous}: {found}")


@contextmanager
def start(synchronous: str, place: Place) -> Iterator[Fastify]:
    log, file = place.folder / "log", place.folder / "data.db"
    command = ["node", str(SCRIPT), str(file), synchronous]
    # A CommonJS module finds its packages there.
    modules = {"NODE_PATH": str(MODULES), "NODE_ENV": "production"}
    with started(place.core, command, log, more_environment=modules) as process:
        ready = next_line(process, log, START_SECONDS)
        with closing(Fastify(Child(ready.rsplit(" ", 1)[-1], process, log), synchronous)) as store:
            fill(file, place.size)
            yield store


def fill(file: Path, size: Size) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany("INSERT INTO characters (id) VALUES (?)", all_characters(size))
        connection.executemany(
            "INSERT INTO instances (id, character_id) VALUES (?, ?)", all_instances(size)
        )
        connection.executemany(
            "INSERT INTO data (instance_id, key, value, updated_at) VALUES (?, ?, ?, 0)",
            (
                (instance_id(instance), key_id(key), json.dumps(value))
                for instance, key, value in all_values(size)
            ),
        )


def version() -> str:
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    packages = (
        f"{name} {json.loads((MODULES / name / 'package.json').read_text())['version']}"
        for name in ("fastify", "better-sqlite3")
    )
    return f"Node {node.stdout.strip()}, " + ", ".join(packages)


FULL = Kind(
    "fastify-full",
    "Fastify + better-sqlite3 FULL",
    partial(start, "FULL"),
    durability="synced before the answer",
    version=version,
)
NORMAL = Kind(
    "fastify-normal",
    "Fastify + better-sqlite3 NORMAL",
    partial(start, "NORMAL"),
    durability="not synced",
    version=version,
)
