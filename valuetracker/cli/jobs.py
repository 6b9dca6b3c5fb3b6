"""
Waiting for a job of the server, with its progress.
"""

from __future__ import annotations

import time
from typing import Any

from valuetracker.cli.connection import Server
from valuetracker.cli.failure import Failure, Refused
from valuetracker.cli.output import progress

# How often the server is asked how far it is: first, and at most.
FIRST_SECONDS, LONGEST_SECONDS = 0.02, 0.5


def run_job(server: Server, begun: dict[str, Any], label: str, silent: bool) -> Any:
    """Wait until a job has ended, and return its result; raise if it failed."""
    pause = FIRST_SECONDS
    with progress(label, silent) as report:
        while True:
            job = server.get(f"/jobs/{begun['job']}")
            report(job["done"], job["total"])
            if job["status"] != "running":
                break
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_SECONDS)
    if job["status"] == "done":
        return job["result"]
    if job["error"] is None:
        raise Failure("The server has stopped before the job was done.")
    raise Refused(500, job["error"])
