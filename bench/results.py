"""
Everything that one run measured, and how it is kept as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, NamedTuple

from bench.peers import OURS
from bench.peers.ours import Adoption
from bench.ways.rig import Comparison
from bench.wrk import Measurement

# The share of a recorded ratio that a later run must reach.
KEPT_SHARE = 0.8


class Cell(NamedTuple):
    """One thing that each round measures."""

    megabytes: int
    connections: int
    workload: str
    server: str


class Spread(NamedTuple):
    median: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        listed = list(values)
        return cls(median(listed), min(listed), max(listed))

    def text(self, digits: int) -> str:
        shown = f"{self.median:,.{digits}f}"
        if self.least == self.most:
            return shown
        return f"{shown} [{self.least:,.{digits}f}-{self.most:,.{digits}f}]"


@dataclass
class Results:
    date: str
    rounds: int
    seconds: int
    # Facts about the machine and the programs, by name.
    machine: dict[str, str] = field(default_factory=dict)
    # Titles of the servers and workloads, by name.
    servers: dict[str, str] = field(default_factory=dict)
    workloads: dict[str, str] = field(default_factory=dict)
    durability: dict[str, str] = field(default_factory=dict)
    cells: dict[Cell, list[Measurement]] = field(default_factory=dict)
    # Memory in bytes after the rounds, by size and server.
    memory: dict[tuple[int, str], int] = field(default_factory=dict)
    adoptions: dict[int, Adoption] = field(default_factory=dict)
    # The size of our file after the rounds.
    file_bytes: dict[int, int] = field(default_factory=dict)
    # Single numbers, by the name that `goals.py` gives them.
    figures: dict[str, float] = field(default_factory=dict)
    ways: list[Comparison] = field(default_factory=list)
    syncs: list[float] = field(default_factory=list)
    # How many cores other processes kept busy meanwhile.
    others: float = 0.0

    def add(self, cell: Cell, found: Measurement) -> None:
        self.cells.setdefault(cell, []).append(found)

    def _pairs(self, cell: Cell) -> list[tuple[Measurement, Measurement]]:
        """Return our measurement and the peer's, for each round."""
        ours = self.cells.get(cell._replace(server=OURS.name), [])
        return list(zip(ours, self.cells.get(cell, []), strict=False))

    def ratio(self, cell: Cell) -> Spread | None:
        """Return our rate as a multiple of a peer's; None if one of them was not measured."""
        pairs = self._pairs(cell)
        return Spread.of(ours.rate / theirs.rate for ours, theirs in pairs) if pairs else None

    def cpu_ratio(self, cell: Cell) -> Spread:
        """Return the peer's processor time of a request as a multiple of ours."""
        return Spread.of(
            (theirs.cpu_us or 0.0) / (ours.cpu_us or 1.0) for ours, theirs in self._pairs(cell)
        )

    def ratios(self) -> dict[Cell, Spread]:
        """Return our rate as a multiple of each peer's."""
        found = {cell: self.ratio(cell) for cell in self.cells if cell.server != OURS.name}
        return {cell: spread for cell, spread in found.items() if spread is not None}


def to_json(results: Results) -> str:
    """Return the results as JSON, one cell a line."""
    document: dict[str, Any] = {
        "date": results.date,
        "rounds": results.rounds,
        "seconds": results.seconds,
        "machine": results.machine,
        "servers": results.servers,
        "workloads": results.workloads,
        "coresUsedByOthers": results.others,
        "syncsPerSecond": [round(each, 1) for each in results.syncs],
        "figures": results.figures,
        "adoptions": {str(size): asdict(each) for size, each in results.adoptions.items()},
        "memory": [
            {"megabytes": size, "server": server, "bytes": found}
            for (size, server), found in results.memory.items()
        ],
        "ratios": [
            {**cell._asdict(), **_rounded(spread._asdict())}
            for cell, spread in results.ratios().items()
        ],
        "cells": [
            {
                **cell._asdict(),
                "rate": [round(each.rate, 1) for each in runs],
                "cpuUs": [round(each.cpu_us or 0.0, 1) for each in runs],
                "p50Ms": [each.p50_ms for each in runs],
                "p99Ms": [each.p99_ms for each in runs],
            }
            for cell, runs in results.cells.items()
        ],
        "ways": [
            {
                "name": each.name,
                "title": each.title,
                "connections": each.connections,
                "values": [round(value, 3) for value in each.values],
            }
            for each in results.ways
        ],
    }
    lines = []
    for name, value in document.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n  ".join(json.dumps(each, ensure_ascii=False) for each in value)
            text = f"[\n  {items}\n ]"
        lines.append(f" {json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in values.items()}


class Fall(NamedTuple):
    """A ratio that is smaller than the recorded one."""

    cell: Cell
    recorded: float
    now: float


def falls(results: Results, recorded: str) -> list[Fall]:
    """Return the ratios that fell by more than 20 % since the recorded run, the worst first."""
    before = {
        Cell(*(each[name] for name in Cell._fields)): float(each["median"])
        for each in json.loads(recorded)["ratios"]
    }
    found = [
        Fall(cell, before[cell], spread.median)
        for cell, spread in results.ratios().items()
        if cell in before and spread.median < KEPT_SHARE * before[cell]
    ]
    return sorted(found, key=lambda fall: fall.now / fall.recorded)
