"""The contract of both engines: values are read as written, and damage is detected."""

from __future__ import annotations

import random
from typing import Any

import orjson
import pytest

from tests.support.databases import write
from tests.support.engines import Bench, read, revision_of
from valuetracker.engine import Database, Transaction
from valuetracker.engine.statement import Statement
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.characters import get_character, list_characters, put_character
from valuetracker.store.data import find_value, list_values, merge_values, set_value
from valuetracker.store.instances import get_instance, list_instances, put_instance
from valuetracker.store.rows.head import load_head
from valuetracker.store.rows.numbers import first_of
from valuetracker.store.rows.spaces import instance
from valuetracker.store.tx.changes import UpdateHead
from valuetracker.store.tx.ledger import Ledger
from valuetracker.store.tx.log_writer import FRAME_CHANGES

TARGET = instance("i")
OTHER = instance("j")

# Texts that a driver or a database might change.
TEXTS = [
    "1",
    "1.0",
    "1e2",
    "-0.0",
    "-9223372036854775808",
    "18446744073709551615",
    "null",
    "true",
    '""',
    '"5"',
    '{"b":1,"a":2,"":3,"__proto__":{"z":null,"y":[]}}',
    r'"a\u0000b"',
    r'{"\u0000":"\u0000"}',
    '"\u007f\u0085\u2028\ufeff\uffff"',
    '"\U0001f600\U0010ffff"',
    '"$1 :name ? %s {schema} \\\\ \' ; --"',
    "[" * 128 + "]" * 128,
]


def random_text(length: int, first: int, last: int) -> str:
    """Return text that cannot be compressed."""
    chance = random.Random(7)
    return "".join(chr(chance.randrange(first, last)) for _ in range(length))


async def test_every_value_is_read_exactly_as_it_was_written(
    bench: Bench, database: Database
) -> None:
    await write(database, put_instance, "i", "c", None)
    values = {f"key {number}": text for number, text in enumerate(TEXTS)}
    await write(database, merge_values, TARGET, values)
    body = "{" + ",".join(f'"{key}":{text}' for key, text in values.items()) + "}"

    everything = await read(database, list_values, TARGET)
    then = await read(database, list_values, TARGET, 2)

    assert orjson.dumps(everything).decode() == body
    assert orjson.dumps(then).decode() == body
    for key, text in values.items():
        one = await read(database, find_value, TARGET, key)
        assert orjson.dumps(one).decode() == f'{{"{key}":{text}}}'
    assert (await bench.recount())["data"]["i"] == values


@pytest.mark.parametrize(("first", "last"), [(0x61, 0x7B), (0x10000, 0x10FFFF)])
async def test_the_longest_ids_and_keys_are_stored_completely(
    bench: Bench, database: Database, first: int, last: int
) -> None:
    id, character = random_text(256, first, last), random_text(256, first, last)[::-1]
    chat, key = random_text(512, first, last), random_text(1024, first, last)

    await write(database, put_instance, id, character, random_text(256, first, last), chat)
    await write(database, set_value, instance(id), key, "1")

    assert orjson.loads(orjson.dumps(await read(database, list_values, instance(id)))) == {key: 1}
    (found,) = await read(database, list_instances, None, chat)
    assert (found["id"], found["characterId"], found["chatId"]) == (id, character, chat)
    assert (await bench.recount())["data"] == {id: {key: "1"}}


async def test_names_are_compared_and_ordered_byte_by_byte(
    bench: Bench, database: Database
) -> None:
    keys = [
        *("a", "A", "b", "B", "aa", "a b", "a-b", "a_b", "ab", "10", "9", "_", "~"),
        # Letters that look alike; an i without a dot; a character beyond the first plane.
        *("\xe4", "a\u0308", "i", "\u0131", "I", "\u0130", "\uffff", "\U0001f600", "\xdf", "ss"),
    ]
    await write(database, put_instance, "i", "c", None)
    for key in keys:
        await write(database, set_value, TARGET, key, orjson.dumps(key).decode())

    async def ordered(transaction: Transaction) -> list[str]:
        rows = await transaction.fetch_all(
            Statement("SELECT key FROM {schema}.data WHERE key >= :least ORDER BY key"), least="A"
        )
        return [key for (key,) in rows]

    found = orjson.loads(orjson.dumps(await read(database, list_values, TARGET)))
    assert list(found.items()) == [(key, key) for key in keys]
    binary = sorted((key for key in keys if key.encode() >= b"A"), key=str.encode)
    assert await database.read(ordered) == binary


async def test_very_large_numbers_work(bench: Bench) -> None:
    # The numbers of entries are those of revisions, shifted to the left.
    far, late = 2**62, 2**38

    async def leap(tx: Ledger) -> None:
        head = await tx.load_head()
        head.ordinal = head.number = far
        await tx.apply([UpdateHead(revision=late + 5)])

    async with bench.opened(await bench.create(revision=late)) as database:
        assert await revision_of(database) == late
        await write(database, leap)
        written = await write(database, put_instance, "i", "c", None)
        await write(database, set_value, TARGET, "k", "1")

        assert written.revision == late + 6
        head = await database.read(load_head)
        assert (head.revision, head.ordinal, head.number) == (late + 7, far + 3, far + 2)
        assert await read(database, find_value, TARGET, "k", late + 6) == {}
        assert orjson.dumps(await read(database, find_value, TARGET, "k", late + 7)) == b'{"k":1}'
    found = await bench.outside("SELECT holder, ordinal, entry FROM {}.data WHERE key = 'k'")
    assert found == [(far + 2, far + 3, first_of(late + 7))]


# Damage


async def populate(database: Database) -> None:
    await write(database, put_instance, "i", "c", "name", "chat")
    await write(database, put_instance, "j", "c", None)
    await write(database, put_character, "d", None)
    await write(database, merge_values, TARGET, {"a": "1", "b": "2"})


HARMS: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("UPDATE {}.data SET value = '9' WHERE key = 'a'", find_value, (TARGET, "a")),
    ("UPDATE {}.data SET value = '9' WHERE key = 'a'", list_values, (TARGET,)),
    ("UPDATE {}.data SET key = 'x' WHERE key = 'a'", list_values, (TARGET,)),
    (
        "UPDATE {}.data SET holder = (SELECT number FROM {}.instances WHERE id = 'j')"
        " WHERE key = 'a'",
        list_values,
        (OTHER,),
    ),
    ("DELETE FROM {}.data WHERE key = ''", list_values, (TARGET,)),
    ("UPDATE {}.entries SET changes = replace(changes, '1', '9')", find_value, (TARGET, "a", 4)),
    ("UPDATE {}.instances SET name = 'x' WHERE id = 'i'", get_instance, ("i",)),
    ("UPDATE {}.instances SET chat = 1000 WHERE id = 'i'", list_instances, (None, "chat")),
    ("UPDATE {}.chats SET id = 'x' WHERE id = 'chat'", list_instances, ()),
    ("DELETE FROM {}.chats", list_instances, ()),
    ("UPDATE {}.characters SET name = 'x' WHERE id = 'd'", get_character, ("d",)),
    ("UPDATE {}.head SET revision = 3", list_characters, ()),
    ("DELETE FROM {}.head", list_characters, ()),
    ("UPDATE {}.file SET identity = 'another'", list_characters, ()),
    ("DELETE FROM {}.file", list_characters, ()),
    ("DROP VIEW {}.instance_values; DROP TABLE {}.data", list_values, (TARGET,)),
    ("DROP TABLE {}.head", list_characters, ()),
    ("ALTER TABLE {}.characters DROP COLUMN name", list_characters, ()),
]


@pytest.mark.parametrize(
    ("harm", "verb", "arguments"), HARMS, ids=lambda each: getattr(each, "__name__", str(each))
)
async def test_a_row_changed_by_another_program_is_reported_as_damage(
    bench: Bench, harm: str, verb: Any, arguments: tuple[Any, ...]
) -> None:
    identity = await bench.create()
    async with bench.opened(identity) as database:
        await populate(database)
    for statement in harm.split(";"):
        await bench.outside(statement)

    async def open_and_read() -> Any:
        async with bench.opened(identity) as database:
            return await read(database, verb, *arguments)

    with pytest.raises(DatabaseDamaged):
        await open_and_read()


async def test_a_wrong_keyframe_is_reported_as_damage(bench: Bench, database: Database) -> None:
    await populate(database)
    await write(database, merge_values, OTHER, {f"key {n}": "1" for n in range(FRAME_CHANGES)})
    await write(database, set_value, OTHER, "more", "2")
    assert len(await read(database, list_values, OTHER, 6)) == FRAME_CHANGES + 1

    await bench.outside("UPDATE {}.keyframes SET keys = replace(keys, 'key 7', 'key 8')")

    with pytest.raises(DatabaseDamaged):
        await read(database, list_values, OTHER, 6)
    assert len(await read(database, list_values, OTHER)) == FRAME_CHANGES + 1


@pytest.mark.parametrize(
    "harm",
    [
        "DROP VIEW {}.instance_values; DROP TABLE {}.data",
        "ALTER TABLE {}.data DROP COLUMN anchored",
    ],
)
async def test_a_table_lost_while_in_use_is_damage_and_makes_the_database_suspect(
    bench: Bench, database: Database, harm: str
) -> None:
    await populate(database)
    await read(database, list_values, TARGET)

    for statement in harm.split(";"):
        await bench.outside(statement)

    with pytest.raises(DatabaseDamaged):
        await read(database, list_values, TARGET)
    with pytest.raises(DatabaseDamaged):
        await write(database, set_value, OTHER, "new", "1")
    assert database.suspect


async def test_one_damaged_row_does_not_affect_unrelated_requests(
    bench: Bench, database: Database
) -> None:
    await populate(database)

    await bench.outside("UPDATE {}.data SET value = '9' WHERE key = 'a'")

    with pytest.raises(DatabaseDamaged):
        await read(database, list_values, TARGET)
    assert await read(database, list_values, OTHER) == {}
    assert (await write(database, set_value, OTHER, "new", "1")).revision == 5
    assert not database.suspect


async def test_another_identity_than_the_registered_one_is_refused(bench: Bench) -> None:
    await bench.create()

    with pytest.raises(DatabaseDamaged, match="not the one that was registered"):
        await bench.engine.open(bench.location(), "f" * 32)


async def test_a_missing_database_is_damage_and_is_not_created_again(bench: Bench) -> None:
    identity = await bench.create()
    if bench.is_sqlite:
        (bench.folder / bench.location()).unlink()
    else:
        await bench.outside("DROP SCHEMA {} CASCADE")

    with pytest.raises(DatabaseDamaged, match="missing"):
        await bench.engine.open(bench.location(), identity)
    with pytest.raises(DatabaseDamaged, match="missing"):
        await bench.engine.identity(bench.location())

    assert not await bench.engine.exists(bench.location())
