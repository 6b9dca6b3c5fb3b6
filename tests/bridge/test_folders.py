"""Folders that are read and written without following links, completely or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from valuetracker.bridge.folders import Folder
from valuetracker.errors import NotWritable, SourceNotFound, SymlinkRefused


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    with Folder.open(tmp_path, ("a", "b"), create=True) as folder:
        folder.write("file", b"one")
        folder.write("file", b"two")

        assert folder.read("file") == b"two"
        assert folder.read("other") is None
        assert folder.names() == ["file"]
    assert (tmp_path / "a/b/file").read_bytes() == b"two"


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with Folder.open(tmp_path) as folder, (tmp_path / "file").open("rb") as reader:
        folder.write("file", b"new")

        assert reader.read() == b"old"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_an_existing_file_is_not_replaced_without_replace(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with Folder.open(tmp_path) as folder:
        with pytest.raises(FileExistsError):
            folder.write("file", b"new", replace=False)
        folder.write("other", b"new", replace=False)

        assert folder.names() == ["file", "home", "other"]
    assert (tmp_path / "file").read_bytes() == b"old"


def test_nothing_is_done_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"theirs")
    root = tmp_path / "root"
    root.mkdir()
    (root / "folder").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    (root / "nowhere").symlink_to(tmp_path / "nothing")

    with Folder.open(root) as folder:
        for name in ("file", "nowhere"):
            with pytest.raises(SymlinkRefused):
                folder.write(name, b"ours")
            with pytest.raises(SymlinkRefused):
                folder.read(name)
        for create in (False, True):
            with pytest.raises(SymlinkRefused):
                folder.child("folder", create)
        with pytest.raises(SymlinkRefused):
            list(folder.files())

    assert (outside / "file").read_bytes() == b"theirs"
    assert not (tmp_path / "nothing").exists()


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()

    with Folder.open(root, ("inner",)) as folder:
        (root / "inner").rename(root / "moved")
        (root / "inner").symlink_to(outside)
        folder.write("file", b"ours")

    assert list(outside.iterdir()) == []
    assert (root / "moved/file").read_bytes() == b"ours"


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with Folder.open(tmp_path) as folder, pytest.raises(NotWritable):
        folder.read("pipe")


def test_a_folder_is_removed_only_if_it_is_empty(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_bytes(b"")
    (tmp_path / "empty").mkdir()

    with Folder.open(tmp_path) as folder:
        gone = [folder.remove_folder(name) for name in ("full", "empty", "absent")]

    assert gone == [False, True, False]


def test_a_missing_root_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceNotFound):
        Folder.open(tmp_path / "nothing")


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(20):
        with Folder.open(tmp_path, ("a", "b", "c"), create=True) as folder:
            folder.write("file", b"x")
            list(folder.files())
        with pytest.raises(FileNotFoundError):
            Folder.open(tmp_path, ("a", "absent"))

    assert len(os.listdir("/proc/self/fd")) == before
