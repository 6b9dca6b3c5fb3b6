"""Fixtures: each engine, with a database in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.engines import Bench, started
from valuetracker.engine import Database


@pytest.fixture
async def bench(database_url: str, tmp_path: Path) -> AsyncIterator[Bench]:
    async with started(database_url, tmp_path / "db") as bench:
        yield bench
        # All tests share the databases of one PostgreSQL.
        for name in ("demo", "other"):
            await bench.engine.discard(bench.location(name), name)


@pytest.fixture
async def database(bench: Bench) -> AsyncIterator[Database]:
    async with bench.opened(await bench.create()) as database:
        yield database
