"""
Good and bad requests to every route, made from `/openapi.json`.

None may make the server fail or be answered with a status that is not declared, and each answer
must be as described. The tests make a short run; with VALUETRACKER_SOAK=1, or a number in
VALUETRACKER_CASES, it is a long one.
"""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.conftest import PATIENCE_SECONDS, RunningServer, running_server
from valuetracker.api import SECTIONS
from valuetracker.http.tokens import TokenFile
from valuetracker.reference.openapi import WRITE_HEADERS, openapi

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
CASES = int(os.environ.get("VALUETRACKER_CASES", "100000" if SOAK else "2000"))

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def write_lines(context: Any, value: Any) -> bytes:
    return str(value).encode(errors="replace")


SCHEMA: Any = schemathesis.openapi.from_dict(openapi(SECTIONS))
# A stream does not end, so it is left out; `/changes` takes the same parameters.
OPERATIONS = {
    operation.label: operation
    for operation in (each.ok() for each in SCHEMA.get_all_operations())
    if "/events" not in operation.path
}
# A few routes have no parameters, so there are few different requests to them.
PER_OPERATION = -(-CASES // (len(OPERATIONS) - 12))
MODES = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]

# The things that exist, so that not every answer is 404.
THERE = {
    "extension": "fuzz",
    "character": "arthur",
    "instance": "sword",
    "key": "edge",
    "chat": "quest",
    "series": "recaps",
    "version": "1",
    "set": "seen",
    "id": "m1",
    "operation": "o1",
    "checkpoint": "start",
}


@dataclass
class Fuzzed:
    """A server, and a token of its admin: the requests make tokens, and then all need one."""

    server: RunningServer
    headers: dict[str, str]


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    folder = tmp_path_factory.mktemp("fuzzed")
    _, text = TokenFile(folder).create("fuzz", (), read_others=False, admin=True)
    # It must not call a SillyTavern that may be running on this machine.
    with running_server(folder, st_enabled=0) as server:
        yield Fuzzed(server, {"authorization": f"Bearer {text}"})


@pytest.fixture(scope="module")
def session(fuzzed: Fuzzed) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.headers.update(fuzzed.headers)
        yield session


def prepare(fuzzed: Fuzzed) -> None:
    """Create the things that exist, or create them again."""
    with fuzzed.server.client("fuzz") as client:
        client.headers.update(fuzzed.headers)
        client.post("/register", json={"extensionId": "fuzz"})
        client.post("/chats/quest/open", json={"client": "tab"})
        body = {"id": "sword", "characterId": "arthur", "chatId": "quest"}
        client.post("/instances", json=body)
        for path in ("/instances/sword/data", "/chats/quest/data"):
            client.put(f"{path}/merge", json={"edge": "keen", "hits": 3, "list": [1]})
        client.post("/chats/quest/series/recaps", json={"content": "once"})
        client.put("/chats/quest/processed/seen/m1")
        client.post("/chats/quest/checkpoints", json={"name": "start"})
        client.post("/chats/quest/operations", json={"id": "o1", "type": "work"})


def aim(case: Any) -> None:
    """Let most requests name things that exist; the content of a request decides which ones."""
    dice = zlib.crc32(repr((case.path_parameters, case.query, case.body)).encode())
    if case.headers is not None and "x-extension-id" in case.headers and dice % 8:
        case.headers["x-extension-id"] = "fuzz"
    for number, name in enumerate(WRITE_HEADERS):
        # Nearly all generated ones are invalid, and then nothing else would be tested.
        if case.headers is not None and (dice >> number) % 8:
            case.headers.pop(name, None)
    for number, name in enumerate(case.path_parameters or {}):
        if name in THERE and (dice >> (2 * number + 3)) % 4:
            case.path_parameters[name] = THERE[name]
    if case.query and str(case.query.get("wait", "")).isdigit():
        case.query["wait"] = "0"


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_declared_and_as_described(
    fuzzed: Fuzzed, session: requests.Session, label: str
) -> None:
    prepare(fuzzed)
    asked = 0

    @settings(
        max_examples=PER_OPERATION,
        phases=[Phase.generate],
        database=None,
        derandomize=not SOAK,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy(label))
    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        aim(case)
        answer = case.call(base_url=fuzzed.server.url, session=session, timeout=PATIENCE_SECONDS)
        case.validate_response(answer, checks=CHECKS)

    ask()

    assert asked > 0


def strategy(label: str) -> Any:
    operation = OPERATIONS[label]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = (operation.as_strategy(generation_mode=mode) for mode in MODES)
    return one | other
