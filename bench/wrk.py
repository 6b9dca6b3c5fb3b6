"""
Run wrk once, and read what it measured.

A run with a single answer other than a success, or a single socket error, is no
measurement: a server that refuses is fast.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.children import Child, Failure, environment, on_core
from valuetracker.settings import PREFIX

SCRIPT = Path(__file__).with_name("load.lua")
# How long after its time wrk may take to end.
PATIENCE_SECONDS = 30.0

_runs = itertools.count()


@dataclass(frozen=True)
class Load:
    """The request to send, the extension, and the number of instances it is spread over."""

    workload: str
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


def measure(core: int, child: Child, load: Load, connections: int, seconds: float) -> Measurement:
    salt = f"r{next(_runs)}"
    command = on_core(
        core,
        [
            *("wrk", "--threads", "1", "--latency", "--script", str(SCRIPT)),
            *("--connections", str(connections), "--duration", f"{seconds:g}s"),
            # A stalling disk shows in the rate; only a server that hangs is an error.
            *("--timeout", "20s", child.url, "--"),
            *(load.workload, PREFIX, load.extension, str(load.instances), salt),
            *(load.query, load.message),
        ],
    )
    place = f"{load.workload} with {connections} connections"
    try:
        run = subprocess.run(
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
    if run.returncode != 0:
        raise Failure(f"{place}: wrk failed.\n{run.stdout}{run.stderr}")
    found = json.loads(run.stdout.strip().rsplit("\n", 1)[-1])
    if found["refused"] or found["socket_errors"] or not found["requests"]:
        raise Failure(
            f"{place}: {found['refused']} answers were not successes, "
            f"{found['socket_errors']} socket errors, {found['requests']} requests.\n"
            f"{run.stdout}{child.log_tail()}"
        )
    return Measurement(
        requests=found["requests"],
        rate=found["requests"] / found["seconds"],
        p50_ms=found["p50_ms"],
        p99_ms=found["p99_ms"],
    )
