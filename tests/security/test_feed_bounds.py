"""Readers of the feed: their limits, how they leave, and what an event can contain."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.security.raw import ROOT, Line, ask, connected, get, lines, refused
from valuetracker.http import limits

EVENTS = get(ROOT + b"/events", b"x-extension-id: demo")
OTHERS = get(ROOT + b"/cross-extension/events/demo")
POLL = get(ROOT + b"/changes?wait=60", b"x-extension-id: demo")
JOINT = get(ROOT + b"/events?extensions=demo,other")
JOINT_POLL = get(ROOT + b"/changes?extensions=demo,other&wait=60")


@pytest.fixture
def few(tmp_path: Path) -> Iterator[RunningServer]:
    """A server where three readers may follow `demo`, and five in all."""
    with running_server(tmp_path, feed_readers=3, all_feed_readers=5) as server:
        for extension_id in ("demo", "other", "third"):
            server.register(extension_id)
        with server.client("demo") as client:
            made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
            assert made.status_code == 200
        yield server


def readers(server: RunningServer) -> int:
    found: int = server.app.state.capacity.readers
    return found


def begun(line: Line) -> None:
    assert line.head()[0] == 200
    line.until(b"\n\n")


def follow(stack: ExitStack, server: RunningServer, request: bytes = EVENTS) -> Line:
    line = stack.enter_context(connected(server))
    line.send(request)
    begun(line)
    return line


def test_readers_beyond_the_extensions_limit_are_refused(few: RunningServer) -> None:
    with ExitStack() as stack:
        for request in (EVENTS, OTHERS, EVENTS):
            follow(stack, few, request)

        for request in (EVENTS, OTHERS, POLL):
            assert refused(ask(few, request)) == (429, "too_many_readers")
        # Another extension has a limit of its own, and a request that does not wait has none.
        follow(stack, few, EVENTS.replace(b"demo", b"other"))
        assert ask(few, POLL.replace(b"?wait=60", b"")).status_code == 200

    wait_for(lambda: readers(few) == 0)
    assert ask(few, POLL.replace(b"60", b"1")).status_code == 200


def test_readers_beyond_the_servers_limit_are_refused(few: RunningServer) -> None:
    with ExitStack() as stack:
        for extension_id in (b"demo", b"demo", b"demo", b"other", b"other"):
            follow(stack, few, EVENTS.replace(b"demo", extension_id))

        answer = ask(few, EVENTS.replace(b"demo", b"third"))

        assert refused(answer) == (429, "too_many_readers")
    wait_for(lambda: readers(few) == 0)


def test_a_reader_of_several_extensions_counts_for_each_of_them(few: RunningServer) -> None:
    three = JOINT.replace(b"other", b"other,third")
    with ExitStack() as stack:
        follow(stack, few, three)
        assert readers(few) == 3
        follow(stack, few, JOINT)
        assert readers(few) == 5
        # The server's limit is reached: the refused reader leaves nothing behind.
        for request in (JOINT, JOINT_POLL):
            answer = ask(few, request)
            assert refused(answer) == (429, "too_many_readers")
            assert answer.json()["details"] == {"extensionId": "demo"}
        assert readers(few) == 5
        assert ask(few, JOINT_POLL.replace(b"&wait=60", b"")).status_code == 200
    wait_for(lambda: readers(few) == 0)
    with ExitStack() as stack:
        for _ in range(3):
            follow(stack, few, EVENTS.replace(b"demo", b"other"))
        answer = ask(few, JOINT)
        assert refused(answer) == (429, "too_many_readers")
        assert answer.json()["details"] == {"extensionId": "other"}
        assert readers(few) == 3
    wait_for(lambda: readers(few) == 0)


@pytest.mark.parametrize("request_bytes", [JOINT, JOINT_POLL])
def test_readers_of_several_extensions_that_disconnect_are_no_longer_counted(
    few: RunningServer, request_bytes: bytes
) -> None:
    for _ in range(5):
        with connected(few) as first, connected(few) as second:
            for line in (first, second):
                line.send(request_bytes)
            wait_for(lambda: readers(few) == 4)
        wait_for(lambda: readers(few) == 0)


@pytest.mark.parametrize("request_bytes", [EVENTS, OTHERS, POLL])
def test_readers_that_disconnect_are_no_longer_counted(
    few: RunningServer, request_bytes: bytes
) -> None:
    for _ in range(5):
        with ExitStack() as stack:
            for _ in range(3):
                line = stack.enter_context(connected(few))
                line.send(request_bytes)
            wait_for(lambda: readers(few) == 3)
        wait_for(lambda: readers(few) == 0)


@pytest.mark.parametrize("request_bytes", [EVENTS, OTHERS, POLL, JOINT, JOINT_POLL])
def test_readers_lost_before_the_first_byte_are_no_longer_counted(
    few: RunningServer, request_bytes: bytes
) -> None:
    for number in range(60):
        with connected(few, RESET) as line:
            line.send(request_bytes if number % 2 else request_bytes[:-2])
            if number % 2 == 0:
                line.send(request_bytes[-2:])

    wait_for(lambda: readers(few) == 0)
    with ExitStack() as stack:
        for _ in range(3):
            follow(stack, few)


# Closing then breaks the connection off at once.
RESET = (socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("request_bytes", [EVENTS, JOINT])
def test_a_head_request_for_a_feed_is_not_counted_as_a_reader(
    few: RunningServer, request_bytes: bytes
) -> None:
    head = request_bytes.replace(b"GET", b"HEAD", 1)

    for _ in range(10):
        with connected(few) as line:
            line.send(head)
            assert line.head()[0] == 200

    wait_for(lambda: readers(few) == 0)


def test_requests_sent_behind_a_feed_are_not_counted_as_readers(few: RunningServer) -> None:
    with connected(few) as line:
        line.send(EVENTS * 40)
        begun(line)
        assert readers(few) == 1
    wait_for(lambda: readers(few) == 0)


def test_a_refused_reader_is_not_counted(few: RunningServer) -> None:
    bad = [
        EVENTS.replace(b"/events", b"/events?since=999999"),
        EVENTS.replace(b"/events", b"/events?since=-1"),
        EVENTS.replace(b"/events", b"/events?instanceId="),
        EVENTS.replace(b"demo", b"nobody"),
        JOINT.replace(b"other", b"nobody"),
        JOINT.replace(b"other", b"other&since=demo:1,other:9"),
        JOINT.replace(b"other", b"other&since=demo:1"),
    ]
    for request in bad * 3:
        assert refused(ask(few, request))[0] in (400, 404)

    assert readers(few) == 0


@pytest.mark.parametrize(
    "last",
    [b"", b"-1", b"x", b"1.5", b"1e3", b"0x1", b"1, 2", b"NaN", b"9" * 19, b"9" * 5_000, b"\xff"],
)
def test_a_bad_last_event_id_is_refused(few: RunningServer, last: bytes) -> None:
    answer = ask(few, get(ROOT + b"/events", b"x-extension-id: demo", b"last-event-id: " + last))

    # `1.5` is a cursor of an incarnation that never was.
    ended = (410, "incarnation_ended")
    assert refused(answer) in [(400, "invalid_header"), (400, "revision_unknown"), ended]


def test_two_last_event_ids_are_refused(few: RunningServer) -> None:
    twice = (b"last-event-id: 0", b"last-event-id: 1")

    answer = ask(few, get(ROOT + b"/events", b"x-extension-id: demo", *twice))

    assert refused(answer) == (400, "invalid_header")


NASTY = [
    "a\n\nevent: forged\ndata: {}\n\n",
    "a\r\n\r\nevent: forged\r\ndata: {}\r\n\r\n",
    "a\rdata: forged\r\r",
    "\u2028\u2029\u0085",
    "id: 999999",
    ": comment",
    "\ufeff",
    "\x00\x1b[2J",
]


def test_no_value_can_start_another_event(few: RunningServer) -> None:
    with ExitStack() as stack:
        line = follow(stack, few)
        with few.client("demo") as client:
            for text in NASTY:
                body = {"key": "k", "value": {text: [text]}}
                assert client.post("/instances/sword/data", json=body).status_code == 200
        for text in NASTY:
            event = line.until(b"\n\n").decode()
            id_line, event_line, data_line = event.rstrip("\n").split("\n")

            assert id_line.startswith("id: ")
            assert id_line[4:].isdigit()
            assert event_line == "event: change"
            change = json.loads(data_line.removeprefix("data: "))["changes"][0]
            assert change["after"] == {text: [text]}


@pytest.mark.parametrize("header", [b"x-actor", b"x-message-id", b"x-chat-id", b"x-swipe-id"])
def test_no_header_can_start_another_event(few: RunningServer, header: bytes) -> None:
    forged = b"a%0a%0aevent:%20forged%0adata:%20{}"
    body = b'{"key":"k","value":1}'
    request = lines(
        b"POST " + ROOT + b"/instances/sword/data HTTP/1.1",
        b"host: localhost",
        b"x-extension-id: demo",
        header + b": " + forged,
        b"content-length: %d" % len(body),
    )

    assert refused(ask(few, request + body)) == (400, "invalid_header")


def test_a_reader_that_does_not_read_is_disconnected_and_delays_nobody(
    few: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "STALLED_SECONDS", 1.0)
    monkeypatch.setattr(limits, "BODY_BYTES_PER_SECOND", 10**9)
    small = (socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)

    with connected(few, small) as deaf, ExitStack() as stack:
        deaf.send(EVENTS)
        wait_for(lambda: readers(few) == 1)
        reader = follow(stack, few)
        with few.client("demo") as client:
            values = {f"k{number}": "x" * 60_000 for number in range(50)}
            for _ in range(4):
                sent = client.put("/instances/sword/data/merge", json=values)
                assert sent.status_code == 200
                reader.until(b"\n\n")

        wait_for(lambda: readers(few) == 1)


def test_a_page_that_has_left_is_not_asked_to_reply_for_the_model(few: RunningServer) -> None:
    prompts = few.app.state.dispatcher.service.prompts
    pending = get(ROOT + b"/session/pending?wait=25")

    for _ in range(3):
        with connected(few) as line:
            line.send(pending)
            wait_for(lambda: prompts.listeners("default-user") == 1)

        wait_for(lambda: prompts.listeners("default-user") == 0)
