"""The contract of both engines: committing and failing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.databases import REVISIONS, Gate, commits_of, held_writer, waiting, write
from tests.support.engines import NAMES, Bench, revision_of
from valuetracker.engine import Database
from valuetracker.engine.group import GROUP_JOBS
from valuetracker.engine.statement import Statement
from valuetracker.errors import CharacterNotFound, InstanceNotFound, ValueTrackerError
from valuetracker.store.characters import delete_character, put_character
from valuetracker.store.data import remove_value, set_value
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.changes import DropInstance, PutCharacter
from valuetracker.store.tx.jobs import Written
from valuetracker.store.tx.ledger import Ledger

SOMEBODY = PutCharacter("broken", None, "2026-01-01", "2026-01-01")
# An instance that was deleted.
NOBODY = HolderRow(
    99, 99, "instance", "nothing", "c", None, None, None, "2026-01-01", "2026-01-01", deleted=1
)
TARGET = instance("i")
MISSING = instance("missing")


# Committing


async def test_every_connection_reads_a_write_once_it_is_answered(
    bench: Bench, database: Database
) -> None:
    for number in range(1, 6):
        written = await write(database, put_character, f"c{number}", None)

        assert written.revision == number
        assert await revision_of(database) == number
        assert await bench.outside("SELECT count(*) FROM {}.characters") == [(number,)]
    await bench.recount()


async def test_a_commit_is_announced_in_order_and_before_its_jobs_are_answered(
    database: Database,
) -> None:
    commits = commits_of(database)
    seen: list[tuple[int, int]] = []

    def answered(task: asyncio.Task[Written]) -> None:
        seen.append((task.result().revision, commits[-1].revision))

    for turn in range(4):
        tasks = await waiting(
            database, *((put_character, f"c{turn}-{number}", None) for number in range(8))
        )
        for task in tasks:
            task.add_done_callback(answered)
        await asyncio.wait(tasks)
        await asyncio.sleep(0)

    assert [own for own, _ in seen] == list(range(1, 33))
    assert all(told >= own for own, told in seen)
    reached = [commit.revision for commit in commits]
    assert reached == sorted(reached)
    assert sum(commit.revisions for commit in commits) == 32
    logged = [entry.revision for commit in commits for entry in commit.entries]
    assert logged == list(range(1, 33))


async def test_writes_that_wait_are_one_commit_of_bounded_size(
    bench: Bench, database: Database
) -> None:
    async with held_writer(database):
        commits = commits_of(database)
        tasks = await waiting(
            database, *((put_character, f"c{n}", None) for n in range(GROUP_JOBS + 1))
        )
    await asyncio.gather(*tasks)

    assert [commit.revision for commit in commits] == [0, GROUP_JOBS, GROUP_JOBS + 1]
    await bench.recount()


async def test_callers_that_write_again_at_once_stay_in_one_group(
    database: Database,
) -> None:
    commits = commits_of(database)

    async def writer(number: int) -> None:
        for turn in range(10):
            # Their next requests do not arrive at the same moment.
            for _ in range(2 * number):
                await asyncio.sleep(0)
            await write(database, put_character, f"c{number}-{turn}", None)

    await asyncio.gather(*(writer(number) for number in range(4)))

    assert [commit.revisions for commit in commits] == [4] * 10


async def test_writing_is_true_during_a_group_and_its_end_is_announced(
    database: Database,
) -> None:
    told: list[Any] = []
    database.on_commit = told.append
    assert not database.writing

    async with held_writer(database):
        assert database.writing
    while database.writing:
        await asyncio.sleep(0)

    assert told[-1] is None
    assert [each.revision for each in told if each is not None] == [0]


async def test_a_job_reads_the_changes_of_earlier_jobs_of_its_group(
    bench: Bench, database: Database
) -> None:
    async with held_writer(database):
        tasks = await waiting(
            database,
            (put_instance, "i", "c", None),
            (set_value, TARGET, "k", "1"),
            (remove_value, TARGET, "k"),
            (set_value, TARGET, "k", "2"),
            (delete_character, "c"),
            (set_value, TARGET, "k", "3"),
        )
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [each.revision for each in answers if isinstance(each, Written)] == [1, 2, 3, 4, 5]
    assert isinstance(answers[5], InstanceNotFound)
    assert await bench.recount() == {"characters": {}, "instances": {}, "data": {}}


# Failing


async def change_and_refuse(tx: Ledger) -> None:
    await tx.apply([SOMEBODY])
    raise CharacterNotFound()


async def change_and_fail(tx: Ledger) -> None:
    await tx.apply([SOMEBODY])
    raise ZeroDivisionError("unexpected")


async def change_write_and_fail(tx: Ledger) -> None:
    await tx.apply([SOMEBODY])
    # A query writes the pending rows first, so there is something to roll back.
    await tx.fetch_all(Statement("SELECT id FROM {schema}.characters"))
    raise ZeroDivisionError("unexpected")


async def fail_in_the_database(tx: Ledger) -> None:
    await tx.apply([SOMEBODY])
    await tx.execute(
        Statement("INSERT INTO {schema}.head SELECT NULL, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1")
    )


async def change_what_is_not_there(tx: Ledger) -> None:
    await tx.apply([DropInstance(NOBODY)])


async def fail_at_once(tx: Ledger) -> None:
    raise ZeroDivisionError("unexpected")


@pytest.mark.parametrize(
    ("verb", "failure"),
    [
        (change_and_refuse, CharacterNotFound),
        (change_and_fail, ZeroDivisionError),
        (change_write_and_fail, ZeroDivisionError),
        (fail_in_the_database, Exception),
        (change_what_is_not_there, RuntimeError),
        (fail_at_once, ZeroDivisionError),
    ],
)
@pytest.mark.parametrize("alone", [True, False])
async def test_a_job_that_fails_affects_no_other_job_and_no_revision(
    bench: Bench, database: Database, verb: Any, failure: type[Exception], alone: bool
) -> None:
    await write(database, put_character, "first", None)
    before = [] if alone else [(put_character, "before", None)]
    after = [] if alone else [(put_character, "after", None), (put_character, "last", None)]

    async with held_writer(database):
        tasks = await waiting(database, *before, (verb,), *after)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    written = await write(database, put_character, "then", None)

    failures = [each for each in answers if isinstance(each, BaseException)]
    assert len(failures) == 1
    assert isinstance(failures[0], failure)
    assert isinstance(answers[len(before)], failure)
    names = ["first", *(job[1] for job in (*before, *after)), "then"]
    assert await bench.outside(NAMES) == [(name,) for name in names]
    assert written.revision == len(names)
    assert await bench.outside(REVISIONS) == [(n,) for n in range(1, len(names) + 1)]
    assert not database.suspect
    await bench.recount()


async def test_a_refusal_changes_nothing_and_takes_no_revision(
    bench: Bench, database: Database
) -> None:
    await write(database, put_instance, "i", "c", None)
    commits = commits_of(database)

    async with held_writer(database):
        tasks = await waiting(
            database,
            (set_value, TARGET, "k", "1"),
            (set_value, MISSING, "k", "1"),
            (delete_character, "missing"),
            (set_value, TARGET, "k", "2"),
        )
    answers = await asyncio.gather(*tasks, return_exceptions=True)

    assert [isinstance(each, ValueTrackerError) for each in answers] == [False, True, True, False]
    assert [each.revision for each in answers if isinstance(each, Written)] == [2, 3]
    # The first is that of the held writer. The refusals did not break up the group.
    assert [commit.revision for commit in commits] == [1, 3]
    assert (await bench.recount())["data"] == {"i": {"k": "2"}}


@pytest.mark.parametrize("jobs", [1, 5])
async def test_a_failure_after_the_commit_loses_only_the_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, jobs: int
) -> None:
    # The third time: the first is for the instance, the second for the held writer.
    monkeypatch.setenv("VALUETRACKER_FAIL", "after_commit:raise:3")
    async with bench.opened(await bench.create()) as database:
        await write(database, put_instance, "i", "c", None)
        commits = commits_of(database)
        async with held_writer(database):
            tasks = await waiting(
                database, *((set_value, TARGET, f"k{n}", "1") for n in range(jobs))
            )
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        then = await write(database, put_character, "then", None)

    assert [type(each) for each in answers] == [RuntimeError] * jobs
    assert then.revision == jobs + 2
    assert await bench.outside("SELECT count(*) FROM {}.entries") == [(jobs + 3,)]
    assert [commit.revision for commit in commits] == [1, jobs + 1, jobs + 2]
    await bench.recount()


async def test_a_job_cancelled_while_it_waits_is_not_run(bench: Bench, database: Database) -> None:
    async with held_writer(database):
        tasks = await waiting(database, *((put_character, f"c{n}", None) for n in range(4)))
        tasks[0].cancel()
        tasks[2].cancel()
    await asyncio.wait(tasks)

    assert [task.cancelled() for task in tasks] == [True, False, True, False]
    assert [tasks[1].result().revision, tasks[3].result().revision] == [1, 2]
    assert await bench.outside(NAMES) == [("c1",), ("c3",)]
    await bench.recount()


async def test_a_job_cancelled_while_it_runs_is_committed(bench: Bench, database: Database) -> None:
    gate = Gate()

    async def verb(tx: Ledger) -> None:
        await put_character(tx, "a", None)
        await gate.verb(tx)

    (running,) = await waiting(database, (verb,))
    await gate.reached()
    running.cancel()
    await asyncio.wait([running])
    gate.open()
    written = await write(database, put_character, "b", None)

    assert running.cancelled()
    assert written.revision == 2
    assert await bench.outside(NAMES) == [("a",), ("b",)]


async def test_closing_answers_the_jobs_that_wait(bench: Bench) -> None:
    database = await bench.engine.open(bench.location(), await bench.create())
    async with held_writer(database):
        tasks = await waiting(database, *((put_character, f"c{n}", None) for n in range(10)))
        closing = asyncio.create_task(database.close())
        await asyncio.sleep(0)
    await closing

    assert [task.result().revision for task in tasks] == list(range(1, 11))
    await bench.recount()


async def test_jobs_are_answered_although_on_commit_raises(
    bench: Bench, database: Database
) -> None:
    def refuse(committed: Any) -> None:
        if committed is not None:
            raise ValueError("not now")

    database.on_commit = refuse
    tasks = await waiting(database, *((put_character, f"c{n}", None) for n in range(3)))
    async with asyncio.timeout(60):
        written = await asyncio.gather(*tasks)

    assert [each.revision for each in written] == [1, 2, 3]
    await bench.recount()


# Closed databases


async def test_a_stamp_tells_if_a_closed_database_was_changed(bench: Bench) -> None:
    identity = await bench.create()
    locations = [bench.location(), bench.location("missing")]

    async def stamp() -> Any:
        known, missing = await bench.engine.stamps(locations)
        assert missing is None
        return known

    new = await stamp()
    async with bench.opened(identity) as database:
        await write(database, put_character, "c", None)
        assert await stamp() is None
    written = await stamp()
    async with bench.opened(identity) as database:
        await database.verified()
        assert not database.verifying

    assert bench.engine.has_stamps == bench.is_sqlite
    if bench.is_sqlite:
        assert written.bytes == (bench.folder / bench.location()).stat().st_size
        assert await stamp() == written != new
    else:
        assert (new, written) == (None, None)
