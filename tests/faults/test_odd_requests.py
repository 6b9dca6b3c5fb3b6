"""Requests half closed, of other protocols, and with chunks that no body may have."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.security.raw import HEALTH, HOST, ROOT, ask, connected, get, lines, ping, post, refused

DEMO = b"x-extension-id: demo"
PING = b"POST " + ROOT + b"/ping HTTP/1.1"
CHUNKED = b"transfer-encoding: chunked"
LARGEST_SIZE = b"ffffffffffffffff"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("odd")) as server:
        server.register("demo")
        yield server


def readers(server: RunningServer) -> int:
    found: int = server.app.state.capacity.readers
    return found


def test_a_client_that_closes_its_sending_side_gets_its_answer(server: RunningServer) -> None:
    for number in range(50):
        body = b'{"id":"half-%d","characterId":"arthur"}' % number
        with connected(server) as line:
            line.send(post(ROOT + b"/instances", body, DEMO))
            line.end()
            answer = line.answer()
            assert answer.json()["id"] == f"half-{number}"
            assert line.rest() == b""


def test_all_requests_that_were_sent_ahead_of_the_end_are_answered(server: RunningServer) -> None:
    each = [post(ROOT + b"/characters", b'{"id":"c-%d"}' % number, DEMO) for number in range(8)]
    with connected(server) as line:
        line.send(b"".join(each) + get())
        line.end()
        ids = [line.answer().json()["id"] for _ in range(8)]
        assert ids == [f"c-{number}" for number in range(8)]
        assert line.answer().json()["ok"] is True
        assert line.rest() == b""


def test_a_request_cut_off_by_the_end_is_not_answered_and_those_before_it_are(
    server: RunningServer,
) -> None:
    with connected(server) as line:
        line.send(post(ROOT + b"/characters", b'{"id":"whole"}', DEMO) + get()[:-2])
        line.end()
        assert line.answer().json()["id"] == "whole"
        assert line.rest() == b""


@pytest.mark.parametrize("target", [b"/events", b"/changes?wait=60"])
def test_a_reader_that_closes_its_sending_side_has_left(
    server: RunningServer, target: bytes
) -> None:
    with connected(server) as line:
        line.send(get(ROOT + target, DEMO))
        wait_for(lambda: readers(server) == 1)
        line.end()
        line.rest()
    wait_for(lambda: readers(server) == 0)
    with connected(server) as line:
        line.send(get(ROOT + target, DEMO))
        line.end()
        line.rest()
    wait_for(lambda: readers(server) == 0)


OTHER_PROTOCOLS = [
    b"GET %b RTSP/1.0\r\nhost: localhost\r\n\r\n",
    b"GET %b RTSP/1.1\r\nhost: localhost\r\n\r\n",
    b"OPTIONS %b RTSP/1.0\r\nhost: localhost\r\n\r\n",
    b"SOURCE %b ICE/1.0\r\nhost: localhost\r\n\r\n",
    b"GET ftp://localhost%b HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET ws://localhost%b HTTP/1.1\r\nhost: localhost\r\n\r\n",
]


@pytest.mark.parametrize("text", OTHER_PROTOCOLS)
def test_a_request_of_another_protocol_is_refused_however_it_is_cut(
    server: RunningServer, text: bytes
) -> None:
    request = text % HEALTH
    for position in (0, *range(1, text.index(b"\r\n") + len(HEALTH))):
        with connected(server) as line:
            line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            line.send(request[:position])
            line.send_as_far_as_taken(request[position:])
            assert refused(line.answer()) == (400, "malformed_request")
            assert line.rest() == b""


def test_a_request_of_another_protocol_behind_a_good_one_is_refused(server: RunningServer) -> None:
    with connected(server) as line:
        line.send(get() + OTHER_PROTOCOLS[0] % HEALTH)
        assert line.answer().json()["ok"] is True
        assert refused(line.answer()) == (400, "malformed_request")


def test_the_names_of_other_protocols_are_data_elsewhere(server: RunningServer) -> None:
    text = "GET /x RTSP/1.0 and ffffffffffffffff"
    for body in (ping(text), ping(text, b"x-text: GET /x RTSP/1.0")):
        assert ask(server, body).json() == {"message": f"Pong! {text}"}
    assert ask(server, get(HEALTH + b"?a=RTSP/1.0")).json()["ok"] is True
    # In a chunk, and at the beginning of what is received at once.
    with connected(server) as line:
        line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        content = b"[\nffffffffffffffff\nGET /x RTSP/1.0\r\n]"
        line.send(lines(PING, HOST, CHUNKED) + b"%x\r\n[\n" % len(content))
        line.send(content[2:] + b"\r\n0\r\n\r\n")
        answer = line.answer()
        assert refused(answer) == (400, "invalid_body")
        line.send(get())
        assert line.answer().json()["ok"] is True


@pytest.mark.parametrize(
    "size", [LARGEST_SIZE, b"000FFFFFFFFFFFFFFFF", b"2000001", b"7fffffff;x=y"]
)
def test_a_chunk_larger_than_any_body_is_refused_at_once(
    server: RunningServer, size: bytes
) -> None:
    """Before a byte of it is sent, wherever the size is cut."""
    head = lines(PING, HOST, CHUNKED)
    for before in (b"", b"1\r\nx\r\n"):
        for cut in (None, *range(len(size) + 1)):
            with connected(server) as line:
                line.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if cut is None:
                    line.send(head + before + size + b"\r\n")
                else:
                    line.send(head + before + size[:cut])
                    line.send_as_far_as_taken(size[cut:] + b"\r\n")
                assert refused(line.answer()) == (413, "body_too_large")


def test_folders_are_shown_to_admins_only(tmp_path: Path) -> None:
    root = tmp_path / "SillyTavern"
    given = {"st_root": (root,), "st_enabled": 0, "bridge_secret": "s", "st_data_root": str(root)}
    with running_server(tmp_path / "db", **given) as server, ExitStack() as stack:
        client = stack.enter_context(server.client())
        client.headers.update({"x-vt-secret": "s", "x-vt-user": "alice"})
        for route in ("/st/paths", "/st/health"):
            shown = client.get(route, headers={"x-vt-admin": "true"})
            hidden = client.get(route, headers={"x-vt-admin": "false"})

            assert str(root) in shown.text
            assert hidden.status_code == 200
            assert set(hidden.json()) == set(shown.json())
            assert "/" not in hidden.text.replace("http://127.0.0.1:8000", "").replace(
                "/api/plugins/valuetracker", ""
            )
