"""
The goals: a floor that must be reached, and an aim.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.dataset import SIZES
from bench.peers import PEERS
from bench.results import Cell, Results
from bench.workloads import WORKLOADS

MET = "aim reached"
FLOOR = "floor reached"
BELOW = "BELOW THE FLOOR"


@dataclass(frozen=True)
class RatioGoal:
    """Our rate, as a multiple of a peer's in the same round."""

    cell: Cell
    floor: float
    aim: float

    @property
    def title(self) -> str:
        cell = self.cell
        return (
            f"{WORKLOADS[cell.workload].title}, {SIZES[cell.megabytes].title}, "
            f"c{cell.connections}: ours / {PEERS[cell.server].title}"
        )


@dataclass(frozen=True)
class FigureGoal:
    """A number that must not be larger."""

    name: str
    title: str
    unit: str
    floor: float
    aim: float


def _ratio(size: int, workload: str, peer: str, floor: float, aim: float, c: int = 16) -> RatioGoal:
    return RatioGoal(Cell(size, c, workload, peer), floor, aim)


# Reads from memory must keep this share of the ratio to hello that they once had.
KEPT = 0.8

RATIO_GOALS = (
    _ratio(1, "mix", "redis", 1.2, 1.6),
    _ratio(1, "mix", "fastify-full", 2.5, 4),
    _ratio(100, "mix", "fastify-full", 1.1, 1.5),
    _ratio(100, "read", "fastify-full", 1.0, 1.4),
    _ratio(100, "read20", "fastify-full", 0.8, 1.2),
    _ratio(1, "write", "redis", 0.55, 0.85),
    _ratio(100, "write", "redis", 0.35, 0.55),
    _ratio(1, "write", "fastify-full", 3, 4.5),
    _ratio(1, "write", "fastify-full", 0.75, 0.95, c=1),
    _ratio(1, "merge", "redis", 0.5, 0.8),
    _ratio(1, "merge", "fastify-full", 1.8, 3),
    _ratio(1, "read", "hello", KEPT * 1.46, 1.46),
    _ratio(1, "read20", "hello", KEPT * 1.76, 1.76),
    _ratio(1, "character", "hello", KEPT * 1.39, 1.39),
)

FIGURE_GOALS = (
    FigureGoal("memory", "memory after the rounds on 100 MB (PSS)", "MB", 80, 64),
    FigureGoal("adoption_peak", "most memory while 100 MB are adopted (RSS)", "MB", 150, 150),
    FigureGoal("adoption_size", "file after adopting 100 MB, as a multiple", "x", 1.6, 1.6),
    FigureGoal("rest_memory", "memory at rest, one extension (PSS)", "MB", 60, 60),
    FigureGoal("log_bytes", "growth of the file per change of a 100-byte value", "bytes", 210, 160),
    FigureGoal("growth", "100 changes of 230 bytes inside a value of 227 KB", "MiB", 2, 1.5),
    FigureGoal("growth_share", "the same, as a share of 100 whole values", "x", 0.09, 0.07),
    FigureGoal("open", "first read of a 1 MB file, with its verification", "ms", 30, 30),
    FigureGoal("extensions_warm", "1,000 extensions: GET /extensions", "ms", 50, 50),
    FigureGoal("extensions_first", "the same, as the first request", "ms", 100, 100),
    FigureGoal("backup_p99", "p99 of writes while 100 MB are backed up, as a multiple", "x", 3, 3),
)


@dataclass(frozen=True)
class Verdict:
    title: str
    floor: str
    aim: str
    found: str
    # The same ratio by processor time.
    by_cpu: str
    verdict: str


def verdicts(results: Results) -> list[Verdict]:
    """Judge every goal that was measured."""
    found: list[Verdict] = []
    for goal in RATIO_GOALS:
        ratio = results.ratio(goal.cell)
        if ratio is not None:
            verdict = _judge(ratio.median >= goal.floor, ratio.median >= goal.aim)
            by_cpu = results.cpu_ratio(goal.cell).text(2)
            floor, aim = f"≥ {goal.floor:.2f}", f"≥ {goal.aim:.2f}"
            found.append(Verdict(goal.title, floor, aim, ratio.text(2), by_cpu, verdict))
    for figure in FIGURE_GOALS:
        if figure.name in results.figures:
            value, unit = results.figures[figure.name], figure.unit
            found.append(
                Verdict(
                    figure.title,
                    f"≤ {figure.floor:g} {unit}",
                    f"≤ {figure.aim:g} {unit}",
                    f"{value:.3g} {unit}" if value < 100 else f"{value:,.0f} {unit}",
                    "",
                    _judge(value <= figure.floor, value <= figure.aim),
                )
            )
    return found


def _judge(floor: bool, aim: bool) -> str:
    return MET if aim else FLOOR if floor else BELOW
