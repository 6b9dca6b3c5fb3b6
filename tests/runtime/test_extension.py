"""No later answer is older than an earlier one, from the answer cache or from the file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunningServer
from tests.support.databases import Gate, commits_of, held_writer, opened, waiting
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import CharacterNotFound
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extension import Extension
from valuetracker.store.characters import get_character, put_character
from valuetracker.store.data import find_value, list_values, set_value
from valuetracker.store.instances import put_instance
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import instance
from valuetracker.store.rows.tags import EVERYTHING, holder_tag
from valuetracker.store.tx.jobs import Commit

TARGET = instance("i")


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[SQLiteDatabase]:
    async with opened(tmp_path / "demo.db", readers=4) as database:
        yield database


@pytest.fixture
async def extension(database: SQLiteDatabase) -> Extension:
    extension = Extension("demo", database, Head(0, 0), lambda *_: None, Capacity(4))
    database.on_commit = extension.apply_commit
    await extension.write(put_instance, "i", "c", None)
    return extension


async def test_a_reading_has_its_revision_and_its_tags(
    extension: Extension,
) -> None:
    reading = await extension.read(list_values, TARGET)

    assert reading.result == {}
    assert reading.revision == 1
    assert reading.tags == {holder_tag("instance", "i")}
    assert reading.keepable


async def test_an_answer_of_a_verb_without_tags_depends_on_everything(extension: Extension) -> None:
    async def verb(tx: Snapshot) -> int:
        return tx.head.revision

    touched: list[Commit] = []
    extension._committed = lambda _, commit: touched.append(commit)
    reading = await extension.read(verb)
    await extension.write(put_character, "other", None)

    assert reading.tags == {EVERYTHING}
    assert touched[0].tags is not None
    assert EVERYTHING in touched[0].tags


async def test_an_answer_is_not_kept_if_a_commit_happened_since_its_read_began(
    extension: Extension,
) -> None:
    gate = Gate()

    async def slow(tx: Snapshot) -> Any:
        found = await list_values(tx, TARGET)
        await gate.verb(tx)
        return found

    reading = asyncio.create_task(extension.read(slow))
    await gate.reached()
    await extension.write(set_value, TARGET, "k", "1")
    gate.open()
    old = await reading

    assert old.result == {}
    assert not old.keepable
    assert (await extension.read(list_values, TARGET)).keepable


async def test_a_read_that_saw_a_commit_waits_until_the_event_loop_has_applied_it(
    database: SQLiteDatabase, extension: Extension
) -> None:
    # The engine notifies the event loop after a commit is in the file; here the test does it.
    commits = commits_of(database)
    await extension.write(set_value, TARGET, "k", "1")

    async with held_writer(database):
        reading = asyncio.create_task(extension.read(find_value, TARGET, "k"))
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done
        extension.apply_commit(commits[0])
        found = await reading

    assert found.revision == 2
    assert extension.revision == 2
    assert not found.keepable


async def test_a_refusal_waits_like_any_answer(
    database: SQLiteDatabase, extension: Extension
) -> None:
    commits = commits_of(database)
    await extension.write(set_value, TARGET, "k", "1")

    async with held_writer(database):
        reading = asyncio.create_task(extension.read(get_character, "nobody"))
        done, _ = await asyncio.wait([reading], timeout=0.2)
        assert not done
        extension.apply_commit(commits[0])

        with pytest.raises(CharacterNotFound):
            await reading


async def test_a_commit_without_a_notification_invalidates_all_kept_answers(
    database: SQLiteDatabase, extension: Extension
) -> None:
    touched: list[Commit] = []
    extension._committed = lambda _, commit: touched.append(commit)
    # The event loop learns that the group has ended, but not if it was committed.
    database.on_commit = lambda _: extension.apply_commit(None)
    await extension.write(set_value, TARGET, "k", "1")

    found = await extension.read(find_value, TARGET, "k")

    assert found.revision == extension.revision == 2
    assert [(commit.revision, commit.tags) for commit in touched] == [(2, None)]
    assert not found.keepable


async def test_a_read_in_a_held_group_sees_all_of_it_or_nothing(
    database: SQLiteDatabase, extension: Extension
) -> None:
    async with held_writer(database):
        tasks = await waiting(database, *((set_value, TARGET, f"k{n}", "1") for n in range(20)))
        before = await extension.read(list_values, TARGET)
    await asyncio.gather(*tasks)
    after = await extension.read(list_values, TARGET)

    assert before.result == {}
    assert len(after.result) == 20


async def test_readers_never_see_an_older_revision_after_a_newer_one(extension: Extension) -> None:
    done = asyncio.Event()

    async def read_on() -> list[int]:
        seen = [0]
        while not done.is_set():
            reading = await extension.read(list_values, TARGET)
            seen.append(reading.revision)
            assert extension.revision >= reading.revision
            # A read of a few rows does not let anybody else run.
            await asyncio.sleep(0)
        return seen

    async def write_on() -> None:
        for number in range(100):
            written = await extension.write(set_value, TARGET, "k", str(number))
            assert (await extension.read(find_value, TARGET, "k")).revision >= written.revision

    readers = [asyncio.create_task(read_on()) for _ in range(6)]
    await asyncio.gather(*(write_on() for _ in range(4)))
    done.set()

    for seen in await asyncio.gather(*readers):
        assert seen == sorted(seen)


async def test_the_end_waits_for_running_verbs(database: SQLiteDatabase) -> None:
    extension = Extension("demo", database, Head(0, 0), lambda *_: None, Capacity(4))
    extension.acquire()
    extension.acquire()

    ending = asyncio.create_task(extension.end("gone"))
    extension.release()
    await asyncio.sleep(0)
    assert not ending.done()
    extension.release()
    await ending


def test_readers_over_http_never_see_an_older_value_after_a_newer_one(
    shared_server: RunningServer, extension_id: str
) -> None:
    keys = ("a", "b", "c")
    with shared_server.client(extension_id) as client:
        client.post("/instances", json={"id": "i", "characterId": "c"})
        client.put("/instances/i/data/merge", json=dict.fromkeys(keys, 0))
    done = threading.Event()
    acknowledged = dict.fromkeys(keys, 0)
    lock = threading.Lock()

    def write_on(number: int) -> None:
        with shared_server.client(extension_id) as client:
            for turn in range(60):
                key = keys[(number + turn) % 3]
                if turn % 2:
                    change = {"op": "increment", "instanceId": "i", "key": key, "by": 1}
                    answer = client.post("/batch", json={"operations": [change]})
                    assert answer.status_code == 200, answer.text
                    value = answer.json()["results"][0]["value"]
                else:
                    # By `If-Match`, so that no value goes back here either.
                    seen = client.get(f"/instances/i/data/{key}")
                    value = seen.json()[key] + 1
                    answer = client.post(
                        "/instances/i/data",
                        json={"key": key, "value": value},
                        headers={"if-match": seen.headers["etag"]},
                    )
                    if answer.status_code == 412:
                        continue
                    assert answer.status_code == 200, answer.text
                with lock:
                    acknowledged[key] = max(acknowledged[key], value)

    def read_on(number: int) -> None:
        seen = dict.fromkeys(keys, 0)
        turn = 0
        with shared_server.client(extension_id) as client:
            while not done.is_set():
                turn += 1
                floor = dict(acknowledged)
                # Three ways to read one value: alone, with the others, by another route.
                if turn % 3 == 0:
                    key = keys[(number + turn) % 3]
                    found = client.get(f"/instances/i/data/{key}").json()
                elif turn % 3 == 1:
                    found = client.get("/instances/i/data").json()
                else:
                    found = client.get(f"/cross-extension/instances/{extension_id}/i").json()[
                        "data"
                    ]
                assert found
                for key, value in found.items():
                    assert value >= max(seen[key], floor[key])
                    seen[key] = value

    with ThreadPoolExecutor(16) as pool:
        readers = [pool.submit(read_on, number) for number in range(6)]
        writers = [pool.submit(write_on, number) for number in range(8)]
        try:
            for writer in writers:
                writer.result()
        finally:
            done.set()
        for reader in readers:
            reader.result()

    with shared_server.client(extension_id) as client:
        assert client.get("/instances/i/data").json() == acknowledged
    assert min(acknowledged.values()) >= 80
