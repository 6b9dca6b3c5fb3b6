"""The library of shim.c: compiled, loaded into programs, and its records."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
HEAD = struct.Struct("<ciiqII")


class Record(NamedTuple):
    """One operation on files; `end` is where its record ends."""

    end: int
    op: str
    # The process and its descriptor.
    handle: tuple[int, int]
    number: int
    first: bytes
    second: bytes


@dataclass
class Shim:
    """The compiled library, and one recording made with it."""

    library: Path
    root: Path
    trace: Path
    fault: Path

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make a program record its operations."""
        return {
            "LD_PRELOAD": str(self.library),
            "SHIM_ROOT": str(self.root),
            "SHIM_TRACE": str(self.trace),
            "SHIM_FAULT": str(self.fault),
        }

    @property
    def position(self) -> int:
        return self.trace.stat().st_size if self.trace.exists() else 0

    def records(self, since: int = 0) -> Iterator[Record]:
        with self.trace.open("rb") as file:
            file.seek(since)
            data = file.read()
        at = 0
        while at < len(data):
            op, process, descriptor, number, first, second = HEAD.unpack_from(data, at)
            at += HEAD.size
            texts = data[at : at + first], data[at + first : at + first + second]
            at += first + second
            yield Record(since + at, op.decode(), (process, descriptor), number, *texts)


def compile_shim(folder: Path) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "There is no C compiler; `make test` installs one."
    library = folder / "shim.so"
    source = Path(__file__).with_name("shim.c")
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run([*command, "-ldl", "-lpthread"], check=True)
    return library
