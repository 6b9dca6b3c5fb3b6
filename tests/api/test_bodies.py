"""Bodies: a request that is not one JSON object in UTF-8 changes nothing."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.answers import DONE, make_instance, outcome, refusal, refused_as, values_of
from valuetracker.errors import InvalidBody, UnsupportedMediaType

pytestmark = pytest.mark.one_engine

# Every route that takes a body.
ROUTES = [
    ("POST", "/register"),
    ("DELETE", "/register"),
    ("POST", "/characters"),
    ("POST", "/instances"),
    ("POST", "/instances/sword/data"),
    ("PUT", "/instances/sword/data"),
    ("PUT", "/instances/sword/data/override"),
    ("PUT", "/instances/sword/data/merge"),
    ("PUT", "/instances/sword/data/remove"),
    ("POST", "/ping"),
]

NOT_JSON = {
    "a blank": b" ",
    "cut short": b'{"edge":1',
    "trailing junk": b'{"edge":1} x',
    "two documents": b'{"edge":1}{"edge":2}',
    "a trailing comma": b'{"edge":1,}',
    "single quotes": b"{'edge':1}",
    "a comment": b'{"edge":1} // x',
    "a byte order mark": b'\xef\xbb\xbf{"edge":1}',
    "UTF-16": '{"edge":1}'.encode("utf-16"),
    "bytes that are not UTF-8": b'{"edge":"\xff"}',
    "an encoded surrogate": b'{"edge":"\xed\xa0\x80"}',
    "a lone surrogate": b'{"edge":"\\ud800"}',
    "a lone surrogate as a key": b'{"\\udc00":1}',
    "NaN": b'{"edge":NaN}',
    "Infinity": b'{"edge":-Infinity}',
    "a leading zero": b'{"edge":01}',
    "a bare point": b'{"edge":1.}',
    "a control character": b'{"edge":"a\nb"}',
    "a NUL at the end": b'{"edge":1}\x00',
    "a form": b"edge=1",
}


def state(client: httpx.Client, extension_id: str) -> Any:
    """Return the whole state of an extension, with its revision."""
    return [
        client.get("/extensions/" + extension_id).json(),
        client.get("/characters").text,
        client.get("/instances").text,
        values_of(client),
    ]


def send(client: httpx.Client, method: str, path: str, body: bytes) -> httpx.Response:
    headers = {"content-type": "application/json"}
    return client.request(method, path, content=body, headers=headers)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_missing_body_changes_nothing(
    client: httpx.Client, extension_id: str, method: str, path: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    before = state(client, extension_id)

    untyped = client.request(method, path)
    typed = send(client, method, path, b"")

    assert outcome(untyped) == refusal(InvalidBody("A JSON body is required."))
    assert outcome(typed) == refusal(InvalidBody("A JSON body is required."))
    assert state(client, extension_id) == before


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize(
    "body", ["null", "true", "5", '"text"', "[]", '["edge"]', '[{"edge":1}]', '[["edge",1]]']
)
def test_an_array_or_a_scalar_where_an_object_is_expected_changes_nothing(
    client: httpx.Client, extension_id: str, method: str, path: str, body: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    before = state(client, extension_id)

    answer = send(client, method, path, body.encode())

    assert outcome(answer) == refusal(InvalidBody("The body must be a JSON object."))
    assert state(client, extension_id) == before


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
@pytest.mark.parametrize("verb", ["override", "merge"])
def test_a_body_that_is_not_json_changes_nothing(
    client: httpx.Client, extension_id: str, verb: str, body: bytes
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    before = state(client, extension_id)

    answer = send(client, "PUT", f"/instances/sword/data/{verb}", body)

    assert outcome(answer) == refused_as(answer, InvalidBody)
    assert state(client, extension_id) == before


def test_blanks_around_a_document_are_json(client: httpx.Client) -> None:
    answer = send(client, "POST", "/ping", b' \t\r\n{ "message" : "hello" }\n ')

    assert outcome(answer) == (200, {"message": "Pong! hello"})


def test_of_two_equal_keys_the_last_counts(client: httpx.Client) -> None:
    make_instance(client)

    send(client, "PUT", "/instances/sword/data/merge", b'{"a":1,"b":2,"a":{"c":3,"c":4}}')

    assert values_of(client) == '{"a":{"c":4},"b":2}'


@pytest.mark.parametrize(
    "media_type",
    [
        None,
        "application/json",
        "APPLICATION/JSON",
        "application/json;charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/json; charset=utf8",
        "application/json; profile=x",
        "application/merge-patch+json",
        "application/vnd.api+json",
    ],
)
def test_these_media_types_are_accepted(client: httpx.Client, media_type: str | None) -> None:
    headers = {"content-type": media_type} if media_type else {}

    answer = client.post("/ping", content='{"message":"é"}', headers=headers)

    assert outcome(answer) == (200, {"message": "Pong! é"})


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ({"content-type": "text/plain"}, UnsupportedMediaType()),
        ({"content-type": "text/plain;charset=UTF-8"}, UnsupportedMediaType()),
        ({"content-type": "text/json"}, UnsupportedMediaType()),
        ({"content-type": "application/x-www-form-urlencoded"}, UnsupportedMediaType()),
        ({"content-type": "multipart/form-data; boundary=x"}, UnsupportedMediaType()),
        ({"content-type": "application/octet-stream"}, UnsupportedMediaType()),
        ({"content-type": "application/jsonp"}, UnsupportedMediaType()),
        (
            {"content-type": "application/json; charset=utf-16"},
            UnsupportedMediaType("The body must be in UTF-8."),
        ),
        (
            {"content-type": 'application/json; charset="latin1"'},
            UnsupportedMediaType("The body must be in UTF-8."),
        ),
        (
            {"content-encoding": "gzip"},
            UnsupportedMediaType("Compressed bodies are not supported."),
        ),
        ({"content-encoding": "br"}, UnsupportedMediaType("Compressed bodies are not supported.")),
    ],
)
@pytest.mark.parametrize("verb", ["override", "merge"])
def test_other_media_types_and_encodings_change_nothing(
    client: httpx.Client, verb: str, headers: dict[str, str], refused: UnsupportedMediaType
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.put(f"/instances/sword/data/{verb}", content='{"a":1}', headers=headers)

    assert outcome(answer) == refusal(refused)
    assert values_of(client) == '{"edge":"keen"}'


def test_an_identity_encoding_is_accepted(client: httpx.Client) -> None:
    headers = {"content-encoding": "identity"}

    answer = client.post("/ping", content='{"message":"x"}', headers=headers)

    assert outcome(answer) == (200, {"message": "Pong! x"})


@pytest.mark.parametrize("body", [b"", b"{bad", b"[1]", b'{"extensionId":"x"}'])
@pytest.mark.parametrize("media_type", ["application/json", "text/plain"])
def test_a_body_is_ignored_where_a_route_takes_none(
    client: httpx.Client, body: bytes, media_type: str
) -> None:
    make_instance(client, {"edge": "keen"}, "sword")
    headers = {"content-type": media_type}

    reading = client.request("GET", "/instances/sword/data", content=body, headers=headers)
    removing = client.request("DELETE", "/instances/sword/data/edge", content=body, headers=headers)

    assert outcome(reading) == (200, {"edge": "keen"})
    assert outcome(removing) == DONE
