"""The reference is made from the route table, and the server answers as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from tests.conftest import RunningServer, running_server
from tests.support.walk import WALK, Step, take
from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.http.endpoint import AnyDocument, AnyKeys, Endpoint
from valuetracker.reference.markdown import api_markdown, error_classes
from valuetracker.reference.openapi import openapi
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
    if isinstance(endpoint.body, AnyKeys | AnyDocument):
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


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Response]]:
    """The walk, taken once."""
    with (
        running_server(tmp_path_factory.mktemp("walk")) as server,
        server.client("walker") as client,
    ):
        yield [take(client, step) for step in WALK]


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
        assert (media_type, step.route) in {
            ("", "/probe"),
            ("", "/chats/{chat}/operations/claim"),
            ("text/html", "/docs"),
            ("text/event-stream", "/events"),
            ("text/event-stream", "/cross-extension/events/{extension}"),
        }


def test_the_walk_takes_every_route() -> None:
    taken = {(step.method, PREFIX + step.route) for step in WALK}

    assert taken == {route for route in routes() if route[1].startswith(PREFIX)}
