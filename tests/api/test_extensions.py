"""Registering, deregistering and describing extensions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import (
    MOMENT,
    character,
    delete_register,
    deregistered,
    make_instance,
    outcome,
    refusal,
    refused_as,
    registered,
    values_of,
)
from valuetracker.errors import (
    DatabaseDamaged,
    ExtensionExists,
    ExtensionNotRegistered,
    InvalidBody,
    InvalidExtensionId,
)


def test_an_extension_is_registered(shared_server: RunningServer) -> None:
    with shared_server.client("first-time") as client:
        before = client.get("/characters")

        answer = client.post("/register", json={"extensionId": "first-time"})

        assert outcome(before) == refusal(ExtensionNotRegistered("first-time"))
        assert outcome(answer) == registered("first-time")
        assert outcome(client.get("/characters")) == (200, [])


def test_registering_again_does_nothing(client: httpx.Client, extension_id: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.post("/register", json={"extensionId": extension_id})

    assert outcome(answer) == registered(extension_id)
    assert values_of(client) == '{"edge":"keen"}'


def test_registration_needs_no_header_and_ignores_one(shared_server: RunningServer) -> None:
    with shared_server.client("not an id") as client:
        answer = client.post("/register", json={"extensionId": "headerless"})

    assert outcome(answer) == registered("headerless")


def test_a_registration_and_its_data_survive_a_restart(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("lasting") as client:
        server.register("lasting")
        make_instance(client, {"edge": "keen"}, "sword")

    with running_server(tmp_path) as server, server.client("lasting") as client:
        assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize(
    "extension_id",
    ["a", "A-Z_09", "-", "_", "com", "com10", "console", "x" * 127, "x" * 128],
)
def test_these_extension_ids_are_accepted(shared_server: RunningServer, extension_id: str) -> None:
    with shared_server.client(extension_id) as client:
        answer = client.post("/register", json={"extensionId": extension_id})

        assert outcome(answer) == registered(extension_id)
        assert outcome(client.get("/characters")) == (200, [])


@pytest.mark.parametrize(
    "extension_id",
    ["", " ", "a b", "a.b", "../a", "a/b", "é", "a\n", "a\x00", "x" * 129],
)
def test_these_extension_ids_are_refused(shared_server: RunningServer, extension_id: str) -> None:
    # SQLite makes and removes files beside a database when it is closed.
    files = sorted(shared_server.data_dir.parent.rglob("*.db"))

    with shared_server.client() as client:
        registering = client.post("/register", json={"extensionId": extension_id})
        deregistering = delete_register(client, extensionId=extension_id, purge=True)

    assert outcome(registering) == refusal(InvalidExtensionId())
    assert outcome(deregistering) == refusal(InvalidExtensionId())
    assert sorted(shared_server.data_dir.parent.rglob("*.db")) == files


@pytest.mark.parametrize("extension_id", ["nul", "CON", "Aux", "prn", "com1", "COM9", "lpt1"])
def test_windows_device_names_are_refused(shared_server: RunningServer, extension_id: str) -> None:
    with shared_server.client() as client:
        answer = client.post("/register", json={"extensionId": extension_id})

    message = f"{extension_id} is the name of a device on Windows."
    assert outcome(answer) == refusal(InvalidExtensionId(message))


@pytest.mark.parametrize("extension_id", [None, 5, True, ["a"], {"a": 1}])
def test_an_id_that_is_no_string_is_refused(
    shared_server: RunningServer, extension_id: Any
) -> None:
    with shared_server.client() as client:
        answer = client.post("/register", json={"extensionId": extension_id})

    assert outcome(answer) == refusal(InvalidExtensionId("The extension id must be a string."))


def test_an_id_must_be_given(shared_server: RunningServer) -> None:
    with shared_server.client() as client:
        registering = client.post("/register", json={})
        deregistering = delete_register(client)

    assert outcome(registering) == refusal(InvalidBody("`extensionId` is required."))
    assert outcome(deregistering) == refusal(InvalidBody("`extensionId` is required."))


def test_two_ids_that_differ_only_in_case_are_a_conflict(shared_server: RunningServer) -> None:
    shared_server.register("Sheet")

    with shared_server.client() as client:
        answer = client.post("/register", json={"extensionId": "sHEET"})

    assert outcome(answer) == refusal(ExtensionExists())


def test_an_id_in_other_case_is_unknown(shared_server: RunningServer) -> None:
    shared_server.register("Ledger")

    with shared_server.client("ledger") as client:
        assert outcome(client.get("/characters")) == refusal(ExtensionNotRegistered("ledger"))
        assert outcome(client.post("/characters", json={"id": "arthur"})) == refusal(
            ExtensionNotRegistered("ledger")
        )


def test_a_deregistered_extension_is_unknown_and_keeps_its_data(
    client: httpx.Client, extension_id: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = delete_register(client, extensionId=extension_id)

    assert outcome(answer) == deregistered(extension_id)
    assert outcome(client.get("/instances/sword/data")) == refusal(
        ExtensionNotRegistered(extension_id)
    )
    client.post("/register", json={"extensionId": extension_id})
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize("purge", [False, True])
def test_an_extension_that_never_existed_can_be_deregistered(
    shared_server: RunningServer, purge: bool
) -> None:
    with shared_server.client() as client:
        answer = delete_register(client, extensionId="never-was", purge=purge)

    assert outcome(answer) == deregistered("never-was")


@pytest.mark.parametrize("purge", [None, 1, 0, "true", [], {}])
def test_purge_must_be_a_flag(client: httpx.Client, extension_id: str, purge: Any) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = delete_register(client, extensionId=extension_id, purge=purge)

    assert outcome(answer) == refusal(InvalidBody("A flag must be true or false."))
    assert values_of(client) == '{"edge":"keen"}'


def test_deregistering_in_other_case_leaves_the_extension_alone(
    client: httpx.Client, extension_id: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = delete_register(client, extensionId=extension_id.upper(), purge=True)

    assert outcome(answer) == deregistered(extension_id.upper())
    assert values_of(client) == '{"edge":"keen"}'


def test_a_purge_moves_the_file_to_the_trash_and_registering_starts_empty(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("purged") as client:
        server.register("purged")
        make_instance(client, {"edge": "keen"}, "sword")

        answer = delete_register(client, extensionId="purged", purge=True)

        assert outcome(answer) == deregistered("purged")
        assert not (tmp_path / "purged.db").exists()
        assert [each.suffix for each in (tmp_path / "trash").iterdir()] == [".db"]
        server.register("purged")
        assert outcome(client.get("/characters")) == (200, [])
        assert values_of(client) == "{}"


def test_a_deregistered_extension_can_still_be_purged(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("purged") as client:
        server.register("purged")
        delete_register(client, extensionId="purged")

        answer = delete_register(client, extensionId="purged", purge=True)

        assert outcome(answer) == deregistered("purged")
        assert not (tmp_path / "purged.db").exists()
        assert len(list((tmp_path / "trash").iterdir())) == 1


def test_revisions_after_a_purge_are_above_the_old_ones(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("counted") as client:
        server.register("counted")
        make_instance(client, {"edge": "keen", "weight": 2}, "sword")
        last = client.post("/instances/sword/data", json={"key": "edge", "value": "dull"})
        delete_register(client, extensionId="counted", purge=True)
        server.register("counted")

        first = client.post("/characters", json={"id": "arthur"})

        assert int(first.headers["x-revision"]) == int(last.headers["x-revision"]) + 1


def test_revisions_continue_after_deregistering(client: httpx.Client, extension_id: str) -> None:
    last = client.post("/characters", json={"id": "arthur"})
    delete_register(client, extensionId=extension_id)
    client.post("/register", json={"extensionId": extension_id})

    first = client.post("/characters", json={"id": "merlin"})

    assert (last.headers["x-revision"], first.headers["x-revision"]) == ("1", "2")


def test_an_extension_is_described(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client("described") as client:
        server.register("described")
        make_instance(client, {"edge": "keen", "weight": 2}, "sword")

        answer = client.get("/extensions/described")

        size = answer.json()["bytes"]
        assert size >= (tmp_path / "described.db").stat().st_size
        assert outcome(answer) == (
            200,
            {
                "id": "described",
                "status": "ok",
                "revision": 3,
                "path": "described.db",
                "registeredAt": MOMENT,
                "characters": 1,
                "instances": 1,
                "keys": 2,
                "bytes": size,
            },
        )


def test_an_unknown_extension_cannot_be_described(client: httpx.Client) -> None:
    assert outcome(client.get("/extensions/nobody")) == refusal(ExtensionNotRegistered("nobody"))


def test_the_registered_extensions_are_listed(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as client:
        empty = client.get("/extensions")
        for name in ("b", "a", "left"):
            server.register(name)
        delete_register(client, extensionId="left")

        answer = client.get("/extensions")

        one = [client.get(f"/extensions/{name}").json() for name in ("a", "b")]
        assert outcome(empty) == (200, [])
        assert outcome(answer) == (200, one)


@pytest.mark.parametrize("damage", ["missing", "empty", "junk"])
def test_a_damaged_extension_is_listed_with_its_status_while_others_answer(
    tmp_path: Path, damage: str
) -> None:
    with running_server(tmp_path) as server:
        server.register("broken")
        server.register("whole")
    file = tmp_path / "broken.db"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else b"no database" * 1000)

    with running_server(tmp_path) as server, server.client("whole") as client:
        listed = client.get("/extensions").json()
        broken = client.get("/characters", headers={"x-extension-id": "broken"})
        written = client.post("/characters", json={"id": "arthur"})

        assert [(each["id"], each["status"]) for each in listed] == [
            ("broken", "database_damaged"),
            ("whole", "ok"),
        ]
        assert listed[0] == {
            "id": "broken",
            "status": "database_damaged",
            "revision": 0,
            "path": "broken.db",
            "registeredAt": MOMENT,
        }
        assert outcome(broken) == refused_as(broken, DatabaseDamaged)
        assert outcome(written) == (200, character("arthur"))


@pytest.mark.parametrize("damage", ["missing", "junk"])
def test_an_extension_with_a_damaged_or_missing_file_can_be_purged(
    tmp_path: Path, damage: str
) -> None:
    with running_server(tmp_path) as server:
        server.register("broken")
    file = tmp_path / "broken.db"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"no database" * 1000)

    with running_server(tmp_path) as server, server.client("broken") as client:
        refused = client.post("/characters", json={"id": "arthur"})
        purged = delete_register(client, extensionId="broken", purge=True)
        again = client.post("/register", json={"extensionId": "broken"})

        assert outcome(refused) == refused_as(refused, DatabaseDamaged)
        assert outcome(purged) == deregistered("broken")
        assert outcome(again) == registered("broken")
        assert outcome(client.post("/characters", json={"id": "arthur"})) == (
            200,
            character("arthur"),
        )


def test_lists_of_an_extension_registered_anew_have_another_etag(
    client: httpx.Client, extension_id: str
) -> None:
    client.post("/characters", json={"id": "arthur"})
    before = {path: client.get(path).headers["etag"] for path in ("/characters", "/instances")}
    delete_register(client, extensionId=extension_id, purge=True)
    client.post("/register", json={"extensionId": extension_id})

    for path, tag in before.items():
        answer = client.get(path, headers={"if-none-match": tag})

        assert (answer.status_code, answer.json()) == (200, [])
