from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows import (
    ChangeRow,
    CharacterRow,
    DataRow,
    Head,
    InstanceRow,
    RevisionRow,
    values_record,
)

AT = "2026-01-01T00:00:00.000Z"
ROWS: list[Any] = [
    Head(9, 8, 7, 6, 5, 4, 3, 2, identity="0123456789abcdef"),
    CharacterRow(1, 11, "Seraphina.png", "Seraphina", AT, AT, 1, 7),
    InstanceRow(2, 12, "run", "Seraphina.png", "chat", "Run", AT, AT, 7, 1, 12345),
    DataRow(3, 13, "run", "hp", "50", 7),
    RevisionRow(7, AT, "user", 4, 2),
]
# A change that has everything, and one of a value without an anchor.
ANCHORED = ChangeRow(
    *(5, 7, 3, "merge", '{"a":1}', "50", 13, "parent", "chat", "m1", "0", 1, 1, 0),
    *("data", "run", "hp"),
)
PLAIN = replace(ANCHORED, parent=None, chat_id=None, message_id=None, swipe=None, operand=None)
COLUMNS = [
    (row, each.name)
    for row in (*ROWS, ANCHORED, PLAIN)
    for each in fields(row)
    # A swipe is one of a message: without that, it says nothing.
    if each.name != "checksum" and (row is not PLAIN or each.name != "swipe")
]


def name_of(case: Any) -> str:
    return type(case).__name__ if not isinstance(case, str) else case


def altered(value: Any) -> list[Any]:
    """Values that one flipped bit, or a lost column, could make of this one."""
    if value is None:
        return ["", "x", "null"]
    if isinstance(value, int):
        return [value ^ (1 << bit) for bit in (0, 1, 7, 31)]
    return [None, "", value + "\0", *(_flipped(value, place) for place in range(len(value)))]


def _flipped(text: str, place: int) -> str:
    return text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]


@pytest.mark.parametrize(("row", "column"), COLUMNS, ids=name_of)
def test_every_column_is_under_the_checksum(row: Any, column: str) -> None:
    sealed = replace(row)
    sealed.seal()

    for value in altered(getattr(row, column)):
        other = replace(sealed, **{column: value})
        other.seal()

        assert other.checksum != sealed.checksum, value


@pytest.mark.parametrize("row", [*ROWS, ANCHORED], ids=name_of)
def test_a_sealed_row_verifies_and_an_altered_one_does_not(row: Any) -> None:
    sealed = replace(row)
    sealed.seal()

    assert sealed.verify() is sealed
    for each in fields(row):
        for value in altered(getattr(sealed, each.name)):
            with pytest.raises(DatabaseDamaged):
                replace(sealed, **{each.name: value}).verify()


@pytest.mark.parametrize("row", [CharacterRow(1, 1, "a", None, AT, AT), ROWS[2]], ids=name_of)
def test_a_name_that_is_missing_is_not_one_that_is_empty_or_called_none(row: Any) -> None:
    sums = set()
    for name in (None, "", "None", "null"):
        other = replace(row, name=name)
        other.seal()
        sums.add(other.checksum)

    assert len(sums) == 4


@given(st.lists(st.text(), min_size=2, max_size=2), st.lists(st.text(), min_size=2, max_size=2))
def test_text_that_moves_from_one_column_to_the_next_is_noticed(
    one: list[str], other: list[str]
) -> None:
    first = CharacterRow(1, 1, one[0], one[1], AT, AT)
    second = CharacterRow(1, 1, other[0], other[1], AT, AT)
    first.seal()
    second.seal()

    assert (first.checksum == second.checksum) == (one == other)


def test_a_missing_after_is_not_an_empty_one() -> None:
    gone, empty = replace(PLAIN, after=None), replace(PLAIN, after="")
    gone.seal()
    empty.seal()

    assert gone.checksum != empty.checksum


def make_values(*pairs: tuple[str, str]) -> list[DataRow]:
    values = [DataRow(place, place, "run", key, text, 1) for place, (key, text) in enumerate(pairs)]
    for value in values:
        value.seal()
    return values


def test_an_instance_knows_its_values() -> None:
    values = make_values(("a", "1"), ("b", "2"), ("c", "3"))
    digest = values[0].checksum ^ values[1].checksum ^ values[2].checksum
    instance = replace(ROWS[2], keys=3, digest=digest)

    instance.verify_values(values)

    for wrong in (values[:2], values[1:], [], [*values, values[0]], [*values[:2], values[1]]):
        with pytest.raises(DatabaseDamaged):
            instance.verify_values(wrong)


def test_records_are_what_the_api_answers() -> None:
    assert ROWS[1].record() == {
        "id": "Seraphina.png",
        "name": "Seraphina",
        "createdAt": AT,
        "updatedAt": AT,
    }
    assert ROWS[2].record() == {
        "id": "run",
        "characterId": "Seraphina.png",
        "name": "Run",
        "chatId": "chat",
        "createdAt": AT,
        "updatedAt": AT,
    }
    assert orjson.loads(ROWS[2].text()) == ROWS[2].record()


def test_values_are_spliced_in_as_they_are_stored() -> None:
    values = make_values(("b", '{"z":1,"a":18446744073709551615}'), ("a", "null"))

    assert orjson.dumps(values_record(values)) == (
        b'{"b":{"z":1,"a":18446744073709551615},"a":null}'
    )
