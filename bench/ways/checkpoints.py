"""
Compare making a checkpoint of a large chat with making one of a small chat.

A checkpoint is a pointer and not a copy, so it should not matter how much it points to.
"""

from __future__ import annotations

import time
from contextlib import closing
from itertools import repeat

from bench.children import Failure, running
from bench.peers.ours import serve
from bench.ways.api import EXTENSION, Api
from bench.ways.chats import MiddleCost, describe
from bench.ways.rig import SETTLE_SECONDS, Comparison, Rig
from bench.ways.serial import Connection, Way, request, take_turns

SMALL, LARGE = 10, 100_000
INSTANCES = 50

# How many times as long it may take: nothing that grows with the chat, and some noise.
GOAL = 1.5


def compare(rig: Rig) -> list[Comparison]:
    title = f"checkpoint of {LARGE:,} rows, to one of {SMALL}"
    found = MiddleCost("checkpoint", title, 1, writes=True)
    with (
        running(rig.cores.server, serve(rig.work / "points"), rig.work / "points.log") as child,
        closing(Api(child, EXTENSION)) as api,
        closing(Connection(child)) as connection,
    ):
        api.register()
        fill(api, "small", 1, SMALL)
        fill(api, "large", INSTANCES, LARGE // INSTANCES)
        small, large = making("small", SMALL), making("large", LARGE)
        for number in range(1, rig.rounds + 1):
            time.sleep(SETTLE_SECONDS)
            ours, theirs = take_turns(connection, (large, small), rig.seconds)
            found.add(ours, theirs)
            rig.say(f"checkpoint {number}/{rig.rounds}  {describe(found)}")
    found.may_cost(GOAL)
    return [found]


def fill(api: Api, chat: str, instances: int, keys: int) -> None:
    """Make a chat whose instances have that many keys each."""
    for number in range(1, instances + 1):
        id = f"{chat}-{number}"
        api.call("POST", "/instances", {"id": id, "characterId": "c", "chatId": chat})
        values = {f"key {key}": f"value {key} of {id}" for key in range(keys)}
        api.call("PUT", f"/instances/{id}/data/merge", values)
    checkpoint = api.call("POST", f"/chats/{chat}/checkpoints", {}).json()
    if checkpoint["rows"]["values"] != instances * keys:
        raise Failure(f"The checkpoint has other rows than the chat: {checkpoint['rows']}.")
    valid = api.call("POST", f"/chats/{chat}/checkpoints/{checkpoint['name']}/validate", {})
    if not valid.json()["success"]:
        raise Failure("The checkpoint is not what the log says.")


def making(chat: str, rows: int) -> Way:
    """Make one checkpoint after the other, each with a name of its own."""
    path = f"/chats/{chat}/checkpoints"
    return Way(repeat((request("POST", path, EXTENSION, {}),)), b'"values":%d' % rows)
