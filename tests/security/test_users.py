"""Users of SillyTavern: only the bridge names them, and none reaches another's data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.security.conftest import SECRET, TokenServer
from tests.security.raw import HEALTH, ROOT, ask, get, refused

SPOOFED = {
    "x-vt-user": "alice",
    "x-vt-admin": "true",
    "x-forwarded-user": "alice",
    "x-remote-user": "alice",
    "x-forwarded-for": "127.0.0.1",
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, database_url: str) -> Iterator[RunningServer]:
    """A server behind the bridge, on either engine; `default-user` has the extension `demo`."""
    directory = tmp_path_factory.mktemp("users")
    with running_server(directory, database=database_url, bridge_secret=SECRET) as server:
        with client_of(server, "default-user") as client:
            prepare(client, "default-user")
        yield server


def client_of(
    server: RunningServer,
    user: str | None,
    extension_id: str | None = "demo",
    admin: str = "false",
    secret: str = SECRET,
) -> httpx.Client:
    """Return a client that sends what the bridge sends on behalf of a user."""
    client = server.client(extension_id)
    client.headers["x-vt-secret"] = secret
    client.headers["x-vt-admin"] = admin
    if user is not None:
        client.headers["x-vt-user"] = user
    return client


def prepare(client: httpx.Client, value: str) -> None:
    """Make the extension `demo` with one value, and read it once so that the answer is kept."""
    assert client.post("/register", json={"extensionId": "demo"}).status_code == 200
    made = client.post("/instances", json={"id": "sword", "characterId": "arthur"})
    assert made.status_code == 200, made.text
    sent = client.post("/instances/sword/data", json={"key": "owner", "value": value})
    assert sent.status_code == 200
    assert client.get("/instances/sword/data").json() == {"owner": value}


def test_without_the_secret_the_user_header_is_not_trusted(shared: RunningServer) -> None:
    with client_of(shared, "alice") as alice:
        prepare(alice, "alice")

    with shared.client("demo") as stranger:
        answer = stranger.get("/instances/sword/data", headers=SPOOFED)

    assert answer.json() == {"owner": "default-user"}


@pytest.mark.parametrize(
    "secret", ["", "wrong", SECRET[:-1], SECRET + "x", SECRET.upper(), SECRET.swapcase()]
)
def test_with_a_wrong_secret_the_user_header_is_not_trusted(
    shared: RunningServer, secret: str
) -> None:
    with client_of(shared, "carol", secret=secret) as client:
        answer = client.get("/instances/sword/data")

    assert answer.json() == {"owner": "default-user"}


def test_a_wrong_secret_does_not_open_the_gate_for_a_foreign_host(shared: RunningServer) -> None:
    headers = (b"x-vt-secret: wrong", b"x-vt-admin: true")

    answer = ask(shared, get(HEALTH, *headers, host=b"host: evil.example"))

    assert refused(answer) == (403, "host_not_allowed")


def test_an_empty_secret_is_wrong(tmp_path: Path) -> None:
    """If no secret is configured, an empty one is not the right one."""
    with running_server(tmp_path) as server:
        for secret in (b"x-vt-secret:", b"x-vt-secret: None", b"x-nothing: x"):
            admin = (secret, b"x-vt-user: alice", b"x-vt-admin: false")
            # If the header were trusted, this user would be no admin.
            assert ask(server, get(ROOT + b"/extensions", *admin)).status_code == 200
        assert not (tmp_path / ".users").exists()


@pytest.mark.parametrize("header", ["x-vt-secret", "x-vt-user", "x-vt-admin"])
def test_two_of_the_bridges_headers_are_refused(shared: RunningServer, header: str) -> None:
    given = {"x-vt-secret": SECRET, "x-vt-user": "alice", "x-vt-admin": "false"}
    twice = f"{header}: {given[header]}".encode()
    headers = [f"{name}: {text}".encode() for name, text in given.items()]

    assert refused(ask(shared, get(HEALTH, *headers, twice))) == (400, "invalid_header")


@pytest.mark.parametrize(
    "handle",
    [
        "",
        ".",
        "..",
        "../alice",
        "..%2falice",
        "alice/../bob",
        "alice\\bob",
        "Alice",
        "al ice",
        "alice,bob",
        "-alice",
        "a" * 65,
        "alice.",
        "nul",
        "con",
        "com1",
        "%61lice",
        "ali\u00e7e",
        "alice;bob",
        "'or'1'='1",
    ],
)
def test_an_invalid_handle_is_refused_and_makes_no_folder(
    shared: RunningServer, handle: str
) -> None:
    before = sorted(shared.data_dir.rglob("*"))
    header = f"x-vt-user: {handle}".encode()

    answer = ask(shared, get(HEALTH, f"x-vt-secret: {SECRET}".encode(), header))

    assert refused(answer) == (400, "invalid_user")
    assert sorted(shared.data_dir.rglob("*")) == before


def test_a_request_without_a_user_is_of_the_default_user(shared: RunningServer) -> None:
    with client_of(shared, None) as client:
        assert client.get("/instances/sword/data").json() == {"owner": "default-user"}


def test_each_user_has_a_registry_of_their_own(shared: RunningServer) -> None:
    with client_of(shared, "dave") as dave, client_of(shared, "erin") as erin:
        assert refused(dave.get("/characters")) == (404, "extension_not_registered")
        prepare(dave, "dave")

        assert refused(erin.get("/characters")) == (404, "extension_not_registered")
        crossed = erin.get("/cross-extension/characters/demo")
        assert refused(crossed) == (404, "extension_not_registered")
        # The same name in another case is another's only within one user.
        assert erin.post("/register", json={"extensionId": "DEMO"}).status_code == 200
        purged = erin.request("DELETE", "/register", json={"extensionId": "demo", "purge": True})
        assert purged.status_code == 200
        assert dave.get("/instances/sword/data").json() == {"owner": "dave"}


def test_each_user_has_data_and_kept_answers_of_their_own(shared: RunningServer) -> None:
    users = ("frank", "grace", "heidi")
    for user in users:
        with client_of(shared, user) as client:
            prepare(client, user)

    for _ in range(2):
        for user in users:
            with client_of(shared, user) as client:
                assert client.get("/instances/sword/data").json() == {"owner": user}
                other = client.get("/cross-extension/instances/demo/sword/data")
                assert other.json() == {"owner": user}

    with client_of(shared, "frank") as frank:
        assert frank.request("DELETE", "/instances/sword").status_code == 200
    with client_of(shared, "grace") as grace:
        assert grace.get("/instances/sword/data").json() == {"owner": "grace"}
        assert grace.get("/instances/sword/history").json()["items"][0]["after"] == "grace"


def test_an_etag_of_one_user_does_not_match_for_another(shared: RunningServer) -> None:
    with client_of(shared, "ivan") as ivan, client_of(shared, "judy") as judy:
        prepare(ivan, "ivan")
        prepare(judy, "judy")
        tag = ivan.get("/instances/sword/data").headers["etag"]
        judy.post("/instances/sword/data", json={"key": "more", "value": 1})

        answer = judy.get("/instances/sword/data", headers={"if-none-match": tag})

        assert answer.status_code == 200


def test_two_users_may_send_the_same_idempotency_key(shared: RunningServer) -> None:
    body = {"key": "gold", "value": 5}
    once = {"idempotency-key": "the same"}
    with client_of(shared, "kim") as kim, client_of(shared, "leo") as leo:
        prepare(kim, "kim")
        prepare(leo, "leo")
        first = kim.post("/instances/sword/data", json=body, headers=once)

        second = leo.post("/instances/sword/data", json={**body, "value": 6}, headers=once)
        again = kim.post("/instances/sword/data", json=body, headers=once)

        assert (first.status_code, second.status_code) == (200, 200)
        assert "idempotency-replayed" not in second.headers
        assert again.headers["idempotency-replayed"] == "true"
        assert leo.get("/instances/sword/data/gold").json() == {"gold": 6}


def test_the_feed_of_one_user_has_no_event_of_another(shared: RunningServer) -> None:
    with client_of(shared, "mary") as mary, client_of(shared, "nick") as nick:
        prepare(mary, "mary")
        prepare(nick, "nick")
        with mary.stream("GET", "/events") as feed:
            pieces = feed.iter_bytes()
            assert next(pieces).startswith(b":")
            nick.post("/instances/sword/data", json={"key": "whose", "value": "of-nick"})
            mary.post("/instances/sword/data", json={"key": "whose", "value": "of-mary"})

            event = next(pieces)

        assert b"of-mary" in event
        assert b"of-nick" not in event
        items = nick.get("/changes?since=0").json()["items"]
        assert "of-mary" not in str(items)


def test_a_joint_feed_finds_only_the_users_own_extensions(shared: RunningServer) -> None:
    with client_of(shared, "mona") as mona, client_of(shared, "nils") as nils:
        prepare(mona, "mona")
        prepare(nils, "nils")
        mine = nils.headers["x-extension-id"]
        registered = mona.post("/register", json={"extensionId": "of-mona"})
        assert registered.status_code == 200, registered.text

        answer = nils.get(f"/changes?extensions={mine},of-mona")
        items = nils.get(f"/changes?extensions={mine}&since={mine}:0").json()["items"]

        assert (answer.status_code, answer.json()["details"]) == (404, {"extensionId": "of-mona"})
        assert items
        assert "mona" not in str(items)


def test_a_session_of_one_user_is_unknown_to_another(shared: RunningServer) -> None:
    with client_of(shared, "olga") as olga, client_of(shared, "paul") as paul:
        prepare(olga, "olga")
        prepare(paul, "paul")
        opened = olga.post("/chats/c/open", json={"client": "tab"})
        assert opened.status_code == 200, opened.text

        answer = paul.post(
            "/instances/sword/data",
            json={"key": "k", "value": 1},
            headers={"x-session": opened.json()["session"]},
        )

        assert refused(answer) == (409, "stale_session")


@pytest.mark.parametrize("admin", ["false", "", "TRUE", "1", "yes", "true "])
def test_an_admin_route_is_for_admins_of_sillytavern(shared: RunningServer, admin: str) -> None:
    headers = [f"x-vt-secret: {SECRET}".encode(), b"x-vt-user: rita", b"x-vt-admin: true"]
    assert ask(shared, get(ROOT + b"/extensions", *headers)).status_code == 200

    headers[2] = f"x-vt-admin: {admin}".encode() + b"x" * admin.endswith(" ")
    answer = ask(shared, get(ROOT + b"/extensions", *headers))

    assert refused(answer) == (403, "admin_required")


def test_an_admin_sees_their_own_extensions_only(shared: RunningServer) -> None:
    with client_of(shared, "sam", admin="true") as sam:
        assert sam.get("/extensions").json() == []


@pytest.mark.parametrize(
    "path",
    [
        "../../default.db",
        "../bob/demo.db",
        "/tmp/elsewhere.db",
        ".registry.db",
        "../../.registry.db",
        "../../.tokens.json",
    ],
)
def test_a_user_cannot_put_a_database_into_anothers_folder(tmp_path: Path, path: str) -> None:
    with (
        running_server(tmp_path, bridge_secret=SECRET, allow_root=(Path("/tmp"),)) as server,
        client_of(server, "tina") as tina,
        client_of(server, "default-user") as default,
    ):
        answer = tina.post("/register", json={"extensionId": "mine", "dbPath": path})
        inward = default.post(
            "/register", json={"extensionId": "hers", "dbPath": ".users/tina/demo.db"}
        )

    assert refused(answer)[0] in (400, 409)
    assert refused(inward) == (400, "path_not_allowed")


def test_the_bridge_needs_no_token(guarded: TokenServer) -> None:
    with client_of(guarded.server, "default-user") as client:
        assert client.get("/characters").status_code == 200
    with client_of(guarded.server, "default-user", secret="wrong") as client:
        assert refused(client.get("/characters")) == (401, "token_required")


def test_a_kept_answer_for_the_bridge_is_not_given_to_a_caller_without_a_token(
    guarded: TokenServer,
) -> None:
    with client_of(guarded.server, "default-user") as client:
        for _ in range(2):
            assert client.get("/instances/sword/data").status_code == 200

    with guarded.client(None, "demo") as client:
        assert refused(client.get("/instances/sword/data")) == (401, "token_required")


def test_a_server_for_the_bridge_alone_answers_nobody_else(tmp_path: Path) -> None:
    with running_server(tmp_path, bridge_secret=SECRET, bridge_only=True) as server:
        with client_of(server, "default-user") as bridge:
            prepare(bridge, "default-user")
        with client_of(server, "default-user", secret="guessed") as stranger:
            read = stranger.get("/instances/sword/data")
            across = stranger.get("/cross-extension/instances/demo/sword/data")
            registered = stranger.post("/register", json={"extensionId": "other"})
            healthy = stranger.get("/health")

    assert [each.json()["code"] for each in (read, across, registered)] == ["token_required"] * 3
    assert healthy.status_code == 200
