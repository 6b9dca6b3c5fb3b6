"""
The report: tables for people, in Markdown.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from bench.dataset import SIZES
from bench.goals import verdicts
from bench.peers import OURS
from bench.results import Cell, Fall, Results, Spread

PLOT = "results.png"
# The share of its core from which on wrk sets the pace.
WHOLE_CORE = 0.9


def markdown(results: Results, fallen: list[Fall], plot: bool) -> str:
    parts = [
        "# Benchmark results",
        f"Written by `make bench` on {results.date}. Rounds: {results.rounds}; each measurement "
        f"took {results.seconds} s. The server has one core and wrk another. Each round measures "
        "every server in turn, and ratios are those of one round. A figure is the median over "
        "the rounds, with the smallest and the largest in brackets. µs is processor time of the "
        "server per request: it holds on a noisy machine, where rates do not. "
        "≥ marks rates where wrk used its whole core, so that the server could have done more.",
    ]
    if plot:
        parts.append(f"![Requests per second and processor time]({PLOT})")
    parts += _goals(results)
    parts += _fallen(results, fallen)
    parts += _sizes(results)
    parts += _memory(results)
    parts += _ways(results)
    parts += _machine(results)
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns are aligned, so that it can be read as text."""
    lines = [head, *rows]
    widths = [max(3, *(len(line[column]) for line in lines)) for column in range(len(head))]
    text = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(text)


def _goals(results: Results) -> list[str]:
    rows = [
        (each.title, each.floor, each.aim, each.found, each.by_cpu, each.verdict)
        for each in verdicts(results)
    ]
    if not rows:
        return []
    return ["## Goals", _table(("", "floor", "aim", "measured", "by µs", ""), rows)]


def _fallen(results: Results, fallen: list[Fall]) -> list[str]:
    if not fallen:
        return []
    rows = [
        (
            SIZES[fall.cell.megabytes].title,
            f"c{fall.cell.connections}",
            results.workloads[fall.cell.workload],
            results.servers[fall.cell.server],
            f"{fall.recorded:.2f}",
            f"{fall.now:.2f}",
        )
        for fall in fallen
    ]
    head = ("size", "", "workload", "ours /", "recorded", "now")
    return ["## Ratios that fell by more than 20 % since the recorded run", _table(head, rows)]


def _sizes(results: Results) -> list[str]:
    places = dict.fromkeys((cell.megabytes, cell.connections) for cell in results.cells)
    parts: list[str] = []
    for megabytes, connections in places:
        here = [each for each in results.cells if each[:2] == (megabytes, connections)]
        names = dict.fromkeys(cell.workload for cell in here)
        servers = dict.fromkeys(cell.server for cell in here)
        rates = [
            (
                results.workloads[name],
                *(_rate(results, Cell(megabytes, connections, name, each)) for each in servers),
            )
            for name in names
        ]
        peers = [each for each in servers if each != OURS.name]
        ratios = [
            (
                results.workloads[name],
                *(
                    _ratio(results.ratio(Cell(megabytes, connections, name, each)))
                    for each in peers
                ),
            )
            for name in names
        ]
        count = "1 connection" if connections == 1 else f"{connections} connections"
        parts += [
            f"## {SIZES[megabytes].title}, {count}",
            "Requests per second, and µs of processor time per request:",
            _table(("", *(results.servers[each] for each in servers)), rates),
        ]
        if peers:
            parts += [
                "Our rate as a multiple of the peer's:",
                _table(("", *(results.servers[each] for each in peers)), ratios),
            ]
    return parts


def _rate(results: Results, cell: Cell) -> str:
    runs = results.cells.get(cell)
    if not runs:
        return ""
    rate = Spread.of(run.rate for run in runs)
    at_least = "≥ " if median(run.load_busy for run in runs) >= WHOLE_CORE else ""
    return f"{at_least}{rate.text(0)}, {median(run.cpu_us or 0.0 for run in runs):.0f} µs"


def _ratio(ratio: Spread | None) -> str:
    return "" if ratio is None else ratio.text(2)


def _memory(results: Results) -> list[str]:
    sizes = list(results.adoptions)
    if not sizes:
        return []
    rows = [
        (
            results.servers[name],
            results.durability[name],
            *(_megabytes(results.memory.get((size, name))) for size in sizes),
        )
        for name in results.servers
    ]
    head = ("", "a write is", *(f"with {SIZES[size].title}" for size in sizes))
    files = [
        (
            SIZES[size].title,
            f"{each.seconds:.1f}",
            _megabytes(each.peak_bytes),
            _megabytes(each.bytes_before),
            _megabytes(each.bytes_after),
            _megabytes(results.file_bytes[size]),
        )
        for size, each in results.adoptions.items()
    ]
    return [
        "## Memory and files",
        "Memory (PSS) after all rounds, in MB:",
        _table(head, rows),
        "Our server adopts a file of the original plugin; sizes in MB:",
        _table(("", "seconds", "most memory (RSS)", "file", "adopted", "after the rounds"), files),
    ]


def _megabytes(value: int | None) -> str:
    return "" if value is None else f"{value / 1e6:,.1f}"


def _ways(results: Results) -> list[str]:
    if not results.ways:
        return []
    rows = [
        (
            each.title,
            f"c{each.connections}",
            f"{median(run.rate for run in each.measured):,.0f}",
            f"{Spread.of(each.values).text(2)} of the {each.quantity}",
            each.goal,
            "" if each.met is None else "reached" if each.met else "BELOW",
        )
        for each in results.ways
    ]
    head = ("", "", "per second", "measured", "goal", "")
    return ["## Ways of using our server, compared with each other", _table(head, rows)]


def _machine(results: Results) -> list[str]:
    facts = dict(results.machine)
    if results.syncs:
        disk = Spread.of(results.syncs)
        facts["disk"] = f"{disk.text(0)} writes of 4 KB with fdatasync a second"
    facts["others"] = f"other processes kept {results.others:.2f} cores busy"
    return ["## Machine", "\n".join(f"- {name}: {fact}" for name, fact in facts.items())]
