from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.databases import select
from valuetracker.engine.data_directory import DataDirectory
from valuetracker.engine.sqlite import SQLiteEngine
from valuetracker.errors import RegistryUnusable, StartupError
from valuetracker.runtime.registry import TABLES as REGISTRY_TABLES
from valuetracker.runtime.registry import Record, Registry
from valuetracker.store.tx.ledger import ledgers
from valuetracker.store.verification import TABLES

AT = "2026-01-01T00:00:00.000Z"
DEMO = Record("Demo", "Demo.db", "1" * 32, 0, True, AT)
OTHER = Record("other", "other.db", "2" * 32, 5, True, AT)


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SQLiteEngine]:
    engine = SQLiteEngine(DataDirectory(tmp_path), ledgers, 1, TABLES, REGISTRY_TABLES)
    yield engine
    await engine.stop()


async def load(engine: SQLiteEngine) -> Registry:
    registry = Registry(await engine.start(AT))
    await registry.load()
    return registry


async def test_a_new_directory_has_an_empty_registry(engine: SQLiteEngine) -> None:
    registry = await load(engine)

    assert registry.list_registered() == []
    assert registry.find("Demo") is None
    await registry.close()


async def test_a_saved_extension_is_loaded_after_a_restart(engine: SQLiteEngine) -> None:
    registry = await load(engine)
    await registry.save(OTHER)
    await registry.save(DEMO)
    await registry.close()

    registry = await load(engine)

    assert registry.find("Demo") == DEMO
    assert registry.list_registered() == [DEMO, OTHER]
    assert list(registry.others("Demo")) == [OTHER]
    await registry.close()


async def test_a_deregistered_extension_is_remembered_but_not_registered(
    engine: SQLiteEngine,
) -> None:
    registry = await load(engine)
    deregistered = replace(DEMO, location=None, identity=None, revision=7, registered=False)
    await registry.save(DEMO)
    await registry.save(deregistered)
    await registry.close()

    registry = await load(engine)

    assert registry.find("Demo") == deregistered
    assert registry.find_registered("Demo") is None
    assert registry.list_registered() == []
    await registry.close()


async def test_saved_numbers_never_decrease(engine: SQLiteEngine, tmp_path: Path) -> None:
    registry = await load(engine)
    await registry.save(OTHER)

    await registry.save_numbers("other", 9, 0)
    await registry.save_numbers("other", 3, 2)
    await registry.save_numbers("other", 3, 1)
    await registry.save_numbers("nobody", 3, 1)

    found = registry.find("other")
    assert found is not None
    assert (found.revision, found.incarnation) == (9, 2)
    await registry.close()
    saved = select(tmp_path / ".registry.db", "SELECT id, revision, incarnation FROM extensions")
    assert saved == [("other", 9, 2)]


async def test_a_new_registry_is_not_put_beside_the_log_of_a_lost_one(
    engine: SQLiteEngine, tmp_path: Path
) -> None:
    registry = await load(engine)
    await registry.save(DEMO)
    log = (tmp_path / ".registry.db-wal").read_bytes()
    await registry.close()
    (tmp_path / ".registry.db").unlink()
    (tmp_path / ".registry.db-wal").write_bytes(log)

    registry = await load(engine)

    assert registry.list_registered() == []
    (kept,) = tmp_path.glob(".registry.db-wal.left-*")
    assert kept.read_bytes() == log
    await registry.close()


async def test_ids_are_found_in_their_exact_case_only(engine: SQLiteEngine) -> None:
    registry = await load(engine)
    await registry.save(DEMO)

    assert registry.find("demo") is None
    assert registry.find_registered("DEMO") is None
    await registry.close()


@pytest.mark.parametrize("content", [b"", b"words", b"SQLite format 3\x00" + b"\x00" * 4096])
async def test_a_damaged_registry_stops_the_start_and_is_not_changed(
    engine: SQLiteEngine, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / ".registry.db"
    file.write_bytes(content)

    with pytest.raises(RegistryUnusable, match="registry") as failure:
        await engine.start(AT)

    assert file.read_bytes() == content
    assert failure.value.hint


async def test_a_registry_from_before_the_first_release_stops_the_start_by_name(
    engine: SQLiteEngine, tmp_path: Path
) -> None:
    file = tmp_path / ".registry.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE extensions (id TEXT)")
        connection.execute("PRAGMA application_id = 0x56544B52")
    content = file.read_bytes()

    with pytest.raises(RegistryUnusable, match="before the first release"):
        await engine.start(AT)

    assert file.read_bytes() == content


async def test_a_failed_start_releases_the_directory(engine: SQLiteEngine, tmp_path: Path) -> None:
    (tmp_path / ".registry.db").write_bytes(b"words")
    with pytest.raises(StartupError):
        await engine.start(AT)

    directory = DataDirectory(tmp_path)
    directory.lock()
    directory.unlock()


@pytest.mark.parametrize(
    "harm",
    [
        "id = 'OTHER'",
        "location = 'elsewhere.db'",
        "identity = NULL",
        "revision = 4",
        "registered = 0",
        "registered_at = ''",
    ],
)
async def test_a_row_of_the_registry_that_was_changed_stops_the_start(
    engine: SQLiteEngine, tmp_path: Path, harm: str
) -> None:
    registry = await load(engine)
    await registry.save(OTHER)
    await registry.close()
    with closing(sqlite3.connect(tmp_path / ".registry.db")) as connection:
        connection.execute(f"UPDATE extensions SET {harm}")
        connection.commit()

    with pytest.raises(RegistryUnusable, match="table extensions has a damaged row"):
        await engine.start(AT)


async def test_two_ids_that_differ_only_in_case_cannot_both_be_saved(engine: SQLiteEngine) -> None:
    registry = await load(engine)
    await registry.save(DEMO)

    with pytest.raises(sqlite3.IntegrityError):
        await registry.save(replace(DEMO, id="DEMO", location="another.db"))

    await registry.close()
