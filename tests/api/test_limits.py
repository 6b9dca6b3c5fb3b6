"""Each limit: just below it, at it, and just above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import (
    character,
    instance,
    make_instance,
    outcome,
    refusal,
    refused_as,
    values_of,
)
from valuetracker.errors import (
    BodyTooLarge,
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    InvalidName,
    TooManyKeys,
    ValueTooLarge,
)

MIB = 1024 * 1024
VALUE_BYTES = 8 * MIB
BODY_BYTES = 32 * MIB
KEYS = 10_000

# Texts of one character each, whatever their length in bytes or UTF-16.
LETTERS = ["x", "é", "日", "🗡"]


# Values


@pytest.mark.parametrize("size", [VALUE_BYTES - 1, VALUE_BYTES])
def test_a_value_may_have_8_mib(client: httpx.Client, size: int) -> None:
    make_instance(client)
    value = "x" * (size - 2)

    answer = client.post("/instances/sword/data", json={"key": "edge", "value": value})

    assert answer.status_code == 200
    assert client.get("/instances/sword/data/edge").json() == {"edge": value}


@pytest.mark.one_engine
@pytest.mark.parametrize(
    "value",
    ["x" * (VALUE_BYTES - 1), "é" * (VALUE_BYTES // 2), ["x" * (VALUE_BYTES - 3)]],
    ids=["ascii", "accents", "in an array"],
)
def test_a_larger_value_is_refused(client: httpx.Client, value: Any) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    alone = client.post("/instances/sword/data", json={"key": "edge", "value": value})
    merged = client.put("/instances/sword/data/merge", json={"a": 1, "edge": value})

    refused = ValueTooLarge(f"A value takes more than {VALUE_BYTES} bytes.")
    assert outcome(alone) == refusal(refused)
    assert outcome(merged) == refusal(refused)
    assert values_of(client) == '{"edge":"keen"}'


@pytest.mark.parametrize("excess", [0, 1])
def test_the_size_of_a_value_is_that_of_its_stored_text(client: httpx.Client, excess: int) -> None:
    make_instance(client)
    # Each escape has six bytes, and two bytes of UTF-8 when it is stored.
    text = r"\u00e9" * (VALUE_BYTES // 2 - 1) + "x" * excess

    answer = client.post(
        "/instances/sword/data", content=f'{{ "key" : "edge" , "value" : "{text}" }}'
    )

    assert answer.status_code == (413 if excess else 200)


# Bodies


def body_of(size: int) -> bytes:
    return b'{"message":"hello"}'.ljust(size)


def pieces_of(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), MIB):
        yield body[start : start + MIB]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("size", [BODY_BYTES - 1, BODY_BYTES])
def test_a_body_may_have_32_mib(client: httpx.Client, size: int, chunked: bool) -> None:
    body = body_of(size)

    answer = client.post("/ping", content=pieces_of(body) if chunked else body)

    assert outcome(answer) == (200, {"message": "Pong! hello"})


@pytest.mark.one_engine
@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", ["/ping", "/nowhere", "/characters"])
def test_a_larger_body_is_refused_on_every_route(
    client: httpx.Client, path: str, chunked: bool
) -> None:
    body = body_of(BODY_BYTES + 1)

    answer = client.post(path, content=pieces_of(body) if chunked else body)

    assert outcome(answer) == refusal(BodyTooLarge())
    assert answer.headers["cache-control"] == "no-store"
    assert outcome(client.get("/characters")) == (200, [])


def test_a_body_may_be_full_of_large_values(client: httpx.Client) -> None:
    make_instance(client)
    values = {str(number): "x" * (VALUE_BYTES - 20) for number in range(4)}

    answer = client.put("/instances/sword/data/merge", json=values)

    assert answer.status_code == 200
    assert client.get("/instances/sword/data").json() == values


# Keys in a request


@pytest.mark.parametrize("count", [KEYS - 1, KEYS])
def test_a_request_may_name_10_000_keys(client: httpx.Client, count: int) -> None:
    make_instance(client)
    values = {f"k{number}": number for number in range(count)}

    overridden = client.put("/instances/sword/data/override", json=values)
    merged = client.put("/instances/sword/data/merge", json=values)
    read = client.get("/instances/sword/data").json()
    removed = client.put("/instances/sword/data/remove", json={"keys": list(values)})

    assert (overridden.status_code, merged.status_code) == (200, 200)
    assert list(read.items()) == list(values.items())
    assert outcome(removed) == (200, {"success": True, "removedCount": count})
    assert values_of(client) == "{}"


@pytest.mark.one_engine
def test_a_request_may_not_name_more_keys(client: httpx.Client) -> None:
    make_instance(client, {"k0": "keen"}, "sword")
    values = {f"k{number}": number for number in range(KEYS + 1)}

    overridden = client.put("/instances/sword/data/override", json=values)
    merged = client.put("/instances/sword/data/merge", json=values)
    removed = client.put("/instances/sword/data/remove", json={"keys": list(values)})

    refused = TooManyKeys(f"A request may name {KEYS} keys at the most.")
    assert outcome(overridden) == refusal(refused)
    assert outcome(merged) == refusal(refused)
    assert outcome(removed) == refusal(refused)
    assert values_of(client) == '{"k0":"keen"}'


def test_an_instance_may_have_more_keys_than_a_request(client: httpx.Client) -> None:
    make_instance(client, {"first": 1}, "sword")

    client.put("/instances/sword/data/merge", json={f"k{n}": n for n in range(KEYS)})
    cleared = client.delete("/instances/sword/data")

    assert cleared.status_code == 200
    assert values_of(client) == "{}"


# Ids, keys and names


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("length", [1, 255, 256])
def test_ids_of_characters_and_instances_may_have_256_characters(
    client: httpx.Client, letter: str, length: int
) -> None:
    id = letter * length

    made = client.post("/instances", json={"id": id, "characterId": id})

    assert outcome(made) == (200, instance(id, id))
    assert outcome(client.get(f"/characters/{quote(id)}/instances")) == (200, [made.json()])
    assert outcome(client.get(f"/instances/{quote(id)}")) == (
        200,
        {"instance": made.json(), "data": {}},
    )
    assert outcome(client.get("/characters")) == (200, [character(id)])


@pytest.mark.one_engine
@pytest.mark.parametrize("letter", LETTERS)
def test_ids_of_characters_and_instances_may_not_be_longer(
    client: httpx.Client, letter: str
) -> None:
    id = letter * 257

    answers = {
        "character": [
            client.post("/characters", json={"id": id}),
            client.post("/instances", json={"id": "sword", "characterId": id}),
            client.get(f"/characters/{quote(id)}"),
            client.get("/instances", params={"characterId": id}),
        ],
        "instance": [
            client.post("/instances", json={"id": id, "characterId": "arthur"}),
            client.get(f"/instances/{quote(id)}/data"),
        ],
    }

    for noun, refused in answers.items():
        message = f"The {noun} id must have 1 to 256 characters."
        assert [outcome(each) for each in refused] == [refusal(InvalidId(message))] * len(refused)
    assert outcome(client.get("/characters")) == (200, [])


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("length", [511, 512])
def test_ids_of_chats_may_have_512_characters(
    client: httpx.Client, letter: str, length: int
) -> None:
    chat = letter * length

    made = client.post("/instances", json={"id": "sword", "characterId": "arthur", "chatId": chat})

    assert outcome(made) == (200, instance("sword", "arthur", None, chat))
    assert outcome(client.get("/instances", params={"chatId": chat})) == (200, [made.json()])


@pytest.mark.one_engine
@pytest.mark.parametrize("letter", LETTERS)
def test_ids_of_chats_may_not_be_longer(client: httpx.Client, letter: str) -> None:
    body = {"id": "sword", "characterId": "arthur", "chatId": letter * 513}

    making = client.post("/instances", json=body)
    listing = client.get("/instances", params={"chatId": letter * 513})

    message = "The chat id must have 1 to 512 characters."
    assert outcome(making) == refusal(InvalidId(message))
    assert outcome(listing) == refusal(InvalidId(message))


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("length", [1, 1023, 1024])
def test_keys_may_have_1024_characters(client: httpx.Client, letter: str, length: int) -> None:
    make_instance(client)
    key = letter * length

    set_one = client.post("/instances/sword/data", json={"key": key, "value": 1})
    merged = client.put("/instances/sword/data/merge", json={key: 2})

    assert (set_one.status_code, merged.status_code) == (200, 200)
    assert outcome(client.get(f"/instances/sword/data/{quote(key)}")) == (200, {key: 2})
    assert client.delete(f"/instances/sword/data/{quote(key)}").status_code == 200


@pytest.mark.one_engine
@pytest.mark.parametrize("letter", LETTERS)
def test_keys_may_not_be_longer(client: httpx.Client, letter: str) -> None:
    make_instance(client)
    key = letter * 1025

    answers = [
        client.post("/instances/sword/data", json={"key": key, "value": 1}),
        client.put("/instances/sword/data/merge", json={key: 1}),
        client.put("/instances/sword/data/override", json={key: 1}),
        client.put("/instances/sword/data/remove", json={"keys": [key]}),
        client.get(f"/instances/sword/data/{quote(key)}"),
        client.delete(f"/instances/sword/data/{quote(key)}"),
    ]

    refused = refusal(InvalidKey("A key must have 1 to 1024 characters."))
    assert [outcome(each) for each in answers] == [refused] * len(answers)


@pytest.mark.parametrize("letter", LETTERS)
def test_names_may_have_1024_characters_and_not_more(client: httpx.Client, letter: str) -> None:
    kept = client.post("/characters", json={"id": "arthur", "name": letter * 1024})
    refused = client.post("/characters", json={"id": "arthur", "name": letter * 1025})

    assert outcome(kept) == (200, character("arthur", letter * 1024))
    assert outcome(refused) == refused_as(refused, InvalidName)


def test_ids_of_extensions_may_have_128_characters_and_not_more(
    shared_server: RunningServer,
) -> None:
    with shared_server.client() as client:
        at_the_limit = client.get("/characters", headers={"x-extension-id": "y" * 128})
        above = client.get("/characters", headers={"x-extension-id": "y" * 129})

    assert at_the_limit.status_code == 404
    assert outcome(above) == refusal(InvalidExtensionId())
