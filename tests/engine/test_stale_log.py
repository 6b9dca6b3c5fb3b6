"""The write-ahead log of another file: refused or ignored, never applied."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import running_server
from tests.integrity.populated import DECLARED, populate, read, reads

# The whole content of the small databases.
SMALL_READS = ["/characters", "/characters/c", "/instances", "/instances/i", "/instances/i/data"]


def make_small(data_dir: Path) -> dict[str, Any]:
    """Make two extensions so small that each table is one page and both files are alike."""
    with running_server(data_dir) as server:
        for name in ("demo", "twin"):
            server.register(name)
            with server.client(name) as client:
                client.post("/instances", json={"id": "i", "characterId": "c", "name": name})
                client.post("/instances/i/data", json={"key": "k", "value": name})
        with server.client("demo") as client:
            return {path: read(client, path) for path in SMALL_READS}


def log_after(data_dir: Path, name: str, path: str, body: dict[str, Any]) -> bytes:
    """Return the log of an extension's open file after one write."""
    with running_server(data_dir) as server, server.client(name) as client:
        written: httpx.Response = client.post(path, json=body)
        assert written.status_code == 200
        log = (data_dir / f"{name}.db-wal").read_bytes()
        assert log
        return log


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/instances/i/data", {"key": "k", "value": "more"}),
        ("/instances", {"id": "i", "characterId": "c", "name": "other"}),
        ("/characters", {"id": "c", "name": "other"}),
    ],
)
def test_the_log_of_another_extension_is_not_applied(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    data_dir = tmp_path / "db"
    right = make_small(data_dir)
    log = log_after(Path(shutil.copytree(data_dir, tmp_path / "changed")), "twin", path, body)
    (data_dir / "demo.db-wal").write_bytes(log)

    with running_server(data_dir) as server, server.client("demo") as client:
        answers = {each: read(client, each) for each in SMALL_READS}

    wrong = {
        each: (status, found)
        for each, (status, found) in answers.items()
        if (status, found) != right[each] and not (status == 503 and found["code"] in DECLARED)
    }
    assert wrong == {}


def test_an_invalid_log_is_refused_or_ignored(tmp_path: Path) -> None:
    populated = populate(tmp_path / "db")
    (tmp_path / "db" / "demo.db-wal").write_bytes(random.Random(2).randbytes(50_000))

    with running_server(tmp_path / "db") as server, server.client("demo") as client:
        for path in reads():
            answer = read(client, path)
            assert populated.is_allowed(path, answer), (path, answer)
