"""
Draw the rates at 16 connections: `python -m bench.plot results.json results.png`.

It runs in an environment of its own, which has matplotlib and nothing else of ours.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

COLUMNS = 3
COLOURS = {1: "#4c78a8", 100: "#f58518"}
SHOWN_CONNECTIONS = 16


def draw(results: dict[str, Any], path: Path) -> None:
    counts = {cell["connections"] for cell in results["cells"]}
    connections = SHOWN_CONNECTIONS if SHOWN_CONNECTIONS in counts else max(counts)
    cells = [cell for cell in results["cells"] if cell["connections"] == connections]
    workloads = list(dict.fromkeys(cell["workload"] for cell in cells))
    rows = -(-len(workloads) // COLUMNS)
    figure = Figure(figsize=(5.4 * COLUMNS, 3.4 * rows), layout="constrained")
    axes = figure.subplots(rows, COLUMNS, squeeze=False)
    for axis in axes.flat[len(workloads) :]:
        axis.set_visible(False)
    for axis, workload in zip(axes.flat, workloads, strict=False):
        draw_workload(axis, results, [each for each in cells if each["workload"] == workload])
        axis.set_title(results["workloads"][workload])
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    figure.suptitle(
        f"Requests per second at {connections} connections: median, range, "
        "and µs of processor time per request"
    )
    figure.savefig(path, dpi=110)


def draw_workload(axis: Any, results: dict[str, Any], cells: list[dict[str, Any]]) -> None:
    servers = [name for name in results["servers"] if name in {each["server"] for each in cells}]
    sizes = sorted({each["megabytes"] for each in cells})
    height = 0.8 / len(sizes)
    for number, size in enumerate(sizes):
        for place, server in enumerate(servers):
            found = [e for e in cells if (e["megabytes"], e["server"]) == (size, server)]
            if not found:
                continue
            rates, cpu = found[0]["rate"], median(found[0]["cpuUs"])
            middle = median(rates)
            at = place + (number - (len(sizes) - 1) / 2) * height
            axis.barh(
                at,
                middle,
                height,
                xerr=[[middle - min(rates)], [max(rates) - middle]],
                color=COLOURS.get(size, "#999999"),
                error_kw={"elinewidth": 0.8, "ecolor": "#333333"},
                label=f"{size} MB" if place == 0 else None,
            )
            axis.text(max(rates), at, f" {cpu:,.0f} µs", va="center", fontsize=7)
    axis.set_yticks(range(len(servers)), [results["servers"][each] for each in servers])
    axis.invert_yaxis()
    axis.margins(x=0.16)
    axis.xaxis.set_major_locator(MaxNLocator(5))
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    source, target = map(Path, sys.argv[1:])
    draw(json.loads(source.read_text(encoding="utf-8")), target)


if __name__ == "__main__":
    main()
