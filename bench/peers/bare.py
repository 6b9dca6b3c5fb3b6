"""
The bare ASGI application of `hello.py`, under the same uvicorn as ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

from bench.children import running
from bench.peers.store import Kind, Place, Server


@contextmanager
def start(place: Place) -> Iterator[Server]:
    with running(place.core, ["bench.peers.hello"], place.folder / "log") as child:
        yield Server(child)


KIND = Kind(
    "hello",
    "bare uvicorn",
    start,
    durability="stores nothing",
    version=lambda: f"uvicorn {version('uvicorn')}",
)
