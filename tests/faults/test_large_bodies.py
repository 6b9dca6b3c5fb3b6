"""Large bodies: what they may take of memory, and of the time of others."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import psutil
import pytest

from tests.faults.memory import MB, SOAK, reaching, watched
from tests.security.raw import HOST, ROOT, lines, ping, post
from tests.system.conftest import Program, RunProgram
from tests.system.conftest import run_program as run_program
from valuetracker.values import BODY_BYTES

PING = b"POST " + ROOT + b"/ping HTTP/1.1"
# All bodies together, parsed and not.
SHARED = 256 * MB
# No request keeps another extension waiting for longer than 250 ms. The machine of a test may be
# busy with much else, which does not count: a wait is no longer than what the server worked in it.
LONGEST_SECONDS = 8 * 0.25
# An honest body is answered within this time, whatever others announce. Those that send nothing
# would be dropped after ten seconds in any case.
HONEST_SECONDS = 9.0


def body_of(item: bytes, size: int = BODY_BYTES, last: bytes = b"0") -> bytes:
    head = b'{"key":"k","value":['
    return head + item * ((size - len(head) - 40) // len(item)) + last + b"]}"


SHAPES = {
    "objects": (body_of(b'{"":0},'), 413),
    "objects and one long number": (body_of(b'{"":0},', last=b"1234567890123456789"), 413),
    "a string": (body_of(b"x", last=b"").replace(b"[", b'"').replace(b"]", b'"'), 413),
    "accepted": (body_of(b'{"":0},', 2_000_000), 404),
}
IN_SOAK = {
    "arrays": (body_of(b"[],"), 413),
    "numbers": (body_of(b"1234567890123456789,"), 413),
    "deep": (body_of(b"[" * 100 + b"]" * 100 + b","), 413),
    "keys": (b"{" + b",".join(b'"k%d":1' % each for each in range(2_300_000)) + b"}", 413),
    "escapes": (body_of(b"\\n", last=b"").replace(b"[", b'"').replace(b"]", b'"'), 413),
    "empty strings": (body_of(b'"",'), 413),
    "blanks": (body_of(b" " * 1_000, last=b""), 404),
}


@pytest.mark.parametrize("name", [*SHAPES, *(IN_SOAK if SOAK else [])])
def test_large_bodies_take_little_and_delay_nobody(run_program: RunProgram, name: str) -> None:
    program = run_program()
    for extension_id in ("demo", "other"):
        program.register(extension_id)
    body, status = (SHAPES | IN_SOAK)[name]
    request = post(ROOT + b"/instances/sword/data", body, b"x-extension-id: demo")

    def send(_: int) -> int:
        with reaching(program) as line:
            line.send_as_far_as_taken(request)
            return line.answer().status_code

    with program.client("other") as other, ThreadPoolExecutor(2) as pool:
        assert other.post("/characters", json={"id": "arthur"}).status_code == 200
        with watched(program) as memory:
            sent = [pool.submit(send, number) for number in range(2)]
            times = [0.0]
            while not all(each.done() for each in sent):
                begun, worked = time.perf_counter(), seconds_worked(program)
                assert other.get("/characters").status_code == 200
                waited = time.perf_counter() - begun
                times.append(min(waited, seconds_worked(program) - worked))
        assert {each.result() for each in sent} == {status}
    assert memory.growth < SHARED
    assert max(times) < LONGEST_SECONDS


def seconds_worked(program: Program) -> float:
    """Return how much processor time the server has used so far."""
    times = psutil.Process(program.server_pid).cpu_times()
    return float(times.user + times.system)


def announced(sent: int) -> bytes:
    return lines(PING, HOST, b"content-length: 33554432") + b"x" * sent


def seconds_for_an_honest_body(program: Program) -> float:
    with reaching(program) as line:
        begun = time.monotonic()
        line.send(ping("y" * 1_000_000))
        assert line.answer().status_code == 200
        return time.monotonic() - begun


@pytest.mark.parametrize("sent", [0, 100_000, 1_500_000])
def test_bodies_that_are_announced_and_not_sent_delay_nobody(
    run_program: RunProgram, sent: int
) -> None:
    program = run_program()
    with ExitStack() as stack, watched(program) as memory:
        for _ in range(24):
            stack.enter_context(reaching(program)).send(announced(sent))

        assert seconds_for_an_honest_body(program) < HONEST_SECONDS
        assert memory.growth < SHARED


def test_a_body_that_does_not_grow_is_dropped_while_another_waits(run_program: RunProgram) -> None:
    program = run_program("--body-memory-mb", "2")
    with ExitStack() as stack:
        silent = [stack.enter_context(reaching(program)) for _ in range(2)]
        for each in silent:
            each.send(announced(700_000))

        assert seconds_for_an_honest_body(program) < HONEST_SECONDS
        assert silent[0].answer().status_code == 408
