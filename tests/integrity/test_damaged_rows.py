"""A damaged row of any table is found when the file is opened, whichever column is damaged."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.conftest import running_server
from tests.integrity.populated import Populated, populate, read
from tests.integrity.story import reads_of_story, write_story
from tests.support.databases import SCHEMA
from valuetracker.engine.sqlite_verification import verify_file
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.rows.holders import AdoptedRow
from valuetracker.store.rows.row import insert
from valuetracker.store.verification import TABLES


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Populated:
    return populate(tmp_path_factory.mktemp("story") / "db", write_story, reads_of_story)


@pytest.fixture
def file(story: Populated, tmp_path: Path) -> Path:
    """A file with rows in every table."""
    path = tmp_path / "demo.db"
    path.write_bytes(story.good)
    row = AdoptedRow(1, "key", "1")
    row.seal()
    with closing(sqlite3.connect(path)) as connection, connection:
        statement = insert(AdoptedRow)
        connection.execute(statement.sqlite, statement.of_row(row))
    return path


def damages(file: Path, table: str) -> list[str]:
    """Return a statement for each column of a table that changes it in the rows that sort last."""
    with closing(sqlite3.connect(file)) as connection:
        columns = connection.execute(f"SELECT name, type FROM pragma_table_info('{table}')")
        return [
            f"UPDATE {table} SET {name} = coalesce({name} {'|| 1' if kind == 'TEXT' else '+ 1'}, 1)"
            f" WHERE {name} IS (SELECT {name} FROM {table} ORDER BY 1 DESC LIMIT 1)"
            for name, kind in columns
        ]


@pytest.mark.parametrize("table", ["file", *TABLES])
def test_a_damaged_row_is_found_by_its_checksum(file: Path, table: str) -> None:
    verify_file(file, SCHEMA)
    good = file.read_bytes()

    for statement in damages(file, table):
        file.write_bytes(good)
        with closing(sqlite3.connect(file)) as connection, connection:
            assert connection.execute(statement).rowcount > 0

        with pytest.raises(DatabaseDamaged) as found:
            verify_file(file, SCHEMA)

        assert f"table {table}" in found.value.message, statement


def test_the_log_says_which_row_is_damaged_and_others_are_served(
    story: Populated, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data_dir = story.copy(tmp_path / "db")
    with closing(sqlite3.connect(data_dir / "demo.db")) as connection, connection:
        connection.execute("UPDATE claims SET since = since + 1")

    with (
        running_server(data_dir) as server,
        server.client("demo") as client,
        server.client("twin") as other,
    ):
        status, body = read(client, "/characters")
        unharmed = read(other, "/characters")

    assert (status, body["code"]) == (503, "database_damaged")
    assert unharmed == story.other
    (entry,) = [each for each in caplog.records if each.name.endswith("sqlite_database")]
    assert entry.getMessage().startswith("The table claims has a damaged row: (")
    assert vars(entry)["file"] == str(data_dir / "demo.db")
