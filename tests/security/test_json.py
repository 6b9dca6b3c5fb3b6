"""JSON that is too deep or too large, invalid JSON, and names that JavaScript treats specially."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import orjson
import pytest

from tests.conftest import RunningServer
from tests.security.raw import is_well, refused

JSON_PATCH = "application/json-patch+json"
SET = ("POST", "/instances/sword/data", b'{"key":"k","value":%b}')
BODIES = [
    SET,
    ("PUT", "/instances/sword/data/merge", b'{"k":%b}'),
    ("PUT", "/instances/sword/data/override", b'{"k":%b}'),
    ("PATCH", "/instances/sword/data", b'{"k":%b}'),
    ("POST", "/batch", b'{"operations":[{"op":"set","instanceId":"sword","key":"k","value":%b}]}'),
    ("POST", "/chats/c/data", b'{"key":"k","value":%b}'),
    ("POST", "/chats/c/series/s", b'{"content":%b}'),
    ("POST", "/chats/c/operations", b'{"type":"t","data":{"k":%b}}'),
    ("POST", "/ping", b'{"message":%b}'),
]


def send(client: httpx.Client, method: str, path: str, body: bytes) -> httpx.Response:
    return client.request(method, path, content=body, headers={"content-type": "application/json"})


@pytest.fixture
def demo(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client("demo") as client:
        yield client


REFUSED = [
    b"[" * 5_000 + b"]" * 5_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b"[" * 1_000_000,
    b"[" * 129 + b"]" * 129,
    b"1e400",
    b"-1e400",
    b"[1e999999999]",
    b"18446744073709551616",
    b"-9223372036854775809",
    b"9" * 100_000,
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b'"\\ud800"',
    b'"\\udc00\\ud800"',
    b'{"\\ud800":1}',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b'"\xc0\xaf"',
    b'"\x00"',
    b'"\n"',
    b"'single'",
    b"{a:1}",
    b"[1,]",
    b"01",
    b"+1",
    b".5",
    b"0x10",
    b"1 2",
    b"/* c */ 1",
    b"undefined",
    b"",
]


@pytest.mark.parametrize(("method", "path", "frame"), BODIES)
@pytest.mark.parametrize("text", REFUSED, ids=lambda text: str(text[:24]))
def test_json_that_could_not_be_returned_unchanged_is_refused_everywhere(
    demo: httpx.Client, method: str, path: str, frame: bytes, text: bytes
) -> None:
    before = demo.get("/instances/sword/data").content

    answer = send(demo, method, path, frame % text)

    assert refused(answer)[0] in (400, 413)
    assert demo.get("/instances/sword/data").content == before


@pytest.mark.parametrize(
    "body",
    [
        b"\xef\xbb\xbf" + SET[2] % b"1",
        (SET[2] % b"1").decode().encode("utf-16"),
        (SET[2] % b"1").decode().encode("utf-32"),
        SET[2] % b"1" + b"\x00",
        SET[2] % b"1" + b"{}",
        b"\x00" + SET[2] % b"1",
    ],
)
def test_a_body_must_be_one_json_text_in_utf8_without_a_byte_order_mark(
    demo: httpx.Client, body: bytes
) -> None:
    assert refused(send(demo, SET[0], SET[1], body)) == (400, "invalid_body")


def test_a_million_keys_are_refused_and_the_server_keeps_working(
    server: RunningServer, demo: httpx.Client
) -> None:
    body = b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}"

    for path in ("/instances/sword/data/merge", "/instances/sword/data/override"):
        assert refused(send(demo, "PUT", path, body)) == (400, "too_many_keys")
    patched = send(demo, "PATCH", "/instances/sword/data", body)

    assert refused(patched) == (400, "too_many_keys")
    assert is_well(server)


def test_a_value_with_a_million_keys_is_accepted_or_refused_as_too_large(
    demo: httpx.Client,
) -> None:
    value = b"{" + b",".join(b'"k%d":1' % number for number in range(1_000_000)) + b"}"

    assert refused(send(demo, *SET[:2], SET[2] % value)) == (413, "value_too_large")


def test_a_key_sent_twice_is_stored_once(demo: httpx.Client) -> None:
    answer = send(demo, *SET[:2], b'{"key":"twice","value":1,"value":2}')

    assert answer.json()["value"] == 2
    assert demo.get("/instances/sword/data/twice").json() == {"twice": 2}


PROTO = ["__proto__", "constructor", "prototype", "toString", "hasOwnProperty", "__class__"]


@pytest.mark.parametrize("name", PROTO)
def test_a_name_that_javascript_treats_specially_is_a_key_like_any_other(
    demo: httpx.Client, name: str
) -> None:
    value = {name: {name: [name, {"polluted": True}]}}
    demo.put("/instances/sword/data/override", json={})

    sent = demo.post("/instances/sword/data", json={"key": name, "value": value})
    merged = demo.put("/instances/sword/data/merge", json={"plain": 1})

    assert (sent.status_code, merged.status_code) == (200, 200)
    assert demo.get("/instances/sword/data").text == json.dumps(
        {name: value, "plain": 1}, separators=(",", ":")
    )
    assert demo.get(f"/instances/sword/data/{name}").json() == {name: value}


@pytest.mark.parametrize("name", PROTO)
def test_a_patch_through_such_a_name_changes_that_name_alone(demo: httpx.Client, name: str) -> None:
    demo.put("/instances/sword/data/override", json={"plain": {"a": 1}})

    merge = demo.patch("/instances/sword/data", json={name: {"polluted": 1}, "plain": {name: 2}})
    operations = [
        {"op": "add", "path": f"/{name}/more", "value": 3},
        {"op": "add", "path": f"/plain/{name}", "value": {name: 4}},
        {"op": "copy", "from": f"/{name}", "path": "/copied"},
        {"op": "test", "path": "/plain/a", "value": 1},
    ]
    patch = demo.patch(
        "/instances/sword/data",
        content=orjson.dumps(operations),
        headers={"content-type": JSON_PATCH},
    )

    assert (merge.status_code, patch.status_code) == (200, 200), (merge.text, patch.text)
    assert demo.get("/instances/sword/data").json() == {
        "plain": {"a": 1, name: {name: 4}},
        name: {"polluted": 1, "more": 3},
        "copied": {"polluted": 1, "more": 3},
    }


@pytest.mark.parametrize(
    "path",
    [
        "/plain/__class__/__init__",
        "/plain/a/b",
        "/-",
        "",
        "/",
        "plain",
        "/~2",
        "/plain/~",
        "/a/0/b",
    ],
)
def test_a_patch_path_reaches_only_values(demo: httpx.Client, path: str) -> None:
    demo.put("/instances/sword/data/override", json={"plain": {"a": 1}})

    answer = demo.patch(
        "/instances/sword/data",
        content=orjson.dumps([{"op": "replace", "path": path, "value": "x"}]),
        headers={"content-type": JSON_PATCH},
    )

    assert refused(answer)[0] in (400, 409)
    assert demo.get("/instances/sword/data").json() == {"plain": {"a": 1}}


def test_a_patch_that_copies_itself_again_and_again_is_refused(
    server: RunningServer, demo: httpx.Client
) -> None:
    demo.put("/instances/sword/data/override", json={"a": ["x" * 1_000]})
    operations = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 60

    answer = demo.patch(
        "/instances/sword/data",
        content=orjson.dumps(operations),
        headers={"content-type": JSON_PATCH},
    )

    assert refused(answer)[0] in (400, 409, 413)
    assert demo.get("/instances/sword/data").json() == {"a": ["x" * 1_000]}
    assert is_well(server)


def test_an_increment_never_makes_an_invalid_number(demo: httpx.Client) -> None:
    demo.put("/instances/sword/data/override", json={"n": 1e308})

    for by in ("1e308", "1e400", "NaN", '"1"', "null", "true", "[]"):
        body = f'{{"operations":[{{"op":"increment","instanceId":"sword","key":"n","by":{by}}}]}}'
        answer = send(demo, "POST", "/batch", body.encode())
        assert refused(answer)[0] in (400, 409)

    assert demo.get("/instances/sword/data").json() == {"n": 1e308}
