"""OpenAPI is made from the route table, and the server serves it."""

from __future__ import annotations

import pytest
from openapi_spec_validator import validate

from tests.conftest import RunningServer
from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.http.endpoint import AnyDocument, AnyKeys, Endpoint
from valuetracker.reference.openapi import openapi
from valuetracker.settings import PREFIX


def test_openapi_is_valid() -> None:
    validate(openapi(SECTIONS))


def test_openapi_has_every_route_and_no_other() -> None:
    described = {
        (method.upper(), path)
        for path, item in openapi(SECTIONS)["paths"].items()
        for method in item
    }

    assert described == {
        (method, path)
        for endpoint in ENDPOINTS
        for method in endpoint.methods
        for path in [PREFIX + endpoint.path, *([endpoint.path] if endpoint.at_root else [])]
    }


def test_every_operation_has_a_name_of_its_own() -> None:
    items = openapi(SECTIONS)["paths"].values()

    names = [operation["operationId"] for item in items for operation in item.values()]

    shared = sorted({name for name in names if names.count(name) > 1})
    assert not shared, (
        f"Two routes have the operation id {' and '.join(shared)}, which is made from the name of "
        "the handler. Rename one handler, or give the routes different ids in `_operation` of "
        "valuetracker/reference/openapi.py."
    )


def test_examples_stand_beside_the_schemas() -> None:
    operation = openapi(SECTIONS)["paths"][PREFIX + "/batch"]["post"]

    sent = operation["requestBody"]["content"]["application/json"]["examples"]
    answered = operation["responses"]["200"]["content"]["application/json"]["examples"]

    assert sent["example_1"]["value"]["operations"][0]["op"] == "increment"
    assert answered["example_1"]["value"]["results"][0] == {"value": 95}


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_handler_says_what_it_does(endpoint: Endpoint) -> None:
    advice = (
        f"Give the handler {endpoint.handler.__name__} a docstring: the first line is the summary "
        "in API.md, a sentence; the rest is the description."
    )

    assert endpoint.summary.endswith((".", "…")) or endpoint.description, advice
    assert endpoint.summary[:1].isupper(), advice


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_field_is_described(endpoint: Endpoint) -> None:
    body = endpoint.body
    fields = [body] if isinstance(body, AnyKeys | AnyDocument) else [*body, *endpoint.query]

    assert all(each.description for each in fields), (
        f"Describe every field in the row of {endpoint.path}: API.md shows the descriptions."
    )


def test_the_served_document_is_the_same(shared_server: RunningServer) -> None:
    with shared_server.client() as client:
        assert client.get("/openapi.json").json() == openapi(SECTIONS)
