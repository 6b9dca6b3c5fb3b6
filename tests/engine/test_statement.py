from __future__ import annotations

import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest

from valuetracker.engine.statement import Statement


def test_names_become_numbers_in_the_order_of_their_first_use() -> None:
    statement = Statement("SELECT :second_one, :a, :second_one")

    assert statement.names == ("second_one", "a")
    assert statement.sqlite == "SELECT ?1, ?2, ?1"
    assert statement.postgres == "SELECT $1, $2, $1"


def test_a_cast_is_not_a_parameter() -> None:
    statement = Statement("SELECT :a", "SELECT :a::text, now()::date")

    assert statement.names == ("a",)
    assert statement.postgres == "SELECT $1::text, now()::date"


def test_another_text_for_postgres_uses_the_same_numbers() -> None:
    statement = Statement("SELECT :a, :b", "SELECT :b, :a")

    assert statement.sqlite == "SELECT ?1, ?2"
    assert statement.postgres == "SELECT $2, $1"


def test_a_name_only_postgres_uses_is_refused_at_once() -> None:
    with pytest.raises(KeyError, match="b"):
        Statement("SELECT :a", "SELECT :b")


def test_blanks_around_a_text_are_cut() -> None:
    assert Statement("\n    SELECT 1\n    ").sqlite == "SELECT 1"


def test_values_come_in_the_order_of_the_numbers() -> None:
    statement = Statement("SELECT :b, :a")

    assert statement.values({"a": 1, "b": 2, "c": 3}) == (2, 1)


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(KeyError, match="b"):
        Statement("SELECT :a, :b").values({"a": 1})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", ()),
        ("SELECT :a", ("x",)),
        ("SELECT :b, :a", ("y", "x")),
    ],
)
def test_a_row_gives_a_tuple_however_many_its_names(text: str, expected: tuple[str, ...]) -> None:
    assert Statement(text).of_row(SimpleNamespace(a="x", b="y")) == expected


def test_sqlite_understands_the_numbers() -> None:
    statement = Statement("SELECT :b || :a || :b")

    with closing(sqlite3.connect(":memory:")) as connection:
        found = connection.execute(statement.sqlite, statement.values({"a": "-", "b": "x"}))

        assert found.fetchone() == ("x-x",)
