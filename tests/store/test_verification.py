"""Every table has rows with a checksum, which are verified when a file is opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from valuetracker.engine import TableCheck
from valuetracker.engine.migrations import load_migrations, migrate, migrations_directory
from valuetracker.failpoints import Failpoint
from valuetracker.runtime.registry import TABLES as REGISTRY_TABLES
from valuetracker.store.verification import TABLES


def tables_of(folder: str) -> set[str]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, load_migrations(migrations_directory() / folder), Failpoint(None))
        found = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        return {name for (name,) in found}


@pytest.mark.parametrize(
    ("folder", "tables", "module"),
    [
        ("sqlite", TABLES, "valuetracker/store/verification.py"),
        ("sqlite/registry", REGISTRY_TABLES, "valuetracker/runtime/registry.py"),
    ],
    ids=["extension", "registry"],
)
def test_the_rows_of_every_table_are_verified(
    folder: str, tables: Mapping[str, TableCheck], module: str
) -> None:
    # The engine itself verifies the table `file`.
    existing = tables_of(folder) - {"file"}

    assert existing - set(tables) == set(), (
        "Nobody would notice a damaged row of these tables. Give each a column `checksum` in the "
        f"migrations of both engines and a row class, a subclass of Row, and name that in {module}."
    )
    assert set(tables) - existing == set(), f"{module} names tables that no migration makes."
