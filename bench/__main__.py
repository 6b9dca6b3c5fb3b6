"""
Measure how fast the server is, beside other servers that store the same rows.

Machines differ, and so does one machine from minute to minute, so a rate alone says little.
Each round measures every server in turn. Only figures of the same round are compared, and the
median over the rounds counts. After that come figures of our server alone, and ways of using
it that are compared with each other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from bench.children import Cores, Failure
from bench.figures import measure_figures
from bench.goals import BELOW, verdicts
from bench.machine import ROOT, facts
from bench.options import FIGURES, Options, parse
from bench.others import Others
from bench.peers import OURS, PEERS
from bench.peers.store import CACHE as PEERS_CACHE
from bench.report import PLOT, markdown
from bench.results import Fall, Results, falls, to_json
from bench.rounds import Plan, compare_peers
from bench.ways import at, chats, checkpoints, feed, postgres
from bench.ways.rig import Comparison, Rig
from bench.workloads import WORKLOADS

CACHE = ROOT / ".cache"
# The results of complete runs are committed; those of others are not.
RECORDED = Path(__file__).resolve().parent
NOT_RECORDED = CACHE / "bench"
JSON = "results.json"
REPORT = "RESULTS.md"

WAYS: dict[str, Callable[[Rig], list[Comparison]]] = {
    "at": at.compare,
    "chats": chats.compare,
    "checkpoint": checkpoints.compare,
    "feed": feed.compare,
    "postgres": postgres.compare,
}


def say(text: str) -> None:
    print(text, flush=True)


def measure_all(given: Options, work: Path) -> Results:
    cores = Cores.available()
    # This process must not run on the server's core.
    os.sched_setaffinity(0, {cores.load})
    workloads = [WORKLOADS[name] for name in WORKLOADS if name in given.only]
    kinds = [OURS, *(PEERS[name] for name in given.peers)]
    results = Results(
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        given.rounds,
        given.seconds,
        facts(kinds),
        {kind.name: kind.title for kind in kinds},
        {each.name: each.title for each in WORKLOADS.values()},
        {kind.name: kind.durability for kind in kinds},
    )
    others = Others()
    if workloads:
        plan = Plan(
            cores,
            work,
            given.rounds,
            given.seconds,
            given.sizes,
            given.connections,
            workloads,
            kinds,
            say,
        )
        compare_peers(plan, results)
    if FIGURES in given.only:
        results.figures.update(measure_figures(cores, work, say))
    rig = Rig(cores, work, given.rounds, given.seconds, say, others)
    for name, compare_ways in WAYS.items():
        if name in given.only:
            results.ways += compare_ways(rig)
    results.others = others.cores_used()
    return results


def write(folder: Path, results: Results, fallen: list[Fall]) -> str:
    """Write JSON, plot and report; return the report."""
    folder.mkdir(exist_ok=True)
    data, plot = folder / JSON, folder / PLOT
    data.write_text(to_json(results), encoding="utf-8")
    if results.cells:
        python = str(PEERS_CACHE / "python" / "bin" / "python")
        subprocess.run([python, "-m", "bench.plot", str(data), str(plot)], cwd=ROOT, check=True)
    report = markdown(results, fallen, plot=bool(results.cells))
    (folder / REPORT).write_text(report, encoding="utf-8")
    return report


def main() -> int:
    given = parse(__doc__, WAYS)
    # So that a benchmark that is stopped ends its children, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    CACHE.mkdir(exist_ok=True)
    try:
        # Not in /tmp, which is often memory: the disk is part of what is measured.
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="bench-") as work:
            results = measure_all(given, Path(work))
    except Failure as failure:
        print(f"FAILED: {failure}", file=sys.stderr)
        return 1
    except FileNotFoundError as error:
        print(f"FAILED: {error.filename} is missing; `make bench` brings it.", file=sys.stderr)
        return 1
    recorded = RECORDED / JSON
    fallen: list[Fall] = []
    if recorded.exists():
        fallen = falls(results, recorded.read_text("utf-8"))
    else:
        say("There is no recorded run to compare with.")
    folder = RECORDED if given.complete else NOT_RECORDED
    say("\n" + write(folder, results, fallen))
    say(f"written to {folder}")
    below = any(each.verdict == BELOW for each in verdicts(results))
    return 1 if below or any(each.met is False for each in results.ways) else 0


if __name__ == "__main__":
    sys.exit(main())
