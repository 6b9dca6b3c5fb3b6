"""The log read as a past: moments, states, and where folding ends it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from valuetracker.app import create_engine
from valuetracker.errors import Compacted, RevisionUnknown
from valuetracker.settings import Settings
from valuetracker.store.changes import Context
from valuetracker.store.compaction import Keep, compact
from valuetracker.store.data import merge_values, remove_value, set_value
from valuetracker.store.extension import Extension
from valuetracker.store.extensions import Extensions
from valuetracker.store.instances import delete_instance, put_instance
from valuetracker.store.log import (
    Moment,
    character_at,
    find_change,
    find_moment,
    instance_at,
    instances_at,
    values_at,
)
from valuetracker.store.memory import Memory
from valuetracker.store.snapshot import Snapshot


@pytest.fixture
async def extension(tmp_path: Path) -> AsyncIterator[Extension]:
    extensions = Extensions(create_engine(Settings(data_dir=tmp_path)), Memory(0), 4)
    await extensions.start()
    await extensions.register("demo", None)
    entered = await extensions.enter("demo")
    await entered.write(put_instance, "sword", "arthur", None)
    yield entered
    extensions.leave(entered)
    await extensions.stop()


async def values(extension: Extension, at: int | str) -> list[tuple[str, str | None]]:
    async def verb(tx: Snapshot) -> list[tuple[str, str | None]]:
        rows = await values_at(tx, "sword", await find_moment(tx, at))
        return [(row.key, row.after) for row in rows]

    found: list[tuple[str, str | None]] = await extension.read_result(verb)
    return found


async def test_a_moment_is_the_last_row_of_its_revision(extension: Extension) -> None:
    await extension.write(merge_values, "sword", {"a": "1", "b": "2", "c": "3"})
    await extension.write(set_value, "sword", "a", "4")

    moments = [await extension.read_result(find_moment, at) for at in range(4)]

    # The first revision made a character and an instance.
    assert moments == [Moment(0, 0), Moment(1, 2), Moment(2, 5), Moment(3, 6)]


async def test_a_moment_to_come_is_unknown(extension: Extension) -> None:
    with pytest.raises(RevisionUnknown) as caught:
        await extension.read_result(find_moment, 2)

    assert caught.value.details == {"current": 1}


async def test_keys_stand_where_they_stood_then(extension: Extension) -> None:
    await extension.write(merge_values, "sword", {"z": "1", "a": "2"})
    await extension.write(remove_value, "sword", "z")
    await extension.write(set_value, "sword", "z", "3")
    await extension.write(set_value, "sword", "a", "4")

    states = [await values(extension, at) for at in range(1, 6)]

    assert states == [
        [],
        [("z", "1"), ("a", "2")],
        [("a", "2")],
        [("a", "2"), ("z", "3")],
        [("a", "4"), ("z", "3")],
    ]


async def test_a_key_of_an_instance_and_of_one_with_a_similar_id_are_apart(
    extension: Extension,
) -> None:
    # An id and a key that look alike when put together, and a character of the same name.
    await extension.write(put_instance, "sword2", "sword", None)
    await extension.write(set_value, "sword", "2x", "1")
    await extension.write(set_value, "sword2", "x", "2")

    assert await values(extension, 4) == [("2x", "1")]
    character = await extension.read_result(character_at, "sword", Moment(4, 6))
    instance = await extension.read_result(instance_at, "sword", Moment(4, 6))
    assert (character["id"], instance["characterId"]) == ("sword", "arthur")


async def test_instances_of_a_character_then(extension: Extension) -> None:
    await extension.write(put_instance, "shield", "arthur", None)
    await extension.write(put_instance, "sword", "uther", None)
    await extension.write(delete_instance, "shield")

    async def ids(character_id: str, at: int) -> Any:
        async def verb(tx: Snapshot) -> list[str]:
            found = await instances_at(tx, character_id, await find_moment(tx, at))
            return [change.owner for change in found]

        return await extension.read_result(verb)

    assert [await ids("arthur", at) for at in range(5)] == [
        [],
        ["sword"],
        ["sword", "shield"],
        ["shield"],
        [],
    ]
    assert [await ids("uther", at) for at in range(5)] == [[], [], [], ["sword"], ["sword"]]


async def test_the_last_change_of_a_row_is_found_up_to_a_place(extension: Extension) -> None:
    await extension.write(set_value, "sword", "a", "1")
    await extension.write(set_value, "sword", "a", "2", context=Context(actor="user"))

    async def after(until: int) -> Any:
        change = await extension.read_result(find_change, "data", "sword", "a", until)
        return None if change is None else (change.change, change.after)

    assert [await after(until) for until in (2, 3, 4, 99)] == [None, (3, "1"), (4, "2"), (4, "2")]


async def test_folding_keeps_the_state_at_the_cutoff_and_above(extension: Extension) -> None:
    for number in range(5):
        await extension.write(set_value, "sword", "a", str(number))
    before = [await values(extension, at) for at in range(4, 7)]

    await extension.write(compact, Keep(revisions=2))

    assert [await values(extension, at) for at in range(4, 7)] == before
    for at in (0, 3, "2001-01-01T00:00:00.000Z"):
        with pytest.raises(Compacted) as caught:
            await values(extension, at)
        assert caught.value.details == {"oldest": 4}
