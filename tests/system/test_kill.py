"""A server killed under load keeps every acknowledged write, complete and in order."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import httpx

from tests.integrity.recount import recount
from tests.system.conftest import Program, RunProgram

SOAK = os.environ.get("VALUETRACKER_SOAK") == "1"
ROUNDS = 60 if SOAK else 4
WRITERS = 32 if SOAK else 16

# By instance and key: the last acknowledged value, and one that may or may not be written.
Acknowledged = dict[tuple[str, str], int]


class Load:
    """Writers, each with an instance of its own, until the server is killed."""

    def __init__(self, program: Program, round: int) -> None:
        self.program = program
        self.round = round
        self.acknowledged: Acknowledged = {}
        self.unanswered: Acknowledged = {}
        self.revisions: list[int] = []
        self.odd: list[str] = []
        self.begun = threading.Event()
        self.threads = [
            threading.Thread(target=self._write, args=(number,)) for number in range(WRITERS)
        ]

    def _write(self, number: int) -> None:
        instance = f"{self.round}-{number}"
        with self.program.client("demo") as client:
            try:
                client.post("/instances", json={"id": instance, "characterId": "c"})
                for turn in range(1_000_000):
                    place = instance, f"k{turn % 5}"
                    self.unanswered[place] = turn
                    answer = client.post(
                        f"/instances/{instance}/data", json={"key": place[1], "value": turn}
                    )
                    if answer.status_code != 200:
                        self.odd.append(answer.text)
                        return
                    self.acknowledged[place] = turn
                    self.revisions.append(int(answer.headers["x-revision"]))
                    self.begun.set()
            except httpx.TransportError:
                return

    def run_and_kill(self, seconds: float) -> None:
        for thread in self.threads:
            thread.start()
        assert self.begun.wait(60)
        time.sleep(seconds)
        os.kill(self.program.server_pid, signal.SIGKILL)
        for thread in self.threads:
            thread.join(60)

    def lost(self, client: httpx.Client) -> list[str]:
        """Return the acknowledged values that read otherwise now."""
        found: dict[str, dict[str, int]] = {}
        for instance in {instance for instance, _ in self.acknowledged}:
            found[instance] = client.get(f"/instances/{instance}/data").json()
        return [
            f"{place}: {value} acknowledged, {found[place[0]].get(place[1])} read"
            for place, value in self.acknowledged.items()
            if found[place[0]].get(place[1]) not in (value, self.unanswered[place])
        ]


def test_nothing_acknowledged_is_lost_when_the_server_is_killed(
    run_program: RunProgram, tmp_path: Path
) -> None:
    chance = random.Random()
    loads: list[Load] = []
    program = run_program()
    program.register("demo")

    for round in range(ROUNDS):
        load = Load(program, round)
        load.run_and_kill(chance.uniform(0.05, 0.5))
        loads.append(load)
        program = run_program()
        with program.client("demo") as client:
            for each in loads:
                assert each.odd == []
                assert each.lost(client) == []
            assert int(client.get("/extensions/demo").json()["revision"]) >= max(load.revisions)
        recount(tmp_path / "db" / "demo.db")

    numbers = [number for each in loads for number in each.revisions]
    assert len(set(numbers)) == len(numbers)
    assert program.stop() == 0
    recount(tmp_path / "db" / "demo.db")
