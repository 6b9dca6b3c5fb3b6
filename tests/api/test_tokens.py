"""Tokens over HTTP: made, listed and revoked by admins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import DONE, MOMENT, outcome, refusal, refused
from valuetracker.errors import AdminTokenFirst, TokenNotFound
from valuetracker.http.tokens import NAME, TokenFile

pytestmark = pytest.mark.one_engine


def with_token(server: RunningServer, text: str, extension_id: str | None = None) -> httpx.Client:
    client = server.client(extension_id)
    client.headers["authorization"] = f"Bearer {text}"
    return client


def test_a_token_is_made_shown_once_used_and_revoked(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        server.register("demo")
        with server.client() as client:
            made = client.post("/tokens", json={"name": "me", "admin": True}).json()
            stranger = client.get("/tokens")
        with with_token(server, made["token"]) as admin:
            body = {"name": "phone", "extensions": ["demo", "demo"]}
            phone = admin.post("/tokens", json=body).json()
            listed = admin.get("/tokens").json()
            with with_token(server, phone["token"], "demo") as client:
                before = client.get("/characters").status_code
                revoked = admin.delete(f"/tokens/{phone['id']}")
                after = refused(client.get("/characters"))[:2]
            again = admin.delete(f"/tokens/{phone['id']}")

    assert refused(stranger)[:2] == (401, "token_required")
    assert phone == {
        "id": phone["id"],
        "name": "phone",
        "extensions": ["demo"],
        "readOthers": False,
        "admin": False,
        "createdAt": MOMENT,
        "token": phone["token"],
    }
    assert phone["token"].startswith(f"vt_{phone['id']}_")
    assert listed == [
        {name: value for name, value in each.items() if name != "token"} for each in (made, phone)
    ]
    assert before == 200
    assert outcome(revoked) == DONE
    assert after == (401, "token_invalid")
    assert outcome(again) == refusal(TokenNotFound())
    # The command line sees the same file, and the text is not in it.
    assert [each.name for each in TokenFile(tmp_path).load()] == ["me"]
    assert made["token"] not in (tmp_path / NAME).read_text()


def test_the_first_token_is_an_admins(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as client:
        answer = client.post("/tokens", json={"name": "phone", "extensions": ["demo"]})

        assert outcome(answer) == refusal(AdminTokenFirst())
        assert outcome(client.get("/tokens")) == (200, [])


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"admin": True}, "invalid_body"),
        ({"name": "me"}, "invalid_body"),
        ({"name": "", "admin": True}, "invalid_name"),
        ({"name": "a\x1bb", "admin": True}, "invalid_name"),
        ({"name": "x" * 5000, "admin": True}, "invalid_name"),
        ({"name": 5, "admin": True}, "invalid_name"),
        ({"name": "me", "admin": "yes"}, "invalid_body"),
        ({"name": "me", "extensions": "demo"}, "invalid_body"),
        ({"name": "me", "extensions": []}, "invalid_body"),
        ({"name": "me", "extensions": ["../demo"]}, "invalid_extension_id"),
        ({"name": "me", "extensions": [None]}, "invalid_extension_id"),
        ({"name": "me", "extensions": [f"e{each}" for each in range(129)]}, "invalid_body"),
    ],
)
def test_a_bad_token_is_refused_and_nothing_is_made(
    client: httpx.Client, shared_server: RunningServer, body: dict[str, Any], code: str
) -> None:
    answer = client.post("/tokens", json=body)

    assert refused(answer)[:2] == (400, code)
    assert not (shared_server.data_dir / NAME).exists()


def test_tokens_that_cannot_be_read_are_an_error_and_let_nobody_in(tmp_path: Path) -> None:
    with running_server(tmp_path, bridge_secret="s") as server, server.client() as client:
        client.headers.update({"x-vt-secret": "s", "x-vt-admin": "true"})
        (tmp_path / NAME).write_text("nonsense")

        assert refused(client.get("/tokens"))[:2] == (503, "database_unavailable")
        assert refused(client.post("/tokens", json={"name": "me", "admin": True}))[:2] == (
            503,
            "database_unavailable",
        )
        assert (tmp_path / NAME).read_text() == "nonsense"
