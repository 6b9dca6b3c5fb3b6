"""Request ids: on every answer, and in the log."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import httpx
import pytest

from tests.conftest import RunningServer, running_server

pytestmark = pytest.mark.one_engine

MADE = re.compile(r"[0-9a-f]{12}-[0-9a-f]+")


def test_every_kind_of_answer_has_one_of_its_own(
    client: httpx.Client, shared_server: RunningServer
) -> None:
    client.post("/instances", json={"id": "sword", "characterId": "arthur"})
    client.post("/instances/sword/data", json={"key": "book", "value": "x" * 100_000})
    client.post("/instances/sword/data", json={"key": "hp", "value": 1})
    etag = client.get("/instances/sword/data/hp").headers["etag"]
    answers = [
        client.get("/instances/sword/data/hp"),
        client.get("/instances/sword/data/hp", headers={"if-none-match": etag}),
        client.head("/instances/sword/data/hp"),
        client.get("/instances/sword/data/book"),
        client.get("/instances/sword/data/book"),
        client.post("/instances/sword/data", json={"key": "hp", "value": 1}),
        client.get("/probe"),
        client.get("/docs"),
        client.get("/export"),
        client.get("/nowhere"),
        client.get("/characters", headers={"host": "evil.example"}),
        client.get(shared_server.url + "/"),
        client.post("/instances/sword/data", content=b"{"),
        client.post("/instances", content=b"x" * (33 << 20)),
    ]
    with client.stream("GET", "/events") as stream:
        answers.append(stream)

    ids = [each.headers.get_list("x-request-id") for each in answers]

    assert all(len(each) == 1 and MADE.fullmatch(each[0]) for each in ids), ids
    assert len({each[0] for each in ids}) == len(answers)


@pytest.mark.parametrize("given", ["a", "0af7651916cd43dd8448eb211c80319c", "A.b_c~d-9", "x" * 64])
def test_a_clients_own_is_taken_over(client: httpx.Client, given: str) -> None:
    client.get("/characters")
    for path in ("/characters", "/characters", "/nowhere"):
        answer = client.get(path, headers={"x-request-id": given})
        assert answer.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "x" * 65, "a b", "a;b", "<script>", "é"])
def test_a_malformed_one_is_replaced(client: httpx.Client, given: str) -> None:
    answer = client.get("/characters", headers=[(b"x-request-id", given.encode())])

    assert MADE.fullmatch(answer.headers["x-request-id"])


def test_the_log_has_it_and_the_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "valuetracker.http.request_log")
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    with running_server(tmp_path) as server, server.client() as client:
        client.get("/limits", headers={"traceparent": trace, "x-request-id": "mine"})
        made = client.get("/health", headers={"traceparent": "forged"})

    logged = {entry["path"]: entry for entry in map(vars, caplog.records) if "path" in entry}
    known = logged["/api/plugins/valuetracker/limits"]
    other = logged["/api/plugins/valuetracker/health"]
    assert (known["requestId"], known["traceparent"]) == ("mine", trace)
    assert other["requestId"] == made.headers["x-request-id"]
    assert "traceparent" not in other
