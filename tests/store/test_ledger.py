from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.integrity.recount import order_of, recount
from tests.support.databases import (
    commits_of,
    held_writer,
    log_of,
    opened,
    revisions_of,
    select,
    waiting,
    write,
)
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import (
    CharacterNotFound,
    DatabaseDamaged,
    DataKeyNotFound,
    InstanceNotFound,
)
from valuetracker.store.characters import delete_character, put_character
from valuetracker.store.data import (
    clear_values,
    merge_values,
    override_values,
    remove_value,
    remove_values,
    set_value,
)
from valuetracker.store.instances import delete_instance, delete_instances_of, put_instance
from valuetracker.store.rows.spaces import instance
from valuetracker.store.rows.tags import ALL_CHARACTERS, ALL_INSTANCES, EVERYTHING
from valuetracker.store.tx.changes import ChangeValue, UpdateHead
from valuetracker.store.tx.jobs import Written
from valuetracker.store.tx.ledger import Ledger

TARGET = instance("i")
MISSING = instance("missing")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "demo.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SQLiteDatabase]:
    async with opened(path) as database:
        yield database


async def group(database: SQLiteDatabase, *jobs: tuple[Any, ...]) -> list[Any]:
    """Run jobs as one group, and return their results or refusals."""
    async with held_writer(database):
        commits = commits_of(database)
        tasks = await waiting(database, *jobs)
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    # One of the commits is that of the job that held the writer.
    assert len(commits) == 2, "the jobs were not one group"
    return [orjson.loads(each.body) if isinstance(each, Written) else each for each in answers]


async def test_verbs_of_a_group_see_the_changes_of_earlier_ones(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "c", None)
    await write(database, merge_values, TARGET, {"a": "1", "b": "2"})

    answers = await group(
        database,
        (set_value, TARGET, "a", "10"),
        (remove_value, TARGET, "a"),
        (remove_value, TARGET, "a"),
        (set_value, TARGET, "a", "11"),
        (remove_values, TARGET, ["b", "x", "b"]),
        (set_value, TARGET, "new", "12"),
    )

    assert isinstance(answers[2], DataKeyNotFound)
    assert answers[4] == {"success": True, "removedCount": 1}
    # A key that was removed and set again is ordered by its last creation.
    state = recount(path)
    assert state["data"] == {"i": {"a": "11", "new": "12"}}
    assert list(state["data"]["i"]) == ["a", "new"]


async def test_a_key_removed_and_set_again_in_one_group_moves_to_the_end(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "c", None)
    await write(database, merge_values, TARGET, {"a": "1", "b": "2"})

    await group(
        database,
        (remove_value, TARGET, "a"),
        (set_value, TARGET, "a", "3"),
        (set_value, TARGET, "b", "4"),
    )

    assert list(recount(path)["data"]["i"].items()) == [("b", "4"), ("a", "3")]


async def test_an_instance_is_deleted_and_created_again_with_data_in_one_group(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "c", "old")
    await write(database, merge_values, TARGET, {"a": "1", "b": "2"})

    answers = await group(
        database,
        (delete_instance, "i"),
        (set_value, TARGET, "a", "9"),
        (put_instance, "i", "c", None),
        (set_value, TARGET, "b", "3"),
        (delete_instance, "i"),
        (put_instance, "i", "d", "new"),
        (merge_values, TARGET, {"c": "4", "a": "5"}),
    )

    assert isinstance(answers[1], InstanceNotFound)
    state = recount(path)
    assert state["instances"] == {"i": ["d", None, "new"]}
    assert list(state["data"]["i"].items()) == [("c", "4"), ("a", "5")]


async def test_an_instance_created_and_deleted_in_one_group_leaves_only_its_log(
    database: SQLiteDatabase, path: Path
) -> None:
    await group(
        database,
        (put_instance, "i", "c", None),
        (set_value, TARGET, "a", "1"),
        (delete_character, "c"),
    )

    assert recount(path) == {"characters": {}, "instances": {}, "data": {}}
    assert [(*change[:5], change.after is None) for change in log_of(path)] == [
        (1, "character", "c", "", "create_character", False),
        (1, "instance", "i", "", "create_instance", False),
        (2, "instance", "i", "a", "set", False),
        (3, "instance", "i", "a", "remove", True),
        (3, "instance", "i", "", "delete_instance", True),
        (3, "character", "c", "", "delete_character", True),
    ]


async def test_a_moved_instance_is_deleted_with_its_new_character_and_not_its_old_one(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "old", None)
    await write(database, put_instance, "j", "old", None)
    await write(database, set_value, TARGET, "a", "1")

    answers = await group(
        database,
        (put_instance, "i", "new", None),
        (delete_instances_of, "old"),
        (delete_character, "old"),
        (put_instance, "k", "new", None),
        (delete_instances_of, "old"),
    )

    assert answers[1] == {"success": True, "deletedCount": 1}
    assert answers[4] == {"success": True, "deletedCount": 0}
    state = recount(path)
    assert list(state["characters"]) == ["new"]
    assert state["instances"] == {"i": ["new", None, None], "k": ["new", None, None]}
    assert state["data"] == {"i": {"a": "1"}, "k": {}}


async def test_an_instance_moved_to_another_character_and_back_stays(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "one", None)

    answers = await group(
        database,
        (put_instance, "i", "two", None),
        (delete_instances_of, "one"),
        (put_instance, "i", "one", None),
        (delete_instances_of, "two"),
    )

    assert [answers[1]["deletedCount"], answers[3]["deletedCount"]] == [0, 0]
    assert recount(path)["instances"] == {"i": ["one", None, None]}


async def test_override_keeps_the_order_of_keys_and_adds_new_ones_at_the_end(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "c", None)
    await write(database, merge_values, TARGET, {"a": "1", "b": "2", "c": "3"})

    await group(
        database,
        (override_values, TARGET, {"z": "9", "c": "30", "a": "10"}),
        (clear_values, TARGET),
        (override_values, TARGET, {"b": "1", "a": "2"}),
        (override_values, TARGET, {"a": "3", "y": "4", "b": "5"}),
    )

    assert list(recount(path)["data"]["i"].items()) == [("b", "5"), ("a", "3"), ("y", "4")]


async def test_lists_keep_the_order_of_creation(database: SQLiteDatabase, path: Path) -> None:
    for id in ("b", "a", "c"):
        await write(database, put_character, id, None)
    await group(
        database,
        (delete_character, "b"),
        (put_character, "a", "renamed"),
        (put_character, "b", None),
    )

    assert order_of(recount(path))[0] == ["a", "c", "b"]


async def test_a_refused_verb_makes_no_revision(database: SQLiteDatabase, path: Path) -> None:
    await write(database, put_instance, "i", "c", None)

    answers = await group(
        database,
        (set_value, MISSING, "a", "1"),
        (delete_instance, "missing"),
        (delete_character, "missing"),
        (remove_value, TARGET, "missing"),
        (clear_values, MISSING),
    )

    assert [type(answer) for answer in answers] == [
        InstanceNotFound,
        InstanceNotFound,
        CharacterNotFound,
        DataKeyNotFound,
        InstanceNotFound,
    ]
    assert revisions_of(path) == [1]
    recount(path)


async def test_a_verb_that_touches_nothing_makes_no_revision(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "c", "name")

    jobs: list[tuple[Any, ...]] = [
        (put_character, "c", None),
        (put_instance, "i", "c", "name"),
        (clear_values, TARGET),
        (merge_values, TARGET, {}),
        (remove_values, TARGET, ["x"]),
        (delete_instances_of, "nobody"),
    ]
    for job in jobs:
        assert (await write(database, *job)).revision == 1

    recount(path)


async def test_naming_a_key_is_a_change_even_if_the_value_is_equal(
    database: SQLiteDatabase, path: Path
) -> None:
    await write(database, put_instance, "i", "c", None)
    await write(database, set_value, TARGET, "a", "1")

    written = await write(database, set_value, TARGET, "a", "1")

    assert written.revision == 3
    logged = [(change.revision, change.op, change.after) for change in log_of(path) if change.key]
    assert logged == [(2, "set", "1"), (3, "set", "1")]


async def test_several_changes_of_one_key_in_one_verb_keep_their_order(
    database: SQLiteDatabase, path: Path
) -> None:
    async def twice(tx: Ledger) -> None:
        holder = await tx.find_instance("i")
        assert holder is not None
        await tx.apply([ChangeValue(holder, "a", "1"), ChangeValue(holder, "a", "2")])

    await write(database, put_instance, "i", "c", None)
    await write(database, twice)

    assert recount(path)["data"]["i"] == {"a": "2"}
    assert [change.after for change in log_of(path) if change.key == "a"] == ["1", "2"]


async def test_the_log_has_the_result_of_every_change(database: SQLiteDatabase, path: Path) -> None:
    made = await write(database, put_instance, "i", "c", "name", "chat")

    logged = log_of(path)

    assert [(change.space, change.id, change.op) for change in logged] == [
        ("chat", "", "create_chat"),
        ("character", "c", "create_character"),
        ("instance", "i", "create_instance"),
    ]
    # The chat by its number, because its id may change.
    record = orjson.loads(made.body)
    (number,) = select(path, "SELECT number FROM chats WHERE id = 'chat'")[0]
    assert record.pop("chatId") == "chat"
    assert orjson.loads(logged[2].after or "") == {**record, "chat": number, "origin": None}


async def test_a_commit_names_what_it_touched(database: SQLiteDatabase) -> None:
    await write(database, put_instance, "i", "c", None)
    commits = commits_of(database)

    await write(database, set_value, TARGET, "a", "1")
    await write(database, put_instance, "i", "d", None)

    assert [commit.revision for commit in commits] == [2, 3]
    value, moved = commits
    assert value.tags == {EVERYTHING, ("character", "c")}
    touched = value.holders["instance", "i"]
    assert (touched.revision, {key: row.value for key, row in touched.rows.items()}) == (
        2,
        {"a": "1"},
    )
    assert moved.tags == {
        *(EVERYTHING, ALL_INSTANCES, ALL_CHARACTERS),
        *(("instance", "i"), ("character", "c"), ("character", "d")),
    }
    assert moved.holders["instance", "i"].rows == {}


async def test_skipped_revisions_are_never_used(database: SQLiteDatabase, path: Path) -> None:
    async def skip(tx: Ledger, revision: int) -> None:
        await tx.apply([UpdateHead(revision=revision)])

    await write(database, skip, 1_000)
    await write(database, skip, 10)
    written = await write(database, put_character, "c", None)

    assert written.revision == 1_001
    recount(path, from_revision=1_001)


async def test_a_damaged_value_is_not_overwritten(path: Path) -> None:
    def spoil(connection: Any) -> None:
        connection.execute("UPDATE data SET value = '3' WHERE key = 'a'")

    async with opened(path) as database:
        await write(database, put_instance, "i", "c", None)
        await write(database, merge_values, TARGET, {"a": "1", "b": "2"})
        # Have no row in the cache.
        database._make_runner = database._new_runner_factory()
        assert database._writer is not None
        await database._writer.run(spoil)
        for job in (
            (set_value, TARGET, "a", "4"),
            (override_values, TARGET, {"a": "4"}),
            (clear_values, TARGET),
            (delete_instance, "i"),
        ):
            with pytest.raises(DatabaseDamaged):
                await write(database, *job)
        assert (await write(database, set_value, TARGET, "b", "5")).revision == 3
