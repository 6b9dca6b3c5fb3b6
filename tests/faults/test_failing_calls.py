"""
One operation on a file fails, at every step of what writes files: an error, and nothing half done.

The server runs on all the time. It must answer with an error of its own, leave no unfinished file,
and do as it is told when it is told again. Without VALUETRACKER_SOAK=1 some steps are left out.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from tests.faults.shim import SOAK, Shim
from tests.support.original import VALUES, make_original
from tests.system.conftest import RunProgram
from valuetracker.http.tokens import TokenFile

T = TypeVar("T")

# Steps between two faults, after the first few.
STRIDE = 1 if SOAK else 5
EVERY = 10
TOKEN = (sys.executable, "-m", "valuetracker", "token")
# How an operation fails: once, or all that write from then on, as on a full disk.
FAULTS = {
    # SQLite does not tell why it cannot make `-shm` longer.
    "failing disk": ("once", errno.EIO, ["database_unavailable", "storage_full"]),
    "full disk": ("from", errno.ENOSPC, ["storage_full"]),
}


class Faults:
    """Lets operations fail, one after the other, until there is none left to fail."""

    def __init__(self, shim: Shim, fault: str) -> None:
        self._shim = shim
        self._how, self._error, self.codes = FAULTS[fault]
        self.count = 0

    def steps(self) -> Iterator[int]:
        """Yield the number of each operation to fail; ends when the last one did not fail."""
        number = 1
        while True:
            before = self.count
            yield number
            if self.count == before:
                return
            number += 1 if number < EVERY else STRIDE

    def during(self, number: int, act: Callable[[], T]) -> T:
        start = self._shim.position
        draft = self._shim.fault.with_suffix(".draft")
        # The spaces make each text another one, with which counting begins.
        draft.write_text(f"{self._how} {number} {self._error}{' ' * (number % 7)}")
        draft.replace(self._shim.fault)
        try:
            return act()
        finally:
            self._shim.fault.unlink()
            self.count += any(each.op == "F" for each in self._shim.records(start))


@pytest.fixture(params=FAULTS)
def faults(request: pytest.FixtureRequest, shim: Shim) -> Faults:
    return Faults(shim, str(request.param))


@pytest.fixture
def client(shim: Shim, run_program: RunProgram) -> Iterator[httpx.Client]:
    program = run_program(data_dir=shim.root, **shim.environment)
    with program.client() as client:
        yield client
    assert program.stop() == 0


def check(answer: httpx.Response, faults: Faults) -> None:
    """Check that an answer is the right one, or names what failed."""
    if answer.status_code != 200:
        assert answer.status_code in (503, 507), answer.text
        assert answer.json()["code"] in faults.codes, answer.text


def unfinished(folder: Path) -> list[str]:
    return [each.name for each in folder.rglob("*") if each.name.startswith(".new-")]


def values_of(client: httpx.Client, extension: str) -> dict[str, object]:
    answer = client.get("/instances/run/data", headers={"x-extension-id": extension})
    assert answer.status_code == 200, answer.text
    found: dict[str, object] = answer.json()
    return found


def test_registering(client: httpx.Client, shim: Shim, faults: Faults) -> None:
    for number in faults.steps():
        body = {"extensionId": f"e{number}", "dbPath": f"n{number}/er/e.db"}

        answer = faults.during(number, partial(client.post, "/register", json=body))

        check(answer, faults)
        assert unfinished(shim.root) == []
        assert client.post("/register", json=body).status_code == 200
        header = {"x-extension-id": body["extensionId"]}
        instance = {"id": "run", "characterId": "c"}
        assert client.post("/instances", json=instance, headers=header).status_code == 200
    assert faults.count > EVERY


def test_adopting(client: httpx.Client, shim: Shim, faults: Faults) -> None:
    for number in faults.steps():
        name = f"e{number}"
        path = shim.root / f"{name}.db"
        make_original(path)
        body = {"extensionId": name}

        answer = faults.during(number, partial(client.post, "/register", json=body))

        check(answer, faults)
        assert unfinished(shim.root) == []
        assert client.post("/register", json=body).status_code == 200
        assert values_of(client, name).keys() == VALUES.keys()
        with closing(sqlite3.connect(f"{path}.original")) as original:
            (count,) = original.execute(
                "SELECT count(*) FROM data WHERE instance_id = 'run'"
            ).fetchone()
        assert count == len(VALUES)
    assert faults.count > EVERY


def test_purging(client: httpx.Client, shim: Shim, faults: Faults) -> None:
    for number in faults.steps():
        name = f"e{number}"
        header = {"x-extension-id": name}
        assert client.post("/register", json={"extensionId": name}).status_code == 200
        instance = {"id": "run", "characterId": "c"}
        client.post("/instances", json=instance, headers=header)
        client.post("/instances/run/data", json={"key": "k", "value": 1}, headers=header)
        body = {"extensionId": name, "purge": True}

        purge = partial(client.request, "DELETE", "/register", json=body)

        answer = faults.during(number, purge)

        check(answer, faults)
        if answer.status_code != 200:
            assert purge().status_code == 200
        assert not (shim.root / f"{name}.db").exists()
        kept = sorted((shim.root / "trash").glob(f"{name}.*.db"))
        assert kept
        with closing(sqlite3.connect(kept[-1])) as database:
            assert database.execute("SELECT key FROM data WHERE key = 'k'").fetchall()
        # It begins anew.
        assert client.post("/register", json={"extensionId": name}).status_code == 200
        client.post("/instances", json=instance, headers=header)
        assert values_of(client, name) == {}
    assert faults.count > 5


def test_tokens(shim: Shim, faults: Faults) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TOKEN, arguments[0], "--data-dir", str(shim.root), *arguments[1:]],
            env={**os.environ, **shim.environment},
            capture_output=True,
            text=True,
            check=False,
        )

    for number in faults.steps():
        token, _ = TokenFile(shim.root).create(f"t{number}", (), True, False)

        done = faults.during(number, partial(run, "revoke", token.id))

        assert "Traceback" not in done.stderr
        if done.returncode:
            assert done.stderr.startswith("error: The tokens in")
        assert unfinished(shim.root) == []
        TokenFile(shim.root).revoke(token.id)
        assert TokenFile(shim.root).load() == []
    assert faults.count >= 1
