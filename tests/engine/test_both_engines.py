"""
Both engines give the same answers, byte for byte.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.conftest import running_server
from tests.support.postgres import PostgresServer
from tests.support.walk import WALK, take

# These parts differ by their nature: times, sizes, locations and the name of the engine.
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
BYTES = re.compile(r'"bytes":\d+')
PATH = re.compile(r'"path":"[^"]*"')
SESSION = re.compile(r'"session":"[^"]*"')
# The digest of values that contain times.
DIGEST = re.compile(r'"digest":"[0-9a-f]{64}"')
BRANCHED = re.compile(r"~[0-9a-f]{8}")
ENGINE = re.compile(r'"engine":"[^"]*"(,"engineVersion":"[^"]*")?')
LATENCY = re.compile(r'"latency_ms":[0-9.e-]+')
# One stream may end after more events than the other.
EVENTS = "text/event-stream"


def recorded(data_dir: Path, database: str) -> list[tuple[int, list[tuple[str, str]], str]]:
    """Return the status, headers and body of every answer of the walk."""
    taken = []
    with running_server(data_dir, database=database) as server, server.client("walker") as client:
        for step in WALK:
            answer = take(client, step)
            headers = [
                (name, value)
                for name, value in answer.headers.items()
                if name not in ("date", "content-length")
            ]
            text = answer.text
            if answer.headers.get("content-type", "").startswith(EVENTS):
                text = text[: text.index(step.until)]
            for pattern in (
                TIME,
                BYTES,
                PATH,
                SESSION,
                DIGEST,
                BRANCHED,
                ENGINE,
                LATENCY,
            ):
                text = pattern.sub("", text)
            taken.append((answer.status_code, headers, text))
    return taken


def test_both_engines_answer_a_walk_through_every_route_alike(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    on_sqlite = recorded(tmp_path / "files", "")

    on_postgres = recorded(tmp_path / "none", postgres.create_database())

    assert len(on_sqlite) == len(WALK)
    for step, one, other in zip(WALK, on_sqlite, on_postgres, strict=True):
        assert other == one, step
