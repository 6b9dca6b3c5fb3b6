from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.databases import (
    IDENTITY,
    SCHEMA,
    Gate,
    held_writer,
    make_file,
    opened,
    revisions_of,
    select,
    waiting,
    write,
)
from valuetracker.engine import Transaction
from valuetracker.engine.group import GROUP_JOBS
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.statement import Statement
from valuetracker.errors import CharacterNotFound
from valuetracker.store.characters import delete_character, put_character
from valuetracker.store.rows.entries import first_of
from valuetracker.store.tx.changes import PutCharacter
from valuetracker.store.tx.jobs import Commit, Written
from valuetracker.store.tx.ledger import Ledger

COUNT_CHARACTERS = Statement("SELECT count(*) FROM characters")
SOMEBODY = PutCharacter("broken", None, "2026-01-01", "2026-01-01")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SQLiteDatabase]:
    async with opened(path) as database:
        yield database


@pytest.fixture
def commits(database: SQLiteDatabase) -> list[int]:
    """The revision reached by each commit, as the event loop was told."""
    commits: list[int] = []

    def told(commit: Commit | None) -> None:
        if commit is not None:
            commits.append(commit.revision)

    database.on_commit = told
    return commits


async def count(transaction: Transaction) -> int:
    row = await transaction.fetch_one(COUNT_CHARACTERS)
    assert row is not None
    return int(row[0])


async def change_and_refuse(tx: Ledger) -> None:
    await tx.apply([SOMEBODY])
    raise CharacterNotFound()


async def change_and_fail(tx: Ledger) -> None:
    await tx.apply([SOMEBODY])
    raise ZeroDivisionError("nobody foresaw this")


async def fail_at_once(tx: Ledger) -> None:
    raise ZeroDivisionError("nobody foresaw this")


def assert_gapless(path: Path, last: int) -> None:
    assert revisions_of(path) == list(range(1, last + 1))
    # Each of these revisions makes one character, so none has a second entry.
    entries = [entry for (entry,) in select(path, "SELECT entry FROM entries ORDER BY 1")]
    assert entries == [first_of(revision) for revision in range(1, last + 1)]


async def test_writes_that_wait_share_one_commit(
    database: SQLiteDatabase, commits: list[int], path: Path
) -> None:
    async with held_writer(database):
        tasks = await waiting(database, *((put_character, f"c{n}", None) for n in range(100)))

    answers = await asyncio.gather(*tasks)

    assert [answer.revision for answer in answers] == list(range(1, 101))
    # One for what held the writer, one for all the others.
    assert commits == [0, 100]
    assert_gapless(path, 100)


async def test_a_group_is_bounded(database: SQLiteDatabase, commits: list[int]) -> None:
    async with held_writer(database):
        tasks = await waiting(
            database, *((put_character, f"c{n}", None) for n in range(GROUP_JOBS + 1))
        )

    await asyncio.gather(*tasks)

    assert commits == [0, GROUP_JOBS, GROUP_JOBS + 1]


async def test_many_concurrent_writers_need_fewer_commits_than_writes(
    database: SQLiteDatabase, commits: list[int], path: Path
) -> None:
    async def writer(number: int) -> None:
        for turn in range(20):
            await write(database, put_character, f"c{number}-{turn}", None)

    await asyncio.gather(*(writer(number) for number in range(16)))

    assert commits[-1] == 320
    assert len(commits) < 320
    assert commits == sorted(commits)
    assert_gapless(path, 320)


async def test_a_write_is_answered_after_its_commit_was_told_and_in_order(
    database: SQLiteDatabase,
) -> None:
    events: list[tuple[str, int]] = []

    def told(commit: Commit | None) -> None:
        if commit is not None:
            events.append(("commit", commit.revision))

    def answered(task: asyncio.Task[Written]) -> None:
        events.append(("answer", task.result().revision))

    database.on_commit = told
    for _ in range(3):
        tasks = await waiting(
            database, *((put_character, f"c{len(events)}-{n}", None) for n in range(5))
        )
        for task in tasks:
            task.add_done_callback(answered)
        await asyncio.wait(tasks)
        await asyncio.sleep(0)

    answers = [number for kind, number in events if kind == "answer"]
    assert answers == list(range(1, 16))
    for position, (kind, number) in enumerate(events):
        if kind == "answer":
            assert max(told for kind, told in events[:position] if kind == "commit") >= number


async def test_a_write_is_in_the_file_when_it_is_answered(
    database: SQLiteDatabase, path: Path
) -> None:
    for number in range(1, 6):
        await write(database, put_character, f"c{number}", None)

        assert select(path, "SELECT count(*) FROM characters") == [(number,)]
        assert await database.read(count) == number


async def test_a_refused_job_harms_no_neighbour(
    database: SQLiteDatabase, commits: list[int], path: Path
) -> None:
    async with held_writer(database):
        tasks = await waiting(
            database,
            (put_character, "a", None),
            (delete_character, "missing"),
            (put_character, "b", None),
        )

    first, refused, last = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(first, Written)
    assert isinstance(refused, CharacterNotFound)
    assert isinstance(last, Written)
    assert (first.revision, last.revision) == (1, 2)
    assert commits == [0, 2]
    assert_gapless(path, 2)


@pytest.mark.parametrize(
    ("verb", "failure"),
    [
        (change_and_refuse, CharacterNotFound),
        (change_and_fail, ZeroDivisionError),
        (fail_at_once, ZeroDivisionError),
    ],
)
async def test_a_job_that_fails_fails_alone(
    database: SQLiteDatabase,
    commits: list[int],
    path: Path,
    verb: Any,
    failure: type[Exception],
) -> None:
    async with held_writer(database):
        tasks = await waiting(
            database,
            (put_character, "a", None),
            (verb,),
            (put_character, "b", None),
            (put_character, "c", None),
        )

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(answers[1], failure)
    assert [each.revision for each in answers if isinstance(each, Written)] == [1, 2, 3]
    assert commits[-1] == 3
    assert select(path, "SELECT id FROM characters ORDER BY ordinal") == [("a",), ("b",), ("c",)]
    assert_gapless(path, 3)
    assert not database.suspect


async def test_a_job_that_awaits_something_else_fails_alone(
    database: SQLiteDatabase, path: Path
) -> None:
    async def verb(tx: Ledger) -> None:
        await asyncio.sleep(0)

    async with held_writer(database):
        tasks = await waiting(database, (verb,), (put_character, "a", None))

    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(answers[0], RuntimeError)
    assert isinstance(answers[1], Written)
    assert_gapless(path, 1)


async def test_a_job_cancelled_while_it_waits_is_not_run(
    database: SQLiteDatabase, path: Path
) -> None:
    async with held_writer(database):
        cancelled, kept = await waiting(
            database, (put_character, "a", None), (put_character, "b", None)
        )
        cancelled.cancel()

    await asyncio.wait([cancelled, kept])

    assert cancelled.cancelled()
    assert kept.result().revision == 1
    assert select(path, "SELECT id FROM characters") == [("b",)]


async def test_a_job_cancelled_while_it_runs_is_committed_all_the_same(
    database: SQLiteDatabase, commits: list[int], path: Path
) -> None:
    gate = Gate()

    async def verb(tx: Ledger) -> None:
        await put_character(tx, "a", None)
        await gate.verb(tx)

    (running,) = await waiting(database, (verb,))
    await gate.reached()
    running.cancel()
    await asyncio.wait([running])
    gate.open()
    await write(database, put_character, "b", None)

    assert running.cancelled()
    assert commits == [1, 2]
    assert select(path, "SELECT id FROM characters ORDER BY ordinal") == [("a",), ("b",)]


async def test_closing_answers_what_is_waiting(path: Path) -> None:
    await make_file(path)
    database = await SQLiteDatabase.open(path, IDENTITY, SCHEMA, 1)
    async with held_writer(database):
        tasks = await waiting(database, *((put_character, f"c{n}", None) for n in range(10)))
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)

    await closing

    assert [task.result().revision for task in tasks] == list(range(1, 11))
    assert not path.with_name("demo.db-wal").exists()
    assert select(path, "SELECT count(*) FROM characters") == [(10,)]
