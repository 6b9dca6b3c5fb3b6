"""Server-Sent Events, read by their standard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx


class Event(NamedTuple):
    name: str
    # A revision, or the cursor of several extensions.
    id: int | str | None
    data: Any


def read_events(answer: httpx.Response) -> Iterator[Event]:
    """Parse Server-Sent Events by their standard; a comment is an event called `:`."""
    rest = b""
    for piece in answer.iter_bytes():
        rest += piece
        *blocks, rest = rest.split(b"\n\n")
        for block in blocks:
            if block.startswith(b":"):
                yield Event(":", None, block[1:].strip().decode())
                continue
            assert b"\r" not in block
            fields = [line.split(b": ", 1) for line in block.split(b"\n")]
            names = [name for name, _ in fields]
            assert names in ([b"id", b"event", b"data"], [b"event", b"data"])
            named = {name.decode(): text.decode() for name, text in fields}
            id = named.get("id")
            known = int(id) if id is not None and id.isdigit() else id
            yield Event(named["event"], known, json.loads(named["data"]))
    assert rest == b""


def take(events: Iterator[Event], count: int) -> list[Event]:
    """Return the next events, without comments."""
    found: list[Event] = []
    for event in events:
        if event.name != ":":
            found.append(event)
        if len(found) == count:
            break
    return found
