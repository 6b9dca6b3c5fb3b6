"""Growth: warnings about large databases, and quotas of extensions and users."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, database_for, running_server, wait_for
from tests.support.answers import DONE, outcome, refused
from valuetracker.runtime import growth

MEGABYTE = 1024 * 1024


@pytest.fixture(autouse=True)
def measure_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "MEASURED_EVERY_SECONDS", 0.05)


@pytest.fixture
def own_database(engine_name: str, request: pytest.FixtureRequest) -> str:
    """Return a database in which no other test has written."""
    return database_for(engine_name, request)


@contextmanager
def limited(
    tmp_path: Path, database_url: str, **given: Any
) -> Iterator[tuple[RunningServer, httpx.Client]]:
    """Run a server with an extension and an instance in it."""
    with running_server(tmp_path, database=database_url, **given) as server:
        server.register("one")
        with server.client("one") as client:
            client.post("/instances", json={"id": "sword", "characterId": "arthur"})
            yield server, client


def fill(client: httpx.Client) -> httpx.Response:
    """Write books until a write is refused, and return the refusal."""
    number = 0

    def refused_write() -> httpx.Response | None:
        nonlocal number
        number += 1
        body = {"key": f"book{number}", "value": secrets.token_hex(150_000)}
        answer = client.post("/instances/sword/data", json=body)
        assert answer.status_code in (200, 507), answer.text
        return answer if answer.status_code == 507 else None

    refusal: httpx.Response = wait_for(refused_write)
    return refusal


def test_beyond_its_quota_an_extension_can_be_read_emptied_and_folded(
    tmp_path: Path, own_database: str, engine_name: str
) -> None:
    with limited(tmp_path, own_database, quota_mb=6) as (server, client):
        first = {"key": "hp", "value": 1}
        key = {"idempotency-key": "first"}
        before = client.post("/instances/sword/data", json=first, headers=key)
        server.register("two")

        refusal = fill(client)

        status, code, details = refused(refusal)
        assert (status, code) == (507, "quota_exceeded")
        assert details["quota"] == "extension"
        assert details["bytes"] > details["limit"] == 6 * MEGABYTE
        # A request that was answered before is answered again; no new one is taken.
        again = client.post("/instances/sword/data", json=first, headers=key)
        assert (again.status_code, again.content) == (200, before.content)
        assert again.headers["idempotency-replayed"] == "true"
        batch = {"operations": [{"op": "set", "instanceId": "sword", "key": "a", "value": 1}]}
        for answer in (
            client.post("/batch", json=batch),
            client.post("/characters", json={"id": "merlin"}),
            client.post("/import", content=client.get("/export").content, params={"mode": "merge"}),
        ):
            assert refused(answer)[:2] == (507, "quota_exceeded")
        # Reading and opening go on, and so does every other extension.
        assert client.get("/instances/sword/data/hp").json() == {"hp": 1}
        assert client.post("/chats/quest/open", json={"client": "tab"}).status_code == 200
        assert client.get("/healthz").json()["full"] == 1
        with server.client("two") as other:
            made = other.post("/instances", json={"id": "sword", "characterId": "arthur"})
            assert made.status_code == 200
        # Removing and folding make room, which SQLite uses again at once.
        assert client.delete("/instances/sword/data").status_code == 200
        assert client.post("/compact", json={"keep": {"revisions": 1}}).status_code == 200
        if engine_name == "sqlite":
            wait_for(lambda: client.get("/healthz").json()["full"] == 0)
            assert client.post("/instances/sword/data", json=first).status_code == 200


def test_a_users_quota_counts_all_extensions_of_that_user(
    tmp_path: Path, own_database: str
) -> None:
    ada = {"x-vt-secret": "s", "x-vt-user": "ada"}
    with (
        limited(tmp_path, own_database, user_quota_mb=8, bridge_secret="s") as (server, own),
        server.client("small") as small,
        server.client("one") as large,
    ):
        for client in (small, large):
            client.headers.update(ada)
            client.post("/register", json={"extensionId": client.headers["x-extension-id"]})
            client.post("/instances", json={"id": "sword", "characterId": "arthur"})

        fill(large)

        answer = small.post("/instances/sword/data", json={"key": "hp", "value": 1})
        assert refused(answer)[1:] == (
            "quota_exceeded",
            {"quota": "user", "bytes": answer.json()["details"]["bytes"], "limit": 8 * MEGABYTE},
        )
        # Another user has a quota of their own.
        body = {"key": "hp", "value": 1}
        own_answer = own.post("/instances/sword/data", json=body)
        assert own_answer.status_code == 200, own_answer.text


@pytest.mark.one_engine
def test_a_users_quota_is_known_after_a_restart(tmp_path: Path) -> None:
    with limited(tmp_path, "") as (_, client):
        for number in range(8):
            body = {"key": f"book{number}", "value": secrets.token_hex(200_000)}
            client.post("/instances/sword/data", json=body)
    with running_server(tmp_path, user_quota_mb=1) as server:
        server.register("two")
        with server.client("two") as client:
            client.get("/characters")

            def is_full() -> bool:
                return client.post("/characters", json={"id": "merlin"}).status_code == 507

            wait_for(is_full)


def test_a_large_database_is_told_of(
    tmp_path: Path, own_database: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, growth.__name__)
    with limited(tmp_path, own_database, warn_mb=4) as (_, client):
        assert client.get("/healthz").json()["large"] == 0
        assert "warning" not in client.get("/extensions/one").json()
        for number in range(20):
            body = {"key": f"book{number}", "value": secrets.token_hex(150_000)}
            assert client.post("/instances/sword/data", json=body).status_code == 200

        wait_for(lambda: client.get("/healthz").json()["large"] == 1)

        # It is told of and nothing else: writes go on.
        assert outcome(client.delete("/instances/sword/data/book0")) == DONE
        one, all = client.get("/extensions/one").json(), client.get("/extensions").json()
        for told in (one["warning"], all[0]["warning"]):
            assert "MB" in told
            assert "`valuetracker compact one --keep-days 90`" in told
        wait_for(lambda: client.get("/healthz").json()["large"] == 1)
    logged = [vars(entry) for entry in caplog.records if entry.name == growth.__name__]
    assert [(each["extension"], each["user"]) for each in logged] == [("one", "default-user")]
    assert "`valuetracker compact one --keep-days 90`" in logged[0]["hint"]
