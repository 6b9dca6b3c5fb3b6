"""
Compare the server on PostgreSQL with the same server on SQLite files.

Both make every write durable before they answer it, and their files are on one disk. The
PostgreSQL is a private one, with the settings it comes with.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median

import psutil

from bench.children import Failure, running
from bench.peers.ours import serve
from bench.ways.api import EXTENSION, Api, check_reads, measure_writes
from bench.ways.rig import SETTLE_SECONDS, Comparison, Rig, in_turn, prepare
from bench.wrk import Measurement, measure
from tests.support.postgres import PORT, PostgresServer

CONNECTIONS = 16
# Writes per second; the goal is judged only on a machine where SQLite does so many.
GOAL = 2_500
WHERE_SQLITE_DOES = 5_000

# The longest path a socket may have, and the name that is appended to its folder.
LONGEST_PATH = 107
SOCKET = f"/valuetracker-postgres-12345678/.s.PGSQL.{PORT}.lock"


def compare(rig: Rig) -> list[Comparison]:
    writes = Comparison("postgres", "a write, PostgreSQL to SQLite", CONNECTIONS, writes=True)
    reads = Comparison("postgres", "read one key, the same", CONNECTIONS, writes=False)
    with private_postgres(rig) as postgres:
        url = postgres.create_database()
        if "off" in (postgres.execute("SHOW fsync"), postgres.execute("SHOW synchronous_commit")):
            raise Failure("This PostgreSQL does not make writes durable.")
        on_postgres = serve(rig.work / "postgres", "--database", url)
        with (
            running(rig.cores.server, serve(rig.work / "sqlite"), rig.work / "sqlite.log") as files,
            running(rig.cores.server, on_postgres, rig.work / "postgres.log") as schemas,
            closing(Api(files, EXTENSION)) as sqlite_api,
            closing(Api(schemas, EXTENSION)) as postgres_api,
        ):
            for api in (sqlite_api, postgres_api):
                prepare(api)
                check_reads(api)
            for number in range(1, rig.rounds + 1):
                for each, run in ((reads, read), (writes, write)):
                    ours, beside = partial(run, rig, postgres_api), partial(run, rig, sqlite_api)
                    each.add(*in_turn(number, ours, beside))
                rig.say(
                    f"postgres {number}/{rig.rounds}  writes {writes.measured[-1].rate:,.0f}/s, "
                    f"{writes.kept[-1]:.2f} of SQLite's  reads {reads.kept[-1]:.2f}"
                )
            for api in (sqlite_api, postgres_api):
                check_reads(api)
            rig.others.done_for_us += seconds_used(postgres)
        if not on_disk_of(postgres.directory, rig.work):
            writes.title += ", on another disk"
    writes.goal = f"≥ {GOAL:,}/s"
    if median(run.rate for run in writes.beside) >= WHERE_SQLITE_DOES:
        writes.met = median(run.rate for run in writes.measured) >= GOAL
    return [writes, reads]


def read(rig: Rig, api: Api) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    return measure(rig.cores.load, api.child, api.load("read"), CONNECTIONS, rig.seconds)


def write(rig: Rig, api: Api) -> Measurement:
    time.sleep(SETTLE_SECONDS)
    return measure_writes(rig.cores.load, api, api.load("write"), CONNECTIONS, rig.seconds)


@contextmanager
def private_postgres(rig: Rig) -> Iterator[PostgresServer]:
    """Put its files beside ours if PostgreSQL's user can reach them, else in the usual folder."""
    with tempfile.TemporaryDirectory(dir=rig.work.parent, prefix="pg-") as beside:
        before = tempfile.tempdir
        os.chmod(beside, 0o711)
        if reachable(Path(beside)) and len(beside + SOCKET) <= LONGEST_PATH:
            tempfile.tempdir = beside
        try:
            postgres = PostgresServer()
        except AssertionError as error:
            raise Failure(str(error)) from error
        finally:
            tempfile.tempdir = before
        # Its processes may use the whole machine, as those of a PostgreSQL usually do.
        own = os.sched_getaffinity(0)
        try:
            os.sched_setaffinity(0, {rig.cores.server, rig.cores.load})
            postgres.start(settings="")
            os.sched_setaffinity(0, own)
            yield postgres
        finally:
            os.sched_setaffinity(0, own)
            postgres.end()


def reachable(path: Path) -> bool:
    """True if any user may enter all folders on the path."""
    return os.geteuid() != 0 or all(each.stat().st_mode & 0o001 for each in (path, *path.parents))


def on_disk_of(path: Path, other: Path) -> bool:
    return path.stat().st_dev == other.stat().st_dev


def seconds_used(postgres: PostgresServer) -> float:
    """Return PostgreSQL's processor time; it works for us but is no child of ours."""
    pid = int((postgres.data / "postmaster.pid").read_text().split()[0])
    master = psutil.Process(pid)
    used = 0.0
    for process in (master, *master.children(recursive=True)):
        times = process.cpu_times()
        used += times.user + times.system
        if process == master:
            used += times.children_user + times.children_system
    return used
