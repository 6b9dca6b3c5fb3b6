"""
Records the titled steps of the walk into `valuetracker/reference/examples.json`.

`make docs` runs this module. `tests/reference/test_walk.py` takes the walk again and
compares the result with the file.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from tests.support.walk.server import take_whole_walk
from tests.support.walk.steps import JSON, Exchange
from valuetracker.reference.examples import FILE, layout

# Headers of an answer that an author needs to know of.
SHOWN_HEADERS = ("etag", "x-revision", "x-live", "idempotency-replayed")
MOST_LINES = 30
MOST_CHARACTERS = 60
MORE = "…"
# How much of an answer is kept, from generous to strict: items of a list, members of an object
# inside another one, members of the whole.
KEPT = [(3, 40, 40), (2, 12, 40), (2, 4, 40), (1, 4, 40), (1, 2, 12)]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(document(take_whole_walk(Path(folder))), encoding="utf-8", newline="\n")


def document(exchanges: list[Exchange]) -> str:
    """Return the text of examples.json."""
    recorded = [example(each) for each in exchanges if each.step.title]
    return json.dumps(recorded, indent=1, ensure_ascii=False) + "\n"


def example(exchange: Exchange) -> dict[str, Any]:
    step = exchange.step
    assert exchange.status == step.status, f"{step} was answered {exchange.text}"
    body = answer_body(exchange)
    short = shorten(body)
    return {
        "title": step.title,
        "method": step.method,
        "route": step.route,
        "target": exchange.target,
        "request": {
            "headers": without_json_type(exchange.request_headers),
            "body": exchange.request_body,
        },
        "status": exchange.status,
        "answer": {
            "headers": without_json_type(
                {
                    name: value
                    for name, value in exchange.headers
                    if name in SHOWN_HEADERS or name == "content-type"
                }
            ),
            "body": short,
        },
        "shortened": short != body,
    }


def without_json_type(headers: dict[str, str]) -> dict[str, str]:
    """Leave the content type out where it says JSON, as it nearly always does."""
    return {
        name: value for name, value in headers.items() if name != "content-type" or value != JSON
    }


def answer_body(exchange: Exchange) -> Any:
    if not exchange.text:
        return None
    return json.loads(exchange.text) if exchange.media_type == JSON else exchange.text


def shorten(body: Any) -> Any:
    """Leave out as much as needed for an example that can be read at a glance."""
    if isinstance(body, str):
        if body.startswith("<"):
            return body[: body.index("\n")][:MOST_CHARACTERS] + MORE
        lines = body.split("\n")
        return body if len(lines) <= MOST_LINES else "\n".join([*lines[:MOST_LINES], MORE])
    shortened = body
    for items, inner, outer in KEPT:
        if layout(shortened).count("\n") < MOST_LINES:
            break
        shortened = cut(body, items, inner, outer)
    return shortened


def cut(value: Any, items: int, inner: int, outer: int) -> Any:
    if isinstance(value, list):
        kept = [cut(each, items, inner, inner) for each in value[:items]]
        return kept if len(value) <= items else [*kept, MORE]
    if isinstance(value, dict):
        members = {
            name: cut(each, items, inner, inner) for name, each in list(value.items())[:outer]
        }
        return members if len(value) <= outer else {**members, MORE: MORE}
    return value


if __name__ == "__main__":
    main()
