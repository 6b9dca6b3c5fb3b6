"""The reference is made from the route table, and the server answers as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests.conftest import RunningServer, running_server
from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.endpoints import AnyKeys, Endpoint
from valuetracker.reference import api_markdown, error_classes, openapi
from valuetracker.settings import PREFIX

API_MD = Path(__file__).parent.parent / "API.md"


def routes() -> set[tuple[str, str]]:
    """Each method and path of the route table."""
    return {
        (method, path)
        for endpoint in ENDPOINTS
        for method in endpoint.methods
        for path in [PREFIX + endpoint.path, *([endpoint.path] if endpoint.at_root else [])]
    }


def test_api_md_is_what_the_route_table_makes() -> None:
    assert API_MD.read_text(encoding="utf-8") == api_markdown(SECTIONS)


def test_openapi_is_valid() -> None:
    validate(openapi(SECTIONS))


def test_openapi_has_every_route_and_no_other() -> None:
    described = {
        (method.upper(), path)
        for path, item in openapi(SECTIONS)["paths"].items()
        for method in item
    }

    assert described == routes()


def test_every_operation_has_a_name_of_its_own() -> None:
    items = openapi(SECTIONS)["paths"].values()

    names = [operation["operationId"] for item in items for operation in item.values()]

    assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_handler_says_what_it_does(endpoint: Endpoint) -> None:
    assert endpoint.summary.endswith((".", "…")) or endpoint.description
    assert endpoint.summary[0].isupper()


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_field_is_described(endpoint: Endpoint) -> None:
    if isinstance(endpoint.body, AnyKeys):
        assert endpoint.body.description
    else:
        assert all(each.description for each in (*endpoint.body, *endpoint.query))


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_route_is_in_api_md(endpoint: Endpoint) -> None:
    title = f"### {' · '.join(endpoint.methods)} `{endpoint.path}`"

    assert title in API_MD.read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.code)
def test_every_code_is_in_api_md(kind: Any) -> None:
    text = API_MD.read_text(encoding="utf-8")

    assert re.search(rf"^\| {kind.status} \| `{kind.code}` \| .+ \|$", text, re.MULTILINE)


def test_the_served_document_is_the_same(shared_server: RunningServer) -> None:
    with shared_server.client() as client:
        assert client.get("/openapi.json").json() == openapi(SECTIONS)


# A walk through all routes


@dataclass(frozen=True)
class Step:
    """A request of the walk: the route as the table has it, and what is put into it."""

    method: str
    route: str
    body: Any = None
    status: int = 200


FILLED_IN = {
    "{extension}": "walker",
    "{character}": "arthur",
    "{instance}": "sword",
    "{key}": "edge",
}
DATA = "/instances/{instance}/data"
ACROSS = "/cross-extension"

WALK = [
    Step("GET", "/probe", status=204),
    Step("POST", "/ping", {"message": "hello"}),
    Step("POST", "/ping", {}, status=400),
    Step("GET", "/health"),
    Step("GET", "/healthz"),
    Step("GET", "/limits"),
    Step("GET", "/openapi.json"),
    Step("GET", "/docs"),
    Step("GET", "/characters", status=404),
    Step("POST", "/register", {"extensionId": "walker"}),
    Step("POST", "/register", {"extensionId": "Walker"}, status=409),
    Step("POST", "/characters", {"id": "arthur", "name": "Arthur"}),
    Step("POST", "/characters", {"id": "merlin"}),
    Step("POST", "/characters", [], status=400),
    Step("POST", "/instances", {"id": "sword", "characterId": "arthur", "chatId": "the lake"}),
    Step("POST", "/instances", {"id": "shield", "characterId": "arthur"}),
    Step("POST", DATA, {"key": "edge", "value": {"state": [1, 1.5, None, "x", True]}}),
    Step("PUT", DATA, {"key": "weight", "value": 2}),
    Step("PUT", DATA, {"key": "weight"}, status=400),
    Step("PUT", DATA + "/merge", {"owner": None}),
    Step("GET", "/characters"),
    Step("GET", "/characters/{character}"),
    Step("GET", "/characters/{character}/instances"),
    Step("GET", "/instances"),
    Step("GET", "/instances/{instance}"),
    Step("GET", DATA),
    Step("GET", DATA + "/{key}"),
    Step("GET", "/extensions"),
    Step("GET", "/extensions/{extension}"),
    Step("GET", ACROSS + "/characters/{extension}"),
    Step("GET", ACROSS + "/characters/{extension}/{character}"),
    Step("GET", ACROSS + "/characters/{extension}/{character}/instances"),
    Step("GET", ACROSS + "/instances/{extension}"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}/data"),
    Step("GET", ACROSS + "/instances/{extension}/{instance}/data/{key}"),
    Step("PUT", DATA + "/override", {"edge": "keen", "owner": "Arthur"}),
    Step("PUT", DATA + "/remove", {"keys": ["owner", "absent"]}),
    Step("DELETE", DATA + "/{key}"),
    Step("DELETE", DATA + "/{key}", status=404),
    Step("DELETE", DATA),
    Step("DELETE", "/instances/{instance}"),
    Step("DELETE", "/instances/{instance}", status=404),
    Step("GET", "/instances/{instance}", status=404),
    Step("POST", DATA, {"key": "edge", "value": 1}, status=404),
    Step("DELETE", "/characters/{character}/instances"),
    Step("DELETE", "/characters/{character}"),
    Step("GET", "/characters/{character}", status=404),
    Step("DELETE", "/register", {"extensionId": "walker", "purge": True}),
    Step("GET", ACROSS + "/characters/{extension}", status=404),
    Step("GET", "/extensions/{extension}", status=404),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Response]]:
    """The walk, taken once."""
    with (
        running_server(tmp_path_factory.mktemp("walk")) as server,
        server.client("walker") as client,
    ):
        yield [take(client, step) for step in WALK]


def take(client: httpx.Client, step: Step) -> httpx.Response:
    path = re.sub(r"{\w+}", lambda name: FILLED_IN[name[0]], step.route)
    return client.request(step.method, path, json=step.body)


def schema_for(document: dict[str, Any], step: Step, media_type: str) -> dict[str, Any]:
    operation = document["paths"][PREFIX + step.route][step.method.lower()]
    schema = operation["responses"][str(step.status)]["content"][media_type]["schema"]
    return {**closed(schema), "components": closed(document["components"])}


def closed(schema: Any) -> Any:
    """The schema with records that may hold nothing they do not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(each) for name, each in schema.items()}
    return {**inner, "additionalProperties": False} if "required" in inner else inner


@pytest.mark.parametrize(
    "number", range(len(WALK)), ids=lambda n: f"{WALK[n].method} {WALK[n].route}"
)
def test_an_answer_is_what_openapi_says(answers: list[httpx.Response], number: int) -> None:
    step, answer = WALK[number], answers[number]
    media_type = answer.headers.get("content-type", "").partition(";")[0]

    assert answer.status_code == step.status, answer.text
    if media_type == "application/json":
        schema = schema_for(openapi(SECTIONS), step, media_type)
        Draft202012Validator(schema).validate(answer.json())
    else:
        assert (media_type, step.route) in {("", "/probe"), ("text/html", "/docs")}


def test_the_walk_takes_every_route() -> None:
    taken = {(step.method, PREFIX + step.route) for step in WALK}

    assert taken == {route for route in routes() if route[1].startswith(PREFIX)}
