"""Reading past states from the log: moments, states, and the oldest revision."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.integrity.recount import recount
from valuetracker.app import create_engine
from valuetracker.engine.statement import Statement
from valuetracker.errors import Compacted, RevisionUnknown
from valuetracker.runtime.answer_cache import AnswerCache
from valuetracker.runtime.capacity import Capacity
from valuetracker.runtime.extension import Extension
from valuetracker.runtime.extensions import Extensions
from valuetracker.settings import Settings
from valuetracker.store.characters import delete_character, put_character
from valuetracker.store.compaction import Keep, compact
from valuetracker.store.data import (
    clear_values,
    list_values,
    merge_values,
    override_values,
    remove_value,
    set_value,
)
from valuetracker.store.instances import delete_instance, put_instance
from valuetracker.store.log.lists import subject_list
from valuetracker.store.log.state_at import (
    character_at,
    find_moment,
    instance_at,
    instances_at,
    present_values,
    shape_at,
    state_at,
    state_until,
    values_at,
)
from valuetracker.store.rows.holders import HolderRow
from valuetracker.store.rows.numbers import Moment, first_of, last_of
from valuetracker.store.rows.snapshot import Snapshot
from valuetracker.store.rows.spaces import chat, instance
from valuetracker.store.tx.context import Context
from valuetracker.store.tx.log_writer import FRAME_CHANGES

SWORD = instance("sword")
SWORD2 = instance("sword2")


@pytest.fixture
async def extension(tmp_path: Path) -> AsyncIterator[Extension]:
    extensions = Extensions(create_engine(Settings(data_dir=tmp_path)), AnswerCache(0), Capacity(4))
    await extensions.start()
    await extensions.register("demo", None)
    entered = await extensions.acquire("demo")
    await entered.write(put_instance, "sword", "arthur", None)
    yield entered
    extensions.release(entered)
    await extensions.stop()


async def sword_of(tx: Snapshot) -> HolderRow:
    holder = await tx.find_any_instance("sword")
    assert holder is not None
    return holder


async def values(extension: Extension, at: int | str) -> list[tuple[str, str | None]]:
    async def verb(tx: Snapshot) -> list[tuple[str, str | None]]:
        records = await values_at(tx, await sword_of(tx), await find_moment(tx, at))
        return [(record.key, record.after) for record in records]

    found: list[tuple[str, str | None]] = await extension.read_result(verb)
    return found


async def test_a_moment_is_above_every_entry_of_its_revision(extension: Extension) -> None:
    await extension.write(merge_values, SWORD, {"a": "1", "b": "2", "c": "3"})
    await extension.write(set_value, SWORD, "a", "4")

    moments = [await extension.read_result(find_moment, at) for at in range(4)]

    entries = [entry for (entry,) in await extension.read_result(list_entries)]
    assert moments == [Moment(0), Moment(1), Moment(2), Moment(3)]
    # The first revision created a character and an instance.
    assert [sum(entry <= each.entry for entry in entries) for each in moments] == [0, 2, 3, 4]


async def list_entries(tx: Snapshot) -> Any:
    return await tx.fetch_all(Statement("SELECT entry FROM {schema}.entries ORDER BY entry"))


async def former_sword(tx: Snapshot, moment: Moment) -> Any:
    return await instance_at(tx, await sword_of(tx), moment)


async def test_a_future_moment_is_unknown(extension: Extension) -> None:
    with pytest.raises(RevisionUnknown) as caught:
        await extension.read_result(find_moment, 2)

    assert caught.value.details == {"current": 1}


async def test_keys_are_in_the_order_they_had_then(extension: Extension) -> None:
    await extension.write(merge_values, SWORD, {"z": "1", "a": "2"})
    await extension.write(remove_value, SWORD, "z")
    await extension.write(set_value, SWORD, "z", "3")
    await extension.write(set_value, SWORD, "a", "4")

    states = [await values(extension, at) for at in range(1, 6)]

    assert states == [
        [],
        [("z", "1"), ("a", "2")],
        [("a", "2")],
        [("a", "2"), ("z", "3")],
        [("a", "4"), ("z", "3")],
    ]


async def test_keys_of_instances_with_similar_ids_are_not_confused(
    extension: Extension,
) -> None:
    # Ids and keys that look alike when they are joined, and a character of the same name.
    await extension.write(put_instance, "sword2", "sword", None)
    await extension.write(set_value, SWORD, "2x", "1")
    await extension.write(set_value, SWORD2, "x", "2")

    assert await values(extension, 4) == [("2x", "1")]
    character = await extension.read_result(character_at, "sword", Moment(4))
    former = await extension.read_result(former_sword, Moment(4))
    assert (character["id"], former.record["characterId"]) == ("sword", "arthur")
    assert [record.key for record in former.values] == ["2x"]


async def test_the_instances_of_a_character_at_a_moment(extension: Extension) -> None:
    await extension.write(put_instance, "shield", "arthur", None)
    await extension.write(put_instance, "sword", "uther", None)
    await extension.write(delete_instance, "shield")

    async def ids(character_id: str, at: int) -> Any:
        async def verb(tx: Snapshot) -> list[str]:
            found = await instances_at(tx, character_id, await find_moment(tx, at))
            return [former.record["id"] for former in found]

        return await extension.read_result(verb)

    assert [await ids("arthur", at) for at in range(5)] == [
        [],
        ["sword"],
        ["sword", "shield"],
        ["shield"],
        [],
    ]
    assert [await ids("uther", at) for at in range(5)] == [[], [], [], ["sword"], ["sword"]]


async def test_the_last_change_of_a_key_is_found_up_to_an_entry(extension: Extension) -> None:
    await extension.write(set_value, SWORD, "a", "1")
    await extension.write(set_value, SWORD, "a", "2", context=Context(actor="user"))

    async def after(until: int) -> Any:
        async def verb(tx: Snapshot) -> Any:
            sword = await sword_of(tx)
            last = await subject_list(sword).last_up_to(tx, until)
            return (await state_until(tx, sword.number, last)).get("a")

        record = await extension.read_result(verb)
        return None if record is None else (record.prev_of_key, record.after)

    entries = [last_of(1), first_of(2), last_of(2), first_of(3), last_of(99)]
    found = [await after(until) for until in entries]
    assert found == [None, (0, "1"), (0, "1"), (first_of(2), "2"), (first_of(2), "2")]


async def test_the_last_change_of_a_character_itself_is_found(extension: Extension) -> None:
    await extension.write(put_character, "arthur", "Arthur")
    await extension.write(set_value, SWORD, "a", "1")
    await extension.write(delete_character, "arthur")

    async def name(at: int) -> Any:
        async def verb(tx: Snapshot) -> Any:
            character = await tx.find_any_character("arthur")
            assert character is not None
            return await shape_at(tx, character, await find_moment(tx, at))

        record = await extension.read_result(verb)
        if record is None or record.after is None:
            return record and record.op
        return orjson.loads(record.after)["name"]

    assert [await name(at) for at in range(5)] == [
        None,
        None,
        "Arthur",
        "Arthur",
        "delete_character",
    ]


async def test_the_state_is_the_same_with_keyframes_and_without(
    extension: Extension, tmp_path: Path
) -> None:
    chance = random.Random(1)
    expected: list[dict[str, str]] = [{}, {}]
    for number in range(6 * FRAME_CHANGES):
        now = dict(expected[-1])
        key = f"key {chance.randrange(8)}"
        if key in now and chance.random() < 0.4:
            del now[key]
            await extension.write(remove_value, SWORD, key)
        else:
            now[key] = str(number)
            await extension.write(set_value, SWORD, key, str(number))
        expected.append(now)

    async def frames(tx: Snapshot) -> Any:
        return await tx.fetch_all(Statement("SELECT entry FROM {schema}.keyframes"))

    async def state(tx: Snapshot, at: int) -> Any:
        return await state_at(tx, await sword_of(tx), await find_moment(tx, at))

    moments = range(len(expected))
    framed = [await extension.read_result(state, at) for at in moments]
    assert len(await extension.read_result(frames)) == 6
    with closing(sqlite3.connect(tmp_path / "demo.db")) as connection:
        connection.execute("DELETE FROM keyframes")
        connection.commit()
    plain = [await extension.read_result(state, at) for at in moments]

    for at in moments:
        # A keyframe does not contain removed keys.
        present = [present_values(each) for each in (framed[at], plain[at])]
        assert present[0] == present[1]
        assert list(expected[at].items()) == [(each.key, each.after) for each in present[0]]
        assert framed[at].get("") == plain[at].get("")


async def test_a_keyframe_of_a_cleared_instance_has_no_keys(
    extension: Extension, tmp_path: Path
) -> None:
    target = chat("chat")
    values = {f"key {number}": "1" for number in range(FRAME_CHANGES)}
    await extension.write(merge_values, target, values)
    emptied = await extension.write(clear_values, target)
    await extension.write(set_value, target, "more", "2")

    for at, count in ((emptied.revision - 1, FRAME_CHANGES), (emptied.revision, 0)):
        assert len(await extension.read_result(list_values, target, at)) == count
    recount(tmp_path / "demo.db")


async def test_compaction_keeps_the_state_at_the_cutoff_and_above(
    extension: Extension, tmp_path: Path
) -> None:
    for number in range(5):
        await extension.write(set_value, SWORD, "a", str(number))
    before = [await values(extension, at) for at in range(4, 7)]

    await extension.write(compact, Keep(revisions=2))

    assert [await values(extension, at) for at in range(4, 7)] == before
    for at in (0, 3, "2001-01-01T00:00:00.000Z"):
        with pytest.raises(Compacted) as caught:
            await values(extension, at)
        assert caught.value.details == {"oldest": 4}
    recount(tmp_path / "demo.db")


async def test_folded_changes_are_counted_right_after_every_compaction(
    extension: Extension, tmp_path: Path
) -> None:
    for turn in range(4):
        await extension.write(put_instance, f"shield {turn}", "uther", None, "chat")
        values = {f"key {number}": str(turn) for number in range(turn * 20 + 5)}
        await extension.write(override_values, SWORD, values)
        await extension.write(merge_values, instance(f"shield {turn}"), values)
        if turn:
            await extension.write(delete_instance, f"shield {turn - 1}")
        await extension.write(remove_value, SWORD, f"key {turn}")
        await extension.write(compact, Keep(revisions=turn))

        recount(tmp_path / "demo.db")
