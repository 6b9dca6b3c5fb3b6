"""
Measure all servers in turns: each round measures each of them once, workload by workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench.checks import check_run, check_store
from bench.children import Cores
from bench.dataset import SIZES, Size
from bench.disk import syncs_per_second
from bench.peers import OURS
from bench.peers.ours import Ours, file_bytes
from bench.peers.store import Kind, Place, Server, Store
from bench.results import Cell, Results
from bench.workloads import Workload
from bench.wrk import Measurement, measure

# Time for the work that a server does after it has answered.
SETTLE_SECONDS = 0.3
DISK_SECONDS = 0.4
# Node compiles what it runs often. Others read from memories that writes may have emptied, so each
# round warms them up before it measures reads.
WARM_UP_CONNECTIONS = 16
WARM_UP_SECONDS = 1
MEGABYTE = 1e6
LARGE = 100


@dataclass(frozen=True)
class Plan:
    """The things to measure."""

    cores: Cores
    work: Path
    rounds: int
    seconds: int
    sizes: Sequence[int]
    connections: Sequence[int]
    workloads: Sequence[Workload]
    kinds: Sequence[Kind]
    say: Callable[[str], None]


def compare_peers(plan: Plan, results: Results) -> None:
    for megabytes in plan.sizes:
        with ExitStack() as stack:
            servers = {
                kind.name: stack.enter_context(kind.start(place_of(plan, kind, SIZES[megabytes])))
                for kind in announced(plan, SIZES[megabytes])
            }
            for name, server in servers.items():
                if isinstance(server, Store):
                    check_store(name, server, SIZES[megabytes])
            rounds = PeerRounds(plan, SIZES[megabytes], servers, results)
            rounds.warm_up()
            for number in range(plan.rounds):
                rounds.run_round(number)
            rounds.finish()


def announced(plan: Plan, size: Size) -> Sequence[Kind]:
    plan.say(f"{size.title}: starting {', '.join(kind.name for kind in plan.kinds)}")
    return plan.kinds


def place_of(plan: Plan, kind: Kind, size: Size) -> Place:
    folder = plan.work / f"{size.megabytes}-{kind.name}"
    folder.mkdir()
    return Place(plan.cores.server, folder, size)


class PeerRounds:
    """All servers with data of one size."""

    def __init__(
        self, plan: Plan, size: Size, servers: dict[str, Server], results: Results
    ) -> None:
        self.plan = plan
        self.size = size
        self.servers = servers
        self.results = results

    def warm_up(self) -> None:
        for workload in self.plan.workloads:
            if workload.writes:
                self._warm_up(workload)

    def _warm_up(self, workload: Workload) -> None:
        for name in self.servers:
            self._measure(name, workload, WARM_UP_CONNECTIONS, WARM_UP_SECONDS)

    def run_round(self, number: int) -> None:
        plan = self.plan
        syncs = syncs_per_second(plan.work, DISK_SECONDS)
        self.results.syncs.append(syncs)
        plan.say(f"{self.size.title}, round {number + 1}/{plan.rounds}, disk {syncs:,.0f} syncs/s")
        # Another one is first in each round.
        names = list(self.servers)
        first = number % len(names)
        turns = names[first:] + names[:first]
        for workload in plan.workloads:
            if not workload.writes:
                self._warm_up(workload)
            for connections in plan.connections:
                rates = {}
                for name in turns:
                    found = self._measure(name, workload, connections, plan.seconds)
                    cell = Cell(self.size.megabytes, connections, workload.name, name)
                    self.results.add(cell, found)
                    rates[name] = f"{found.rate:,.0f} ({found.cpu_us:.0f} µs)"
                plan.say(
                    f"  {workload.name:<9} c{connections:<3}"
                    + "  ".join(f"{name} {rates[name]}" for name in names)
                )

    def _measure(
        self, name: str, workload: Workload, connections: int, seconds: int
    ) -> Measurement:
        server = self.servers[name]
        time.sleep(SETTLE_SECONDS)
        load = server.load(workload.name, self.size)
        found = measure(self.plan.cores.load, server.child, load, connections, seconds)
        if isinstance(server, Store):
            check_run(name, server, workload, found)
        return found

    def finish(self) -> None:
        """Note how large the processes and our files have become."""
        results, megabytes = self.results, self.size.megabytes
        time.sleep(SETTLE_SECONDS)
        for name, server in self.servers.items():
            results.memory[megabytes, name] = server.child.memory()
        ours = self.servers[OURS.name]
        assert isinstance(ours, Ours)
        assert ours.adoption is not None
        results.adoptions[megabytes] = ours.adoption
        results.file_bytes[megabytes] = file_bytes(ours.file)
        if megabytes == LARGE:
            results.figures["memory"] = results.memory[megabytes, OURS.name] / MEGABYTE
            results.figures["adoption_peak"] = ours.adoption.peak_bytes / MEGABYTE
            results.figures["adoption_size"] = (
                ours.adoption.bytes_after / ours.adoption.bytes_before
            )
