"""
A real PostgreSQL for tests, which create, start, stop and remove it.

It listens on a Unix socket only. PostgreSQL refuses to run as root, so it gets a user of its
own if root runs the tests.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

PORT = 55432
# Without fsync a power cut loses data, but no way in which a test stops the server does.
QUICK = "-c fsync=off -c full_page_writes=off -c autovacuum=off"
USER = "valuetracker"


def binaries() -> Path:
    """Return the folder of `initdb` and `pg_ctl`, which Debian keeps out of the PATH."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    on_path = shutil.which("initdb")
    if on_path and not found:
        found.append(Path(on_path))
    assert found, "PostgreSQL is not installed; `make test` does that"
    return found[-1].parent


def unprivileged() -> list[str]:
    """Return the prefix of a command that must not run as root."""
    if os.geteuid() != 0:
        return []
    user = next(name for name in ("postgres", "nobody") if _user_exists(name))
    entry = pwd.getpwnam(user)
    return ["setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]


def _user_exists(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


class PostgresServer:
    """One cluster in a temporary directory."""

    def __init__(self) -> None:
        # Not in pytest's own folders, because only their owner may enter those.
        self.directory = Path(tempfile.mkdtemp(prefix="valuetracker-postgres-"))
        prefix = unprivileged()
        if prefix:
            user = int(prefix[1].split("=")[1])
            os.chown(self.directory, user, -1)
        self._run(
            "initdb",
            f"--pgdata={self.data}",
            f"--username={USER}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self, settings: str = QUICK) -> None:
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.directory} -c port={PORT} "
            # In the directory, because a server that is killed leaves its shared memory behind.
            f"-c dynamic_shared_memory_type=mmap -c max_connections=100 {settings}"
        )
        self._control("start", "-o", options)

    def stop(self, mode: str = "fast") -> None:
        self._control("stop", "-m", mode)

    def end(self) -> None:
        try:
            if (self.data / "postmaster.pid").exists():
                self.stop("immediate")
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def create_database(self) -> str:
        """Create an empty database and return its URL."""
        name = f"test_{secrets.token_hex(6)}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        self.execute(f"DROP DATABASE {urlsplit(url).path.removeprefix('/')}")

    def url(self, database: str, user: str = USER) -> str:
        return f"postgresql://{user}@/{database}?host={self.directory}&port={PORT}"

    def execute(self, statement: str, database: str = "postgres") -> str:
        return self._run(
            "psql",
            f"--host={self.directory}",
            f"--port={PORT}",
            f"--username={USER}",
            "--no-psqlrc",
            "--tuples-only",
            "--no-align",
            f"--command={statement}",
            database,
        )

    def _control(self, *arguments: str) -> None:
        log = self.directory / "log"
        self._run("pg_ctl", f"--pgdata={self.data}", f"--log={log}", "--wait", *arguments)

    def _run(self, program: str, *arguments: str) -> str:
        # A file, not a pipe: the server would hold the pipe open for as long as it runs.
        with tempfile.TemporaryFile("w+") as output:
            done = subprocess.run(
                [*unprivileged(), str(binaries() / program), *arguments],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=120,
                check=False,
            )
            output.seek(0)
            said = output.read()
        assert done.returncode == 0, f"{program}: {said}"
        return said.strip()
