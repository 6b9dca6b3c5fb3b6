from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from valuetracker.engine.data_directory import DataDirectory
from valuetracker.errors import (
    DataDirectoryInUse,
    InvalidBody,
    PathInUse,
    PathNotAllowed,
    StartupError,
    ValueTrackerError,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    (tmp_path / "db").mkdir()
    return DataDirectory(tmp_path / "db")


# The lock


def test_locking_makes_a_directory_that_only_its_owner_can_read(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "not" / "there" / "yet")

    directory.lock()

    assert mode(directory.path) == 0o700
    assert mode(directory.path / ".lock") == 0o600
    assert mode(directory.path / ".pid") == 0o600
    directory.unlock()


def test_a_second_process_is_refused_and_the_first_one_is_named(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path), DataDirectory(tmp_path)
    first.lock()

    with pytest.raises(DataDirectoryInUse, match=rf"\(pid {os.getpid()}\)") as caught:
        second.lock()

    assert caught.value.exit_code == 3
    assert caught.value.hint is not None
    first.unlock()


def test_locking_twice_does_nothing_and_unlocking_lets_another_lock(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path), DataDirectory(tmp_path)
    first.lock()
    first.lock()

    first.unlock()

    assert not (tmp_path / ".pid").exists()
    second.lock()
    second.unlock()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import os, pathlib, signal, sys\n"
        "from valuetracker.engine.data_directory import DataDirectory\n"
        "DataDirectory(pathlib.Path(sys.argv[1])).lock()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], timeout=60)
    assert killed.returncode == -9
    assert (tmp_path / ".pid").exists()

    directory = DataDirectory(tmp_path)
    directory.lock()

    assert (tmp_path / ".pid").read_text() == str(os.getpid())
    directory.unlock()


def test_a_path_that_is_a_file_cannot_be_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("words")

    with pytest.raises(StartupError, match="cannot be used"):
        DataDirectory(tmp_path / "file").lock()

    assert (tmp_path / "file").read_text() == "words"


def test_unfinished_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".new-0123").write_text("half a database")
    (tmp_path / "whole.db").write_text("a database")
    directory = DataDirectory(tmp_path)

    directory.lock()

    assert not (tmp_path / ".new-0123").exists()
    assert (tmp_path / "whole.db").exists()
    directory.unlock()


@pytest.mark.parametrize("names", [[], [".gitignore"], [".registry.db", "demo.db", "notes.txt"]])
def test_a_directory_that_is_ours_is_closed_to_others(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "db"
    path.mkdir()
    path.chmod(0o755)
    for name in names:
        (path / name).touch()
    directory = DataDirectory(path)

    directory.lock()

    assert mode(path) == 0o700
    directory.unlock()


def test_a_directory_with_other_content_is_left_as_it_is_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "home"
    path.mkdir()
    path.chmod(0o755)
    (path / "letter.txt").touch()
    directory = DataDirectory(path)

    with caplog.at_level(logging.WARNING):
        directory.lock()

    assert mode(path) == 0o755
    assert [record.message for record in caplog.records] == [
        "the data directory is readable by others"
    ]
    directory.unlock()


# Paths


@pytest.mark.parametrize(
    ("wanted", "location"),
    [
        (None, "demo.db"),
        ("other.db", "other.db"),
        ("sub/other.db", "sub/other.db"),
        ("./sub/../other.db", "other.db"),
        ("no-ending", "no-ending"),
    ],
)
def test_a_location_inside_is_relative(
    directory: DataDirectory, wanted: str | None, location: str
) -> None:
    assert directory.locate("demo", wanted) == location
    assert directory.file(location) == directory.path / location


def test_an_absolute_path_inside_gives_the_same_location(directory: DataDirectory) -> None:
    assert directory.locate("demo", str(directory.path / "x.db")) == "x.db"


@pytest.mark.parametrize(
    ("wanted", "refusal"),
    [
        ("", InvalidBody),
        ("a\x00b", InvalidBody),
        ("x" * 5_000, InvalidBody),
        ("x" * 4_000, PathNotAllowed),
        (".", PathNotAllowed),
        ("sub/", PathNotAllowed),
        ("folder", PathNotAllowed),
        ("../outside.db", PathNotAllowed),
        ("sub/../../outside.db", PathNotAllowed),
        ("/etc/passwd", PathNotAllowed),
        ("link/outside.db", PathNotAllowed),
        ("link-to-file", PathNotAllowed),
        ("loop/x.db", PathNotAllowed),
        (".registry.db", PathInUse),
        (".hidden/x.db", PathNotAllowed),
        ("trash/x.db", PathNotAllowed),
        ("x.db-wal", PathNotAllowed),
        ("x.db-shm", PathNotAllowed),
        ("x.db-journal", PathNotAllowed),
    ],
    ids=lambda each: repr(each)[:24] if isinstance(each, str) else each.__name__,
)
def test_a_path_that_is_not_allowed_is_refused_and_nothing_is_made(
    directory: DataDirectory, tmp_path: Path, wanted: str, refusal: type[ValueTrackerError]
) -> None:
    (directory.path / "folder").mkdir()
    (directory.path / "link").symlink_to(tmp_path)
    (directory.path / "link-to-file").symlink_to(tmp_path / "elsewhere.db")
    (directory.path / "loop").symlink_to(directory.path / "loop")
    before = sorted(tmp_path.rglob("*"))

    with pytest.raises(refusal):
        directory.locate("demo", wanted)

    assert sorted(tmp_path.rglob("*")) == before


def test_a_location_in_an_allowed_root_is_absolute(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    directory = DataDirectory(tmp_path / "db", (root,))

    assert directory.locate("demo", str(root / "x.db")) == str(root / "x.db")
    assert directory.locate("demo", "../root/x.db") == str(root / "x.db")
    with pytest.raises(PathNotAllowed):
        directory.locate("demo", str(tmp_path / "rooted.db"))
    with pytest.raises(PathNotAllowed):
        directory.locate("demo", str(root))


@pytest.mark.parametrize("left", [[], [".gitignore"], [".lock"], ["demo.db"]])
def test_only_a_directory_that_was_used_has_databases_elsewhere(
    tmp_path: Path, left: list[str]
) -> None:
    root, path = tmp_path / "root", tmp_path / "db"
    for folder in (root, path):
        folder.mkdir()
    (root / "far.db").touch()
    for name in left:
        (path / name).touch()
    directory = DataDirectory(path, (root,))
    directory.lock()

    far = [root / "far.db"] if left and left != [".gitignore"] else []
    assert directory.database_files() == [*path.glob("*.db"), *far]
    directory.unlock()


@pytest.mark.parametrize("own", [".registry.db", ".lock"])
def test_the_databases_of_another_server_are_not_ours(tmp_path: Path, own: str) -> None:
    root, path = tmp_path / "root", tmp_path / "root" / "db"
    for folder in (path / "deep", root / "another" / "deep"):
        folder.mkdir(parents=True)
        (folder.parent / own).touch()
        (folder / "demo.db").touch()
    directory = DataDirectory(path, (root,))
    directory.lock()

    assert directory.database_files() == [path / "deep" / "demo.db"]
    directory.unlock()


# The trash


def test_a_discarded_file_goes_to_the_trash_with_its_companions(directory: DataDirectory) -> None:
    for ending in ("", "-wal", "-shm"):
        (directory.path / f"demo.db{ending}").write_text(f"file{ending}")

    assert directory.discard("demo.db", "demo")

    trash = directory.path / "trash"
    assert {path.name: path.read_text() for path in trash.iterdir()} == {
        "demo.1.db": "file",
        "demo.1.db-wal": "file-wal",
        "demo.1.db-shm": "file-shm",
    }
    assert mode(trash) == 0o700
    assert not list(directory.path.glob("demo.db*"))


def test_the_trash_overwrites_nothing(directory: DataDirectory) -> None:
    for text in ("one", "two", "three"):
        (directory.path / "demo.db").write_text(text)
        directory.discard("demo.db", "demo")

    trash = directory.path / "trash"
    assert sorted(path.read_text() for path in trash.iterdir()) == ["one", "three", "two"]


def test_the_trash_overwrites_nothing_whatever_the_name(directory: DataDirectory) -> None:
    for text in ("one", "two"):
        (directory.path / "demo[1].db").write_text(text)
        directory.discard("demo[1].db", "demo[1]")

    trash = directory.path / "trash"
    assert sorted(path.read_text() for path in trash.iterdir()) == ["one", "two"]


def test_discarding_a_missing_file_returns_false_and_makes_no_trash(
    directory: DataDirectory,
) -> None:
    assert not directory.discard("demo.db", "demo")

    assert not (directory.path / "trash").exists()


def test_a_broken_link_is_discarded_too(directory: DataDirectory) -> None:
    (directory.path / "demo.db").symlink_to(directory.path / "gone.db")

    assert directory.discard("demo.db", "demo")

    assert (directory.path / "trash" / "demo.1.db").is_symlink()


def test_a_companion_without_its_file_is_discarded_too(directory: DataDirectory) -> None:
    (directory.path / "demo.db-wal").write_text("half a story")

    assert directory.discard("demo.db", "demo")

    assert (directory.path / "trash" / "demo.1.db-wal").read_text() == "half a story"
