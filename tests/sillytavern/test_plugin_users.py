"""Each SillyTavern user has data of their own, and no user is taken for another."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.sillytavern.conftest import NUMBERS
from tests.sillytavern.host import SillyTavern
from valuetracker.settings import PREFIX

SPOOFED = {
    "x-vt-user": "ada",
    "X-VT-Admin": "true",
    "x-vt-secret": "guessed",
    "x-forwarded-user": "ada",
    "x-forwarded-for": "127.0.0.1",
    "remote-user": "ada",
}


@pytest.fixture
def extension_id() -> str:
    return f"users-{next(NUMBERS)}"


@pytest.fixture
def ada(shared_house: SillyTavern, extension_id: str) -> Iterator[httpx.Client]:
    with shared_house.client(extension_id, "ada", "ada") as client:
        yield client


@pytest.fixture
def bob(shared_house: SillyTavern, extension_id: str) -> Iterator[httpx.Client]:
    with shared_house.client(extension_id, "bob", "bob") as client:
        yield client


@pytest.fixture
def owner(shared_house: SillyTavern, extension_id: str) -> Iterator[httpx.Client]:
    """The admin."""
    with shared_house.client(extension_id, "default-user") as client:
        yield client


def begin(client: httpx.Client, extension_id: str, hp: int) -> None:
    for path, body in (
        ("/register", {"extensionId": extension_id}),
        ("/instances", {"id": "run", "characterId": "hero"}),
        ("/instances/run/data", {"key": "hp", "value": hp}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 200, answer.text


def test_nobody_is_answered_by_the_plugin_without_a_login(shared_house: SillyTavern) -> None:
    answer = httpx.get(f"{shared_house.url}{PREFIX}/st/health")

    # The panel knows by the status that SillyTavern itself has answered and wants a login.
    assert answer.status_code in (401, 403)
    assert "x-vt-plugin" not in answer.headers
    assert '"code"' not in answer.text


def data(client: httpx.Client, **headers: str) -> tuple[int, object]:
    answer = client.get("/instances/run/data", headers=headers)
    return answer.status_code, answer.json()


def test_three_people_with_the_same_names_never_meet(
    ada: httpx.Client, bob: httpx.Client, owner: httpx.Client, extension_id: str
) -> None:
    for client, hp in ((ada, 1), (bob, 2), (owner, 3)):
        begin(client, extension_id, hp)

    assert [data(client) for client in (ada, bob, owner)] == [
        (200, {"hp": 1}),
        (200, {"hp": 2}),
        (200, {"hp": 3}),
    ]
    bob.put("/instances/run/data/override", json={})
    assert [data(client) for client in (ada, bob, owner)] == [
        (200, {"hp": 1}),
        (200, {}),
        (200, {"hp": 3}),
    ]


def test_the_files_of_each_lie_apart(
    shared_house: SillyTavern, ada: httpx.Client, owner: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)
    folder = shared_house.data / "_valuetracker"

    assert (folder / f".users/ada/{extension_id}.db").exists()
    assert not (folder / f"{extension_id}.db").exists()
    begin(owner, extension_id, 3)
    assert (folder / f"{extension_id}.db").exists()


def test_what_one_registered_another_does_not_know(
    ada: httpx.Client, bob: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)

    status, answer = data(bob)
    across = bob.get(f"/cross-extension/instances/{extension_id}/run")

    assert (status, answer) == (404, across.json())
    assert across.json()["code"] == "extension_not_registered"


def test_a_request_cannot_say_who_it_is(
    ada: httpx.Client, bob: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)
    begin(bob, extension_id, 2)

    assert data(bob, **SPOOFED) == (200, {"hp": 2})
    written = bob.post("/instances/run/data", json={"key": "hp", "value": 66}, headers=SPOOFED)
    assert written.status_code == 200
    assert (data(ada), data(bob)) == ((200, {"hp": 1}), (200, {"hp": 66}))


def test_only_an_admin_of_sillytavern_is_one_here(
    ada: httpx.Client, owner: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)
    begin(owner, extension_id, 3)

    for headers in ({}, SPOOFED):
        refused = ada.get("/extensions", headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "admin_required")
    assert owner.get("/extensions").status_code == 200


def test_a_feed_tells_of_its_readers_own_changes_only(
    ada: httpx.Client, bob: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)
    begin(bob, extension_id, 2)

    with bob.stream("GET", "/events?since=0", headers=SPOOFED) as answer:
        lines = answer.iter_lines()
        ada.post("/instances/run/data", json={"key": "secret", "value": "ada's"})
        bob.post("/instances/run/data", json={"key": "last", "value": "bob's"})
        heard = ""
        for line in lines:
            heard += line
            if '"last"' in line:
                break

    assert "bob's" in heard
    assert "ada's" not in heard


def test_the_same_idempotency_key_of_two_people_is_two_keys(
    ada: httpx.Client, bob: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)
    begin(bob, extension_id, 2)
    headers = {"idempotency-key": "once"}
    body = {"key": "hp", "value": 5}

    answers = [
        client.post("/instances/run/data", json=body, headers=headers) for client in (ada, bob, ada)
    ]

    assert ["idempotency-replayed" in each.headers for each in answers] == [False, False, True]
    assert (data(ada), data(bob)) == ((200, {"hp": 5}), (200, {"hp": 5}))


def test_who_is_not_logged_in_gets_nothing(shared_house: SillyTavern) -> None:
    with shared_house.session() as session:
        for path in ("/health", "/extensions", "/client/valuetracker.js"):
            assert session.get(PREFIX + path, headers=SPOOFED).status_code == 403


def test_what_is_read_of_one_is_not_remembered_for_another(
    ada: httpx.Client, bob: httpx.Client, extension_id: str
) -> None:
    begin(ada, extension_id, 1)
    begin(bob, extension_id, 2)

    for _ in range(20):
        assert (data(ada), data(bob)) == ((200, {"hp": 1}), (200, {"hp": 2}))
