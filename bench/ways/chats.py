"""
Measure what chats cost: a swipe, opening a chat, and a write anchored to a message.

Each is compared with a simpler request to the same chat, which has a long chain and a long
log. The answer cache is off, so that the reads themselves are compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from itertools import count, cycle, repeat
from typing import Any

from bench.children import Failure, running
from bench.dataset import KEYS
from bench.peers.ours import serve
from bench.ways.api import EXTENSION, Api, measure_writes
from bench.ways.rig import SETTLE_SECONDS, Comparison, Cost, Rig, in_turn
from bench.ways.serial import Connection, Way, request, take_turns
from bench.wrk import Measurement

CHAT = "story"
INSTANCES = 50
MESSAGES = 1_000
LAST = f"m{MESSAGES}"
CHANGES = 200_000
# Each batch is one revision and changes every key once.
BATCHES = CHANGES // (INSTANCES * KEYS)
# How many keys each swipe of the last message sets.
SWIPED = 5

# How many times as long as the peer each may take.
SWIPE_GOAL = 3.0
OPEN_GOAL = 2.0
ANCHOR_GOAL = 1.25
ANCHOR_CONNECTIONS = (1, 16)


class MiddleCost(Cost):
    """A cost by the median request: the single connection waits for each stall of the disk."""

    @property
    def kept(self) -> list[float]:
        return [
            theirs.p50_ms / ours.p50_ms
            for ours, theirs in zip(self.measured, self.beside, strict=True)
        ]


def compare(rig: Rig) -> list[Comparison]:
    command = serve(rig.work / "chats", "--cache-mb", "0")
    with (
        running(rig.cores.server, command, rig.work / "chats.log") as child,
        closing(Api(child, EXTENSION)) as api,
        closing(Connection(child)) as connection,
    ):
        api.register()
        started = time.monotonic()
        make_chat(api)
        rig.say(f"chats: {CHANGES:,} changes made in {time.monotonic() - started:.0f} s")
        swipes = compare_swipe(rig, connection)
        opens = compare_open(rig, connection)
        # Last, because it leaves more changes at the last message than a swipe should flip.
        api.call("POST", f"/chats/{CHAT}/reconcile", {"anchors": chain("0")})
        anchors = compare_anchor(rig, api)
    return [*swipes, *opens, *anchors]


# The chat


def make_chat(api: Api) -> None:
    """Make the chat and write all its changes."""
    for number in range(1, INSTANCES + 1):
        instance = {"id": f"i{number}", "characterId": f"c{number}", "chatId": CHAT}
        api.call("POST", "/instances", instance)
    for number in range(BATCHES):
        api.call("POST", f"/chats/{CHAT}/batch", {"operations": operations(number)})
    for swipe in "01":
        api.call("POST", f"/chats/{CHAT}/batch", {"operations": swipe_operations(swipe)})
    # To reconcile with the visible chain changes nothing.
    repeated = api.call("POST", f"/chats/{CHAT}/reconcile", {"anchors": chain("1")}).json()
    whole = api.call("GET", f"/chats/{CHAT}/state").json()
    if (
        repeated["revision"] != whole["revision"]
        or repeated["dormant"] + repeated["revived"]
        or [len(each["data"]) for each in whole["instances"]] != [KEYS] * INSTANCES
    ):
        raise Failure("The chat is not what it was made to be.")


def operations(number: int) -> list[dict[str, Any]]:
    """Return one batch; each message but the last gets its share of the batches, in order."""
    made: list[dict[str, Any]] = []
    for key in range(1, KEYS + 1):
        for instance in range(1, INSTANCES + 1):
            done = number * INSTANCES * KEYS + len(made)
            message = done * (MESSAGES - 1) // CHANGES + 1
            made.append(change(instance, key, f"{number}-{instance}-{key}", f"m{message}", "0"))
    return made


def swipe_operations(swipe: str) -> list[dict[str, Any]]:
    return [change(1, key, f"swipe-{swipe}-{key}", LAST, swipe) for key in range(1, SWIPED + 1)]


def change(instance: int, key: int, value: str, message: str, swipe: str) -> dict[str, Any]:
    return {
        "op": "set",
        "instanceId": f"i{instance}",
        "key": f"k{key}",
        "value": value,
        "anchor": {"messageId": message, "swipe": swipe},
    }


def chain(swipe: str) -> list[dict[str, str]]:
    """Return the chain of all messages, the last one at this swipe."""
    before = [{"messageId": f"m{number}", "swipe": "0"} for number in range(1, MESSAGES)]
    return [*before, {"messageId": LAST, "swipe": swipe}]


# A swipe


def compare_swipe(rig: Rig, connection: Connection) -> list[Comparison]:
    title = f"swipe the last of {MESSAGES:,} messages, {CHANGES:,} changes, to a write"
    found = MiddleCost("chats", title, 1, writes=True)
    swipe, write = swiping(), writing()
    for number in range(1, rig.rounds + 1):
        time.sleep(SETTLE_SECONDS)
        swiped, written = take_turns(connection, (swipe, write), rig.seconds)
        found.add(swiped, written)
        rig.say(f"chats {number}/{rig.rounds}  swipe {describe(found)}")
    found.may_cost(SWIPE_GOAL)
    return [found]


def swiping() -> Way:
    """Swipe the last message back and forth; its second swipe is visible at first."""
    path = f"/chats/{CHAT}/reconcile"
    turns = [(request("POST", path, EXTENSION, {"anchors": chain(swipe)}),) for swipe in "01"]
    return Way(cycle(turns), b'"dormant":%d,"revived":%d' % (SWIPED, SWIPED))


def writing() -> Way:
    """Write one key of the chat's own data, another value each time."""

    def bodies() -> Iterator[tuple[bytes]]:
        for number in count():
            body = {"key": "pulse", "value": f"beat-{number}"}
            yield (request("POST", f"/chats/{CHAT}/data", EXTENSION, body),)

    return Way(bodies(), b'"value":"beat-')


# Opening


def compare_open(rig: Rig, connection: Connection) -> list[Comparison]:
    title = f"open a chat, {INSTANCES} x {KEYS} keys, to"
    to_state = MiddleCost("chats", f"{title} reading its state", 1, writes=True)
    to_instances = MiddleCost("chats", f"{title} reading {INSTANCES} instances", 1, writes=True)
    opening = Way(
        repeat((request("POST", f"/chats/{CHAT}/open", EXTENSION, {"client": "tab"}),)),
        b'"created":false',
    )
    state = Way(repeat((request("GET", f"/chats/{CHAT}/state", EXTENSION),)), b'"instances":')
    instances = Way(
        repeat(
            [
                request("GET", f"/instances/i{number}", EXTENSION)
                for number in range(1, INSTANCES + 1)
            ]
        ),
        b'"data":',
    )
    for number in range(1, rig.rounds + 1):
        time.sleep(SETTLE_SECONDS)
        ways = (opening, state, instances)
        opened, whole, each = take_turns(connection, ways, rig.seconds)
        to_state.add(opened, whole)
        to_instances.add(opened, each)
        rig.say(
            f"chats {number}/{rig.rounds}  open, to its state {describe(to_state)},"
            f" to its instances {describe(to_instances)}"
        )
    to_state.may_cost(OPEN_GOAL)
    to_instances.may_cost(OPEN_GOAL)
    return [to_state, to_instances]


def describe(found: Comparison) -> str:
    ours, theirs = found.measured[-1], found.beside[-1]
    return f"{found.values[-1]:.2f} ({ours.p50_ms:.2f} to {theirs.p50_ms:.2f} ms)"


# Anchors


def compare_anchor(rig: Rig, api: Api) -> list[Comparison]:
    title = "a write anchored to the last message, to one that is not"
    found = [Cost("chats", title, each, writes=True) for each in ANCHOR_CONNECTIONS]
    for number in range(1, rig.rounds + 1):
        for each in found:
            anchored = partial(write, rig, api, each.connections, LAST)
            unanchored = partial(write, rig, api, each.connections, "")
            each.add(*in_turn(number, anchored, unanchored))
        rig.say(
            f"chats {number}/{rig.rounds}  anchored "
            + "  ".join(f"c{each.connections} {each.values[-1]:.2f}" for each in found)
        )
    for each in found:
        each.may_cost(ANCHOR_GOAL)
    return list(found)


def write(rig: Rig, api: Api, connections: int, message: str) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    load = api.load("write", INSTANCES, message=message)
    found = measure_writes(rig.cores.load, api, load, connections, rig.seconds)
    # The newest change was made by the check itself.
    newest = api.call("GET", f"/chats/{CHAT}/history?limit=2").json()["items"][1]
    if (newest["anchor"] or {}).get("messageId", "") != message or not newest["live"]:
        raise Failure(f"Writes were to be anchored to {message!r}, and live: {newest}")
    return found
