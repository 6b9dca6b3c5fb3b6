"""
Our server, on a file of the original plugin that it adopts.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.children import Child, running
from bench.dataset import Size, all_characters, all_instances, all_values, instance_id, key_id
from bench.peers.store import Kind, Place, Rest
from bench.wrk import Load
from tests.support.original import SCHEMA
from valuetracker import __version__
from valuetracker.settings import PREFIX

EXTENSION = "bench"
VERIFYING = "verifying"


@dataclass
class Adoption:
    """The cost of adopting the original's file."""

    seconds: float
    peak_bytes: int
    bytes_before: int
    bytes_after: int


class Ours(Rest):
    prefix = PREFIX

    def __init__(self, child: Child, file: Path) -> None:
        super().__init__(child, {"x-extension-id": EXTENSION})
        self.file = file
        self.adoption: Adoption | None = None

    def load(self, workload: str, size: Size) -> Load:
        return Load(self.dialect, workload, PREFIX, EXTENSION, size.instances)

    def check_durability(self) -> None:
        """Nothing to ask: it syncs always, and has no setting for it."""

    def adopt(self) -> None:
        before = file_bytes(self.file)
        began = time.monotonic()
        self.call("POST", f"{PREFIX}/register", {"extensionId": EXTENSION})
        seconds = time.monotonic() - began
        peak = self.child.peak_memory()
        # A large file is verified while it already answers.
        while self.call("GET", f"{PREFIX}/extensions/{EXTENSION}")["status"] == VERIFYING:
            time.sleep(0.1)
        self.adoption = Adoption(seconds, peak, before, file_bytes(self.file))


@contextmanager
def start(place: Place) -> Iterator[Ours]:
    data_dir = place.folder / "data"
    data_dir.mkdir()
    file = data_dir / f"{EXTENSION}.db"
    make_original(file, place.size)
    with (
        running(place.core, serve(data_dir), place.folder / "log") as child,
        closing(Ours(child, file)) as store,
    ):
        store.adopt()
        yield store


def serve(data_dir: Path, *options: str) -> list[str]:
    return ["valuetracker", "serve", "--port", "0", "--data-dir", str(data_dir), *options]


def file_bytes(file: Path) -> int:
    """Return the size of a database file, as it is once its WAL is copied into it."""
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        return int(pages * connection.execute("PRAGMA page_size").fetchone()[0])


def make_original(file: Path, size: Size) -> None:
    """Make a file as the original plugin does."""
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executescript(SCHEMA)
        connection.executemany("INSERT INTO characters (id) VALUES (?)", all_characters(size))
        connection.executemany(
            "INSERT INTO instances (id, character_id) VALUES (?, ?)", all_instances(size)
        )
        connection.executemany(
            "INSERT INTO data (instance_id, key, value) VALUES (?, ?, ?)",
            (
                (instance_id(instance), key_id(key), json.dumps(value))
                for instance, key, value in all_values(size)
            ),
        )


KIND = Kind(
    "ours",
    "Value Tracker",
    start,
    durability="synced before the answer",
    version=lambda: f"Value Tracker {__version__}",
)
