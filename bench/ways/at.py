"""
Compare reading an instance as it was with reading it as it is.

Both run without the answer cache, so that the reads themselves are compared.
"""

from __future__ import annotations

import time
from contextlib import closing
from functools import partial
from typing import Any

from bench.children import Failure, running
from bench.dataset import KEYS
from bench.peers.ours import serve
from bench.ways.api import EXTENSION, Api
from bench.ways.rig import SETTLE_SECONDS, Comparison, Cost, Rig, in_turn
from bench.wrk import Load, Measurement, measure

CONNECTIONS = (1, 16)
# How many times as long as a current read one of the past may take.
GOAL = 3.0

CHANGES = 100_000
# Each batch is one revision and changes every key so many times.
TIMES = 5
BATCHES = CHANGES // (KEYS * TIMES)


def compare(rig: Rig) -> list[Comparison]:
    title = f"read {KEYS} keys as they were, {CHANGES:,} changes"
    found = [Cost("at", title, connections, writes=False) for connections in CONNECTIONS]
    command = serve(rig.work / "at", "--cache-mb", "0")
    with (
        running(rig.cores.server, command, rig.work / "at.log") as child,
        closing(Api(child, EXTENSION)) as api,
    ):
        api.register()
        past = api.load("read20", 1, query=f"?at={change(api)}")
        current = api.load("read20", 1)

        def read(load: Load, connections: int) -> Measurement:
            time.sleep(SETTLE_SECONDS)
            return measure(rig.cores.load, child, load, connections, rig.seconds)

        for number in range(1, rig.rounds + 1):
            for each in found:
                then = partial(read, past, each.connections)
                now = partial(read, current, each.connections)
                each.add(*in_turn(number, then, now))
            rig.say(
                f"at {number}/{rig.rounds}  "
                + "  ".join(f"c{each.connections} {each.values[-1]:.2f}" for each in found)
            )
    for each in found:
        each.may_cost(GOAL)
    return list(found)


def change(api: Api) -> int:
    """Make an instance, change it in batches, and return the revision in the middle."""
    api.add_instance(1, {f"k{key}": "seed" for key in range(1, KEYS + 1)})
    middle = 0
    for number in range(BATCHES):
        answer = api.call("POST", "/batch", {"operations": operations(number)})
        if number == BATCHES // 2:
            middle = int(answer.headers["x-revision"])
    for query, number in ((f"?at={middle}", BATCHES // 2), ("", BATCHES - 1)):
        expected = {each["key"]: each["value"] for each in operations(number)}
        if api.call("GET", f"/instances/i1/data{query}").json() != expected:
            raise Failure("The instance is not read as it was, or not as it is.")
    return middle


def operations(number: int) -> list[dict[str, Any]]:
    return [
        {"op": "set", "instanceId": "i1", "key": f"k{key}", "value": f"{number}-{turn}-{key}"}
        for turn in range(TIMES)
        for key in range(1, KEYS + 1)
    ]
