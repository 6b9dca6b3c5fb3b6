"""
Clients that are slow or silent or do not read, and too many clients.

A test shortens the limit that it would have to wait for.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.security.raw import (
    HOST,
    ROOT,
    Line,
    ask,
    connected,
    get,
    is_well,
    lines,
    ping,
    post,
    refused,
)
from valuetracker import budget
from valuetracker.budget import Budget, Share
from valuetracker.http import limits
from valuetracker.http.fast.shared_state import SharedState

PING = b"POST " + ROOT + b"/ping HTTP/1.1"
CHUNKED = b"transfer-encoding: chunked"
SOON = 1.0


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make every deadline long, so that a test shortens only the one it tests."""
    for name in vars(limits):
        if name.endswith("_SECONDS") and name != "CHECK_SECONDS":
            monkeypatch.setattr(limits, name, 1_000.0)
    monkeypatch.setattr(budget, "STUCK_SECONDS", 1_000.0)
    return monkeypatch


@pytest.fixture
def own(tmp_path: Path) -> Iterator[RunningServer]:
    """A server of the test's own, whose connections can be counted."""
    with running_server(tmp_path, connections=40, body_memory_mb=1) as server:
        server.register("demo")
        yield server


def shared(server: RunningServer) -> SharedState:
    found: SharedState = server.app.state.shared
    return found


def drip(line: Line, data: bytes, seconds: float = 0.05) -> None:
    """Send a byte at a time, until the other side closes the connection."""
    line.socket.settimeout(seconds)
    for byte in data:
        try:
            line.socket.send(bytes([byte]))
            if line.socket.recv(1, socket.MSG_PEEK) is not None:
                break
        except TimeoutError:
            continue
        except (BrokenPipeError, ConnectionResetError):
            break
    line.socket.settimeout(60)


def test_slow_headers_are_refused(server: RunningServer, hasty: pytest.MonkeyPatch) -> None:
    hasty.setattr(limits, "HEADER_SECONDS", SOON)
    endless = b"GET / HTTP/1.1\r\nx: " + b"y" * 5_000

    with connected(server) as line:
        drip(line, endless)
        answer = line.answer()

    assert refused(answer) == (408, "request_timeout")


def test_slow_headers_are_refused_on_a_connection_that_was_used_before(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "HEADER_SECONDS", SOON)

    with connected(server) as line:
        line.send(get())
        assert line.answer().status_code == 200
        line.send(b"GET / HT")
        assert refused(line.answer()) == (408, "request_timeout")
        assert line.rest() == b""


def test_slow_headers_are_refused_if_they_began_with_the_request_before(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    """Also if that request was answered at once, from the answer cache."""
    hasty.setattr(limits, "HEADER_SECONDS", SOON)
    known = get(ROOT + b"/characters", b"x-extension-id: demo")
    assert ask(server, known).status_code == 200

    with connected(server) as line:
        line.send(known + b"GET / HTTP/1.1\r\n")
        assert line.answer().status_code == 200
        # No byte of the second request came alone, so the connection is closed without an answer.
        assert line.rest() == b""


def test_a_silent_connection_is_closed_without_an_answer(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "HEADER_SECONDS", SOON)

    with connected(server) as line:
        assert line.rest() == b""


def test_a_connection_idle_between_requests_is_closed(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "IDLE_SECONDS", SOON)

    with connected(server) as line:
        line.send(get())
        assert line.answer().status_code == 200
        assert line.rest() == b""


@pytest.mark.parametrize("length", [b"content-length: 5000", CHUNKED])
def test_a_slow_body_is_refused(
    server: RunningServer, hasty: pytest.MonkeyPatch, length: bytes
) -> None:
    hasty.setattr(limits, "BODY_GRACE_SECONDS", SOON)
    hasty.setattr(limits, "BODY_BYTES_PER_SECOND", 1_000_000)

    with connected(server) as line:
        line.send(lines(PING, HOST, length))
        if length == CHUNKED:
            line.send(b"1388\r\n")
        drip(line, b"x" * 4_999)
        answer = line.answer()

    assert refused(answer) == (408, "request_timeout")


def test_a_body_that_is_announced_and_never_sent_is_refused(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "BODY_GRACE_SECONDS", SOON)

    for length in (b"content-length: 1", b"content-length: 30000000"):
        answer = ask(server, lines(PING, HOST, length))
        assert refused(answer) == (408, "request_timeout")


def test_a_body_that_comes_fast_enough_but_for_too_long_is_refused(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "BODY_SECONDS", SOON)
    hasty.setattr(limits, "BODY_BYTES_PER_SECOND", 1)

    with connected(server) as line:
        line.send(lines(PING, HOST, b"content-length: 5000"))
        drip(line, b"x" * 4_999)
        answer = line.answer()

    assert refused(answer) == (408, "request_timeout")


def test_a_body_that_is_slow_but_steady_is_accepted(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "BODY_GRACE_SECONDS", 1.5)
    hasty.setattr(limits, "BODY_BYTES_PER_SECOND", 1)
    body = b'{"message":"%b"}' % (b"x" * 64)

    with connected(server) as line:
        line.send(lines(PING, HOST, b"content-length: %d" % len(body)))
        for byte in body:
            line.send(bytes([byte]))
            time.sleep(0.03)
        assert line.answer().status_code == 200


def test_a_client_that_is_still_sending_receives_the_refusal(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    with connected(server) as line:
        line.send(lines(PING, b"host: evil.example", b"content-length: 20000000"))
        for _ in range(100):
            line.send_as_far_as_taken(b"x" * 200_000)
        assert refused(line.answer()) == (403, "host_not_allowed")


def test_a_client_that_keeps_sending_after_a_refusal_is_disconnected(
    server: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "LINGER_SECONDS", SOON)

    with connected(server) as line:
        line.send(b"nonsense\r\n\r\n")
        assert line.answer().status_code == 400

        def is_cut_off() -> bool:
            try:
                line.socket.send(b"x")
            except (BrokenPipeError, ConnectionResetError):
                return True
            return False

        wait_for(is_cut_off)


def fill(server: RunningServer, size: int, key: str = "k") -> None:
    """Write an instance with one large value, or another value."""
    with server.client("demo") as client:
        made = client.post("/instances", json={"id": "large", "characterId": "arthur"})
        assert made.status_code == 200
        sent = client.post("/instances/large/data", json={"key": key, "value": "x" * size})
        assert sent.status_code == 200


LARGE = get(ROOT + b"/instances/large/data", b"x-extension-id: demo")
SMALL_BUFFER = (socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)


def held_connections(server: RunningServer) -> int:
    """Count the connections that the server, which is in this process, has not closed."""
    port = int(server.url.rpartition(":")[2])
    found = psutil.Process().net_connections("tcp")
    return sum(each.laddr.port == port and each.status != "LISTEN" for each in found)


def test_a_client_that_does_not_read_is_disconnected(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "STALLED_SECONDS", SOON)
    fill(own, 8_000_000)
    wait_for(lambda: held_connections(own) == 0)

    with connected(own, SMALL_BUFFER) as line:
        line.send(LARGE)
        wait_for(lambda: held_connections(own) == 1)

        wait_for(lambda: held_connections(own) == 0)

        assert len(line.rest()) < 8_000_000


def test_a_client_that_reads_slowly_but_steadily_gets_the_whole_answer(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    """Although it takes far longer than the server waits for a client that does not read."""
    hasty.setattr(limits, "STALLED_SECONDS", 2 * SOON)
    for key in "abcd":
        fill(own, 7_000_000, key)

    with connected(own) as line:
        line.send(LARGE)
        received = 0
        while received < 28_000_000:
            piece = line.socket.recv(131_072)
            assert piece, "cut off"
            received += len(piece)
            time.sleep(0.03)


def test_no_further_answers_are_made_for_a_client_that_does_not_read(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    fill(own, 4_000_000)

    with connected(own, SMALL_BUFFER) as line:
        for _ in range(8):
            line.send(LARGE)
        assert is_well(own)
        bodies = [len(line.answer().content) for _ in range(8)]

    assert bodies == [4_000_008] * 8


def test_a_connection_beyond_the_limit_is_answered_that_the_server_is_full(
    own: RunningServer,
) -> None:
    with ExitStack() as stack:
        held = [stack.enter_context(connected(own)) for _ in range(40)]
        for line in held:
            line.send(get())
            assert line.answer().status_code == 200

        with connected(own) as line:
            # The server sends it before any request.
            answer = line.answer()
        held[0].send(get())

        assert refused(answer) == (503, "too_many_connections")
        assert held[0].answer().status_code == 200

    wait_for(lambda: ask(own, get()).status_code == 200)


def test_the_connections_that_are_answered_full_are_limited_too(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "REFUSED_CONNECTIONS", 5)

    with ExitStack() as stack:
        for _ in range(40):
            line = stack.enter_context(connected(own))
            line.send(get())
            assert line.answer().status_code == 200
        refused_lines = [stack.enter_context(connected(own)) for _ in range(5)]
        for line in refused_lines:
            assert refused(line.answer()) == (503, "too_many_connections")
        assert stack.enter_context(connected(own)).rest() == b""


# The budget: a server with one mebibyte for bodies. Half of it is shared; the oldest body may take
# more.

LONG = 700_000
ANNOUNCED = lines(PING, HOST, b"content-length: %d" % LONG)
HELD = ANNOUNCED + b"x" * (LONG - 1)


def test_a_body_waits_for_the_budget_and_is_accepted_when_there_is_some(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    message = "y" * LONG

    with connected(own) as holder, connected(own) as waiter:
        holder.send(HELD)
        wait_for(lambda: used(own) == LONG)
        body = b'{"message":"%b"}' % message.encode()
        waiter.send(lines(PING, HOST, b"content-length: %d" % len(body)) + body)
        wait_for(lambda: shared(own).budget.is_awaited)
        # Small bodies do not wait.
        assert ask(own, ping("small")).status_code == 200
        holder.send(b"x")
        assert holder.answer().status_code == 400

        assert waiter.answer().json() == {"message": f"Pong! {message}"}
    wait_for(lambda: used(own) == 0)


def used(server: RunningServer) -> int:
    return shared(server).budget.used


def test_a_client_that_disconnects_gives_its_share_of_the_budget_back(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        with connected(own) as line:
            line.send(HELD)
            wait_for(lambda: used(own) == LONG)
        wait_for(lambda: used(own) == 0)


def test_a_client_that_is_refused_gives_its_share_of_the_budget_back(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "BODY_GRACE_SECONDS", SOON)

    assert refused(ask(own, ANNOUNCED)) == (408, "request_timeout")

    wait_for(lambda: used(own) == 0)


def test_a_client_that_disconnects_while_it_waits_for_the_budget_is_skipped(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    with connected(own) as holder:
        holder.send(HELD)
        wait_for(lambda: used(own) == LONG)
        for _ in range(5):
            with connected(own) as line:
                line.send(HELD)
                wait_for(lambda: shared(own).budget.is_awaited)
    wait_for(lambda: used(own) == 0)
    assert ask(own, post(ROOT + b"/ping", b"x" * LONG)).status_code == 400


def test_a_slow_client_is_refused_early_if_others_wait_for_its_share_of_the_budget(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    hasty.setattr(limits, "CROWDED_SECONDS", SOON)

    with connected(own) as holder:
        # Alone, the client would have half a day.
        holder.send(lines(PING, HOST, CHUNKED) + b"%x\r\n%b\r\n" % (LONG, b"x" * LONG))
        wait_for(lambda: used(own) > LONG)
        assert ask(own, post(ROOT + b"/ping", b"x" * LONG)).status_code == 400
        assert refused(holder.answer()) == (408, "request_timeout")


def test_a_client_that_is_not_allowed_gets_no_share_of_the_budget(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    strangers: list[tuple[bytes, ...]] = [
        (b"host: evil.example",),
        (HOST, b"origin: https://evil.example"),
        (HOST, b"sec-fetch-site: cross-site"),
        (HOST, b"authorization: Bearer guessed"),
        (HOST, HOST),
    ]
    for headers in strangers:
        answer = ask(own, lines(PING, *headers, b"content-length: %d" % LONG))
        assert refused(answer)[0] in (400, 401, 403)
        assert used(own) == 0


def test_the_share_of_a_body_that_came_whole_is_not_used_for_the_next_body(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    """Else more would be given back than was taken, and soon there would be no limit."""
    full = 1_040_000
    small = b'{"message":"%b"}' % (b"x" * 20_000)
    large = b'{"message":"%b"}' % (b"x" * 500_000)

    with connected(own) as holder, connected(own) as line:
        held = lines(PING, HOST, b"content-length: %d" % full) + b"x" * (full - 1)
        holder.send(held)
        wait_for(lambda: used(own) == full)
        # The budget is used up, but the whole body arrives before reading pauses.
        line.send(post(ROOT + b"/ping", small))
        assert line.answer().status_code == 200
        assert not shared(own).budget.is_awaited
        line.send(post(ROOT + b"/ping", large)[:-1])
        wait_for(lambda: shared(own).budget.is_awaited)
        holder.send(b"x")
        assert holder.answer().status_code == 400
        wait_for(lambda: used(own) == len(large))
        line.send(large[-1:])
        assert line.answer().status_code == 200

    wait_for(lambda: used(own) == 0)


async def test_the_budget_grants_waiting_shares_in_order_and_skips_cancelled_ones() -> None:
    budget = Budget(100)
    granted: list[int] = []

    def reserve(size: int) -> Share:
        return budget.reserve(size, lambda: granted.append(size))

    first, second, third, fourth = (reserve(size) for size in (90, 30, 60, 500))
    assert [each.is_granted for each in (first, second, third, fourth)] == [True] + [False] * 3
    second.release()
    first.release()
    assert (granted, budget.used) == ([60], 60)
    # A second release gives nothing back.
    first.release()
    assert (granted, budget.used) == ([60], 60)
    third.release()
    # A body that is larger than the whole budget is granted alone.
    assert (granted, budget.used) == ([60, 500], 500)
    last = reserve(1)
    assert not last.is_granted
    fourth.release()
    assert (granted, budget.used) == ([60, 500, 1], 1)
    last.release()
    assert budget.used == 0
    assert reserve(100).is_granted


async def test_the_oldest_share_grows_beyond_the_budget_and_others_wait() -> None:
    budget = Budget(100)
    granted: list[str] = []
    oldest = budget.reserve(40, lambda: None)
    other = budget.reserve(40, lambda: None)

    assert not other.grow(80, lambda: granted.append("other"))
    assert oldest.grow(300, lambda: granted.append("oldest"))
    assert (granted, budget.used) == ([], 340)
    oldest.shrink(10)
    assert (granted, budget.used) == (["other"], 90)
    # Now it is the oldest.
    late = budget.reserve(50, lambda: granted.append("late"))
    oldest.release()
    assert not late.is_granted
    assert other.grow(200, lambda: None)
    other.release()
    assert (granted, budget.used) == (["other", "late"], 50)


async def test_a_share_whose_holder_does_not_move_is_lost_while_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(budget, "STUCK_SECONDS", 0.2)
    monkeypatch.setattr(budget, "CHECK_SECONDS", 0.05)
    shared = Budget(100)
    lost: list[str] = []
    settled = shared.reserve(10, lambda: None, lambda: lost.append("settled"))
    settled.settle()
    idle = shared.reserve(50, lambda: None, lambda: lost.append("idle"))
    busy = shared.reserve(40, lambda: None, lambda: lost.append("busy"))

    taking = asyncio.create_task(shared.take(50))
    while not taking.done():
        busy.move(budget.STUCK_BYTES)
        await asyncio.sleep(0.01)

    assert lost == ["idle"]
    assert (idle.size, shared.used) == (0, 100)


def test_the_deadline_of_a_request_does_not_run_while_the_answer_before_it_is_made(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    """The server does not read meanwhile, so the rest of the request cannot arrive."""
    hasty.setattr(limits, "HEADER_SECONDS", 3 * SOON)
    wait = get(ROOT + b"/changes?wait=5", b"x-extension-id: demo")
    last = get()

    with connected(own) as line:
        line.send(wait + get() + last[:-4])
        assert line.answer().json() == {"items": [], "next": 0}
        assert line.answer().status_code == 200
        line.send(last[-4:])
        assert line.answer().status_code == 200


def test_a_stream_does_not_extend_the_deadline_of_a_request_half_sent(
    own: RunningServer, hasty: pytest.MonkeyPatch
) -> None:
    """A feed goes on while garbage is sent behind it, and ends when its reader disconnects."""
    with connected(own) as line:
        line.send(get(ROOT + b"/events", b"x-extension-id: demo"))
        assert line.head()[0] == 200
        line.send_as_far_as_taken(b"garbage\r\n" * 10_000)
        with own.client("demo") as client:
            assert client.post("/characters", json={"id": "arthur"}).status_code == 200
        assert b"create_character" in line.until(b"create_character")
