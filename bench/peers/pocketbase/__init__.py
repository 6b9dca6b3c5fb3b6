"""
PocketBase, as it comes: its writes are not synced before they are answered.

A record is one value. Its id is made of the instance and the key, so that PocketBase finds it
in the quickest way it has.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from bench.children import Child, Failure, answers, environment, free_port, started, wait_until
from bench.dataset import KEYS, Size, all_values, character_id, character_of, instance_id, key_id
from bench.peers.store import CACHE, Kind, Place, Store

PROGRAM = str(CACHE / "python" / "bin" / "pocketbase")
MIGRATIONS = Path(__file__).with_name("migrations")
RECORDS = "/api/collections/data/records"


def record_id(instance: int, key: int) -> str:
    return f"i{instance:06}k{key:07}"


def path_of(instance: str, key: str) -> str:
    return f"{RECORDS}/{record_id(int(instance[1:]), int(key[1:]))}"


class PocketBase(Store):
    dialect = "pocketbase"

    def read_one(self, instance: str, key: str) -> Any:
        return self.call("GET", path_of(instance, key))["value"]

    def read_all(self, instance: str) -> dict[str, Any]:
        query = f"?perPage={KEYS}&skipTotal=1&filter=instance%3D%22{instance}%22"
        return {each["key"]: each["value"] for each in self.call("GET", RECORDS + query)["items"]}

    def read_character(self, character: str) -> dict[str, dict[str, Any]]:
        query = f"?perPage=1000&skipTotal=1&filter=character%3D%22{character}%22"
        found: dict[str, dict[str, Any]] = {}
        for each in self.call("GET", RECORDS + query)["items"]:
            found.setdefault(each["instance"], {})[each["key"]] = each["value"]
        return found

    def write_one(self, instance: str, key: str, value: Any) -> None:
        self.call("PATCH", path_of(instance, key), {"value": value})

    def merge(self, instance: str, values: dict[str, Any]) -> None:
        requests = [
            {"method": "PATCH", "url": path_of(instance, key), "body": {"value": value}}
            for key, value in values.items()
        ]
        self.call("POST", "/api/batch", {"requests": requests})

    def check_durability(self) -> None:
        """It has no setting for it, and says in its documentation what it does."""


@contextmanager
def start(place: Place) -> Iterator[PocketBase]:
    data, log, port = place.folder / "data", place.folder / "log", free_port()
    folders = [f"--dir={data}", f"--migrationsDir={MIGRATIONS}"]
    made = subprocess.run(
        [PROGRAM, "migrate", "up", *folders], capture_output=True, env=environment(), check=False
    )
    if made.returncode:
        raise Failure(f"PocketBase: {made.stdout.decode()}{made.stderr.decode()}")
    fill(data / "data.db", place.size)
    command = [PROGRAM, "serve", f"--http=127.0.0.1:{port}", *folders]
    with (
        started(place.core, command, log) as process,
        closing(PocketBase(Child(f"http://127.0.0.1:{port}", process, log))) as store,
    ):
        wait_until(lambda: answers(f"{store.child.url}/api/health"), process, log)
        yield store


def fill(file: Path, size: Size) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany(
            "INSERT INTO data (id, character, instance, key, value) VALUES (?, ?, ?, ?, ?)",
            (
                (
                    record_id(instance, key),
                    character_id(character_of(instance)),
                    instance_id(instance),
                    key_id(key),
                    json.dumps(value),
                )
                for instance, key, value in all_values(size)
            ),
        )


def version() -> str:
    said = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=True)
    return said.stdout.strip().replace("pocketbase version", "PocketBase")


KIND = Kind("pocketbase", "PocketBase", start, durability="not synced", version=version)
