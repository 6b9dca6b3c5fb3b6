"""The rules of HTTP for all routes: headers, queries, and the one shape of a refusal."""

from __future__ import annotations

import httpx
import pytest

from tests.conftest import RunningServer
from tests.support.answers import instance, make_instance, outcome, refusal, refused_as, send_target
from valuetracker.errors import (
    ExtensionIdRequired,
    ExtensionNotRegistered,
    InstanceNotFound,
    InvalidBody,
    InvalidExtensionId,
    InvalidId,
    InvalidKey,
    InvalidPath,
    InvalidQuery,
    UnsupportedMediaType,
    ValueTrackerError,
)

pytestmark = pytest.mark.one_engine

# The extension's header


@pytest.mark.parametrize(
    ("headers", "refused"),
    [
        ([], ExtensionIdRequired()),
        ([""], ExtensionIdRequired()),
        (["a b"], InvalidExtensionId()),
        (["a,b"], InvalidExtensionId()),
        (["../a"], InvalidExtensionId()),
        (["é"], InvalidExtensionId()),
        (["x" * 129], InvalidExtensionId()),
        (["nul"], InvalidExtensionId("nul is the name of a device on Windows.")),
        (["a", "a"], InvalidExtensionId("The x-extension-id header occurs more than once.")),
        (["a", "b"], InvalidExtensionId("The x-extension-id header occurs more than once.")),
        (["", "a"], InvalidExtensionId("The x-extension-id header occurs more than once.")),
        (["nobody"], ExtensionNotRegistered("nobody")),
    ],
)
def test_the_header_names_one_registered_extension(
    shared_server: RunningServer, headers: list[str], refused: ValueTrackerError
) -> None:
    given = [(b"x-extension-id", each.encode()) for each in headers]

    with shared_server.client() as client:
        reading = client.get("/characters", headers=given)
        writing = client.post("/characters", json={"id": "arthur"}, headers=given)

    assert outcome(reading) == refusal(refused)
    assert outcome(writing) == refusal(refused)


def test_two_headers_are_refused_even_if_the_answer_is_kept(
    client: httpx.Client, extension_id: str
) -> None:
    for _ in range(2):
        client.get("/characters")

    answer = client.get("/characters", headers=[("x-extension-id", extension_id)] * 2)

    message = "The x-extension-id header occurs more than once."
    assert outcome(answer) == refusal(InvalidExtensionId(message))


@pytest.mark.parametrize(
    ("extension", "target", "body", "refused"),
    [
        ("", "/instances/%zz/data", "[]", ExtensionIdRequired),
        ("a b", "/instances/%zz/data", "[]", InvalidExtensionId),
        ("", "/instances/sword/data", "[]", ExtensionIdRequired),
        ("nobody", "/instances/%zz/data", "[]", InvalidPath),
        ("nobody", "/instances/%00/data", "[]", InvalidId),
        ("nobody", "/instances/sword/data", "[]", InvalidBody),
        ("nobody", "/instances/sword/data", '{"key":"","value":1}', InvalidKey),
        ("own", "/instances/nothing/data", "[]", InvalidBody),
        ("own", "/instances/nothing/data", '{"key":"edge","value":1}', InstanceNotFound),
    ],
)
def test_checks_are_made_in_the_order_header_path_body_registration_existence(
    client: httpx.Client,
    extension: str,
    target: str,
    body: str,
    refused: type[ValueTrackerError],
) -> None:
    headers = {} if extension == "own" else {"x-extension-id": extension}

    answer = send_target(client, "POST", target, content=body, headers=headers)

    assert outcome(answer) == refused_as(answer, refused)


def test_registration_is_checked_after_path_and_body(client: httpx.Client) -> None:
    answer = client.post(
        "/instances/sword/data",
        json={"key": "edge", "value": 1},
        headers={"x-extension-id": "nobody"},
    )

    assert outcome(answer) == refusal(ExtensionNotRegistered("nobody"))


# Queries


@pytest.mark.parametrize("query", ["", "_=123", "_=1&_x", "&&", "CHARACTERID=arthur"])
def test_unknown_parameters_are_ignored(client: httpx.Client, query: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    listed = send_target(client, "GET", f"/instances?{query}")
    read = send_target(client, "GET", f"/instances/sword/data?{query}")

    assert outcome(listed) == (200, [instance("sword", "arthur")])
    assert outcome(read) == (200, {"edge": "keen"})


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("characterId=a&characterId=a", "The query names characterId more than once."),
        ("characterId=a&%63haracterId=b", "The query names characterId more than once."),
        ("chatId=%zz", "The query holds a malformed escape or bytes not in UTF-8."),
        ("chatId=%FF", "The query holds a malformed escape or bytes not in UTF-8."),
        ("%zz=a", "The query holds a malformed escape or bytes not in UTF-8."),
    ],
)
def test_a_query_must_be_well_formed(client: httpx.Client, query: str, message: str) -> None:
    answer = send_target(client, "GET", f"/instances?{query}")

    assert outcome(answer) == refusal(InvalidQuery(message))


@pytest.mark.parametrize(
    ("query", "chat_id"), [("a+b", "a b"), ("a%20b", "a b"), ("a%2Bb", "a+b"), ("a/b?c", "a/b?c")]
)
def test_a_query_is_decoded_as_forms_are(client: httpx.Client, query: str, chat_id: str) -> None:
    made = client.post("/instances", json={"id": "i", "characterId": "c", "chatId": chat_id})

    answer = send_target(client, "GET", f"/instances?chatId={query}")

    assert outcome(answer) == (200, [made.json()])


# Every answer


@pytest.mark.parametrize(
    ("method", "target", "content"),
    [
        ("GET", "/characters", None),
        ("HEAD", "/characters", None),
        ("POST", "/characters", '{"id":"arthur"}'),
        ("GET", "/probe", None),
        ("GET", "/docs", None),
        ("GET", "/openapi.json", None),
        ("GET", "/characters/%zz", None),
        ("GET", "/nowhere", None),
        ("GET", "/instances/nothing", None),
        ("PATCH", "/characters", None),
        ("POST", "/characters", "[]"),
    ],
)
def test_no_answer_may_be_stored(
    client: httpx.Client, method: str, target: str, content: str | None
) -> None:
    for _ in range(2):
        answer = send_target(client, method, target, content=content)
        assert answer.headers.get_list("cache-control") == ["no-store"]


def test_an_unsupported_media_type_has_the_one_shape(client: httpx.Client) -> None:
    answer = client.post("/characters", content="id=arthur", headers={"content-type": "text/plain"})

    assert outcome(answer) == refusal(UnsupportedMediaType())
