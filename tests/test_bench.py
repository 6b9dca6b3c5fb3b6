"""The benchmarks' own arithmetic: ratios of a round, falls since the recorded run, verdicts."""

from __future__ import annotations

import json

from bench.goals import BELOW, FLOOR, MET, verdicts
from bench.report import markdown
from bench.results import Cell, Fall, Results, falls, to_json
from bench.wrk import Measurement

MIX = Cell(1, 16, "mix", "redis")
WRITE = Cell(1, 16, "write", "redis")


def results(**rates: tuple[list[float], list[float]]) -> Results:
    """Return results with our rates and those of Redis, by workload."""
    found = Results("today", 3, 1)
    found.servers = {"ours": "ours", "redis": "Redis"}
    found.workloads = {"mix": "a mix", "write": "a write"}
    for workload, (ours, theirs) in rates.items():
        for server, each in (("ours", ours), ("redis", theirs)):
            for rate in each:
                found.add(
                    Cell(1, 16, workload, server), Measurement(100, rate, 1.0, 2.0, cpu_us=10.0)
                )
    return found


def test_a_ratio_is_that_of_one_round() -> None:
    found = results(mix=([100, 300, 80], [50, 300, 40]))

    ratio = found.ratio(MIX)

    assert ratio == (2.0, 1.0, 2.0)
    assert found.ratio(WRITE) is None


def test_a_ratio_that_fell_by_more_than_a_fifth_is_named() -> None:
    recorded = to_json(results(mix=([200], [100]), write=([100], [100])))
    now = results(mix=([159], [100]), write=([81], [100]))

    fallen = falls(now, recorded)

    assert fallen == [Fall(MIX, 2.0, 1.59)]
    assert "| 1 MB | c16 | a mix    | Redis  | 2.00     | 1.59 |" in markdown(
        now, fallen, plot=False
    )


def test_the_recorded_run_has_the_figures_of_each_round() -> None:
    document = json.loads(to_json(results(mix=([200, 210], [100, 105]))))

    assert document["cells"][0] == {
        "megabytes": 1,
        "connections": 16,
        "workload": "mix",
        "server": "ours",
        "rate": [200, 210],
        "cpuUs": [10.0, 10.0],
        "p50Ms": [1.0, 1.0],
        "p99Ms": [2.0, 2.0],
    }


def test_a_goal_is_judged_by_its_floor_and_its_aim() -> None:
    found = results(mix=([130], [100]), write=([90], [100]))
    found.figures = {"log_bytes": 211.0, "rest_memory": 60.0}

    judged = {each.title: each.verdict for each in verdicts(found)}

    assert list(judged.values()) == [FLOOR, MET, MET, BELOW]
