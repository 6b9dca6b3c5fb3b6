"""Programs whose operations on files are recorded, or fail."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.shim import Shim, compile_shim
from tests.system.conftest import run_program

__all__ = ["run_program"]


@pytest.fixture(scope="session")
def library() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="valuetracker-shim-") as folder:
        yield compile_shim(Path(folder))


@pytest.fixture
def shim(library: Path, tmp_path: Path) -> Shim:
    """Records what programs do below `tmp_path / "db"`."""
    root = tmp_path.resolve() / "db"
    root.mkdir(mode=0o700)
    return Shim(library, root, tmp_path / "trace", tmp_path / "fault")
