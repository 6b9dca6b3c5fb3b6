"""Reading another extension's database, and never writing it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import make_instance, outcome, refusal, values_of
from valuetracker.errors import (
    CharacterNotFound,
    ExtensionNotRegistered,
    InstanceNotFound,
    InvalidExtensionId,
    MethodNotAllowed,
)

# Each read across extensions, and the same read within the extension.
READS = [
    ("/cross-extension/characters/{ext}", "/characters"),
    ("/cross-extension/characters/{ext}/arthur", "/characters/arthur"),
    ("/cross-extension/characters/{ext}/arthur/instances", "/characters/arthur/instances"),
    ("/cross-extension/instances/{ext}/sword", "/instances/sword"),
    ("/cross-extension/instances/{ext}/sword/data", "/instances/sword/data"),
    ("/cross-extension/instances/{ext}/sword/data/edge", "/instances/sword/data/edge"),
    ("/cross-extension/instances/{ext}/sword/data/a%2Fb", "/instances/sword/data/a%2Fb"),
    ("/cross-extension/instances/{ext}/sword/data/merge", "/instances/sword/data/merge"),
    ("/cross-extension/instances/{ext}/sword/data/absent", "/instances/sword/data/absent"),
    ("/cross-extension/instances/{ext}/nothing/data", "/instances/nothing/data"),
    ("/cross-extension/characters/{ext}/nobody/instances", "/characters/nobody/instances"),
]


@pytest.fixture
def reader(shared_server: RunningServer) -> Iterator[httpx.Client]:
    """A client that names no extension of its own."""
    with shared_server.client() as client:
        yield client


@pytest.mark.parametrize(("across", "at_home"), READS)
def test_the_reads_are_those_of_the_other_extension(
    client: httpx.Client, reader: httpx.Client, extension_id: str, across: str, at_home: str
) -> None:
    make_instance(client, {"edge": "keen", "a/b": 5, "merge": 1.0}, "sword")
    make_instance(client, id="shield")

    answer = reader.get(across.format(ext=extension_id))

    assert answer.status_code == 200
    assert answer.text == client.get(at_home).text


def test_reads_show_what_is_written_meanwhile(
    client: httpx.Client, reader: httpx.Client, extension_id: str
) -> None:
    path = f"/cross-extension/instances/{extension_id}/sword/data"
    make_instance(client, {"edge": "keen"}, "sword")
    before = reader.get(path)

    client.post("/instances/sword/data", json={"key": "edge", "value": "dull"})

    assert outcome(before) == (200, {"edge": "keen"})
    assert outcome(reader.get(path)) == (200, {"edge": "dull"})


def test_a_header_changes_nothing(client: httpx.Client, extension_id: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    path = f"/cross-extension/instances/{extension_id}/sword/data"

    for name in ("somebody-else", "not an id", extension_id):
        answer = client.get(path, headers={"x-extension-id": name})
        assert outcome(answer) == (200, {"edge": "keen"})


def test_unknown_things_are_not_found(reader: httpx.Client, extension_id: str) -> None:
    assert outcome(reader.get(f"/cross-extension/characters/{extension_id}/nobody")) == refusal(
        CharacterNotFound()
    )
    assert outcome(reader.get(f"/cross-extension/instances/{extension_id}/nothing")) == refusal(
        InstanceNotFound()
    )


@pytest.mark.parametrize(("path", "_"), READS)
def test_an_unknown_extension_is_not_found(reader: httpx.Client, path: str, _: str) -> None:
    answer = reader.get(path.format(ext="nobody"))

    assert outcome(answer) == refusal(ExtensionNotRegistered("nobody"))
    assert answer.json()["error"] == "Database not found for extension: nobody"


def test_an_extension_in_other_case_is_unknown(reader: httpx.Client, extension_id: str) -> None:
    other = extension_id.upper()

    answer = reader.get(f"/cross-extension/characters/{other}")

    assert outcome(answer) == refusal(ExtensionNotRegistered(other))


@pytest.mark.one_engine
@pytest.mark.parametrize(("path", "_"), READS)
def test_a_malformed_extension_id_is_refused(reader: httpx.Client, path: str, _: str) -> None:
    answer = reader.get(path.format(ext="a%2Fb"))

    assert outcome(answer) == refusal(InvalidExtensionId())


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "path",
    [
        *(across for across, _ in READS),
        "/cross-extension/instances/{ext}/sword/data/override",
        "/cross-extension/instances/{ext}/sword/data/remove",
    ],
)
def test_every_writing_method_is_refused(
    client: httpx.Client, reader: httpx.Client, extension_id: str, method: str, path: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    body = {"id": "arthur", "name": "X", "key": "edge", "value": "dull", "keys": ["edge"]}

    answer = reader.request(method, path.format(ext=extension_id), json=body)

    message = f"{method} is not possible here."
    assert outcome(answer) == refusal(MethodNotAllowed(message, allow=["GET", "HEAD"]))
    assert answer.headers["allow"] == "GET, HEAD"
    assert values_of(client) == '{"edge":"keen"}'
    assert outcome(client.get("/extensions/" + extension_id))[1]["revision"] == 2


def test_a_write_is_refused_whichever_extension_is_named(client: httpx.Client) -> None:
    answer = client.put("/cross-extension/instances/nobody/sword/data/merge", json={"edge": 1})

    message = "PUT is not possible here."
    assert outcome(answer) == refusal(MethodNotAllowed(message, allow=["GET", "HEAD"]))
