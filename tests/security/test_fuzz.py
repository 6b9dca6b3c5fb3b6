"""
JSON text and HTTP that hypothesis makes. Accepted JSON reads back equal. Whatever is sent, the
server answers or closes the connection, never fails, and keeps working.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.conftest import RunningServer
from tests.security.raw import HOST, ROOT, connected, get, is_well, lines, ping, post

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
MANY = settings(max_examples=20_000 if SOAK else 400, derandomize=not SOAK)
EVEN_MORE = settings(max_examples=100_000 if SOAK else 2_000, derandomize=not SOAK)

# JSON text

numbers = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?", fullmatch=True),
)
escapes = st.one_of(
    st.sampled_from(["\\n", "\\u0000", "\\u2028", "\\/", "\\ud83d\\ude00", "\\ud800", "\\u00e9"]),
    st.characters(min_codepoint=32, exclude_characters='"\\', exclude_categories=["Cs"]),
)
strings = st.lists(escapes, max_size=12).map(lambda parts: '"' + "".join(parts) + '"')
blanks = st.sampled_from(["", " ", "\n", "\t", "\r\n "])


def containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    arrays = st.builds(
        lambda items, blank: f"[{blank}{f'{blank},'.join(items)}]",
        st.lists(inner, max_size=5),
        blanks,
    )
    objects = st.builds(
        lambda items, blank: "{" + ",".join(f"{blank}{k}:{blank}{v}" for k, v in items) + "}",
        st.lists(st.tuples(strings, inner), max_size=5),
        blanks,
    )
    return arrays | objects


texts = st.recursive(
    st.one_of(numbers, strings, st.sampled_from(["true", "false", "null"])),
    containers,
    max_leaves=20,
)


def exact(value: Any) -> Any:
    """Return a value with its types and the order of its keys; fractions compare by value."""
    if isinstance(value, dict):
        return [(key, exact(each)) for key, each in value.items()]
    if isinstance(value, list):
        return [exact(each) for each in value]
    return (type(value).__name__, value)


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[httpx.Client]:
    with server.client("demo") as client:
        yield client


JSON = {"content-type": "application/json"}


@MANY
@given(text=texts)
@example(text="-0.0")
@example(text="1E400")
@example(text="1.0")
@example(text='{"a":1,"a":2}')
def test_json_that_is_accepted_reads_back_equal(client: httpx.Client, text: str) -> None:
    body = f'{{"key":"fuzzed","value":{text}}}'.encode()

    sent = client.post("/instances/sword/data", content=body, headers=JSON)

    assert sent.status_code in (200, 400), sent.text
    if sent.status_code == 200:
        wanted = exact(json.loads(text))
        assert exact(sent.json()["value"]) == wanted
        assert exact(client.get("/instances/sword/data/fuzzed").json()["fuzzed"]) == wanted
        assert exact(client.get("/instances/sword/data").json()["fuzzed"]) == wanted
    else:
        # The text must contain a reason for the refusal.
        assert sent.json()["code"] in ("number_out_of_range", "invalid_body"), sent.text
        assert re.search(r"\\ud|[0-9eE.]{18}|[eE]", text), text


@MANY
@given(text=texts, cut=st.integers(0, 200), junk=st.binary(max_size=4))
def test_mutated_json_is_refused_or_is_json(
    client: httpx.Client, text: str, cut: int, junk: bytes
) -> None:
    body = f'{{"key":"spoilt","value":{text}}}'.encode()
    place = cut % len(body)
    body = body[:place] + junk + body[place + 1 :]

    sent = client.post("/instances/sword/data", content=body, headers=JSON)

    assert sent.status_code in (200, 400), sent.text
    if sent.status_code == 200:
        assert exact(json.loads(body)["value"]) == exact(sent.json()["value"])


# HTTP

WHOLE = [
    get(),
    get(ROOT + b"/characters", b"x-extension-id: demo"),
    get(ROOT + b"/instances/sword/data/k?at=1", b"x-extension-id: demo", b"if-none-match: *"),
    ping("x"),
    post(
        ROOT + b"/instances/sword/data",
        b'{"key":"k","value":[1]}',
        b"x-extension-id: demo",
        b"idempotency-key: i",
        b"x-message-id: m",
    ),
    lines(b"POST " + ROOT + b"/ping HTTP/1.1", HOST, b"transfer-encoding: chunked")
    + b"8\r\n"
    + b'{"messag\r\n7\r\ne":"x"}\r\n0\r\n\r\n',
    lines(b"POST " + ROOT + b"/ping HTTP/1.1", HOST, b"content-length: 15", b"expect: 100-continue")
    + b'{"message":"x"}',
    get(b"http://localhost" + ROOT + b"/health", b"connection: upgrade", b"upgrade: h2c"),
    lines(b"OPTIONS " + ROOT + b"/x HTTP/1.1", HOST, b"access-control-request-method: PUT"),
    lines(b"HEAD " + ROOT + b"/docs HTTP/1.0", HOST),
]
PIECES = [
    b"\r\n",
    b"\n",
    b"\r",
    b"\x00",
    b" ",
    b":",
    b"\xff",
    b"%",
    b"%00",
    b"..",
    b"0\r\n\r\n",
    b"content-length: 3\r\n",
    b"content-length: 99999999999\r\n",
    b"transfer-encoding: chunked\r\n",
    b"connection: close\r\n",
    b"host: evil.example\r\n",
    b"expect: x\r\n",
    b"x" * 40_000,
    b"ffffffff\r\n",
    b"GET / HTTP/1.1\r\n",
]
mutations = st.lists(
    st.tuples(
        st.sampled_from(["insert", "cut", "replace", "double", "swap"]),
        st.integers(0, 10_000),
        st.integers(1, 40),
        st.sampled_from(PIECES) | st.binary(min_size=1, max_size=8),
    ),
    max_size=4,
)


def mutate(data: bytes, steps: list[tuple[str, int, int, bytes]]) -> bytes:
    for how, where, length, piece in steps:
        place = where % (len(data) + 1)
        before, middle, after = data[:place], data[place : place + length], data[place + length :]
        if how == "insert":
            data = before + piece + middle + after
        elif how == "cut":
            data = before + after
        elif how == "replace":
            data = before + piece + after
        elif how == "double":
            data = before + middle * 2 + after
        else:
            data = after + middle + before
    return data


ANSWER = re.compile(rb"HTTP/1\.1 ([0-9]{3}) ")


@EVEN_MORE
@given(
    requests=st.lists(st.tuples(st.sampled_from(WHOLE), mutations), min_size=1, max_size=3),
    cuts=st.lists(st.integers(1, 10_000), max_size=3),
)
def test_mutated_http_is_answered_or_closed_and_the_server_keeps_working(
    server: RunningServer, requests: list[Any], cuts: list[int]
) -> None:
    data = b"".join(mutate(whole, steps) for whole, steps in requests)
    places = sorted({0, len(data), *(each % (len(data) + 1) for each in cuts)})

    with connected(server) as line:
        for begin, end in itertools.pairwise(places):
            line.send_as_far_as_taken(data[begin:end])
        # Nothing more will be sent, so the server need not wait.
        line.end()
        received = line.rest()

    for status in ANSWER.findall(received):
        assert int(status) < 500, (data, received)
    assert received == b"" or received.startswith(b"HTTP/1.1 ")


def test_the_server_still_works_after_all_mutated_requests(server: RunningServer) -> None:
    assert is_well(server)
    with server.client("demo") as client:
        assert client.get("/characters/arthur").status_code == 200
