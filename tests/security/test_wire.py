"""Invalid or ambiguous HTTP; requests sent ahead, compressed or too large."""

from __future__ import annotations

import gzip

import pytest

from tests.conftest import RunningServer
from tests.security.raw import (
    HEALTH,
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
from valuetracker.http.limits import HEADER_BYTES, HEADER_COUNT
from valuetracker.values import BODY_BYTES

PING = b"POST " + ROOT + b"/ping HTTP/1.1"
JSON = b"content-type: application/json"
CHUNKED = b"transfer-encoding: chunked"
BODY = b'{"message":"x"}'


def chunks(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in pieces) + b"0\r\n\r\n"


SMUGGLED = [
    # Which of two lengths is it?
    lines(PING, HOST, b"content-length: 15", CHUNKED) + chunks(BODY),
    lines(PING, HOST, CHUNKED, b"content-length: 15") + chunks(BODY),
    lines(PING, HOST, b"content-length: 15", b"content-length: 15") + BODY,
    lines(PING, HOST, b"content-length: 15", b"content-length: 16") + BODY,
    lines(PING, HOST, b"content-length: 15, 15") + BODY,
    # Is it a length at all?
    lines(PING, HOST, b"content-length: +15") + BODY,
    lines(PING, HOST, b"content-length: -15") + BODY,
    lines(PING, HOST, b"content-length: 0x0f") + BODY,
    lines(PING, HOST, b"content-length: 1 5") + BODY,
    lines(PING, HOST, b"content-length: 15.0") + BODY,
    lines(PING, HOST, b"content-length: 1e1") + BODY,
    lines(PING, HOST, b"content-length:") + BODY,
    lines(PING, HOST, b"content-length: 18446744073709551631") + BODY,
    lines(PING, HOST, b"content-length: " + b"9" * 400) + BODY,
    # Is it chunked?
    lines(PING, HOST, b"transfer-encoding: xchunked") + chunks(BODY),
    lines(PING, HOST, b"transfer-encoding: chunked, identity") + chunks(BODY),
    lines(PING, HOST, b"transfer-encoding: identity") + BODY,
    lines(PING, HOST, CHUNKED, CHUNKED) + chunks(BODY),
    lines(PING, HOST, CHUNKED, b"transfer-encoding: identity") + chunks(BODY),
    lines(PING, HOST, b"transfer-encoding : chunked") + chunks(BODY),
    lines(PING, HOST, b" transfer-encoding: chunked") + chunks(BODY),
    lines(PING, HOST, b"transfer-encoding:\x0bchunked") + chunks(BODY),
    lines(PING.replace(b"1.1", b"1.0"), HOST, CHUNKED) + chunks(BODY),
    # Are these chunks?
    lines(PING, HOST, CHUNKED) + b"f\n" + BODY + b"\n0\n\n",
    lines(PING, HOST, CHUNKED) + b"f\r\n" + BODY + b"xx0\r\n\r\n",
    lines(PING, HOST, CHUNKED) + b"+f\r\n" + BODY + b"\r\n0\r\n\r\n",
    lines(PING, HOST, CHUNKED) + b"0xf\r\n" + BODY + b"\r\n0\r\n\r\n",
    lines(PING, HOST, CHUNKED) + b"-1\r\n" + BODY + b"\r\n0\r\n\r\n",
    lines(PING, HOST, CHUNKED) + b"fffffffffffffffff\r\n" + BODY,
    lines(PING, HOST, CHUNKED) + b"\r\n" + BODY,
    # Where does a line end?
    b"GET " + HEALTH + b" HTTP/1.1\nhost: localhost\n\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\nx-extension-id: demo\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\rx-extension-id: demo\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\n host: localhost\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\nx-a: b\r\n c: d\r\n\r\n",
    # What is a header?
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost localhost\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\n: nameless\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\nx y: z\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\nx\x00y: z\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\nx: y\x00z\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: local\x00host\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\nx\xc3\xa9: z\r\n\r\n",
    # What is a request?
    b"GET\t" + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.1 \r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b" a HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/2.0\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/1.10\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b" HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b" ICY/1.1\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b"\r\nhost: localhost\r\n\r\n",
    b"get " + HEALTH + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET relative HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b"#fragment HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET " + HEALTH + b"\x00 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"CONNECT localhost:80 HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
    b"EHLO localhost\r\n",
    b"\x00" * 64,
]


@pytest.mark.parametrize("request_bytes", SMUGGLED)
def test_an_ambiguous_request_is_refused_and_nothing_after_it_is_read(
    server: RunningServer, request_bytes: bytes
) -> None:
    with connected(server) as line:
        line.send_as_far_as_taken(request_bytes + get(ROOT + b"/smuggled"))
        answer = line.answer()
        after = line.rest()

    assert refused(answer)[0] in (400, 415)
    assert answer.headers["connection"] == "close"
    assert after == b""


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"deflate, chunked", b"br,chunked"])
def test_a_compressed_body_is_refused(server: RunningServer, coding: bytes) -> None:
    request = lines(PING, HOST, b"transfer-encoding: " + coding) + chunks(gzip.compress(BODY))

    assert refused(ask(server, request)) == (415, "unsupported_media_type")


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "GZIP", "gzip, gzip", "x"])
def test_a_compression_bomb_is_not_unpacked(server: RunningServer, coding: str) -> None:
    bomb = gzip.compress(b'{"message":"' + b"0" * 20_000_000 + b'"}')

    with server.client() as client:
        answer = client.post(
            "/ping",
            content=bomb,
            headers={"content-encoding": coding, "content-type": "application/json"},
        )

    assert refused(answer) == (415, "unsupported_media_type")


def test_blanks_around_a_header_value_are_no_part_of_it(server: RunningServer) -> None:
    answer = ask(server, get(ROOT + b"/characters", b"x-extension-id: \t demo \t "))

    assert answer.status_code == 200


def test_a_trailer_after_a_body_is_not_read_as_a_header(server: RunningServer) -> None:
    trailers = b"0\r\nx-extension-id: demo\r\nhost: evil.example\r\norigin: null\r\n\r\n"
    body = b'{"id":"arthur"}'
    head = lines(b"POST " + ROOT + b"/characters HTTP/1.1", HOST, CHUNKED, JSON)

    answer = ask(server, head + chunks(body)[:-5] + trailers)

    assert refused(answer) == (400, "extension_id_required")


def test_trailers_and_chunk_extensions_are_bounded(server: RunningServer) -> None:
    head = lines(PING, HOST, CHUNKED)
    endless = (b"0\r\nx: ", b"1;x=", b"0\r\n" + b"a: b\r\n" * 10)

    for beginning in endless:
        with connected(server) as line:
            line.send(head + beginning)
            for _ in range(64):
                line.send_as_far_as_taken(b"y" * 32_768)
            assert refused(line.answer()) == (400, "malformed_request")


def test_a_body_in_tiny_chunks_is_one_body(server: RunningServer) -> None:
    message = "y" * 20_000
    body = b'{"message":"' + message.encode() + b'"}'
    request = lines(PING, HOST, CHUNKED) + chunks(*(body[n : n + 1] for n in range(len(body))))

    assert ask(server, request).json() == {"message": f"Pong! {message}"}


def test_a_body_longer_than_the_limit_is_refused_when_it_is_announced(
    server: RunningServer,
) -> None:
    for length in (BODY_BYTES + 1, 10**12, 2**63 - 1):
        answer = ask(server, lines(PING, HOST, b"content-length: %d" % length))
        assert refused(answer) == (413, "body_too_large")


def test_chunks_without_end_are_refused_at_the_limit(server: RunningServer) -> None:
    piece = b"%x\r\n%b\r\n" % (1 << 20, b"x" * (1 << 20))

    with connected(server) as line:
        line.send(lines(PING, HOST, CHUNKED))
        for _ in range(BODY_BYTES // (1 << 20) + 2):
            line.send_as_far_as_taken(piece)
        answer = line.answer()

    assert refused(answer) == (413, "body_too_large")
    assert is_well(server)


@pytest.mark.parametrize("size", [HEADER_BYTES + 1, 100_000, 5_000_000])
@pytest.mark.parametrize("ended", [True, False])
def test_headers_beyond_the_limit_are_refused_with_a_reason(
    server: RunningServer, size: int, ended: bool
) -> None:
    request = get(HEALTH, b"x-long: " + b"y" * size)

    answer = ask(server, request if ended else request[:-4])

    assert refused(answer) == (431, "headers_too_large")


def test_a_target_beyond_the_limit_is_refused(server: RunningServer) -> None:
    answer = ask(server, get(HEALTH + b"?" + b"y" * 3_000_000))

    assert refused(answer) == (431, "headers_too_large")


def test_one_header_too_many_is_refused(server: RunningServer) -> None:
    many = [b"x-%d: y" % number for number in range(HEADER_COUNT - 1)]

    assert ask(server, get(HEALTH, *many)).status_code == 200
    assert refused(ask(server, get(HEALTH, *many, b"x: y"))) == (431, "headers_too_large")
    empty = get(HEALTH, *[b"x:"] * 20_000)
    assert refused(ask(server, empty)) == (431, "headers_too_large")


def test_expect_100_continue_is_answered_before_the_body(server: RunningServer) -> None:
    with connected(server) as line:
        line.send(lines(PING, HOST, b"content-length: 15", b"expect: 100-continue"))
        assert line.answer().status_code == 100
        line.send(BODY)
        assert line.answer().json() == {"message": "Pong! x"}


def test_expect_100_continue_is_answered_after_the_requests_before_it(
    server: RunningServer,
) -> None:
    body = b'{"extensionId":"expecting"}'
    register = lines(PING.replace(b"/ping", b"/register"), HOST, b"content-length: %d" % len(body))
    with connected(server) as line:
        line.send(register + body)
        # A registration takes time, so the next request comes before its answer.
        line.send(lines(PING, HOST, b"content-length: 15", b"expect: 100-continue"))
        assert line.answer().json()["success"]
        assert line.answer().status_code == 100
        line.send(BODY)
        assert line.answer().json() == {"message": "Pong! x"}


def test_a_request_that_would_be_refused_is_refused_instead_of_100_continue(
    server: RunningServer,
) -> None:
    expect = b"expect: 100-continue"
    long = b"content-length: %d" % (BODY_BYTES + 1)
    large = b"content-length: 1000000"

    other = ask(server, lines(PING, HOST, b"content-length: 15", b"expect: a miracle"))
    too_long = ask(server, lines(PING, HOST, long, expect))
    stranger = ask(server, lines(PING, b"host: evil.example", large, expect))

    assert refused(other) == (417, "expectation_failed")
    assert refused(too_long) == (413, "body_too_large")
    assert refused(stranger) == (403, "host_not_allowed")


def test_requests_sent_ahead_are_answered_in_their_order(server: RunningServer) -> None:
    mixed = [get() if number % 3 else ping(str(number)) for number in range(40)]

    with connected(server) as line:
        line.send(b"".join(mixed))
        answers = [line.answer().json() for _ in mixed]

    expected = [f"Pong! {number}" if number % 3 == 0 else None for number in range(40)]
    assert [answer.get("message") for answer in answers] == expected


def test_many_requests_sent_ahead_are_answered_in_order_or_the_connection_ends(
    server: RunningServer,
) -> None:
    flood = b"".join(ping(str(number)) for number in range(5_000))

    with connected(server) as line:
        line.send_as_far_as_taken(flood)
        received = messages(line)

    assert received == [f"Pong! {number}" for number in range(len(received))]
    assert received
    assert is_well(server)


def messages(line: Line) -> list[str]:
    found: list[str] = []
    while len(found) < 5_000:
        answer = line.answer()
        found.append(answer.json()["message"])
        if answer.headers.get("connection") == "close":
            break
    return found


def test_nothing_is_read_after_a_request_that_closes_the_connection(server: RunningServer) -> None:
    close = get(HEALTH, b"connection: close")

    with connected(server) as line:
        line.send(close + get(ROOT + b"/smuggled"))
        assert line.answer().status_code == 200
        assert line.rest() == b""


def test_the_body_of_a_refused_request_is_not_read_as_the_next_request(
    server: RunningServer,
) -> None:
    inner = get(ROOT + b"/smuggled")

    with connected(server) as line:
        line.send(post(ROOT + b"/nowhere", inner) + get())
        assert refused(line.answer()) == (404, "not_found")
        assert line.answer().json()["ok"] is True


def test_the_body_of_a_read_is_not_read_as_the_next_request(server: RunningServer) -> None:
    inner = get(ROOT + b"/smuggled")

    with connected(server) as line:
        line.send(get(HEALTH, b"content-length: %d" % len(inner)) + inner + get())
        assert line.answer().json()["ok"] is True
        assert line.answer().json()["ok"] is True


@pytest.mark.parametrize("scheme", [b"http", b"https", b"HTTP", b"ws", b"javascript"])
def test_a_target_with_a_host_is_answered_by_its_path(server: RunningServer, scheme: bytes) -> None:
    answer = ask(server, get(scheme + b"://localhost" + HEALTH + b"?a=b"))

    assert answer.status_code in (200, 400)
    if answer.status_code == 200:
        assert answer.json()["ok"] is True


def test_a_request_sent_byte_by_byte_is_answered(server: RunningServer) -> None:
    with connected(server) as line:
        for byte in ping("slowly but surely"):
            line.send(bytes([byte]))
        assert line.answer().json() == {"message": "Pong! slowly but surely"}
