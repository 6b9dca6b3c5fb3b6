"""The part of an engine that is about files, for one whose databases are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from valuetracker.engine import Job, Row
from valuetracker.errors import PathNotAllowed

T = TypeVar("T")


class NoFiles:
    """Refuses what only an engine with `copies_files` is asked for."""

    async def verify_copy(self, path: Path, job: Job[T]) -> T:
        raise _refusal()

    async def copy_file(self, source: Path, location: str) -> tuple[Path, str]:
        raise _refusal()

    async def adapt_copy(self, copy: Path, identity: str, job: Job[Any]) -> None:
        raise _refusal()

    async def replace_file(self, location: str, copy: Path) -> None:
        raise _refusal()

    async def rebuild_file(self, location: str, identity: str, job: Job[Any]) -> Path:
        raise _refusal()

    async def read_intact(self, location: str, take: Callable[[str, Row], None]) -> list[str]:
        raise _refusal()


def _refusal() -> PathNotAllowed:
    return PathNotAllowed("On this engine databases are no files.")
