"""
Errors that stop the server from starting. The command line prints them; HTTP never does.
"""

from __future__ import annotations

from typing import ClassVar


class StartupError(Exception):
    """The server could not start."""

    exit_code: ClassVar[int] = 1
    hint: ClassVar[str | None] = None


class PortUnusable(StartupError):
    """The server cannot listen on this port."""

    hint = "Choose another port with `--port`; 0 picks a free one."


class RegistryUnusable(StartupError):
    """The registry of the data directory cannot be used."""

    hint = (
        "It is left as it is. Move it away, with what lies beside it (`-wal`, `-shm`): the next "
        "start makes another one of the databases that are there."
    )


class DataDirectoryInUse(StartupError):
    """Another server is using the data directory."""

    exit_code = 3
    hint = "Stop that server first, or give this one a `--data-dir` of its own."


class DatabaseInUse(StartupError):
    """Another server is using the PostgreSQL database."""

    exit_code = 3
    hint = "Stop that server first, or give this one a `--database` of its own."


class TokenNeeded(StartupError):
    """Everybody who can reach the server could use it."""

    hint = "Make a token first: `valuetracker token create --name me --admin`."
