"""The memory that readers of feeds can take, whatever they ask for and however they read."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import running_server, wait_for
from tests.faults.memory import MB, SMALL_BUFFER, SOAK, reaching, watched
from tests.security.raw import ROOT, Line, connected, get
from tests.system.conftest import Program, RunProgram
from tests.system.conftest import run_program as run_program
from valuetracker import budget
from valuetracker.runtime import event_memory

READERS = 50
# All readers that are catching up share this much, and the rest is for what is read at a time.
SHARED = 64 * MB
PER_IDLE_READER = 50_000
REVISIONS = 300 if SOAK else 30
LARGE_EVENTS = 6 if SOAK else 1
IDLE = 2_000 if SOAK else 300

QUERIES = [
    b"/events?extensionId=demo&since=0",
    b"/events?extensionId=demo&since=0&instanceId=sword",
    b"/events?extensions=demo,other&since=demo:0,other:0",
    b"/changes?extensionId=demo&since=0&limit=1000",
    b"/changes?extensions=demo,other&since=demo:0,other:0&limit=1000",
]


def fill(program: Program) -> None:
    """Write revisions of 60 kB, then some of 5 MB, then some with values left out of events."""
    for extension_id in ("demo", "other"):
        program.register(extension_id)
    with program.client("demo") as client:
        made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
        assert made.status_code == 200
        for number in range(REVISIONS):
            value = f"{number}" + "x" * 60_000
            sent = client.post("/instances/sword/data", json={"key": "k", "value": value})
            assert sent.status_code == 200
        for number in range(LARGE_EVENTS):
            values = {f"k{each}": f"{number}" + "y" * 60_000 for each in range(80)}
            assert client.put("/instances/sword/data/merge", json=values).status_code == 200
        for number in range(LARGE_EVENTS):
            body = {"key": "huge", "value": f"{number}" + "z" * 8_000_000}
            assert client.post("/instances/sword/data", json=body).status_code == 200


def read_whole_history(line: Line, query: bytes) -> int:
    """Read all events from the first revision on, and return how many there were."""
    line.send(get(ROOT + query))
    assert line.head()[0] == 200
    count = 0
    text = b""
    while b'"key":"end"' not in text:
        text = line.until(b"\n\n")
        count += text.startswith(b"id: ")
    return count


def test_readers_that_ask_for_history_and_do_not_read_take_little(run_program: RunProgram) -> None:
    program = run_program()
    fill(program)
    encodings = (b"identity", b"deflate")
    asked = [(query, encoding) for query in QUERIES for encoding in encodings]
    with ExitStack() as stack, watched(program) as memory:
        for number in range(READERS):
            query, encoding = asked[number % len(asked)]
            line = stack.enter_context(reaching(program, SMALL_BUFFER))
            line.send(get(ROOT + query, b"accept-encoding: " + encoding))
            assert line.socket.recv(1) == b"H"
        honest = stack.enter_context(reaching(program))
        with program.client("demo") as client:
            body = {"key": "end", "value": 1}
            assert client.post("/instances/sword/data", json=body).status_code == 200
        # One that reads gets everything, although the others hold what they have.
        assert read_whole_history(honest, QUERIES[0]) == 2 + REVISIONS + 2 * LARGE_EVENTS
        assert memory.growth < SHARED

    wait_for(lambda: memory.now - memory.before < SHARED // 2)


def test_an_idle_reader_takes_little(run_program: RunProgram) -> None:
    program = run_program("--feed-readers", str(IDLE))
    program.register("demo")
    with program.client("demo") as client, ExitStack() as stack:
        assert client.post("/characters", json={"id": "arthur"}).status_code == 200
        lines = [stack.enter_context(reaching(program)) for _ in range(IDLE)]
        with watched(program) as memory:
            for line in lines:
                line.send(get(ROOT + b"/events?since=0", b"x-extension-id: demo"))
            for line in lines:
                line.until(b"create_character")
            assert memory.growth < IDLE * PER_IDLE_READER


def test_commits_with_large_values_take_little_while_somebody_follows(
    run_program: RunProgram,
) -> None:
    """The events say little, because values above 64 KiB are left out: the values must not stay."""
    program = run_program()
    program.register("demo")
    with program.client("demo") as client, ExitStack() as stack:
        body = {"id": "sword", "characterId": "arthur"}
        assert client.post("/instances", json=body).status_code == 200
        line = stack.enter_context(reaching(program))
        line.send(get(ROOT + b"/events?key=k", b"x-extension-id: demo"))
        line.until(b"\n\n")

        def write(times: int) -> None:
            for number in range(times):
                body = {"key": "k", "value": f"{number}" + "z" * 7_000_000}
                assert client.post("/instances/sword/data", json=body).status_code == 200
            for _ in range(times):
                line.until(b'"key":"k"')

        write(2)
        with watched(program) as memory:
            write(30 if SOAK else 8)
            # As much again for the body that is being written.
            assert memory.growth < 2 * SHARED


def test_readers_share_the_memory_for_large_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not read loses its event when another waits, which then gets its own."""
    monkeypatch.setattr(budget, "STUCK_SECONDS", 0.5)
    monkeypatch.setattr(event_memory, "SHARED_BYTES", 1_000_000)
    with running_server(tmp_path) as server, ExitStack() as stack:
        server.register("demo")
        with server.client("demo") as client:
            body = {"id": "sword", "characterId": "arthur"}
            assert client.post("/instances", json=body).status_code == 200
            values = {f"k{each}": "y" * 60_000 for each in range(80)}
            assert client.put("/instances/sword/data/merge", json=values).status_code == 200
        shared = server.app.state.capacity.events.budget
        request = get(ROOT + b"/events?since=0", b"x-extension-id: demo")
        deaf = stack.enter_context(connected(server, SMALL_BUFFER))
        deaf.send(request)
        wait_for(lambda: shared.used > 1_000_000)
        reader = stack.enter_context(connected(server))
        reader.send(request)
        assert reader.until(b'"key":"k79"')
        reader.until(b"\n\n")
        assert b'"key":"k79"' not in deaf.rest()
    wait_for(lambda: shared.used == 0)
