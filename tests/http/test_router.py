"""The router's memory of matches."""

from __future__ import annotations

from typing import Any

from valuetracker.http.call import Call
from valuetracker.http.endpoint import Endpoint
from valuetracker.http.router import KEPT_PATHS, Router


async def find_key(call: Call) -> Any:
    """Read a key."""


def test_the_router_forgets_the_oldest_paths_and_not_all_at_once() -> None:
    router = Router([Endpoint(("GET",), "/keys/{key}", find_key, returns=None, at_root=True)])

    def paths(first: int, count: int) -> list[Any]:
        return [router.find("GET", f"/keys/{n}".encode()) for n in range(first, first + count)]

    kept = paths(0, KEPT_PATHS)
    paths(KEPT_PATHS, 10)

    # Asked for in this order, so that what is found anew replaces none of the others.
    again = paths(10, KEPT_PATHS - 10)
    assert all(one is other for one, other in zip(again, kept[10:], strict=True))
    assert not any(one is other for one, other in zip(paths(0, 10), kept[:10], strict=True))
    assert paths(3, 1)[0].raw == {"key": "3"}
