"""
Numbers of our server alone that have a goal.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from urllib.request import Request, urlopen

import orjson

from bench.children import Child, Cores, running
from bench.dataset import KEYS, SIZES, values_of
from bench.peers.ours import file_bytes, make_original, serve
from bench.ways.api import Api, measure_writes
from bench.ways.serial import Connection, request
from valuetracker.settings import PREFIX

LOG_INSTANCES = 50
LOG_CONNECTIONS = 16
LOG_SECONDS = 3
# A value of 227 KB, and changes of 230 bytes.
CHANGE_BYTES = 230
CHANGED_LINES = 987
CHANGES = 100
OPENED = 11
EXTENSIONS = 1_000
WARM_REPEATS = 5
STARTS = 3
REST_SECONDS = 1.0
BACKUPS = 3
ALONE_SECONDS = 3.0
# So many writes are sent before it is looked if the backup is made.
WRITES_AT_ONCE = 20


def measure_figures(cores: Cores, work: Path, say: Callable[[str], None]) -> dict[str, float]:
    """Return the numbers by the names that `goals.py` has for them."""
    found = {
        "rest_memory": measure_rest(cores, work),
        "log_bytes": measure_log(cores, work),
        "open": measure_open(cores, work),
    }
    found["growth"], found["growth_share"] = measure_growth(cores, work)
    warm, first = measure_extensions(cores, work)
    found.update(extensions_warm=warm, extensions_first=first)
    found["backup_p99"] = measure_backup(cores, work)
    say("figures  " + "  ".join(f"{name} {value:.1f}" for name, value in found.items()))
    return found


def measure_rest(cores: Cores, work: Path) -> float:
    """Return the megabytes of a server with one empty extension."""
    with (
        running(cores.server, serve(work / "rest"), work / "rest.log") as child,
        closing(Api(child, "rest")) as api,
    ):
        api.register()
        time.sleep(REST_SECONDS)
        return child.memory() / 1e6


def measure_log(cores: Cores, work: Path) -> float:
    """Return how many bytes the file grows per change; each replaces a value as long."""
    data_dir = work / "log"
    with (
        running(cores.server, serve(data_dir), work / "log.log") as child,
        closing(Api(child, "log")) as api,
    ):
        api.register()
        for number in range(1, LOG_INSTANCES + 1):
            api.add_instance(number, values_of(number))
        load = api.load("write", LOG_INSTANCES)
        # Once beforehand, so that pages split and fill as they do later.
        measure_writes(cores.load, api, load, LOG_CONNECTIONS, 1)
        before, revision = file_bytes(data_dir / "log.db"), api.revision()
        measure_writes(cores.load, api, load, LOG_CONNECTIONS, LOG_SECONDS)
        return (file_bytes(data_dir / "log.db") - before) / (api.revision() - revision)


def measure_growth(cores: Cores, work: Path) -> tuple[float, float]:
    """
    Return the mebibytes that small changes of a large value take in the file, at the worst.

    Also as a share of what it would take to keep the whole value after each change.
    """
    lines = ["x" * (CHANGE_BYTES - 3)] * CHANGED_LINES
    ways: dict[str, Callable[[int, str], dict[str, Any]]] = {
        "patch": lambda number, line: {
            "value": [{"op": "replace", "path": f"/{number}", "value": line}]
        },
        "append": lambda number, line: {"value": line},
        "merge": lambda number, line: {"value": {f"line {number}": line}},
    }
    grown: list[int] = []
    for op, operand in ways.items():
        data_dir = work / f"growth-{op}"
        value = dict(zip(map("line {}".format, range(CHANGED_LINES)), lines, strict=True))
        whole = {"key": "k", "value": value if op == "merge" else lines}
        sizes: list[int] = []
        for step in range(2):
            with (
                running(cores.server, serve(data_dir), work / "growth.log") as child,
                closing(Connection(child)) as connection,
            ):
                if not step:
                    register(connection, ["growth"])
                    instance = {"id": "i", "characterId": "c"}
                    connection.ask(request("POST", "/instances", "growth", instance))
                    connection.ask(request("POST", "/instances/i/data", "growth", whole))
                for number in range(CHANGES * step):
                    line = f"{number} ".ljust(CHANGE_BYTES - 30, "y")
                    change = {"op": op, "instanceId": "i", "key": "k", **operand(number, line)}
                    body = {"operations": [change]}
                    connection.ask(request("POST", "/batch", "growth", body))
            # After a clean stop.
            sizes.append(file_bytes(data_dir / "growth.db"))
        grown.append(sizes[1] - sizes[0])
    whole_bytes = CHANGES * CHANGED_LINES * CHANGE_BYTES
    return max(grown) / 2**20, max(grown) / whole_bytes


def measure_open(cores: Cores, work: Path) -> float:
    """Return the milliseconds of the first read of a 1 MB file by a new process."""
    data_dir = work / "open"
    data_dir.mkdir()
    names = [f"open{number}" for number in range(OPENED)]
    for name in names:
        make_original(data_dir / f"{name}.db", SIZES[1])
    with (
        running(cores.server, serve(data_dir), work / "open.log") as child,
        closing(Connection(child)) as connection,
    ):
        register(connection, names)
    for name in names:
        # As if a copy had been put there: it cannot count as verified.
        os.utime(data_dir / f"{name}.db")
    with (
        running(cores.server, serve(data_dir), work / "open.log") as child,
        closing(Connection(child)) as connection,
    ):
        path = f"/instances/i1/data/k{KEYS}"
        times = [timed(connection, request("GET", path, name)) for name in names]
        # The first one is the server's first request at all.
        return median(times[1:])


def measure_extensions(cores: Cores, work: Path) -> tuple[float, float]:
    """Return the milliseconds of listing many extensions: again, and as the first request."""
    data_dir = work / "extensions"
    names = [f"extension-{number}" for number in range(EXTENSIONS)]
    ask = request("GET", "/extensions", names[0])
    with (
        running(cores.server, serve(data_dir), work / "extensions.log") as child,
        closing(Connection(child)) as connection,
    ):
        register(connection, names)
    first: list[float] = []
    warm: list[float] = []
    for _ in range(STARTS):
        with (
            running(cores.server, serve(data_dir), work / "extensions.log") as child,
            closing(Connection(child)) as connection,
        ):
            first.append(timed(connection, ask))
            warm += (timed(connection, ask) for _ in range(WARM_REPEATS))
    return median(warm), median(first)


def measure_backup(cores: Cores, work: Path) -> float:
    """Return how many times as long the 99th of 100 writes takes while 100 MB are backed up."""
    data_dir = work / "backup"
    data_dir.mkdir()
    make_original(data_dir / "big.db", SIZES[100])
    with (
        running(cores.server, serve(data_dir), work / "backup.log") as child,
        closing(Connection(child)) as connection,
    ):
        register(connection, ["big"])
        while b'"verifying"' in connection.ask(request("GET", "/extensions/big", "big")):
            time.sleep(0.1)
        path = f"/instances/i1/data/k{KEYS}"

        def write(times: list[float]) -> None:
            body = {"key": f"k{KEYS}", "value": f"{len(times)}"}
            times.append(timed(connection, request("POST", "/instances/i1/data", "big", body)))

        connection.ask(request("GET", path, "big"))
        ratios: list[float] = []
        for _ in range(BACKUPS):
            alone: list[float] = []
            during: list[float] = []
            end = time.perf_counter() + ALONE_SECONDS
            while time.perf_counter() < end:
                write(alone)
            job = begin_backup(child)
            while b'"running"' in connection.ask(request("GET", f"/jobs/{job}", "big")):
                for _ in range(WRITES_AT_ONCE):
                    write(during)
            ratios.append(p99(during) / p99(alone))
        return median(ratios)


def begin_backup(child: Child) -> str:
    with urlopen(Request(f"{child.url}{PREFIX}/backup", method="POST")) as answer:
        job: str = orjson.loads(answer.read())["job"]
        return job


def p99(times: list[float]) -> float:
    return quantiles(times, n=100, method="inclusive")[-1]


def register(connection: Connection, names: list[str]) -> None:
    for name in names:
        connection.ask(request("POST", "/register", name, {"extensionId": name}))


def timed(connection: Connection, message: bytes) -> float:
    """Send a request, and return how many milliseconds its answer took."""
    began = time.perf_counter()
    connection.ask(message)
    return (time.perf_counter() - began) * 1e3
