"""A copy is put in the place of a database: by one thread, to its end, and under any name."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tests.support.engines import started
from valuetracker.app import create_engine
from valuetracker.engine import sqlite_restore
from valuetracker.engine.data_directory import COMPANIONS, DataDirectory
from valuetracker.errors import PathNotAllowed
from valuetracker.records import now
from valuetracker.settings import Settings

ROUNDS = 5
THREADS = 4


def test_what_is_announced_is_finished_once_however_many_threads_try(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    path = tmp_path / "demo.db"
    for _ in range(ROUNDS):
        path.write_text("old")
        sqlite_restore.announced_of(path).write_text("new")
        together = threading.Barrier(THREADS)

        def finish(together: threading.Barrier = together) -> None:
            together.wait()
            sqlite_restore.finish(directory, "demo.db")

        threads = [threading.Thread(target=finish) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert path.read_text() == "new"
    kept = [each.read_text() for each in (tmp_path / "trash").iterdir()]
    assert kept == ["old"] * ROUNDS


async def test_a_replacement_that_is_cancelled_comes_to_its_end_first(tmp_path: Path) -> None:
    async with started("", tmp_path) as bench:
        path, copy = tmp_path / "demo.db", tmp_path / ".new-012345-demo.db"
        path.write_text("old")
        copy.write_text("new")
        replacing = asyncio.ensure_future(bench.engine.replace_file("demo.db", copy))
        await asyncio.sleep(0)

        replacing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await replacing

        assert path.read_text() == "new"
        assert not sqlite_restore.announced_of(path).exists()


def test_the_longest_name_leaves_room_for_a_copy(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path)
    longest = max(
        (f"{'x' * length}.db" for length in range(256) if is_allowed(directory, length)), key=len
    )
    (tmp_path / longest).write_text("a database")

    copy, _ = sqlite_restore.copy_file(tmp_path / longest, tmp_path / longest)

    for ending in COMPANIONS:
        copy.with_name(copy.name + ending).touch()


def is_allowed(directory: DataDirectory, length: int) -> bool:
    try:
        return bool(directory.locate("demo", f"{'x' * length}.db"))
    except PathNotAllowed:
        return False


@pytest.mark.parametrize("folder", ["db/sub", "root"])
async def test_copies_that_a_killed_process_left_in_other_folders_are_removed(
    tmp_path: Path, folder: str
) -> None:
    settings = Settings(data_dir=tmp_path / "db", allow_root=(tmp_path / "root",))
    path = tmp_path / folder / "demo.db"
    path.parent.mkdir(parents=True)
    kept = path.with_name(".new-012345-other.db")
    for each in (kept, path.with_name(".new-012345-demo.db")):
        each.write_text("half a copy")
    source = tmp_path / "source"
    source.write_text("a database")
    engine = create_engine(settings)
    registry = await engine.start(now())
    try:
        location = engine.locate("demo", str(path))

        copies = [(await engine.copy_file(source, location))[0] for _ in range(2)]

        assert sorted(path.parent.iterdir()) == sorted([kept, *copies])
    finally:
        await registry.close()
        await engine.stop()
