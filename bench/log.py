"""
Measure what the log costs: the same one-key write, with the log and without.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from functools import partial
from pathlib import Path

from bench.children import Failure, running
from bench.rig import SETTLE_SECONDS, Comparison, Rig, in_turn, prepare, serve
from bench.workloads import EXTENSION, INSTANCES, Api, measure_checked
from bench.wrk import Load, Measurement

# The least share of the rate that must be kept, by the number of connections.
GOALS = {16: 0.7, 64: 0.85}


def compare(rig: Rig) -> list[Comparison]:
    found = [
        Comparison("log", "a write, with the log to without", connections, writes=True)
        for connections in GOALS
    ]
    with_dir, without_dir = rig.work / "log", rig.work / "without-log"
    _, *without_log = serve(without_dir)
    with (
        running(rig.cores.server, serve(with_dir), rig.work / "log.log") as kept,
        running(
            rig.cores.server, ["bench.without_log", *without_log], rig.work / "without-log.log"
        ) as left_out,
        closing(Api(kept, EXTENSION)) as with_log,
        closing(Api(left_out, EXTENSION)) as without,
    ):
        prepare(with_log)
        prepare(without)
        for number in range(1, rig.rounds + 1):
            for each in found:
                kept_rate = partial(write, rig, with_log, each.connections)
                left_out_rate = partial(write, rig, without, each.connections)
                each.add(*in_turn(number, kept_rate, left_out_rate))
            rig.say(
                f"log {number}/{rig.rounds}  "
                + "  ".join(f"c{each.connections} {each.kept[-1]:.2f}" for each in found)
            )
        check_logs(with_log.revision(), with_dir, without_dir)
    for each in found:
        each.must_keep(GOALS[each.connections])
    return found


def check_logs(revision: int, with_dir: Path, without_dir: Path) -> None:
    """Check that one log has an entry of every revision, and the other has none."""
    kept, left_out = rows_of_log(with_dir), rows_of_log(without_dir)
    if kept[0] < revision or not kept[1] or left_out != (0, 0):
        raise Failure(f"Entries and keyframes: {kept} for {revision}; left out: {left_out}.")


def rows_of_log(data_dir: Path) -> tuple[int, int]:
    # Count in the file itself, because what the server answers proves nothing here.
    file = (data_dir / f"{EXTENSION}.db").absolute().as_uri()
    with closing(sqlite3.connect(f"{file}?mode=ro", uri=True)) as connection:
        row: tuple[int, int] = connection.execute(
            "SELECT (SELECT count(*) FROM entries), (SELECT count(*) FROM keyframes)"
        ).fetchone()
    return row


def write(rig: Rig, api: Api, connections: int) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    load = Load("w3", api.extension, INSTANCES)
    return measure_checked(rig.cores.load, api, load, connections, rig.seconds, writes=True)
