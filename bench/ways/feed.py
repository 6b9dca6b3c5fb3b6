"""
Measure what feed readers cost writers: the same writes, without readers and with them.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import closing
from functools import partial
from typing import Any

from bench.children import Child, next_line, running
from bench.peers.ours import serve
from bench.ways.api import EXTENSION, Api, measure_writes
from bench.ways.rig import SETTLE_SECONDS, Comparison, Rig, in_turn, prepare
from bench.wrk import Measurement

READERS = 500
# The least share of their rate that writers must keep, by their number of connections.
GOALS = {1: None, 4: None, 16: 0.7}
# Its rounds are long, so there are half as many, but not fewer than this.
LEAST_ROUNDS = 3
# How long after the last write its event may take to reach all readers.
PATIENCE_SECONDS = 10.0


def compare(rig: Rig) -> list[Comparison]:
    title = f"a write, {READERS} readers to none"
    found = [Comparison("feed", title, connections, writes=True) for connections in GOALS]
    rounds = max(min(rig.rounds, LEAST_ROUNDS), rig.rounds // 2)
    command = serve(rig.work / "feed", "--feed-readers", str(READERS))
    with (
        running(rig.cores.server, command, rig.work / "feed.log") as child,
        closing(Api(child, EXTENSION)) as api,
    ):
        prepare(api)
        for number in range(1, rounds + 1):
            for each in found:
                read = partial(write_to_readers, rig, child, api, each)
                unread = partial(write, rig, api, each.connections)
                each.add(*in_turn(number, read, unread))
            rig.say(
                f"feed {number}/{rounds}  "
                + "  ".join(
                    f"c{each.connections} {each.kept[-1]:.2f} ({describe(each.counted[-1])})"
                    for each in found
                )
            )
    for each in found:
        events = sum(counted["events"] for counted in each.counted)
        behind = max(counted["behind"] for counted in each.counted)
        each.title += f", {events / 1e6:.1f}M events"
        goal = GOALS[each.connections]
        if goal is not None:
            each.must_keep(goal)
            # Writers must not be fast because readers are sent nothing.
            each.met = each.met and not behind
        if behind:
            each.title += f", {behind} readers left behind"
    return found


def describe(counted: dict[str, Any]) -> str:
    return (
        f"{counted['events']:,} events, the last {counted['seconds_late']:.1f} s late, "
        f"{counted['behind']} behind, {counted['overflows']} overflows, "
        f"{counted['busy']:.2f} of their core, server {counted['memory'] / 1e6:.0f} MB"
    )


def write(rig: Rig, api: Api, connections: int) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    return measure_writes(rig.cores.load, api, api.load("write"), connections, rig.seconds)


def write_to_readers(rig: Rig, child: Child, api: Api, comparison: Comparison) -> Measurement:
    """Measure the same writes with readers, each of which is sent every event."""
    command = ["bench.ways.readers", child.url, api.extension, str(READERS), str(PATIENCE_SECONDS)]
    log = rig.work / "readers.log"
    with running(rig.cores.load, command, log, subprocess.PIPE) as readers:
        measured = write(rig, api, comparison.connections)
        memory = child.memory()
        assert readers.process.stdin is not None
        readers.process.stdin.write(b"%d\n" % api.revision())
        readers.process.stdin.flush()
        counted = json.loads(next_line(readers.process, log, 3 * PATIENCE_SECONDS))
    comparison.counted.append({**counted, "memory": memory})
    return measured
