"""
The input and the result of a comparison of two ways of running the server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from bench.children import Cores
from bench.others import Others
from bench.ways.api import Api, seed
from bench.wrk import Measurement

# Time for the work that a server does after it has answered.
SETTLE_SECONDS = 0.3


@dataclass(frozen=True)
class Rig:
    """The folders, cores and durations of a measurement."""

    cores: Cores
    work: Path
    rounds: int
    seconds: int
    say: Callable[[str], None]
    others: Others


@dataclass
class Comparison:
    """Two measurements that are compared; each round makes both."""

    # The quantity that `values` has multiples of.
    quantity: ClassVar[str] = "rate"

    name: str
    title: str
    connections: int
    writes: bool
    goal: str = ""
    # True if the goal was reached; None if there is no goal, or nothing to judge it by.
    met: bool | None = None
    measured: list[Measurement] = field(default_factory=list)
    beside: list[Measurement] = field(default_factory=list)
    # Other counts, by round.
    counted: list[dict[str, Any]] = field(default_factory=list)

    def add(self, measured: Measurement, beside: Measurement) -> None:
        self.measured.append(measured)
        self.beside.append(beside)

    @property
    def kept(self) -> list[float]:
        """Return the share of the rate that was kept, for each round."""
        return [
            ours.rate / theirs.rate for ours, theirs in zip(self.measured, self.beside, strict=True)
        ]

    @property
    def values(self) -> list[float]:
        """Return the numbers that the table shows."""
        return self.kept

    def must_keep(self, least: float) -> None:
        self.goal = f"≥ {least:g}"
        self.met = median(self.values) >= least


class Cost(Comparison):
    """A comparison shown as how many times as long a request takes."""

    quantity = "time"

    @property
    def values(self) -> list[float]:
        return [1 / share for share in self.kept]

    def may_cost(self, most: float) -> None:
        self.goal = f"≤ {most:g}"
        self.met = median(self.values) <= most


def in_turn(
    number: int, first: Callable[[], Measurement], second: Callable[[], Measurement]
) -> tuple[Measurement, Measurement]:
    """Make both measurements; which one is first changes from round to round."""
    if number % 2:
        return first(), second()
    late = second()
    return first(), late


def prepare(api: Api) -> None:
    """Register a new extension and write the data that the workloads need."""
    api.register()
    seed(api)
