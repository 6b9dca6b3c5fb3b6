"""
The log beside a file that a killed process left.

What SQLite would leave out without a word is damage, unless it cannot be told from a last write
that was not finished.
"""

from __future__ import annotations

import asyncio
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.databases import IDENTITY, SCHEMA, make_file, opened, select, write
from valuetracker.engine.sqlite_database import SQLiteDatabase
from valuetracker.engine.sqlite_verification import verify_file
from valuetracker.errors import DatabaseDamaged
from valuetracker.store.characters import put_character

HEADER, FRAME, PAGE = 32, 24, 4096
# How many characters are written, each in a transaction of its own.
WRITTEN = 6


@dataclass
class Left:
    """A file and its log, as a process leaves them that is killed."""

    path: Path
    # For each frame, the number of the transaction it belongs to, from 0.
    transactions: list[int]

    @property
    def log(self) -> Path:
        return self.path.with_name(self.path.name + "-wal")

    def offset(self, frame: int) -> int:
        return HEADER + frame * (FRAME + PAGE)

    def flip(self, offset: int, bit: int = 0) -> None:
        content = bytearray(self.log.read_bytes())
        content[offset] ^= 1 << bit
        self.log.write_bytes(content)

    def characters(self) -> int:
        return int(select(self.path, "SELECT count(*) FROM characters")[0][0])

    def frames_of(self, transaction: int) -> list[int]:
        return [frame for frame, each in enumerate(self.transactions) if each == transaction]


async def write_and_copy(path: Path, copy: Path) -> None:
    """Write, and copy the file and its log while both are open."""
    async with opened(path) as database:
        for number in range(WRITTEN):
            await write(database, put_character, f"c{number}", None)
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}-wal", f"{copy}-wal")


def frames_of(log: Path) -> list[bytes]:
    """Return the headers of all frames."""
    content = log.read_bytes()
    return [
        content[offset : offset + FRAME] for offset in range(HEADER, len(content), FRAME + PAGE)
    ]


def transactions_of(log: Path) -> list[int]:
    """Return the transaction of each frame; the last frame of one has the size of the file."""
    found: list[int] = []
    number = 0
    for frame in frames_of(log):
        found.append(number)
        number += any(frame[4:8])
    return found


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Left:
    folder = tmp_path_factory.mktemp("left")
    asyncio.run(write_and_copy(folder / "open.db", folder / "left.db"))
    left = Left(folder / "left.db", transactions_of(folder / "left.db-wal"))
    assert left.transactions[-1] == WRITTEN - 1
    return left


@pytest.fixture
def left(original: Left, tmp_path: Path) -> Left:
    shutil.copyfile(original.path, tmp_path / "left.db")
    shutil.copyfile(original.log, tmp_path / "left.db-wal")
    return Left(tmp_path / "left.db", original.transactions)


async def refused(left: Left, finding: str) -> bool:
    """Return true if the file is refused for this reason, and left as it is."""
    before = left.path.read_bytes(), left.log.read_bytes()
    with pytest.raises(DatabaseDamaged, match=finding):
        await SQLiteDatabase.open(left.path, IDENTITY, SCHEMA, 1)
    return (left.path.read_bytes(), left.log.read_bytes()) == before


async def test_a_whole_log_is_read(left: Left) -> None:
    verify_file(left.path, SCHEMA)

    async with opened(left.path) as database:
        assert (await write(database, put_character, "more", None)).revision == WRITTEN + 1
    assert left.characters() == WRITTEN + 1


@pytest.mark.parametrize("offset", range(HEADER))
async def test_a_flipped_bit_in_the_header_is_damage(left: Left, offset: int) -> None:
    left.flip(offset, offset % 8)

    assert await refused(left, "log beside the file has a damaged header")


@pytest.mark.parametrize("transaction", range(WRITTEN - 1))
@pytest.mark.parametrize("within", [3, 7, 9, 13, 17, 21, FRAME, FRAME + PAGE // 2])
def test_a_flipped_bit_before_the_last_transaction_is_damage(
    left: Left, transaction: int, within: int
) -> None:
    good = left.log.read_bytes()
    for frame in left.frames_of(transaction):
        left.log.write_bytes(good)
        left.flip(left.offset(frame) + within)

        with pytest.raises(DatabaseDamaged, match="damaged before its end"):
            verify_file(left.path, SCHEMA)


async def test_a_file_with_such_a_log_is_not_changed(left: Left) -> None:
    left.flip(left.offset(1) + 100)

    assert await refused(left, "damaged before its end")


@pytest.mark.parametrize("within", [0, 8, 12, 16, 20, FRAME, FRAME + PAGE - 1])
def test_a_flipped_bit_in_the_last_transaction_cannot_be_told_from_an_unfinished_write(
    left: Left, within: int
) -> None:
    left.flip(left.offset(left.frames_of(WRITTEN - 1)[0]) + within)

    verify_file(left.path, SCHEMA)

    assert left.characters() == WRITTEN - 1


def test_a_log_that_was_cut_off_anywhere_is_that_of_a_killed_process(left: Left) -> None:
    whole = left.log.read_bytes()

    for size in range(0, len(whole), 1_373):
        with left.log.open("wb") as log:
            log.write(whole[:size])
        verify_file(left.path, SCHEMA)

        complete = [n for n in range(WRITTEN) if left.offset(left.frames_of(n)[-1] + 1) <= size]
        assert left.characters() == len(complete)


async def test_frames_from_before_the_log_was_begun_anew_are_ignored(left: Left) -> None:
    size = left.log.stat().st_size
    again = Left(left.path.with_name("again.db"), [])
    async with opened(left.path) as database:
        assert database._writer is not None
        await database._writer.run(
            lambda connection: connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchone()
        )
        await write(database, put_character, "more", None)
        shutil.copyfile(left.path, again.path)
        shutil.copyfile(left.log, again.log)
    assert again.log.stat().st_size == size
    new = sum(frame[8:16] == again.log.read_bytes()[16:24] for frame in frames_of(again.log))
    assert 0 < new < len(left.transactions) // 2

    # SQLite reads none of the old ones.
    for frame in range(new, len(left.transactions)):
        again.flip(again.offset(frame) + 100)
    verify_file(again.path, SCHEMA)
    assert again.characters() == WRITTEN + 1
    # The log holds one transaction, and that is damaged now.
    again.flip(again.offset(0) + 100)
    verify_file(again.path, SCHEMA)

    assert again.characters() == WRITTEN


@pytest.mark.parametrize("content", [b"", b"\0" * HEADER, b"anything"])
async def test_a_log_without_a_frame_has_nothing_to_lose(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "demo.db"
    await make_file(path)
    Path(f"{path}-wal").write_bytes(content)

    async with opened(path) as database:
        assert (await write(database, put_character, "c", None)).revision == 1


def test_a_log_of_another_page_size_is_damage(left: Left) -> None:
    header = bytearray(left.log.read_bytes()[:HEADER])
    header[8:12] = struct.pack(">I", 8192)
    header[24:] = struct.pack(">II", *checksum(bytes(header[:24]), header[3]))
    left.log.write_bytes(bytes(header) + left.log.read_bytes()[HEADER:])

    with pytest.raises(DatabaseDamaged, match="damaged header"):
        verify_file(left.path, SCHEMA)


def checksum(content: bytes, magic: int) -> tuple[int, int]:
    """Compute the checksum of a header as the documentation of SQLite says."""
    words = struct.unpack(f"{'>' if magic & 1 else '<'}6I", content)
    first = second = 0
    for index in range(0, 6, 2):
        first = (first + words[index] + second) % 2**32
        second = (second + words[index + 1] + first) % 2**32
    return first, second
