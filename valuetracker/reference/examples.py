"""
The examples of the routes: requests with the answers that a real server gave.

`make docs` records them into `examples.json`, from the walk that the tests take. This module
reads the file and lays an example out as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from valuetracker.http.endpoint import Endpoint

FILE = Path(__file__).with_name("examples.json")
# How wide a line of JSON may be before it is broken.
WIDTH = 96


@dataclass(frozen=True)
class Message:
    """A request or an answer: its headers and its body, JSON or text."""

    headers: dict[str, str]
    body: Any


@dataclass(frozen=True)
class Example:
    """One request with its answer."""

    title: str
    method: str
    # The route as the route table has it, and the path that was asked for.
    route: str
    target: str
    request: Message
    status: int
    answer: Message
    # Parts of the answer were left out, each marked with "…".
    shortened: bool

    @property
    def succeeded(self) -> bool:
        return self.status < 400


def examples_of(endpoint: Endpoint) -> list[Example]:
    """Return the examples of an endpoint, those that succeeded first."""
    found = [
        each
        for each in load_examples()
        if each.route == endpoint.path and each.method in endpoint.methods
    ]
    return sorted(found, key=lambda each: not each.succeeded)


@cache
def load_examples() -> tuple[Example, ...]:
    return tuple(
        Example(
            **{
                **each,
                "request": Message(**each["request"]),
                "answer": Message(**each["answer"]),
            }
        )
        for each in orjson.loads(FILE.read_bytes())
    )


def example_text(example: Example) -> str:
    """Return the request and the answer as they are sent, with JSON that is easy to read."""
    first = f"{example.method} {example.target}"
    status = HTTPStatus(example.status)
    last = f"HTTP/1.1 {status.value} {status.phrase}"
    return f"{_message_text(first, example.request)}\n\n{_message_text(last, example.answer)}"


def _message_text(first: str, message: Message) -> str:
    lines = [first, *(f"{name}: {value}" for name, value in message.headers.items())]
    if message.body is not None:
        is_text = isinstance(message.body, str)
        lines += ["", message.body.rstrip("\n") if is_text else layout(message.body)]
    return "\n".join(lines)


def layout(value: Any, indent: str = "", before: int = 0) -> str:
    """Return JSON on one line if it fits, else with one member a line."""
    flat = _flat(value)
    if not isinstance(value, dict | list) or len(indent) + before + len(flat) <= WIDTH:
        return flat
    inner = indent + "  "
    if isinstance(value, list):
        return _broken("[", "]", (layout(each, inner) for each in value), indent)
    names = {name: f"{_flat(name)}: " for name in value}
    members = (names[name] + layout(each, inner, len(names[name])) for name, each in value.items())
    return _broken("{", "}", members, indent)


def _broken(opening: str, closing: str, members: Iterable[str], indent: str) -> str:
    text = ",\n".join(f"{indent}  {each}" for each in members)
    return f"{opening}\n{text}\n{indent}{closing}"


def _flat(value: Any) -> str:
    """Return JSON on one line, with a blank after each colon and comma."""
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{_flat(name)}: {_flat(each)}" for name, each in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(_flat(each) for each in value) + "]"
    return orjson.dumps(value).decode()
