"""
A disk that is cut off from its power: which files it may have then.

It repeats recorded operations, and distinguishes what was synced from what was not. Three models
say what may happen to the rest:

- `ordered`: like ext4. Changes of names reach the disk in their order, and any sync of a file or
  folder takes along all before it.
- `strict`: what POSIX promises. A name is durable once its folder was synced. Names of one folder
  reach the disk in their order, those of different folders do not.
- `chaos`: like strict, but any of the changes that were not synced may be there.

Bytes that were not synced may be there or not, sector by sector, in all three.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults.shim import Record

MODELS = ("ordered", "strict", "chaos")
SECTOR = 512
# How much of what was not synced is there.
PARTS = ("none", "all", "first", "any")


@dataclass(eq=False)
class File:
    """The bytes that were synced, and the changes since: (offset, bytes), or (size, None)."""

    synced: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)


@dataclass(eq=False)
class Folder:
    """The names that are durable, those that a program sees, and the changes between them."""

    synced: dict[str, Node] = field(default_factory=dict)
    names: dict[str, Node] = field(default_factory=dict)
    pending: list[tuple[str, Node | None]] = field(default_factory=list)


Node = File | Folder
# Changes of names that happen together.
Change = list[tuple[Folder, str, Node | None]]


def put(names: dict[str, Node], name: str, node: Node | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def write(content: bytearray, at: int, data: bytes | None) -> None:
    if data is None:
        del content[at:]
    content.extend(bytes(max(0, at - len(content))))
    if data is not None:
        content[at : at + len(data)] = data


class Disk:
    """One disk; `ignores` tells which syncs it only pretends to do."""

    def __init__(
        self,
        root: Path,
        before: Path,
        model: str,
        ignores: Callable[[str, bool], bool] = lambda path, is_folder: False,
    ) -> None:
        self._root = str(root)
        self._model = model
        self._ignores = ignores
        self._top = self._load(before)
        self._open: dict[tuple[int, int], tuple[Node, str]] = {}
        # For `ordered`: the changes of names since the last sync.
        self._pending: list[Change] = []

    def _load(self, path: Path) -> Folder:
        names: dict[str, Node] = {
            each.name: self._load(each) if each.is_dir() else File(bytearray(each.read_bytes()))
            for each in path.iterdir()
        }
        return Folder(dict(names), names)

    # Repeating operations

    def apply(self, record: Record) -> None:
        match record.op:
            case "O":
                self._open_file(record)
            case "C":
                self._open.pop(record.handle, None)
            case "W" | "T":
                file, _ = self._open[record.handle]
                assert isinstance(file, File)
                file.pending.append((record.number, record.first if record.op == "W" else None))
            case "S":
                self._sync(*self._open[record.handle])
            case "M":
                self._change((*self._parent(record.first), Folder()))
            case "U":
                self._change((*self._parent(record.first), None))
            case "L":
                self._change((*self._parent(record.second), self._find(record.first)))
            case "R":
                node = self._find(record.first)
                old, new = self._parent(record.first), self._parent(record.second)
                self._change((*old, None), (*new, node))

    def _open_file(self, record: Record) -> None:
        if record.number & os.O_TMPFILE == os.O_TMPFILE:
            # A file without a name: no image has it.
            self._open[record.handle] = (File(), record.first.decode())
            return
        folder, name = self._parent(record.first)
        node = self._top if not name else folder.names.get(name)
        if node is None:
            assert record.number & os.O_CREAT, record
            node = File()
            self._change((folder, name, node))
        if record.number & os.O_TRUNC and isinstance(node, File):
            node.pending.append((0, None))
        self._open[record.handle] = (node, record.first.decode())

    def _parts(self, path: bytes) -> list[str]:
        inside = os.path.normpath(path.decode()).removeprefix(self._root)
        return [part for part in inside.split("/") if part]

    def _parent(self, path: bytes) -> tuple[Folder, str]:
        parts = self._parts(path)
        folder = self._top
        for part in parts[:-1]:
            child = folder.names[part]
            assert isinstance(child, Folder)
            folder = child
        return folder, parts[-1] if parts else ""

    def _find(self, path: bytes) -> Node:
        folder, name = self._parent(path)
        return folder.names[name]

    def _change(self, *change: tuple[Folder, str, Node | None]) -> None:
        for folder, name, node in change:
            put(folder.names, name, node)
            folder.pending.append((name, node))
        self._pending.append(list(change))

    def _sync(self, node: Node, path: str) -> None:
        if self._ignores(path, isinstance(node, Folder)):
            return
        if isinstance(node, File):
            for at, data in node.pending:
                write(node.synced, at, data)
            node.pending.clear()
        elif self._model != "ordered":
            for name, child in node.pending:
                put(node.synced, name, child)
            node.pending.clear()
        if self._model == "ordered":
            for change in self._pending:
                for folder, name, child in change:
                    put(folder.synced, name, child)
            self._pending.clear()

    # Cutting the power

    def save(self, target: Path, random: Random, part: str) -> None:
        """Write the files as the disk may have them after a power cut at this moment."""
        later: dict[int, list[tuple[str, Node | None]]] = {}
        if self._model == "ordered":
            count = {"none": 0, "all": len(self._pending)}.get(part)
            if count is None:
                count = random.randint(0, len(self._pending))
            for change in self._pending[:count]:
                for folder, name, node in change:
                    later.setdefault(id(folder), []).append((name, node))

        def changes_of(folder: Folder) -> list[tuple[str, Node | None]]:
            if self._model == "ordered":
                return later.get(id(folder), [])
            if part in ("none", "all"):
                return folder.pending if part == "all" else []
            if self._model == "strict":
                return folder.pending[: random.randint(0, len(folder.pending))]
            return [each for each in folder.pending if random.random() < 0.5]

        def save_folder(folder: Folder, path: Path) -> None:
            path.mkdir(mode=0o700)
            names = dict(folder.synced)
            for name, node in changes_of(folder):
                put(names, name, node)
            for name, node in names.items():
                if isinstance(node, Folder):
                    save_folder(node, path / name)
                # SQLite maps this one into memory, and makes it anew.
                elif not name.endswith("-shm"):
                    (path / name).write_bytes(self._content(node, random, part))

        save_folder(self._top, target)

    def _content(self, file: File, random: Random, part: str) -> bytes:
        content = bytearray(file.synced)
        if part == "none":
            return bytes(content)
        count = random.randint(0, len(file.pending)) if part == "first" else len(file.pending)
        share = random.choice([0.1, 0.5, 0.9])
        for number, (at, data) in enumerate(file.pending[:count]):
            whole = part == "all" or (part == "first" and number < count - 1)
            if whole or data is None:
                if whole or random.random() < share:
                    write(content, at, data)
                continue
            for start in range(0, len(data), SECTOR):
                if random.random() < share:
                    write(content, at + start, data[start : start + SECTOR])
        return bytes(content)
