"""The log: one line of JSON per entry, without control characters and without secrets."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from tests.conftest import RunningServer
from tests.security.raw import ROOT, connected, get, post
from tests.system.conftest import Program, RunProgram
from tests.test_logging_setup import line as written
from valuetracker.http.tokens import TokenFile
from valuetracker.logging_setup import LINE_LENGTH

SECRET = "bridge-secret-do-not-log"
VALUE = "value-do-not-log"
# An escape may make six characters of one, and a few fields of an entry may be long.
LONGEST_LINE = 6 * 4 * LINE_LENGTH

STEERING = [
    b"/a\x1b[2Jb",
    b"/%0d%0aforged",
    b"/%1b[31mred",
    b"/a%00b",
    b"/%c2%9b31m",
    b"/a\xc2\x9bb",
    b"/\xe2\x80\xa8",
    b"/" + b"x" * 30_000,
    b'/"},{"forged":"',
]


def as_server(program: Program) -> RunningServer:
    """Return the program as the server that raw connections expect."""
    return RunningServer(program.url, program.data_dir, None, None)  # type: ignore[arg-type]


@pytest.fixture
def logged(run_program: RunProgram, tmp_path: Path) -> tuple[str, str]:
    """The debug log of a server that received all these requests, and a token."""
    tokens = TokenFile(tmp_path / "db")
    _, token = tokens.create("token-name", (), read_others=False, admin=True)
    program = run_program("--log-level", "debug", VALUETRACKER_BRIDGE_SECRET=SECRET)
    server = as_server(program)
    bearer = f"authorization: Bearer {token}".encode()
    with program.client("demo") as client:
        client.headers["authorization"] = f"Bearer {token}"
        client.post("/register", json={"extensionId": "demo"})
        client.post("/instances", json={"id": "sword", "characterId": "arthur", "name": VALUE})
        client.post("/instances/sword/data", json={"key": "k", "value": VALUE})
        client.put("/instances/sword/data/merge", json={"k": {"deep": [VALUE]}})
        client.patch("/instances/sword/data", json={"k": VALUE})
        client.post("/ping", json={"message": VALUE})
        client.post("/ping", content=f'{{"message": "{VALUE}"'.encode())
        client.get("/instances/sword/data", params={"q": VALUE})
        client.get("/instances/sword/data", params={"at": VALUE})
        client.get("/characters", headers={"authorization": f"Bearer {token}x"})
        client.get("/characters", headers={"x-vt-secret": SECRET, "x-vt-user": "alice"})
        client.get("/characters", headers={"x-vt-secret": SECRET, "x-vt-user": f"{SECRET}!"})
        client.get("/characters", headers={"cookie": VALUE, "x-actor": VALUE})
    for target in STEERING:
        for path in (ROOT + target, ROOT + b"/characters" + target):
            for request in (
                get(path, b"x-extension-id: demo", bearer),
                post(path, b"{}", b"x-extension-id: demo", bearer),
                get(path, b"x-extension-id: a\x1b[2J", bearer),
            ):
                with connected(server) as line:
                    line.send_as_far_as_taken(request)
                    line.answer()
    for garbage in (b"\x1b[2J\r\n\r\n", VALUE.encode() + b"\r\n\r\n", SECRET.encode() * 4_000):
        with connected(server) as line:
            line.send_as_far_as_taken(garbage)
            line.end()
            line.rest()
    # Cause a failure of the server: damage the file of an extension.
    damaged = program.data_dir / "broken.db"
    with program.client("broken") as client:
        client.headers["authorization"] = f"Bearer {token}"
        damaged.write_bytes(b"SQLite format 3\x00" + VALUE.encode() * 1_000)
        client.post("/register", json={"extensionId": "broken"})
        client.get("/characters")
    assert program.stop() == 0
    return program.log, token


def test_every_entry_is_one_bounded_line_of_json_without_control_characters(
    logged: tuple[str, str],
) -> None:
    log, _ = logged

    entries = log.split("\n")

    assert entries.pop() == ""
    assert len(entries) > 30
    for each in entries:
        assert isinstance(orjson.loads(each), dict)
        assert len(each) <= LONGEST_LINE
        assert all(32 <= ord(character) < 127 for character in each)


def test_no_stored_value_and_no_token_is_logged(
    logged: tuple[str, str],
) -> None:
    log, token = logged

    for secret in (VALUE, SECRET, token, token.rpartition("_")[2]):
        assert secret not in log


def test_every_field_of_an_entry_is_bounded() -> None:
    long = "\x1b" * 1_000_000

    line = written(long, path=long, error=ValueError(long), many=[long])

    assert len(line) <= LONGEST_LINE
    assert orjson.loads(line)["path"] == long[:LINE_LENGTH]
