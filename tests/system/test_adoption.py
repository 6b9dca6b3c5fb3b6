"""Adopting a file in the real program: killed, on a full disk, and how much memory it takes."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from tests.integrity.recount import recount
from tests.support.databases import select
from tests.support.original import STATES, leave, make_large_original
from tests.system.conftest import Program, RunProgram

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
RANDOM_KILLS = 200 if SOAK else 3
# The steps of an adoption in their order.
STEPS = (
    "adoption_folded",
    "mid_migration",
    "mid_adoption",
    "adoption_written",
    "adoption_kept",
    "adoption_renamed",
)
VALUES = "SELECT instance_id, key, value FROM data ORDER BY rowid"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "db").mkdir(mode=0o700)
    return tmp_path / "db" / "demo.db"


def register(program: Program) -> httpx.Response:
    with program.client() as client:
        return client.post("/register", json={"extensionId": "demo"})


def values_of(original: Path) -> dict[str, dict[str, Any]]:
    values: dict[str, dict[str, Any]] = {}
    for instance, key, value in select(original, VALUES):
        values.setdefault(instance, {})[key] = orjson.loads(value)
    return values


def check(program: Program, original: Path, file: Path) -> None:
    """Check that the file can be registered, that nothing is lost, and that no part is left."""
    answer = register(program)
    assert answer.status_code == 200, answer.text
    with program.client("demo") as client:
        for instance, values in values_of(original).items():
            assert client.get(f"/instances/{instance}/data").json() == values
        assert client.get("/extensions/demo").json()["revision"] == 1
    assert program.stop() == 0
    assert {path.name for path in file.parent.iterdir()} - {".lock", ".registry.db"} == {
        "demo.db",
        "demo.db.original",
    }
    recount(file)
    kept = file.with_name("demo.db.original")
    assert select(kept, VALUES) == select(original, VALUES)


# Killed


@pytest.mark.parametrize("state", STATES)
def test_a_file_can_be_registered_whatever_step_of_its_adoption_was_killed(
    run_program: RunProgram, tmp_path: Path, file: Path, state: str
) -> None:
    original = tmp_path / "original.db"
    make_large_original(original, instances=40, keys=5)
    leave(original, file, state)
    # This makes the registry, whose migration must not be killed.
    assert run_program().stop() == 0

    for step in STEPS:
        program = run_program(VALUETRACKER_FAIL=f"{step}:kill")
        with pytest.raises(httpx.TransportError):
            register(program)
        assert program.wait() == -signal.SIGKILL

    check(run_program(), original, file)


def test_a_file_can_be_registered_at_whatever_moment_its_adoption_was_killed(
    run_program: RunProgram, tmp_path: Path, file: Path
) -> None:
    original = tmp_path / "original.db"
    make_large_original(original, instances=400)
    chance = random.Random()
    # How long it takes if it is not killed.
    leave(original, file, "closed")
    program = run_program()
    begun = time.monotonic()
    assert register(program).status_code == 200
    whole = time.monotonic() - begun
    assert program.stop() == 0

    for _ in range(RANDOM_KILLS):
        state, seconds = chance.choice(list(STATES)), chance.uniform(0, whole * 1.2)
        shutil.rmtree(file.parent)
        file.parent.mkdir(mode=0o700)
        leave(original, file, state)
        program = run_program()
        killing = threading.Timer(seconds, os.kill, (program.server_pid, signal.SIGKILL))
        killing.start()
        answered = _is_answered(program)
        killing.join()
        assert program.wait() == -signal.SIGKILL

        print(f"{state}, killed after {seconds:.3f} s, {answered=}")
        check(run_program(), original, file)


def _is_answered(program: Program) -> bool:
    try:
        return register(program).status_code == 200
    except httpx.TransportError:
        return False


# A full disk

# A small file system needs the right to mount one.
if os.geteuid() == 0 and shutil.which("mount"):

    @pytest.mark.parametrize("state", ["closed", "log"])
    def test_on_a_full_disk_adopting_answers_507_and_leaves_nothing_behind(
        run_program: RunProgram, tmp_path: Path, state: str
    ) -> None:
        original, small = tmp_path / "original.db", tmp_path / "small"
        make_large_original(original, instances=400)
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(small)], check=True)
        try:
            check_full_disk(run_program, original, small, state)
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)


def check_full_disk(run_program: RunProgram, original: Path, small: Path, state: str) -> None:
    program = run_program(data_dir=small / "db")
    file, ballast = small / "db" / "demo.db", small / "ballast"
    leave(original, file, state)
    # From no space at all up to nearly enough.
    for free in range(0, original.stat().st_size * 3 // 5, 10_000 if SOAK else 300_000):
        names = {path.name for path in file.parent.iterdir()}
        ballast.write_bytes(b"")
        size = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize - free
        ballast.write_bytes(b"x" * size)

        full = register(program)

        assert full.status_code == 507, full.text
        assert full.json()["code"] == "storage_full"
        assert {path.name for path in file.parent.iterdir()} <= names | {"demo.db-shm"}

    ballast.unlink()

    check(program, original, file)


# Memory


def test_memory_does_not_grow_with_the_size_of_a_file(run_program: RunProgram, file: Path) -> None:
    make_large_original(file, instances=3_000)
    assert file.stat().st_size > 18_000_000
    program = run_program()
    before = peak_megabytes(program)

    assert register(program).status_code == 200

    assert peak_megabytes(program) - before < 30
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT keys FROM head").fetchone() == (60_000,)


def peak_megabytes(program: Program) -> float:
    status = Path(f"/proc/{program.server_pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


# Progress


def test_the_log_says_how_far_an_adoption_has_come(run_program: RunProgram, file: Path) -> None:
    make_large_original(file, instances=40, keys=5)
    program = run_program()

    assert register(program).status_code == 200

    entries = [each for each in program.log_entries() if each["message"].startswith("adopt")]
    assert [(each["message"], each["extension"]) for each in entries] == [
        ("adopted a file of the original plugin", "demo")
    ]
    counts = [entries[0][name] for name in ("instances", "of", "values")]
    assert counts == [40, 40, 200]
