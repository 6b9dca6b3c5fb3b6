"""
The server answers as OpenAPI says, on every route; the examples are such answers.

The walk (`tests/support/walk`) is taken once, on a real server.
"""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support.walk import record
from tests.support.walk.server import take_whole_walk
from tests.support.walk.steps import Exchange, Step
from tests.support.walk.story import WALK
from valuetracker.api import ENDPOINTS, SECTIONS
from valuetracker.http.endpoint import Endpoint
from valuetracker.reference.examples import FILE, examples_of
from valuetracker.reference.openapi import openapi, refusals
from valuetracker.settings import PREFIX

# Records that also hold whatever else was sent.
OPEN_RECORDS = ("Version",)
WHERE = "tests/support/walk/story.py or chat_story.py"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> list[Exchange]:
    return take_whole_walk(tmp_path_factory.mktemp("walk"))


@pytest.fixture(scope="module")
def description() -> Any:
    """Return OpenAPI with records that may hold nothing they do not name."""
    found = closed(openapi(SECTIONS))
    for name in OPEN_RECORDS:
        del found["components"]["schemas"][name]["additionalProperties"]
    return found


def closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(each) for name, each in schema.items()}
    is_record = isinstance(inner.get("required"), list)
    return {**inner, "additionalProperties": False} if is_record else inner


def schema_for(description: Any, step: Step, media_type: str) -> dict[str, Any]:
    operation = description["paths"][PREFIX + step.route][step.method.lower()]
    answers = operation["responses"]
    assert str(step.status) in answers, (
        f"{step.method} {step.route} answers {step.status}, which its row in valuetracker/api/ "
        "does not declare. Add the error to `raises`, or the status to `also`."
    )
    schema = answers[str(step.status)]["content"][media_type]["schema"]
    return {**schema, "components": description["components"]}


def check_code_is_declared(step: Step, code: str) -> None:
    """Raise if the row of a route does not declare an error that it answered."""
    rows = [each for each in ENDPOINTS if each.path == step.route and step.method in each.methods]
    declared = {error.code for row in rows for error in refusals(row)}
    assert code in declared, (
        f"{step.method} {step.route} answers {code}, which its row in valuetracker/api/ does not "
        "declare. Add the error to `raises`."
    )


@pytest.mark.parametrize(
    "number", range(len(WALK)), ids=lambda n: f"{WALK[n].method} {WALK[n].route}"
)
def test_an_answer_is_what_openapi_says(
    walk: list[Exchange], description: Any, number: int
) -> None:
    exchange = walk[number]
    step = exchange.step

    assert exchange.status == step.status, exchange.text
    if exchange.media_type == "application/json":
        schema = schema_for(description, step, exchange.media_type)
        body = record.answer_body(exchange)
        wrong = next(Draft202012Validator(schema).iter_errors(body), None)
        assert wrong is None, (
            f"{step.method} {step.route} answers something else than `returns` of its row in "
            f"valuetracker/api/ says: {wrong.message}"
        )
        if exchange.status >= 400:
            check_code_is_declared(step, body["code"])
    elif exchange.media_type:
        assert (exchange.media_type, step.route) in {
            ("text/html", "/docs"),
            ("text/plain", "/metrics"),
            ("application/x-ndjson", "/export"),
            ("text/csv", "/export"),
            ("text/event-stream", "/events"),
            ("text/event-stream", "/cross-extension/events"),
            ("text/event-stream", "/cross-extension/events/{extension}"),
        }
    else:
        assert exchange.status in (204, 304)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_the_walk_takes_every_method_of_every_route(endpoint: Endpoint) -> None:
    taken = {step.method for step in WALK if step.route == endpoint.path}

    missing = set(endpoint.methods) - taken

    assert not missing, (
        f"No step of the walk is {' or '.join(missing)} {endpoint.path}. Add one to {WHERE}."
    )


@pytest.mark.parametrize("step", WALK, ids=lambda each: f"{each.method} {each.route}")
def test_every_step_is_of_a_route(step: Step) -> None:
    assert step.endpoint, (
        f"{step.method} {step.route} is not in the route table. Remove the step from {WHERE}, or "
        "write its path with the placeholders of the table."
    )


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: each.path)
def test_every_route_has_an_example_that_succeeds(endpoint: Endpoint) -> None:
    found = [each for each in examples_of(endpoint) if each.succeeded]

    assert found, (
        f"{' · '.join(endpoint.methods)} {endpoint.path} has no example. Add a step with a title "
        f"for it to {WHERE}, then run `make docs`."
    )


def test_the_examples_are_what_the_server_answers(walk: list[Exchange]) -> None:
    assert FILE.read_text(encoding="utf-8") == record.document(walk), (
        f"{FILE.name} is not what the server answers: run `make docs` and look at the difference."
    )


def test_a_long_answer_is_shortened_and_says_so() -> None:
    items = [{"id": number, "name": "x" * 90} for number in range(40)]
    body = {"items": items, "next": None}

    shortened = record.shorten(body)

    assert shortened["items"][-1] == record.MORE
    assert shortened["items"][:2] == items[:2]
    assert shortened["next"] is None
    assert record.shorten({"items": [1, 2, 3]}) == {"items": [1, 2, 3]}
