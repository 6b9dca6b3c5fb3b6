"""A quick job alone is committed on the event loop; everything else on the writer's thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import opened, write
from valuetracker.engine import MOST_ROWS, loop_commits
from valuetracker.engine.loop_commits import SLOW_SECONDS, LoopCommits
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.store.data import list_values, merge_values, set_value
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.context import Anchor, Context
from valuetracker.store.tx.jobs import LIGHT_CHARACTERS, WriteJob
from valuetracker.store.tx.log_writer import FRAME_CHANGES

TARGET = instance("i")


class Threads:
    """Notes which thread each group was committed on."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self.on_loop: list[bool] = []
        run_group, own = database._run_group, threading.current_thread()

        def noted(*arguments: Any, **named: Any) -> Any:
            outcome = run_group(*arguments, **named)
            self.on_loop.append(threading.current_thread() is own)
            return outcome

        database._run_group = noted  # type: ignore[method-assign]

    def take(self) -> list[bool]:
        taken, self.on_loop = self.on_loop, []
        return taken


@pytest.fixture
async def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    # Count the disk as quick, on any machine.
    monkeypatch.setattr(loop_commits, "SLOW_SECONDS", 1_000.0)
    async with opened(tmp_path / "demo.db") as database:
        await write(database, put_instance, "i", "c", None)
        database._loop_commits._seconds = 0.0
        yield database


async def write_alone(database: SQLiteDatabase, verb: Any, *arguments: Any) -> None:
    """Write as one client does that is alone: in a turn of the event loop of its own."""
    while database.writing or database._turn_is_used:
        await asyncio.sleep(0)
    await write(database, verb, *arguments)


async def values(database: SQLiteDatabase) -> Any:
    async def job(transaction: Any) -> Any:
        return await list_values(await Snapshot.take(transaction), TARGET)

    return await database.read(job)


async def test_one_quick_job_alone_is_committed_on_the_event_loop(
    database: SQLiteDatabase,
) -> None:
    threads = Threads(database)

    await write_alone(database, set_value, TARGET, "a", "1")
    await write_alone(database, merge_values, TARGET, {"a": "2", "b": "3"})

    assert threads.take() == [True, True]
    assert list(await values(database)) == ["a", "b"]


async def test_other_jobs_and_groups_are_committed_on_the_thread(database: SQLiteDatabase) -> None:
    threads = Threads(database)
    anchored = Context(anchor=Anchor("m1"))

    await write_alone(database, put_instance, "other", "c", None)
    await write_alone(database, set_value, TARGET, "large", '"' + "x" * LIGHT_CHARACTERS + '"')
    await write_alone(database, set_value, TARGET, "b", "1")
    assert threads.take() == [False, False, True]
    await database.write(WriteJob(set_value, (TARGET, "a", "1"), anchored))
    assert threads.take() == [False]


async def test_several_clients_are_committed_as_a_group(database: SQLiteDatabase) -> None:
    threads = Threads(database)

    async def write_five() -> None:
        await asyncio.gather(*(write(database, set_value, TARGET, f"k{n}", "1") for n in range(5)))

    await write_alone(database, set_value, TARGET, "a", "1")
    await asyncio.sleep(0)
    # The first of them looks as if it were alone; the others wait for a group.
    await write_five()
    assert threads.take() == [True, True, False]
    await write_five()
    assert threads.take() == [False]


async def test_a_slow_disk_gets_its_commits_on_the_thread() -> None:
    commits = LoopCommits()
    job = WriteJob(set_value, (TARGET, "a", "1"))
    assert not commits.allow(job)

    for _ in range(50):
        commits.add(SLOW_SECONDS / 4)
    assert commits.allow(job)
    # One that was disturbed changes nothing.
    commits.add(60.0)
    assert commits.allow(job)
    for _ in range(50):
        commits.add(1.5 * SLOW_SECONDS)
    assert not commits.allow(job)


async def test_a_keyframe_of_many_keys_is_made_on_the_thread(database: SQLiteDatabase) -> None:
    many = {f"k{number}": "1" for number in range(2 * MOST_ROWS)}
    await write(database, merge_values, TARGET, many)
    # Have no row in the cache.
    database._make_runner = database._new_runner_factory()
    threads = Threads(database)

    for number in range(2 * MOST_ROWS + FRAME_CHANGES):
        await write_alone(database, set_value, TARGET, "k0", str(number))

    taken = threads.take()
    assert taken.count(False) == 1
    assert len(await values(database)) == 2 * MOST_ROWS


async def test_the_event_loop_does_not_wait_for_a_file_that_another_program_has_locked(
    database: SQLiteDatabase,
) -> None:
    threads = Threads(database)
    with closing(sqlite3.connect(database.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        writing = asyncio.create_task(write(database, set_value, TARGET, "a", "1"))
        # The event loop goes on meanwhile.
        await asyncio.sleep(0.2)
        assert not writing.done()
        other.execute("ROLLBACK")
        await writing

    assert threads.take() == [False]
    assert list(await values(database)) == ["a"]
