"""
What one engine answers, the other answers, byte for byte.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.postgres import PostgresServer
from tests.support.walk.server import take_whole_walk
from tests.support.walk.story import WALK


def test_a_session_of_every_route_is_answered_alike(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    on_sqlite = take_whole_walk(tmp_path / "files")

    on_postgres = take_whole_walk(tmp_path / "none", postgres.create_database())

    assert len(on_sqlite) == len(WALK)
    for one, other in zip(on_sqlite, on_postgres, strict=True):
        assert other == one, one.step
