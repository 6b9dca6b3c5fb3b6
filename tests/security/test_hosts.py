"""Foreign host names that resolve to this server: DNS rebinding, and two names at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import RunningServer, running_server
from tests.security.conftest import NAME
from tests.security.raw import (
    HEALTH,
    HOST,
    ROOT,
    ask,
    connected,
    cors_headers,
    get,
    lines,
    post,
    refused,
)

FEED = ROOT + b"/events?extensionId=demo"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8420",
        "127.9.9.9",
        "localhost",
        "LOCALHOST:1",
        "localhost.",
        "[::1]",
        "[::1]:8420",
        "[0:0:0:0:0:0:0:1]",
        NAME,
        NAME.upper() + ":99",
    ],
)
def test_a_loopback_name_or_a_configured_name_is_accepted(server: RunningServer, host: str) -> None:
    assert ask(server, get(host=f"host: {host}".encode())).status_code == 200


@pytest.mark.parametrize("target", [HEALTH, FEED, ROOT + b"/characters", b"/", b"/healthz"])
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8420",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.localhost",
        f"evil.{NAME}",
        "0.0.0.0",
        "192.168.0.1",
        "[::]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
    ],
)
def test_a_foreign_host_is_refused_on_every_route(
    server: RunningServer, host: str, target: bytes
) -> None:
    answer = ask(server, get(target, b"x-extension-id: demo", host=f"host: {host}".encode()))

    assert refused(answer) == (403, "host_not_allowed")
    assert cors_headers(answer) == []


@pytest.mark.parametrize("method", [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS"])
def test_a_foreign_host_is_refused_with_every_method(server: RunningServer, method: bytes) -> None:
    request = lines(
        method + b" " + ROOT + b"/register HTTP/1.1",
        b"host: evil.example",
        b"access-control-request-method: POST",
    )

    with connected(server) as line:
        line.send(request)

        assert line.head()[0] == 403


@pytest.mark.parametrize(
    "host",
    [
        b"host:",
        b"host: localhost:port",
        b"host: localhost/../evil",
        b"host: user@localhost",
        b"host: localhost, evil.example",
        b"host: localhost evil.example",
        b"host: local\xffhost",
        b"host: [::1",
        b"host: [::1%25lo]",
        b"x-host: localhost",
    ],
)
def test_an_invalid_host_is_refused(server: RunningServer, host: bytes) -> None:
    assert refused(ask(server, get(host=host))) == (400, "invalid_host")


@pytest.mark.parametrize(
    "headers",
    [
        (HOST, HOST),
        (HOST, b"host: evil.example"),
        (b"host: evil.example", HOST),
        (HOST, b"HOST: localhost"),
    ],
)
def test_two_hosts_are_refused_however_they_are_written(
    server: RunningServer, headers: tuple[bytes, bytes]
) -> None:
    answer = ask(server, get(HEALTH, headers[1], host=headers[0]))

    assert refused(answer) == (400, "invalid_host")


@pytest.mark.parametrize(
    "header",
    [b"x-forwarded-host", b"forwarded", b"x-host", b"x-original-host", b"x-http-host-override"],
)
def test_no_other_header_is_used_as_the_host(server: RunningServer, header: bytes) -> None:
    good = b"host=localhost" if header == b"forwarded" else b"localhost"

    foreign = ask(server, get(HEALTH, header + b": " + good, host=b"host: evil.example"))
    own = ask(server, get(HEALTH, header + b": evil.example"))

    assert refused(foreign) == (403, "host_not_allowed")
    assert own.status_code == 200


def test_a_target_cannot_name_another_host_than_the_header(server: RunningServer) -> None:
    evil = b"http://evil.example" + HEALTH
    own = b"http://localhost" + HEALTH

    assert refused(ask(server, get(evil))) == (400, "malformed_request")
    assert refused(ask(server, get(own, host=b"host: evil.example"))) == (400, "malformed_request")
    assert refused(ask(server, get(evil, host=b"host: evil.example"))) == (403, "host_not_allowed")
    assert ask(server, get(own)).status_code == 200


def test_a_write_to_a_foreign_host_writes_nothing(server: RunningServer) -> None:
    body = b'{"key":"edge","value":"rebound"}'
    target = ROOT + b"/instances/sword/data"

    answer = ask(
        server, post(target, body, b"x-extension-id: demo", host=b"host: rebound.example:80")
    )

    assert refused(answer) == (403, "host_not_allowed")
    with server.client("demo") as client:
        assert client.get("/instances/sword/data/edge").json() == {}


def test_a_configured_name_with_a_port_is_accepted_with_that_port_only(tmp_path: Path) -> None:
    with running_server(tmp_path, allow_host=("values.example:8443",)) as server:
        right = ask(server, get(host=b"host: values.example:8443"))
        other = ask(server, get(host=b"host: values.example:80"))

    assert right.status_code == 200
    assert refused(other) == (403, "host_not_allowed")
