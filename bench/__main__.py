"""
Measure how fast the server is, as a share of what a bare ASGI application does on this machine.

Machines differ, and so does one machine from minute to minute, so a rate alone says little.
Each round measures the bare application and then this server. Only figures of the same round
and the same number of connections are compared. The median over the rounds counts. After
that, ways of using the server are compared with each other, in the same manner.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench import at, chats, checkpoints, feed, log, postgres
from bench.children import Child, Cores, Failure, running
from bench.disk import syncs_per_second
from bench.others import Others
from bench.report import Findings, document, missed, table
from bench.rig import SETTLE_SECONDS, Comparison, Rig, serve
from bench.sizes import compare
from bench.workloads import (
    CONNECTIONS,
    EXTENSION,
    HELLO,
    WORKLOADS,
    Api,
    Workload,
    check_reads,
    measure_workload,
    seed,
)
from bench.wrk import Load, measure

CACHE = Path(__file__).resolve().parent.parent / ".cache"
RESULT = CACHE / "bench.json"
SIZE = "size"
COMPARISONS: dict[str, Callable[[Rig], list[Comparison]]] = {
    "log": log.compare,
    "at": at.compare,
    "chats": chats.compare,
    "checkpoint": checkpoints.compare,
    "feed": feed.compare,
    "postgres": postgres.compare,
}

DISK_SECONDS = 2.0
# Time for memory use to settle.
REST_SECONDS = 1.0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=_positive, default=5, help="how often (default 5)")
    parser.add_argument(
        "--seconds", type=_positive, default=2, help="how long each measurement is (default 2)"
    )
    names = [each.name for each in WORKLOADS] + [SIZE, *COMPARISONS]
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        default=names,
        help=f"some of {','.join(names)}, separated by commas",
    )
    given = parser.parse_args()
    for name in given.only:
        if name not in names:
            parser.error(f"there is no workload {name!r}, only {', '.join(names)}")
    return given


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1 is needed")
    return number


def say(text: str) -> None:
    print(text, flush=True)


def run_rounds(
    cores: Cores, findings: Findings, hello: Child, api: Api, chosen: list[Workload], disk: Path
) -> None:
    for number in range(1, findings.rounds + 1):
        syncs = syncs_per_second(disk, DISK_SECONDS / findings.rounds)
        findings.syncs.append(syncs)
        say(f"round {number}/{findings.rounds}  disk {syncs:,.0f}/s")
        if not chosen:
            continue
        for connections in CONNECTIONS:
            time.sleep(SETTLE_SECONDS)
            bare = measure(cores.load, hello, Load(HELLO.name), connections, findings.seconds)
            findings.add(HELLO.name, connections, bare)
            said = [f"hello {bare.rate:,.0f}/s"]
            for workload in chosen:
                time.sleep(SETTLE_SECONDS)
                found = measure_workload(cores.load, api, workload, connections, findings.seconds)
                findings.add(workload.name, connections, found)
                said.append(f"{workload.name} {found.rate / bare.rate:.2f}")
            say(f"  c{connections}  " + "  ".join(said))


def measure_all(given: argparse.Namespace, work: Path) -> Findings:
    cores = Cores.available()
    # This process must not run on the server's core.
    os.sched_setaffinity(0, {cores.load})
    findings = Findings(given.rounds, given.seconds)
    others = Others()
    data_dir = work / "data"
    chosen = [each for each in WORKLOADS if each.name in given.only]
    with (
        running(cores.server, ["bench.hello"], work / "hello.log") as hello,
        running(cores.server, serve(data_dir), work / "server.log") as ours,
        closing(Api(ours, EXTENSION)) as api,
    ):
        api.register()
        time.sleep(REST_SECONDS)
        findings.memory = ours.memory()
        seed(api)
        check_reads(api)
        run_rounds(cores, findings, hello, api, chosen, data_dir)
        check_reads(api)
        if SIZE in given.only:
            findings.sizes = compare(
                cores.load, ours, data_dir, findings.rounds, findings.seconds, say
            )
    rig = Rig(cores, work, findings.rounds, findings.seconds, say, others)
    for name, compare_ways in COMPARISONS.items():
        if name in given.only:
            findings.comparisons += compare_ways(rig)
    findings.others = others.cores_used()
    return findings


def main() -> int:
    given = options()
    # So that a benchmark that is stopped ends its children, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    CACHE.mkdir(exist_ok=True)
    # Nobody must mistake an old result for that of a run that failed.
    RESULT.unlink(missing_ok=True)
    try:
        # Not in /tmp, which is often memory: the disk is part of what is measured.
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as work:
            findings = measure_all(given, Path(work))
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    RESULT.write_text(json.dumps(document(findings), indent=2) + "\n", encoding="utf-8")
    say("\n" + table(findings))
    below = missed(findings)
    if below:
        names = ", ".join(
            f"{line.name} at c{line.connections}" if line.connections else line.name
            for line in below
        )
        say(f"below goal: {names}")
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
