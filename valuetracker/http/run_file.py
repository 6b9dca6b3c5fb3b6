"""
`.server.json`: where the server of a data directory answers, for programs of the same owner.

It has the URL, the process id, the version, and an admin token that is valid for this run. Only
the owner can read it. A server that stops removes it. That of a killed server stays, and is told
from a current one by its token: no other run accepts it.
"""

from __future__ import annotations

import logging
import os
import socket
from dataclasses import asdict, dataclass, field
from pathlib import Path

import orjson

from valuetracker import __version__, durable

logger = logging.getLogger(__name__)

NAME = ".server.json"
# The address by which a server that listens on all addresses is reached on its own machine.
OWN_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Run:
    """One run of a server."""

    url: str
    pid: int
    version: str
    # Not in logs, and not in tracebacks.
    token: str = field(repr=False)


def own_url(listener: socket.socket) -> str:
    """Return the URL that a listening socket is reached by on this machine."""
    host, port = listener.getsockname()[:2]
    host = OWN_ADDRESSES.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def write_run(directory: Path, listener: socket.socket, token: str) -> None:
    """Say where this server answers; one that cannot say it runs all the same."""
    run = Run(own_url(listener), os.getpid(), __version__, token)
    try:
        durable.make_folders(directory)
        durable.write_file(directory / NAME, orjson.dumps(asdict(run)))
    except OSError as error:
        logger.warning("the file .server.json was not written", extra={"cause": str(error)})


def remove_run(directory: Path, token: str) -> None:
    """Remove the file, unless another server has written it since."""
    run = read_run(directory)
    if run is not None and run.token == token:
        try:
            durable.remove_files([directory / NAME])
        except OSError as error:
            logger.warning("the file .server.json was not removed", extra={"cause": str(error)})


def read_run(directory: Path) -> Run | None:
    """Return what the file says; None if there is none, or nothing that can be understood."""
    try:
        found = orjson.loads((directory / NAME).read_bytes())
        run = Run(found["url"], found["pid"], found["version"], found["token"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    texts = (run.url, run.version, run.token)
    is_whole = all(isinstance(each, str) for each in texts) and isinstance(run.pid, int)
    return run if is_whole else None
