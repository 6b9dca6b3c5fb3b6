from __future__ import annotations

import re
from dataclasses import astuple, fields, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.characters import CharacterRow, MemberRow
from valuetracker.store.rows.chats import AliasRow, ChatRow, SessionRow
from valuetracker.store.rows.checkpoints import CheckpointRow
from valuetracker.store.rows.claims import ClaimRow
from valuetracker.store.rows.entries import (
    EntryRow,
    KeyframeRow,
    decode_changes,
    encode_change,
    left_out,
)
from valuetracker.store.rows.head import Head
from valuetracker.store.rows.holders import AdoptedRow, DataRow, HolderRow, values_record
from valuetracker.store.rows.operations import OperationRow
from valuetracker.store.rows.places import FlipRow, PlaceRow
from valuetracker.store.rows.row import Row
from valuetracker.store.tx.idempotency import RequestRow

AT = "2026-01-01T00:00:00.000Z"
ROWS: list[Any] = [
    Head(9, 8, 7, 6, 5, 4, 3, 2, identity="0123456789abcdef"),
    CharacterRow(1, 11, "Seraphina.png", "Seraphina", AT, AT, 0, 7, 8),
    HolderRow(2, 12, "instance", "run", "Seraphina.png", 4, "Run", "older", AT, AT, 0, 3, 5),
    DataRow(2, "hp", "50", 13, 7 << 24, 8 << 24, 1, 5),
    ChatRow(4, 14, "chat", 3, "branch", AT, AT, AT, 0, 3, 6, 7, 8, 1),
    PlaceRow(5, 4, "m1", "0", 6, 2, 1, 7, "hash"),
    FlipRow(5, 7, 2, 1),
    AliasRow("old chat", 4),
    EntryRow(
        7 << 24, 2, 1767225600000, "user", 4, 5, 6, 1, 0, 0, 1 << 24, "hp\x1f\x1f1\x1f13\x1f50"
    ),
    KeyframeRow(2, 7 << 24, "hp\x1f0"),
    AdoptedRow(2, "hp", "50"),
    MemberRow(1, 2),
    SessionRow("session", 4, "tab", AT),
    ClaimRow(4, "scenes/m1", 86400000, 1000),
]
# The same rows with None for everything that may be missing.
BARE: list[Any] = [
    CharacterRow(1, 11, "Seraphina.png", None, AT, AT, 0, 7, 8),
    HolderRow(2, 12, "chat", "4", None, None, None, None, AT, AT),
    DataRow(2, "hp", None, 0, 7 << 24, 8 << 24, 1),
    ChatRow(4, 14, "chat", None, None, AT, AT),
    PlaceRow(5, 4, "m1", "0", 6, 2, 0),
    FlipRow(5, 7, 2, 0),
    EntryRow(7 << 24, 2, 1767225600000, None, None, None, None, 1, 0, 0, 0, ""),
]
# Fields that are no columns: the names shown with an entry are in other rows, under their
# checksums, and a part of a checksum is computed with the row.
BESIDE: dict[type, set[str]] = {
    EntryRow: {
        "space",
        "id",
        "chat_id",
        "anchor",
        "known",
        "taken",
        "_logged",
        "_indexes",
    },
    DataRow: {"content"},
    # The account of a holder is a row of its own.
    HolderRow: {"revision", "last_entry", "changes_since_keyframe", "keys", "digest"},
}


MIGRATIONS = Path(__file__).parent.parent.parent / "migrations"
ROW_CLASSES: list[type[Row]] = [
    *dict.fromkeys(type(row) for row in ROWS),
    *(CheckpointRow, OperationRow, RequestRow),
]


def migrated_columns(engine: str, table: str) -> set[str]:
    """Return the columns that the migrations of an engine give a table."""
    name = rf"(?:\{{schema\}}\.)?{table}"
    found: set[str] = set()
    for path in sorted((MIGRATIONS / engine).glob("*.sql")):
        text = path.read_text(encoding="utf-8")
        for created in re.findall(rf"CREATE TABLE {name} \((.*?)\n\)", text, re.DOTALL):
            found |= set(re.findall(r"^ {4}([a-z_]+) ", created, re.MULTILINE))
        found |= set(re.findall(rf"ALTER TABLE {name} ADD COLUMN ([a-z_]+) ", text))
    return found


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@pytest.mark.parametrize("row", ROW_CLASSES, ids=lambda each: each.__name__)
def test_a_row_class_has_the_columns_of_its_table(row: type[Row], engine: str) -> None:
    columns = migrated_columns(engine, row.table)

    assert set(row.columns) - columns == set(), (
        f"{row.__name__} has columns that the table {row.table!r} does not have. Add them to "
        f"migrations/{engine}/, with a sentence that says what they are for."
    )
    assert columns - set(row.columns) == set(), (
        f"The table {row.table!r} of migrations/{engine}/ has columns that {row.__name__} does "
        f"not have. Add them to the class in {row.__module__}, before `checksum`."
    )


def columns_of(row: Any) -> list[str]:
    beside = BESIDE.get(type(row), set())
    return [each.name for each in fields(row) if each.name not in beside]


COLUMNS = [(row, name) for row in (*ROWS, *BARE) for name in columns_of(row) if name != "checksum"]


def name_of(case: Any) -> str:
    return type(case).__name__ if not isinstance(case, str) else case


def altered(value: Any) -> list[Any]:
    """Return the values that one flipped bit, or a lost column, could make of this one."""
    if value is None:
        return ["", "x", "null"]
    if isinstance(value, int):
        return [value ^ (1 << bit) for bit in (0, 1, 7, 31)]
    flipped = [_flipped(value, place) for place in range(len(value))]
    return [None, value + "\0", *([""] if value else []), *flipped]


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


@pytest.mark.parametrize("row", [*ROWS, *BARE], ids=name_of)
def test_a_sealed_row_verifies_and_an_altered_one_does_not(row: Any) -> None:
    sealed = replace(row)
    sealed.seal()

    assert sealed.verify() is sealed
    for name in columns_of(row):
        for value in altered(getattr(sealed, name)):
            with pytest.raises(DatabaseDamaged):
                replace(sealed, **{name: value}).verify()


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_a_number_that_has_become_something_else_is_noticed(row: Any) -> None:
    sealed = replace(row)
    sealed.seal()

    for name in columns_of(row):
        if isinstance(getattr(sealed, name), int):
            for value in (b"\x07", b"", 7.5, None):
                with pytest.raises(DatabaseDamaged):
                    replace(sealed, **{name: value}).verify()


def test_a_valid_row_that_is_not_the_one_asked_for_is_noticed() -> None:
    row = replace(ROWS[1])
    row.seal()

    assert row.verify_as(id="Seraphina.png", number=1) is row
    with pytest.raises(DatabaseDamaged):
        row.verify_as(id="Serapiona.png")


@pytest.mark.parametrize("row", [CharacterRow(1, 1, "a", None, AT, AT), ROWS[2]], ids=name_of)
def test_the_checksum_distinguishes_a_missing_name_an_empty_one_and_none_as_text(row: Any) -> None:
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


def test_the_checksum_distinguishes_a_missing_value_an_empty_one_and_null() -> None:
    sums = set()
    for value in (None, "", "null", '"None"'):
        row = replace(ROWS[3], value=value)
        row.seal()
        sums.add(row.checksum)

    assert len(sums) == 4


# Any text that an adopted file may hold; NUL is never accepted.
KEYS = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | KEYS, st.lists, max_leaves=5
).map(lambda value: orjson.dumps(value).decode())
RECORDS = st.lists(
    st.tuples(
        KEYS,
        st.sampled_from(["set", "merge", "create_instance"]),
        st.integers(0, 2**39),
        st.integers(0, 2**62),
        st.none() | JSON,
        st.none() | JSON,
    ),
    min_size=1,
)


@given(st.integers(0, 2**40), RECORDS)
def test_changes_are_read_from_an_entry_as_they_were_written(
    entry: int, records: list[Any]
) -> None:
    text = "\x1e".join(encode_change(entry, *record) for record in records)

    found = decode_changes(entry, text)

    whole = [(*record, 0, 0) for record in records]
    assert [tuple(getattr(each, f.name) for f in fields(each)) for each in found] == whole
    assert decode_changes(entry, "") == []


def test_a_change_may_leave_its_value_out() -> None:
    text = encode_change(7, "bag", "append", 5, 3, left_out(2, 4096), '"rope"')

    [change] = decode_changes(7, text)

    assert (change.is_left_out, change.since_whole, change.size) == (True, 2, 4096)
    with pytest.raises(RuntimeError):
        assert change.after
    change.held = '["rope"]'
    assert (change.is_left_out, change.after) == (False, '["rope"]')


@given(st.dictionaries(KEYS, st.integers(1, 2**40)))
def test_a_keyframe_is_read_as_it_was_written(entries: dict[str, int]) -> None:
    frame = KeyframeRow.of(1, 7 << 24, entries.items())

    assert frame.verify().entries() == entries


def make_values(*pairs: tuple[str, str]) -> list[DataRow]:
    values = [DataRow(2, key, text, place, 1, 0, 0) for place, (key, text) in enumerate(pairs)]
    for value in values:
        value.seal()
    return values


def test_a_holder_is_read_with_its_account_as_both_were_written() -> None:
    holder = replace(
        ROWS[2], revision=9, last_entry=9 << 24, changes_since_keyframe=5, keys=3, digest=12345
    )
    holder.seal()
    account = holder.account()
    stored = (*astuple(holder)[: len(HolderRow.columns)], *astuple(account)[:-1])

    assert HolderRow.of(stored) == holder
    for index, value in ((2, "10 5 3 12345"), (4, 8 << 24), (0, 3), (1, "x"), (0, None)):
        damaged = list(stored)
        damaged[len(HolderRow.columns) + index] = value
        with pytest.raises(DatabaseDamaged):
            HolderRow.of(tuple(damaged))


def test_the_checksum_of_a_value_alone_leaves_out_when_it_was_written() -> None:
    (value,) = make_values(("a", "1"))

    for change, same in (
        ({"entry": 8 << 24, "dormant_entry": 9 << 24}, True),
        ({"key": "b"}, False),
        ({"value": "2"}, False),
        ({"holder": 3}, False),
    ):
        other = replace(value, **change)
        other.seal()
        assert (other.content == value.content) == same


def test_rows_become_the_records_that_the_api_answers() -> None:
    assert ROWS[1].record() == {
        "id": "Seraphina.png",
        "name": "Seraphina",
        "createdAt": AT,
        "updatedAt": AT,
    }
    assert orjson.loads(ROWS[1].text()) == ROWS[1].record()


def test_the_log_keeps_the_fields_of_an_instance_or_a_chat() -> None:
    assert orjson.loads(ROWS[2].text()) == {
        "id": "run",
        "characterId": "Seraphina.png",
        "name": "Run",
        # By its number, because the id of a chat may change.
        "chat": 4,
        "origin": "older",
        "createdAt": AT,
        "updatedAt": AT,
    }
    assert orjson.loads(ROWS[4].text()) == {"id": "chat", "archived": True, "createdAt": AT}


def test_values_are_answered_as_they_are_stored() -> None:
    values = make_values(("b", '{"z":1,"a":18446744073709551615}'), ("a", "null"))

    assert orjson.dumps(values_record(values)) == (
        b'{"b":{"z":1,"a":18446744073709551615},"a":null}'
    )
