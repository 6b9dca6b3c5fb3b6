"""Routing on the raw path, and the methods a route takes."""

from __future__ import annotations

import httpx
import pytest

from tests.support.answers import (
    DONE,
    instance,
    make_instance,
    outcome,
    refusal,
    refused_as,
    send_target,
    values_of,
)
from valuetracker.errors import InvalidId, InvalidKey, InvalidPath, MethodNotAllowed, RouteNotFound

pytestmark = pytest.mark.one_engine


@pytest.mark.parametrize(
    "target",
    [
        "/characters/%",
        "/characters/%4",
        "/characters/%zz",
        "/characters/a%2",
        "/characters/%FF",
        "/characters/%C3",
        "/characters/%ED%A0%80",
        "/characters/%C0%AF",
        "/instances/%zz/data",
        "/instances/sword/data/%zz",
        "/nowhere/%zz",
    ],
)
def test_a_malformed_escape_or_bytes_that_are_not_utf8_are_refused(
    client: httpx.Client, target: str
) -> None:
    assert outcome(send_target(client, "GET", target)) == refusal(InvalidPath())


@pytest.mark.parametrize(
    ("segment", "id"),
    [
        ("a%2Fb", "a/b"),
        ("a%2fb", "a/b"),
        ("%2E%2E", ".."),
        ("..", ".."),
        (".", "."),
        ("a+b", "a+b"),
        ("a%2Bb", "a+b"),
        ("a%20b", "a b"),
        ("%25zz", "%zz"),
        ("%2525", "%25"),
        ("a%3Fb%23c", "a?b#c"),
        ("%C3%A9", "é"),
        ("e%CC%81", "e\u0301"),
        ("%F0%9F%97%A1", "🗡"),
        ("a;b=c,d", "a;b=c,d"),
    ],
)
def test_each_segment_of_the_raw_path_is_decoded_once(
    client: httpx.Client, segment: str, id: str
) -> None:
    client.post("/instances", json={"id": id, "characterId": "arthur"})

    answer = send_target(client, "GET", f"/instances/{segment}")

    assert outcome(answer) == (200, {"instance": instance(id, "arthur"), "data": {}})


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ("%00", "The instance id holds a control character."),
        ("a%0Ab", "The instance id holds a control character."),
        ("a%7F", "The instance id holds a control character."),
        ("%C2%85", "The instance id holds a control character."),
        ("%20a", "The instance id begins or ends with a blank."),
        ("a%20", "The instance id begins or ends with a blank."),
        ("%C2%A0a", "The instance id begins or ends with a blank."),
        ("", "The instance id must have 1 to 256 characters."),
    ],
)
def test_an_invalid_id_in_a_path_is_refused(
    client: httpx.Client, segment: str, message: str
) -> None:
    answer = send_target(client, "GET", f"/instances/{segment}/data")

    assert outcome(answer) == refusal(InvalidId(message))


@pytest.mark.parametrize("target", ["/instances/sword/data//", "/instances/sword/data/%09"])
def test_an_invalid_key_in_a_path_is_refused(client: httpx.Client, target: str) -> None:
    answer = send_target(client, "GET", target)

    assert outcome(answer) == refused_as(answer, InvalidKey)


@pytest.mark.parametrize("path", ["/characters", "/instances/sword/data", "/probe", "/healthz"])
def test_one_slash_at_the_end_makes_no_difference(client: httpx.Client, path: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.get(path + "/")

    without = client.get(path)
    assert (answer.status_code, answer.content) == (without.status_code, without.content)


def test_a_write_may_end_with_a_slash_too(client: httpx.Client) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    merged = client.put("/instances/sword/data/merge/", json={"merge": 1})
    removed = client.delete("/instances/sword/data/edge/")

    assert merged.status_code == 200
    assert outcome(removed) == DONE
    assert values_of(client) == '{"merge":1}'


@pytest.mark.parametrize(
    "target",
    [
        "",
        "/",
        "//characters",
        "/nowhere",
        "/Characters",
        "/characters/arthur/nowhere",
        "/instances/sword/data/edge/deeper",
        "/healthz//",
    ],
)
def test_an_unknown_route_is_not_found(client: httpx.Client, target: str) -> None:
    assert outcome(send_target(client, "GET", target)) == refusal(RouteNotFound())


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/characters", ["GET", "HEAD", "POST"]),
        ("POST", "/characters/arthur", ["DELETE", "GET", "HEAD"]),
        ("GET", "/register", ["DELETE", "POST"]),
        ("POST", "/probe", ["GET", "HEAD"]),
        ("GET", "/ping", ["POST"]),
        ("HEAD", "/ping", ["POST"]),
        ("OPTIONS", "/limits", ["GET", "HEAD"]),
        ("POST", "/instances/sword/data/merge", ["DELETE", "GET", "HEAD", "PUT"]),
        ("PUT", "/instances/sword/data/edge", ["DELETE", "GET", "HEAD"]),
    ],
)
def test_a_method_a_route_does_not_take_is_refused(
    client: httpx.Client, method: str, path: str, allow: list[str]
) -> None:
    answer = client.request(method, path)

    assert answer.headers["allow"] == ", ".join(allow)
    if method == "HEAD":
        assert (answer.status_code, answer.content) == (405, b"")
    else:
        refused = MethodNotAllowed(f"{method} is not possible here.", allow=allow)
        assert outcome(answer) == refusal(refused)


@pytest.mark.parametrize(
    "path", ["/characters", "/instances/sword/data", "/instances/nothing", "/probe", "/docs"]
)
def test_head_is_get_without_the_body(client: httpx.Client, path: str) -> None:
    make_instance(client, {"edge": "keen"}, "sword")

    answer = client.head(path)

    whole = client.get(path)
    assert (answer.status_code, answer.content) == (whole.status_code, b"")
    assert without_date(answer) == without_date(whole)


def without_date(answer: httpx.Response) -> dict[str, str]:
    return {
        name: value
        for name, value in answer.headers.items()
        if name not in ("date", "x-request-id")
    }
