"""
Run wrk once, and read what it measured.

A run with a single answer other than a success, or a single socket error, is no
measurement: a server that refuses is fast.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from bench.children import Child, Failure, environment, on_core

SCRIPT = Path(__file__).with_name("load.lua")
# How long after its time wrk may take to end.
PATIENCE_SECONDS = 30.0

# The values that a run writes begin with its number.
_runs = itertools.count(1)


@dataclass(frozen=True)
class Load:
    """The requests to send; see `load.lua`."""

    dialect: str
    workload: str
    prefix: str = ""
    extension: str = "-"
    instances: int = 1
    # Appended to the path where whole instances are read.
    query: str = ""
    # The message that writes are anchored to.
    message: str = ""


@dataclass(frozen=True)
class Measurement:
    """The result of one run of wrk."""

    requests: int
    rate: float
    p50_ms: float
    p99_ms: float
    # Processor time of the server; None where it was not measured.
    cpu_us: float | None = None
    bytes_per_request: float = 0.0
    # The share of its core that wrk used: near 1, the server could have done more.
    load_busy: float = 0.0
    # The first things written, as instance and key, and how their values begin.
    written: list[tuple[str, str]] = field(default_factory=list)
    mark: str = ""


def measure(core: int, child: Child, load: Load, connections: int, seconds: int) -> Measurement:
    run = next(_runs)
    command = on_core(
        core,
        [
            *("wrk", "--threads", "1", "--latency", "--script", str(SCRIPT)),
            *("--connections", str(connections), "--duration", f"{seconds}s"),
            # A stalling disk shows in the rate; only a server that hangs is an error.
            *("--timeout", "20s", child.url, "--", load.dialect, load.workload, load.prefix),
            *(load.extension, str(load.instances), str(run), load.query, load.message),
        ],
    )
    place = f"{load.workload} ({load.dialect}) with {connections} connections"
    used, load_used = child.cpu_seconds(), _seconds_of_ended_children()
    try:
        ended = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds + PATIENCE_SECONDS,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Failure(f"{place}: wrk did not end.") from None
    except FileNotFoundError as error:
        raise Failure(f"{error.filename} is not installed.") from None
    used = child.cpu_seconds() - used
    if ended.returncode != 0:
        raise Failure(f"{place}: wrk failed.\n{ended.stdout}{ended.stderr}")
    found = json.loads(ended.stdout.strip().rsplit("\n", 1)[-1])
    if found["refused"] or found["socket_errors"] or not found["requests"]:
        raise Failure(
            f"{place}: {found['refused']} answers were not successes, "
            f"{found['socket_errors']} socket errors, {found['requests']} requests.\n"
            f"{ended.stdout}{child.log_tail()}"
        )
    words = found["proofs"].split()
    return Measurement(
        requests=found["requests"],
        rate=found["requests"] / found["seconds"],
        p50_ms=found["p50_ms"],
        p99_ms=found["p99_ms"],
        cpu_us=used / found["requests"] * 1e6,
        bytes_per_request=found["bytes"] / found["requests"],
        written=list(zip(words[::2], words[1::2], strict=True)),
        mark=f"r{run}-",
        load_busy=(_seconds_of_ended_children() - load_used) / found["seconds"],
    )


def _seconds_of_ended_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
