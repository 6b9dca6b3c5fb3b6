"""
What a comparison of two ways of running the server is given, and what it hands back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.children import Cores
from bench.others import Others
from bench.workloads import Api, seed
from bench.wrk import Measurement

# For what a server does after it has answered.
SETTLE_SECONDS = 0.3


@dataclass(frozen=True)
class Rig:
    """Where and how long to measure."""

    cores: Cores
    work: Path
    rounds: int
    seconds: float
    say: Callable[[str], None]
    others: Others


@dataclass
class Comparison:
    """One thing measured beside another, in each round both."""

    name: str
    title: str
    connections: int
    writes: bool
    goal: str = ""
    # Whether the goal was reached; None where there is none, or nothing to judge it by.
    met: bool | None = None
    measured: list[Measurement] = field(default_factory=list)
    beside: list[Measurement] = field(default_factory=list)
    # What else was counted, by round.
    counted: list[dict[str, Any]] = field(default_factory=list)

    def add(self, measured: Measurement, beside: Measurement) -> None:
        self.measured.append(measured)
        self.beside.append(beside)

    @property
    def kept(self) -> list[float]:
        """The share of the rate that was kept, of each round."""
        return [
            ours.rate / theirs.rate for ours, theirs in zip(self.measured, self.beside, strict=True)
        ]

    @property
    def values(self) -> list[float]:
        """What the table shows."""
        return self.kept

    def must_keep(self, least: float) -> None:
        self.goal = f"≥ {least:g}"
        self.met = median(self.values) >= least


class Cost(Comparison):
    """The same, told as how many times as long a request takes."""

    @property
    def values(self) -> list[float]:
        return [1 / share for share in self.kept]

    def may_cost(self, most: float) -> None:
        self.goal = f"≤ {most:g}"
        self.met = median(self.values) <= most


def in_turn(
    number: int, first: Callable[[], Measurement], second: Callable[[], Measurement]
) -> tuple[Measurement, Measurement]:
    """Both measurements; which is made first changes from round to round."""
    if number % 2:
        return first(), second()
    late = second()
    return first(), late


def serve(data_dir: Path, *options: str) -> list[str]:
    return ["valuetracker", "serve", "--port", "0", "--data-dir", str(data_dir), *options]


def prepare(api: Api) -> None:
    """A new extension with the data the workloads need."""
    api.register()
    seed(api)
