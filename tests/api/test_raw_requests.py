"""Requests that no HTTP library would send, byte for byte."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest

from tests.conftest import PATIENCE_SECONDS, RunningServer
from tests.support.answers import outcome, refusal
from valuetracker.errors import (
    BodyTooLarge,
    ExtensionIdRequired,
    InvalidExtensionId,
    MethodNotAllowed,
    RouteNotFound,
)
from valuetracker.settings import PREFIX

pytestmark = pytest.mark.one_engine


def send_raw(server: RunningServer, request: bytes) -> httpx.Response:
    """Send exactly these bytes, and return the answer, as far as the server sends one."""
    url = urlsplit(server.url)
    with socket.create_connection((url.hostname, url.port), PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        received = b""
        while piece := connection.recv(65_536):
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name: value for name, _, value in (line.partition(": ") for line in lines)}
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)


def get(target: bytes, *headers: bytes) -> bytes:
    lines = [b"GET " + target + b" HTTP/1.1", b"host: localhost", b"connection: close", *headers]
    return b"\r\n".join([*lines, b"", b""])


def test_a_header_of_blanks_is_empty(shared_server: RunningServer) -> None:
    target = PREFIX.encode() + b"/characters"

    answer = send_raw(shared_server, get(target, b"x-extension-id:   \t "))

    assert outcome(answer) == refusal(ExtensionIdRequired())


def test_two_headers_are_two_however_they_are_written(
    shared_server: RunningServer, extension_id: str
) -> None:
    target = PREFIX.encode() + b"/characters"
    name = extension_id.encode()

    answer = send_raw(
        shared_server, get(target, b"x-extension-id: " + name, b"X-EXTENSION-ID: " + name)
    )

    message = "The x-extension-id header occurs more than once."
    assert outcome(answer) == refusal(InvalidExtensionId(message))


def test_the_name_of_the_header_is_read_in_any_case(
    shared_server: RunningServer, extension_id: str
) -> None:
    target = PREFIX.encode() + b"/characters"

    answer = send_raw(shared_server, get(target, b"X-Extension-ID: " + extension_id.encode()))

    assert outcome(answer) == (200, [])


def test_a_target_without_a_path_is_not_found(shared_server: RunningServer) -> None:
    answer = send_raw(
        shared_server, b"OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
    )

    assert outcome(answer) == refusal(RouteNotFound())


def test_an_unknown_method_is_refused(shared_server: RunningServer) -> None:
    request = get(PREFIX.encode() + b"/probe").replace(b"GET", b"PROPFIND", 1)

    answer = send_raw(shared_server, request)

    message = "PROPFIND is not possible here."
    assert outcome(answer) == refusal(MethodNotAllowed(message, allow=["GET", "HEAD"]))


def test_a_body_announced_as_far_too_large_is_refused_at_once(shared_server: RunningServer) -> None:
    request = f"POST {PREFIX}/ping HTTP/1.1\r\nhost: localhost\r\ncontent-length: 999999999\r\n\r\n"

    answer = send_raw(shared_server, request.encode())

    assert outcome(answer) == refusal(BodyTooLarge())
    assert answer.headers["cache-control"] == "no-store"


def test_a_plain_request_that_offers_an_upgrade_is_answered(
    shared_server: RunningServer,
) -> None:
    offer = (b"connection: upgrade, close", b"upgrade: h2c")

    answer = send_raw(shared_server, get(PREFIX.encode() + b"/health", *offer))

    assert answer.status_code == 200
