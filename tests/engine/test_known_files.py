"""A file that this process closed a short while ago, and nobody changed, is not verified again."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.databases import IDENTITY, SCHEMA, make_file, write
from valuetracker.engine import Row, TableCheck
from valuetracker.engine.known_files import SOUND_SECONDS, KnownFiles, stamp_of
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.characters import put_character


class Counting:
    """Opens a file again and again, and counts how often its rows are verified."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = KnownFiles()
        self.verified = 0
        head = SCHEMA.tables["head"]

        def verify(row: Row) -> object:
            self.verified += 1
            return head.verify(row)

        tables = {**SCHEMA.tables, "head": TableCheck(head.columns, verify)}
        self.schema = replace(SCHEMA, tables=tables)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[SQLiteDatabase]:
        database = await SQLiteDatabase.open(self.path, IDENTITY, self.schema, 1, self.known)
        try:
            yield database
        finally:
            await database.close()

    async def open_and_close(self) -> int:
        """Return how often the rows have been verified by now."""
        async with self.opened():
            return self.verified


@pytest.fixture
async def counting(tmp_path: Path) -> Counting:
    path = tmp_path / "demo.db"
    await make_file(path)
    return Counting(path)


async def test_a_file_is_verified_once_and_not_after_own_writes(counting: Counting) -> None:
    assert await counting.open_and_close() == 1
    assert await counting.open_and_close() == 1
    async with counting.opened() as database:
        await write(database, put_character, "c", None)
    assert await counting.open_and_close() == 1


async def test_a_file_closed_an_hour_ago_is_verified_again(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    await counting.open_and_close()

    monkeypatch.setattr("valuetracker.engine.known_files.SOUND_SECONDS", 0)

    assert SOUND_SECONDS == 3_600
    assert await counting.open_and_close() == 2


def touch(path: Path) -> None:
    os.utime(path, ns=(0, 0))


def put_copy(path: Path) -> None:
    copy = path.with_name("copy.db")
    shutil.copy2(path, copy)
    copy.replace(path)


def lengthen(path: Path) -> None:
    before = path.stat()
    with path.open("ab") as file:
        file.write(b"\0" * 4096)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def leave_log(path: Path) -> None:
    path.with_name(path.name + "-wal").write_bytes(b"unfinished")


@pytest.mark.parametrize("change", [touch, put_copy, lengthen, leave_log])
async def test_a_file_that_was_changed_is_verified_again(
    counting: Counting, change: Callable[[Path], None]
) -> None:
    await counting.open_and_close()

    change(counting.path)

    assert await counting.open_and_close() == 2


async def test_another_process_verifies_it_again(counting: Counting) -> None:
    await counting.open_and_close()

    counting.known = KnownFiles()

    assert await counting.open_and_close() == 2


def flip(path: Path, content: bytes) -> None:
    """Damage a file at rest, as a bad disk would: nobody has written to it."""
    before = path.stat()
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(content))
        file.write(bytes([content[0] ^ 1]))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


async def test_a_damaged_file_is_refused_at_once_until_it_is_another_one(
    counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with counting.opened() as database:
        await write(database, put_character, "c", "Somebody")
    good = counting.path.read_bytes()
    monkeypatch.setattr("valuetracker.engine.known_files.SOUND_SECONDS", 0)
    flip(counting.path, b"Somebody")

    for _ in range(3):
        with pytest.raises(DatabaseDamaged, match="characters has a damaged row"):
            await counting.open_and_close()
    assert counting.verified == 2
    counting.path.write_bytes(good)

    assert await counting.open_and_close() == 3


async def test_a_file_is_known_by_its_place_its_size_and_the_time_of_its_last_write(
    tmp_path: Path,
) -> None:
    path = tmp_path / "demo.db"
    assert stamp_of(path) is None
    await make_file(path)
    stamp = stamp_of(path)

    assert stamp is not None
    assert stamp.bytes == path.stat().st_size
    assert stamp_of(path) == stamp
    touch(path)
    assert stamp_of(path) not in (None, stamp)
    path.with_name(path.name + "-wal").touch()
    assert stamp_of(path) is not None
    leave_log(path)
    assert stamp_of(path) is None
