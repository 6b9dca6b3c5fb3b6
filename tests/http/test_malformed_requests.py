"""
Requests that the fast connection refuses before they reach `dispatch`.

Under another ASGI server the server itself refuses them, in a form of its own.
"""

from __future__ import annotations

import pytest

from tests.api.test_raw_requests import get, send_raw
from tests.conftest import RunningServer
from tests.support.answers import outcome, refusal
from valuetracker.errors import MalformedRequest
from valuetracker.settings import PREFIX


@pytest.mark.parametrize("segment", [b"\xff", b"a\xc3", b"\xed\xa0\x80"])
def test_raw_bytes_that_are_not_utf8_are_refused(
    shared_server: RunningServer, extension_id: str, segment: bytes
) -> None:
    target = PREFIX.encode() + b"/characters/" + segment

    answer = send_raw(shared_server, get(target, b"x-extension-id: " + extension_id.encode()))

    assert outcome(answer) == refusal(MalformedRequest("Invalid HTTP request received."))


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"BREW / HTTP/1.1\r\nhost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: some\r\n\r\n",
    ],
)
def test_bytes_that_are_no_http_are_refused_in_the_shape_of_all_errors(
    shared_server: RunningServer, request_bytes: bytes
) -> None:
    answer = send_raw(shared_server, request_bytes)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    assert sorted(answer.json()) == ["code", "details", "error", "hint"]


def test_bytes_after_an_offered_upgrade_are_not_read_as_a_request(
    shared_server: RunningServer, extension_id: str
) -> None:
    with shared_server.client(extension_id) as client:
        client.post("/instances", json={"id": "sword", "characterId": "arthur"})
        body = b'{"key":"edge","value":"smuggled"}'
        inner = b"\r\n".join(
            [
                b"POST " + PREFIX.encode() + b"/instances/sword/data HTTP/1.1",
                b"host: localhost",
                b"x-extension-id: " + extension_id.encode(),
                b"content-length: " + str(len(body)).encode(),
                b"",
                body,
            ]
        )
        outer = b"\r\n".join(
            [
                b"POST " + PREFIX.encode() + b"/ping HTTP/1.1",
                b"host: localhost",
                b"connection: upgrade",
                b"upgrade: h2c",
                b"content-length: " + str(len(inner)).encode(),
                b"",
                inner,
            ]
        )

        answer = send_raw(shared_server, outer)

        expected = MalformedRequest("An upgrade cannot be offered with a body.")
        assert outcome(answer) == refusal(expected)
        assert outcome(client.get("/instances/sword/data")) == (200, {})
