"""
Compare the measurements with the goals: a table for people, JSON for programs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench import sizes as size_goal
from bench.rig import Comparison
from bench.sizes import Sizes
from bench.workloads import CONNECTIONS, HELLO, WORKLOADS, Workload
from bench.wrk import Measurement

MEMORY_GOAL_BYTES = 60_000_000
# On a disk slower than this, write rates say more about the disk than about the server.
LEAST_SYNCS = 500.0

OK = "ok"
BELOW = "below goal"
NOT_JUDGED = "not judged"


@dataclass
class Findings:
    """Everything that was measured, by round."""

    rounds: int
    seconds: float
    syncs: list[float] = field(default_factory=list)
    memory: int = 0
    measured: dict[tuple[str, int], list[Measurement]] = field(default_factory=dict)
    sizes: Sizes | None = None
    comparisons: list[Comparison] = field(default_factory=list)
    # How many cores other processes kept busy meanwhile.
    others: float = 0.0

    def add(self, name: str, connections: int, found: Measurement) -> None:
        self.measured.setdefault((name, connections), []).append(found)

    def ratios(self, name: str, connections: int) -> list[float]:
        """Return the ratio to hello of the same round, for each round."""
        hello = self.measured[HELLO.name, connections]
        found = self.measured[name, connections]
        return [ours.rate / bare.rate for ours, bare in zip(found, hello, strict=True)]

    @property
    def slow_disk(self) -> bool:
        return median(self.syncs) < LEAST_SYNCS

    def judge(self, met: bool, writes: bool) -> str:
        if writes and self.slow_disk:
            return NOT_JUDGED
        return OK if met else BELOW


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    name: str
    title: str
    connections: int | None
    value: float
    least: float
    most: float
    unit: str
    goal: str
    verdict: str
    rate: float | None = None
    p50_ms: float | None = None
    worst_p99_ms: float | None = None


def lines(findings: Findings) -> list[Line]:
    found: list[Line] = []
    for workload in (HELLO, *WORKLOADS):
        for connections in CONNECTIONS:
            if (workload.name, connections) in findings.measured:
                found.append(_workload_line(findings, workload, connections))
    found.append(
        Line(
            "disk",
            "4 KB write + fdatasync",
            None,
            *_spread(findings.syncs),
            unit="/s",
            goal="",
            verdict="slow: writes not judged" if findings.slow_disk else "",
        )
    )
    found.append(
        Line(
            "memory",
            "at rest, one extension",
            None,
            *_spread([findings.memory / 1e6]),
            unit=" MB",
            goal=f"≤ {MEMORY_GOAL_BYTES / 1e6:g}",
            verdict=findings.judge(findings.memory <= MEMORY_GOAL_BYTES, writes=False),
        )
    )
    if findings.sizes is not None:
        found += _size_lines(findings, findings.sizes)
    found += [_comparison_line(findings, each) for each in findings.comparisons]
    return found


def _spread(values: list[float]) -> tuple[float, float, float]:
    return median(values), min(values), max(values)


def _workload_line(findings: Findings, workload: Workload, connections: int) -> Line:
    runs = findings.measured[workload.name, connections]
    ratios = findings.ratios(workload.name, connections)
    goal = workload.goal
    verdict = "" if goal is None else findings.judge(median(ratios) >= goal, workload.writes)
    return Line(
        workload.name,
        workload.title,
        connections,
        *_spread(ratios),
        unit="x",
        goal="" if goal is None else f"≥ {goal:g}",
        verdict=verdict,
        rate=median(run.rate for run in runs),
        p50_ms=median(run.p50_ms for run in runs),
        worst_p99_ms=max(run.p99_ms for run in runs),
    )


def _size_lines(findings: Findings, sizes: Sizes) -> list[Line]:
    large, small = sizes.large_bytes / 1e6, sizes.small_bytes / 1e6
    title = f"a write at {large:.0f} MB against {small:.0f} MB"
    met = median(sizes.costs) <= size_goal.GOAL
    return [
        Line(
            "size",
            title,
            size_goal.CONNECTIONS,
            *_spread(sizes.costs),
            unit="x",
            goal=f"≤ {size_goal.GOAL:g}",
            verdict=findings.judge(met, writes=True),
            rate=median(sizes.large),
        ),
        Line(
            "size",
            "the same, each to another instance",
            size_goal.CONNECTIONS,
            *_spread(sizes.scattered_costs),
            unit="x",
            goal="",
            verdict="",
            rate=median(sizes.scattered),
        ),
    ]


def _comparison_line(findings: Findings, comparison: Comparison) -> Line:
    verdict = NOT_JUDGED if comparison.goal else ""
    if comparison.met is not None:
        verdict = findings.judge(comparison.met, comparison.writes)
    return Line(
        comparison.name,
        comparison.title,
        comparison.connections,
        *_spread(comparison.values),
        unit="x",
        goal=comparison.goal,
        verdict=verdict,
        rate=median(run.rate for run in comparison.measured),
        p50_ms=median(run.p50_ms for run in comparison.measured),
        worst_p99_ms=max(run.p99_ms for run in comparison.measured),
    )


def table(findings: Findings) -> str:
    head = ("", "", "c", "req/s", "p50 ms", "worst p99", "median", "[min-max]", "goal", "")
    rows = [head, *(_cells(line) for line in lines(findings))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    text = [
        "  ".join(
            cell.ljust(width) if column in (0, 1, 7, 8, 9) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    text.append(
        f"{_rounds_said(findings)} of {findings.seconds:g} s; x is the rate over hello's, or over "
        "what is named beside it, of the same round (for size, at, chats, checkpoint: the time); "
        f"others kept {findings.others:.2f} cores busy"
    )
    return "\n".join(text)


def _rounds_said(findings: Findings) -> str:
    others = {
        each.name: len(each.measured)
        for each in findings.comparisons
        if len(each.measured) != findings.rounds
    }
    return f"{findings.rounds} rounds" + "".join(
        f" ({number} of {name})" for name, number in others.items()
    )


def _cells(line: Line) -> tuple[str, ...]:
    def number(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:,.{digits}f}"

    digits = {"/s": 0, " MB": 1}.get(line.unit, 2)
    spread = ""
    if line.least != line.most:
        spread = f"[{number(line.least, digits)}-{number(line.most, digits)}]"
    return (
        line.name,
        line.title,
        "" if line.connections is None else str(line.connections),
        number(line.rate, 0),
        number(line.p50_ms, 2),
        number(line.worst_p99_ms, 2),
        number(line.value, digits) + line.unit,
        spread,
        line.goal,
        line.verdict,
    )


def document(findings: Findings) -> dict[str, Any]:
    """Return the report as JSON, with the figures of each round."""
    return {
        "rounds": findings.rounds,
        "seconds": findings.seconds,
        "coresUsedByOthers": findings.others,
        "lines": [asdict(line) for line in lines(findings)],
        "syncsPerSecond": findings.syncs,
        "memoryBytes": findings.memory,
        "measurements": [
            {"workload": name, "connections": connections, "runs": [asdict(run) for run in runs]}
            for (name, connections), runs in findings.measured.items()
        ],
        "sizes": None if findings.sizes is None else asdict(findings.sizes),
        "comparisons": [asdict(each) for each in findings.comparisons],
    }


def missed(findings: Findings) -> list[Line]:
    return [line for line in lines(findings) if line.verdict == BELOW]
