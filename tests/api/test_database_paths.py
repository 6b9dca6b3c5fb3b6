"""`dbPath`: where the file of an extension may be, and where not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import RunningServer, running_server
from tests.support.answers import (
    delete_register,
    deregistered,
    make_instance,
    outcome,
    refusal,
    refused_as,
    registered,
    values_of,
)
from valuetracker.errors import InvalidBody, PathDiffers, PathInUse, PathNotAllowed


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    (tmp_path / "outside").mkdir()
    (tmp_path / "allowed").mkdir()
    with running_server(tmp_path / "db", allow_root=(tmp_path / "allowed",)) as server:
        yield server


def register(server: RunningServer, extension_id: str, path: Any) -> httpx.Response:
    with server.client() as client:
        return client.post("/register", json={"extensionId": extension_id, "dbPath": path})


def files_below(directory: Path) -> list[Path]:
    return sorted(each for each in directory.rglob("*") if not each.name.endswith(("-wal", "-shm")))


def keep_a_value(server: RunningServer, extension_id: str) -> str:
    with server.client(extension_id) as client:
        make_instance(client, {"edge": "keen"}, "sword")
        return values_of(client)


@pytest.mark.parametrize(
    ("path", "lies_at"),
    [
        ("own.db", "own.db"),
        ("own.sqlite", "own.sqlite"),
        ("deep/er/own.db", "deep/er/own.db"),
        ("./own.db", "own.db"),
        ("deep/../own.db", "own.db"),
        ("with blank é.db", "with blank é.db"),
    ],
)
def test_a_path_inside_the_data_directory_is_accepted(
    server: RunningServer, path: str, lies_at: str
) -> None:
    answer = register(server, "custom", path)

    assert outcome(answer) == registered("custom")
    assert (server.data_dir / lies_at).is_file()
    assert not (server.data_dir / "custom.db").exists()
    assert keep_a_value(server, "custom") == '{"edge":"keen"}'


def test_an_absolute_path_inside_the_data_directory_is_accepted(server: RunningServer) -> None:
    answer = register(server, "custom", str(server.data_dir / "own.db"))

    assert outcome(answer) == registered("custom")
    assert (server.data_dir / "own.db").is_file()


def test_a_path_in_an_allowed_root_is_accepted(server: RunningServer, tmp_path: Path) -> None:
    answer = register(server, "custom", str(tmp_path / "allowed" / "deep" / "own.db"))

    assert outcome(answer) == registered("custom")
    assert (tmp_path / "allowed" / "deep" / "own.db").is_file()
    assert keep_a_value(server, "custom") == '{"edge":"keen"}'


@pytest.mark.parametrize(
    "path",
    [
        "../outside/own.db",
        "deep/../../outside/own.db",
        "{tmp_path}/outside/own.db",
        "{tmp_path}/allowed/../outside/own.db",
        "{tmp_path}/allowed-not/own.db",
        "/own.db",
        "..",
        ".",
        "/",
    ],
)
def test_a_path_outside_is_refused_and_nothing_is_created(
    server: RunningServer, tmp_path: Path, path: str
) -> None:
    files = files_below(tmp_path)

    answer = register(server, "custom", path.format(tmp_path=tmp_path))

    assert outcome(answer) == refusal(PathNotAllowed())
    assert files_below(tmp_path) == files


@pytest.mark.parametrize("path", ["link/own.db", "link.db"])
def test_a_link_that_leads_outside_is_refused(
    server: RunningServer, tmp_path: Path, path: str
) -> None:
    (server.data_dir / "link").symlink_to(tmp_path / "outside")
    (server.data_dir / "link.db").symlink_to(tmp_path / "outside" / "own.db")

    answer = register(server, "custom", path)

    assert outcome(answer) == refusal(PathNotAllowed())
    assert files_below(tmp_path / "outside") == []


@pytest.mark.parametrize(
    "path", ["trash/own.db", "backups/own.db", ".users/x/own.db", ".own.db", "deep/.own.db"]
)
def test_the_servers_own_files_and_folders_are_refused(
    server: RunningServer, tmp_path: Path, path: str
) -> None:
    files = files_below(tmp_path)

    answer = register(server, "custom", path)

    message = "Names that begin with a dot, `trash` and `backups` are the server's."
    assert outcome(answer) == refusal(PathNotAllowed(message))
    assert files_below(tmp_path) == files


@pytest.mark.parametrize("path", ["own.db-wal", "own.db-shm", "own.db-journal"])
def test_names_that_sqlite_uses_itself_are_refused(server: RunningServer, path: str) -> None:
    answer = register(server, "custom", path)

    message = "The server keeps files of its own under such a name."
    assert outcome(answer) == refusal(PathNotAllowed(message))


@pytest.mark.parametrize("path", ["directory", "directory/", "new/"])
def test_a_directory_is_refused(server: RunningServer, path: str) -> None:
    (server.data_dir / "directory").mkdir()

    answer = register(server, "custom", path)

    assert outcome(answer) == refusal(PathNotAllowed("dbPath names a directory."))
    assert not (server.data_dir / "new").exists()


@pytest.mark.parametrize("path", ["", "a\x00b", "x" * 5000])
def test_an_invalid_path_is_refused(server: RunningServer, path: str) -> None:
    assert outcome(register(server, "custom", path)) == refusal(
        InvalidBody("dbPath must be a path.")
    )


@pytest.mark.parametrize("path", [5, True, [], {}])
def test_a_path_that_is_no_string_is_refused(server: RunningServer, path: Any) -> None:
    assert outcome(register(server, "custom", path)) == refusal(
        InvalidBody("The text must be a string.")
    )


@pytest.mark.parametrize("length", [251, 252, 255, 256])
def test_a_long_file_name_is_accepted_or_refused_but_never_fails(
    server: RunningServer, tmp_path: Path, length: int
) -> None:
    files = files_below(tmp_path)

    answer = register(server, "custom", "x" * (length - 3) + ".db")

    assert answer.status_code in (200, 400)
    assert answer.status_code == 200 or files_below(tmp_path) == files


def test_a_path_below_a_file_is_refused(server: RunningServer) -> None:
    server.register("other")

    answer = register(server, "custom", "other.db/own.db")

    assert outcome(answer) == refused_as(answer, PathNotAllowed)


@pytest.mark.parametrize("path", [".registry.db", "./.registry.db", "link-to-registry.db"])
def test_the_file_of_the_registry_is_a_conflict(server: RunningServer, path: str) -> None:
    (server.data_dir / "link-to-registry.db").symlink_to(server.data_dir / ".registry.db")

    answer = register(server, "custom", path)

    assert outcome(answer) == refused_as(answer, PathInUse)
    with server.client() as client:
        assert outcome(client.get("/extensions")) == (200, [])


@pytest.mark.parametrize("path", ["other.db", "OTHER.db", "deep/../other.db", "link.db"])
def test_the_file_of_another_extension_is_a_conflict(server: RunningServer, path: str) -> None:
    server.register("other")
    text = keep_a_value(server, "other")
    (server.data_dir / "link.db").symlink_to(server.data_dir / "other.db")

    answer = register(server, "custom", path)

    assert outcome(answer) == refusal(PathInUse("That file belongs to another extension."))
    with server.client("other") as client:
        assert values_of(client) == text


def test_the_file_of_a_deregistered_extension_is_still_its_own(server: RunningServer) -> None:
    server.register("other")
    with server.client() as client:
        delete_register(client, extensionId="other")

    answer = register(server, "custom", "other.db")

    assert outcome(answer) == refusal(PathInUse("That file belongs to another extension."))


def test_a_copy_of_another_extensions_file_is_a_conflict(server: RunningServer) -> None:
    server.register("other")
    (server.data_dir / "copy.db").write_bytes((server.data_dir / "other.db").read_bytes())

    answer = register(server, "custom", "copy.db")

    assert outcome(answer) == refusal(PathInUse("That file is the database of another extension."))


def test_a_second_path_for_a_registered_extension_is_a_conflict(
    server: RunningServer, tmp_path: Path
) -> None:
    register(server, "custom", "own.db")
    files = files_below(tmp_path)

    answer = register(server, "custom", "second.db")

    assert outcome(answer) == refusal(PathDiffers())
    assert files_below(tmp_path) == files


@pytest.mark.parametrize("path", ["own.db", "./own.db", "{data_dir}/own.db"])
def test_the_same_path_again_does_nothing(server: RunningServer, path: str) -> None:
    register(server, "custom", "own.db")
    text = keep_a_value(server, "custom")

    answer = register(server, "custom", path.format(data_dir=server.data_dir))

    assert outcome(answer) == registered("custom")
    with server.client("custom") as client:
        assert values_of(client) == text


def test_registering_again_without_a_path_finds_the_custom_file(server: RunningServer) -> None:
    register(server, "custom", "own.db")
    text = keep_a_value(server, "custom")
    with server.client("custom") as client:
        delete_register(client, extensionId="custom")

        answer = client.post("/register", json={"extensionId": "custom"})

        assert outcome(answer) == registered("custom")
        assert values_of(client) == text


@pytest.mark.parametrize("path", ["own.db", "{tmp_path}/allowed/own.db"])
def test_a_purge_moves_a_custom_file_to_the_trash(
    server: RunningServer, tmp_path: Path, path: str
) -> None:
    path = path.format(tmp_path=tmp_path)
    register(server, "custom", path)

    with server.client() as client:
        answer = delete_register(client, extensionId="custom", purge=True)

    assert outcome(answer) == deregistered("custom")
    assert not (server.data_dir / path).exists()
    assert len(list((server.data_dir / "trash").iterdir())) == 1


def test_a_pipe_instead_of_a_file_is_refused_and_delays_nobody(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, server.client() as client:
        os.mkfifo(tmp_path / "pipe.db")

        answer = client.post("/register", json={"extensionId": "pipe"})

        assert (answer.status_code, answer.json()["code"]) == (503, "database_damaged")
        assert client.get("/healthz").status_code == 200
