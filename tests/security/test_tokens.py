"""Tokens: what each may do, invalid tokens, and revoked tokens."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest

from tests.conftest import RunningServer, running_server, wait_for
from tests.security.conftest import TokenServer
from tests.security.raw import ROOT, ask, get, refused
from valuetracker.api import SECTIONS
from valuetracker.http.endpoint import Endpoint
from valuetracker.http.gate import Gate
from valuetracker.http.tokens import NAME, TokenFile
from valuetracker.settings import PREFIX

ROWS = [row for rows in SECTIONS.values() for row in rows]
FILLED = {"{extension}": "other", "{version}": "1"}


def concrete(row: Endpoint) -> str:
    """Return a path of that row, in the extension `other` if it names one."""
    parts = row.path.split("/")
    path = "/".join(FILLED.get(each, "x") if each.startswith("{") else each for each in parts)
    needed = "&".join(f"{each.name}=0" for each in row.query if each.required)
    return f"{path}?{needed}" if needed else path


def named(rows: list[Endpoint]) -> list[tuple[str, str]]:
    return [(method, concrete(row)) for row in rows for method in row.methods]


def send(client: httpx.Client, method: str, path: str) -> httpx.Response:
    # Only the beginning of `/events` is read.
    with client.stream(method, path) as answer:
        if answer.headers.get("content-type", "").startswith("application/json"):
            answer.read()
        return answer


@pytest.mark.parametrize(("method", "path"), named([row for row in ROWS if row.access != "public"]))
def test_without_a_token_no_route_is_answered_but_the_public_ones(
    guarded: TokenServer, method: str, path: str
) -> None:
    with guarded.client(None, "other") as client:
        answer = send(client, method, path)

    assert refused(answer) == (401, "token_required")
    assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    ("method", "path"), named([row for row in ROWS if row.access in ("admin", "registration")])
)
@pytest.mark.parametrize("kind", ["demo", "reader"])
def test_an_admin_route_needs_an_admins_token(
    guarded: TokenServer, method: str, path: str, kind: str
) -> None:
    with guarded.client(getattr(guarded, kind), "demo") as client:
        assert refused(send(client, method, path)) == (403, "admin_required")


@pytest.mark.parametrize(
    ("method", "path"),
    named([row for row in ROWS if row.access == "extension" and row.changes]),
)
@pytest.mark.parametrize("kind", ["demo", "reader"])
def test_a_write_needs_that_extensions_scope(
    guarded: TokenServer, method: str, path: str, kind: str
) -> None:
    with guarded.client(getattr(guarded, kind), "other") as client:
        assert refused(send(client, method, path)) == (403, "scope_missing")


@pytest.mark.parametrize(
    ("method", "path"),
    named([row for row in ROWS if row.access == "extension" and not row.changes]),
)
def test_a_read_needs_that_extensions_scope_or_that_of_reading_others(
    guarded: TokenServer, method: str, path: str
) -> None:
    with guarded.client(guarded.demo, "other") as client:
        stranger = send(client, method, path)
    with guarded.client(guarded.reader, "other") as client:
        reader = send(client, method, path)

    assert refused(stranger) == (403, "scope_missing")
    assert reader.status_code not in (401, 403)


def test_an_extensions_token_reads_and_writes_it(guarded: TokenServer) -> None:
    with guarded.client(guarded.demo, "demo") as client:
        written = client.post("/instances/sword/data", json={"key": "edge", "value": "keen"})
        read = client.get("/instances/sword/data")

    assert (written.status_code, read.json()) == (200, {"edge": "keen"})


def test_a_kept_answer_for_one_token_is_not_given_to_another(guarded: TokenServer) -> None:
    path = "/instances/sword/data"
    for token in (guarded.admin, guarded.reader, guarded.admin):
        with guarded.client(token, "other") as client:
            assert client.get(path).status_code == 200

    with guarded.client(guarded.demo, "other") as client:
        assert refused(client.get(path)) == (403, "scope_missing")
    with guarded.client(None, "other") as client:
        assert refused(client.get(path)) == (401, "token_required")


@pytest.mark.parametrize("header", ["x-extension-id", "query"])
def test_the_feed_cannot_be_followed_by_naming_the_extension_elsewhere(
    guarded: TokenServer, header: str
) -> None:
    with guarded.client(guarded.demo) as client:
        if header == "query":
            answer = client.get("/changes?extensionId=other")
        else:
            answer = client.get("/changes", headers={header: "other"})
        crossed = client.get("/changes?extensionId=other", headers={"x-extension-id": "demo"})

    assert refused(answer) == (403, "scope_missing")
    assert refused(crossed) == (400, "invalid_extension_id")


@pytest.mark.parametrize("path", ["/changes", "/events", "/cross-extension/changes"])
def test_a_joint_feed_needs_the_scope_of_each_extension(guarded: TokenServer, path: str) -> None:
    with guarded.client(guarded.demo, "demo") as client:
        for listed in ("demo,other", "other,demo", "demo,nobody"):
            stranger = client.get(f"{path}?extensions={listed}")
            assert refused(stranger) == (403, "scope_missing")
            (denied,) = {*listed.split(",")} - {"demo"}
            assert stranger.json()["details"] == {"extensionId": denied}
        own = send(client, "GET", f"{path}?extensions=demo")
    with guarded.client(guarded.reader) as client:
        reader = send(client, "GET", f"{path}?extensions=demo,other")

    assert (own.status_code, reader.status_code) == (200, 200)


def wrong_tokens(token: str) -> Iterator[str]:
    yield from ("", "x", "vt_", token[:-1], token + "x", token[:-1] + "\u00e9", token.upper())
    yield token.replace("vt_", "vt-", 1)
    head, _, secret = token.rpartition("_")
    yield f"{head}_{secret[::-1]}"
    yield f"vt_{'0' * 12}_{secret}"
    yield f"{token}, {token}"
    yield f"{token} {token}"
    yield "x" * 20_000


def test_an_invalid_token_is_refused(guarded: TokenServer) -> None:
    for text in wrong_tokens(guarded.admin):
        header = f"authorization: Bearer {text}".encode("latin-1")
        answer = ask(guarded.server, get(ROOT + b"/extensions", header))
        assert refused(answer) == (401, "token_invalid"), text


@pytest.mark.parametrize("scheme", ["Basic", "Token", "Digest", "", "Bearer:"])
def test_another_authorization_scheme_is_refused(guarded: TokenServer, scheme: str) -> None:
    header = f"authorization: {scheme} {guarded.admin}".encode()

    answer = ask(guarded.server, get(ROOT + b"/extensions", header))

    assert refused(answer) == (401, "token_invalid")


def test_two_tokens_are_refused(guarded: TokenServer) -> None:
    header = f"authorization: Bearer {guarded.admin}".encode()

    answer = ask(guarded.server, get(ROOT + b"/extensions", header, header))

    assert refused(answer) == (400, "invalid_header")


def test_a_token_is_sent_in_its_header_and_nowhere_else(guarded: TokenServer) -> None:
    token = guarded.admin
    with guarded.client(None, "demo") as client:
        for name in ("token", "access_token", "authorization", "api_key"):
            answer = client.get("/extensions", params={name: token})
            assert refused(answer) == (401, "token_required")
            answer = client.get("/extensions", headers={"cookie": f"{name}={token}"})
            assert refused(answer) == (401, "token_required")
        for header in ("x-token", "x-api-key", "proxy-authorization", "x-forwarded-authorization"):
            answer = client.get("/extensions", headers={header: f"Bearer {token}"})
            assert refused(answer) == (401, "token_required")
        url = httpx.URL(guarded.server.url + PREFIX + "/extensions").copy_with(
            userinfo=token.encode()
        )
        assert refused(client.get(url)) == (401, "token_invalid")


def test_a_spoofed_address_does_not_replace_a_token(guarded: TokenServer) -> None:
    headers = {
        "x-forwarded-for": "127.0.0.1",
        "x-real-ip": "127.0.0.1",
        "forwarded": "for=127.0.0.1",
        "x-vt-user": "default-user",
        "x-vt-admin": "true",
    }
    with guarded.client(None) as client:
        assert refused(client.get("/extensions", headers=headers)) == (401, "token_required")


def test_the_secret_half_of_a_token_is_stored_nowhere(guarded: TokenServer) -> None:
    secret = guarded.admin.rpartition("_")[2].encode()

    for path in guarded.server.data_dir.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path
    assert (guarded.server.data_dir / NAME).stat().st_mode & 0o777 == 0o600


def test_a_token_takes_as_long_to_refuse_whether_or_not_its_id_is_known(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    _, good = tokens.create("good", (), read_others=False, admin=True)
    tokens.refresh()
    head, _, secret = good.rpartition("_")
    known = f"{head}_{'A' * len(secret)}"
    unknown = f"vt_{'0' * 12}_{'A' * len(secret)}"

    def cost(text: str) -> float:
        times: list[int] = []
        for _ in range(3_000):
            begun = time.perf_counter_ns()
            assert tokens.find(text) is None
            times.append(time.perf_counter_ns() - begun)
        return statistics.median(times)

    ratios = [cost(known) / cost(unknown) for _ in range(5)]
    assert 0.5 < statistics.median(ratios) < 2.0


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[tuple[RunningServer, TokenFile]]:
    """A server of the test's own, and the tokens of its command line."""
    with running_server(tmp_path) as server:
        server.register("demo")
        yield server, TokenFile(tmp_path)


def status(server: RunningServer, token: str | None, path: str = "/extensions") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with server.client("demo") as client:
        return client.get(path, headers=headers).status_code


def test_the_first_token_closes_a_running_server_to_everybody_else(
    fresh: tuple[RunningServer, TokenFile],
) -> None:
    server, tokens = fresh
    assert status(server, None) == 200

    _, text = tokens.create("first", (), read_others=False, admin=True)

    wait_for(lambda: status(server, None) == 401)
    assert status(server, text) == 200


def test_a_revoked_token_is_soon_refused_also_for_kept_answers(
    fresh: tuple[RunningServer, TokenFile],
) -> None:
    server, tokens = fresh
    _, admin = tokens.create("admin", (), read_others=False, admin=True)
    token, text = tokens.create("demo", ("demo",), read_others=False, admin=False)
    wait_for(lambda: status(server, text, "/characters") == 200)

    assert tokens.revoke(token.id)

    wait_for(lambda: status(server, text, "/characters") == 401)
    assert status(server, admin) == 200


def test_the_feed_of_a_revoked_token_ends_before_the_next_event(
    fresh: tuple[RunningServer, TokenFile],
) -> None:
    server, tokens = fresh
    _, admin = tokens.create("admin", (), read_others=False, admin=True)
    token, text = tokens.create("demo", ("demo",), read_others=False, admin=False)
    wait_for(lambda: status(server, text, "/characters") == 200)
    bearer = {"authorization": f"Bearer {text}"}

    with server.client("demo") as client, client.stream("GET", "/events", headers=bearer) as feed:
        pieces = feed.iter_bytes()
        assert next(pieces).startswith(b":")
        tokens.revoke(token.id)
        wait_for(lambda: status(server, text, "/characters") == 401)
        with server.client("demo") as writer:
            done = writer.post(
                "/characters", json={"id": "arthur"}, headers={"authorization": f"Bearer {admin}"}
            )
            assert done.status_code == 200

        assert b"".join(pieces) == b""


def test_feeds_opened_without_a_token_end_when_the_first_token_is_made(
    fresh: tuple[RunningServer, TokenFile],
) -> None:
    server, tokens = fresh
    with server.client("demo") as client, client.stream("GET", "/events") as feed:
        pieces = feed.iter_bytes()
        assert next(pieces).startswith(b":")
        _, admin = tokens.create("admin", (), read_others=False, admin=True)
        wait_for(lambda: status(server, None) == 401)
        with server.client("demo") as writer:
            done = writer.post(
                "/characters", json={"id": "arthur"}, headers={"authorization": f"Bearer {admin}"}
            )
            assert done.status_code == 200

        assert b"".join(pieces) == b""


def test_a_server_whose_last_token_is_revoked_admits_nobody(
    fresh: tuple[RunningServer, TokenFile],
) -> None:
    server, tokens = fresh
    token, text = tokens.create("only", (), read_others=False, admin=True)
    wait_for(lambda: status(server, text) == 200 and status(server, None) == 401)

    tokens.revoke(token.id)

    wait_for(lambda: status(server, text) == 401)
    assert status(server, None) == 401
    _, again = tokens.create("again", (), read_others=False, admin=True)
    wait_for(lambda: status(server, again) == 200)


def test_a_server_whose_token_file_is_removed_admits_nobody(
    fresh: tuple[RunningServer, TokenFile],
) -> None:
    server, tokens = fresh
    _, text = tokens.create("only", (), read_others=False, admin=True)
    wait_for(lambda: status(server, text) == 200 and status(server, None) == 401)

    (server.data_dir / NAME).unlink()

    wait_for(lambda: status(server, text) == 401)
    assert status(server, None) == 401


ROW = {
    "id": "0" * 12,
    "name": "n",
    "digest": "0" * 64,
    "extensions": [],
    "read_others": False,
    "admin": False,
    "created_at": "",
}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"null",
        b"{}",
        b'"text"',
        b"[1]",
        b"[{}]",
        b"\xff\xfe",
        b"[" * 5_000,
        orjson.dumps([{**ROW, "digest": None}]),
        orjson.dumps([{**ROW, "digest": "\u00e9" * 64}]),
        orjson.dumps([{**ROW, "admin": "false"}]),
        orjson.dumps([{**ROW, "extensions": "demo"}]),
        orjson.dumps([{**ROW, "extensions": [1]}]),
        orjson.dumps([{**ROW, "id": 7}]),
        orjson.dumps([{**ROW, "surprise": True}]),
    ],
)
def test_a_token_file_that_cannot_be_read_admits_nobody(tmp_path: Path, content: bytes) -> None:
    tokens = TokenFile(tmp_path)
    _, text = tokens.create("good", (), read_others=False, admin=True)
    (tmp_path / NAME).write_bytes(content)
    with running_server(tmp_path) as server:
        answers = [status(server, None), status(server, text)]
        with server.client() as client:
            # A monitor can still see that the server runs.
            healthy = client.get("/healthz").status_code

        assert answers == [401, 401]
        assert healthy == 200
        # The server notices a repaired file.
        (tmp_path / NAME).unlink()
        _, again = tokens.create("again", (), read_others=False, admin=True)
        wait_for(lambda: status(server, again) == 200)


def test_the_gate_remembers_a_bounded_number_of_callers(tmp_path: Path) -> None:
    tokens = TokenFile(tmp_path)
    gate = Gate(tokens, secret="secret")

    for number in range(5_000):
        caller = gate.admit({b"x-vt-secret": b"secret", b"x-vt-user": b"user-%d" % number})
        assert caller.user == f"user-{number}"

    assert len(gate._known) <= 1_024
