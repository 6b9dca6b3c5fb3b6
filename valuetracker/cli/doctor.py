"""
`valuetracker doctor`: what is wrong, and the command that mends it.
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
import sqlite3
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from valuetracker import __version__
from valuetracker.bridge.configuration import configuration, is_sillytavern
from valuetracker.cli.connection import Server, Target, connecting
from valuetracker.cli.failure import FOUND_WRONG, Failure
from valuetracker.cli.output import Output, printable, printing
from valuetracker.cli.sillytavern import advice, find_status
from valuetracker.errors import DataDirectoryInUse, StartupError, ValueTrackerError
from valuetracker.http.run_file import NAME as RUN_FILE
from valuetracker.http.run_file import read_run
from valuetracker.http.tokens import TokenFile
from valuetracker.names import DEFAULT_USER
from valuetracker.settings import Settings

OK, WARNING, WRONG = "ok", "warning", "wrong"
COLOURS = {OK: "green", WARNING: "yellow", WRONG: "red"}
# Below these the disk is full, or will be soon.
FULL_BYTES, SCARCE_BYTES = 64 << 20, 1 << 30
OLD_BACKUP = timedelta(days=2)
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and the command that mends it."""

    check: str
    status: str
    message: str
    fix: str | None = None


@click.command()
@click.argument("sillytavern", required=False, type=click.Path(path_type=Path))
@connecting
@printing
def doctor(sillytavern: Path | None, target: Target, output: Output) -> None:
    """
    Look for what is wrong, and say how to mend it.

    SILLYTAVERN is the folder with server.js; it is found in SILLYTAVERN_PATH or ~/SillyTavern if
    it is there. The exit code is 1 if something is wrong.
    """
    found = list(examine(target, sillytavern))
    if output.form == "table":
        for each in found:
            show(each)
    else:
        output.rows([asdict(each) for each in found], "check", "status", "message", "fix")
    if any(each.status == WRONG for each in found):
        sys.exit(FOUND_WRONG)


def show(finding: Finding) -> None:
    status: str = finding.status
    if not os.environ.get("NO_COLOR"):
        status = click.style(status, fg=COLOURS[status])
    blanks = " " * (8 - len(finding.status))
    click.echo(f"{status}{blanks}{finding.check}: {printable(finding.message)}")
    if finding.fix:
        click.echo(f"        mend it: {printable(finding.fix)}")


def examine(target: Target, sillytavern: Path | None) -> Iterator[Finding]:
    python = f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}"
    yield Finding("python", OK, f"Value Tracker {__version__}, Python {python}.")
    if target.url is None:
        yield from examine_folder(target.data_dir)
        yield from examine_run(target)
    yield from examine_data(target)
    yield from examine_sillytavern(sillytavern)


# The data directory


def examine_folder(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding(
            "data directory",
            WARNING,
            f"{folder} does not exist yet.",
            "valuetracker serve, or name another one with --data-dir",
        )
        return
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        yield Finding(
            "data directory", WRONG, f"{folder} cannot be written.", f"chmod u+rwx {folder}"
        )
        return
    yield from examine_permissions(folder)
    free = shutil.disk_usage(folder).free
    status = WRONG if free < FULL_BYTES else WARNING if free < SCARCE_BYTES else OK
    fix = None if status == OK else "Delete what is not needed, such as old backups and trash/."
    yield Finding("disk", status, f"{free / 1e9:.1f} GB are free for {folder}.", fix)
    try:
        tokens = TokenFile(folder).load()
        yield Finding("tokens", OK, f"{len(tokens)} tokens.")
    except StartupError as error:
        yield Finding(
            "tokens", WRONG, str(error), f"Remove {folder / '.tokens.json'} and make new tokens."
        )


def examine_permissions(folder: Path) -> Iterator[Finding]:
    if os.name != "posix":
        return
    # `.new-…` are gone in a moment, and so are the files that SQLite keeps beside its own.
    open_files = [
        each.name
        for each in sorted(folder.iterdir())
        if each.name.startswith((".registry", ".tokens", RUN_FILE)) or each.suffix == ".db"
        if is_open_to_others(each)
    ]
    if is_open_to_others(folder):
        yield Finding("permissions", WRONG, f"Others can read {folder}.", f"chmod 700 {folder}")
    elif open_files:
        names = ", ".join(open_files[:5])
        fix = f"chmod 600 {' '.join(str(folder / name) for name in open_files[:5])}"
        yield Finding("permissions", WRONG, f"Others can read {names}.", fix)
    else:
        yield Finding("permissions", OK, f"Nobody else can read {folder}.")


def is_open_to_others(path: Path) -> bool:
    try:
        return bool(stat.S_IMODE(path.stat().st_mode) & OTHERS)
    except FileNotFoundError:
        return False


# The server


def examine_run(target: Target) -> Iterator[Finding]:
    noted = read_run(target.data_dir)
    try:
        run = target.find_run()
    except Failure as error:
        yield Finding("server", WRONG, str(error), f"Stop the process {noted and noted.pid}.")
        return
    if run is None:
        if noted is not None:
            yield Finding(
                "server",
                WARNING,
                f"The server with the process id {noted.pid} did not stop cleanly.",
                "valuetracker serve",
            )
        yield examine_port(Settings.from_environment().port)
        return
    if run.version != __version__:
        yield Finding(
            "server",
            WRONG,
            f"{run.version} runs at {run.url}, but {__version__} is installed.",
            f"Restart the server (process {run.pid}), or SillyTavern if that has started it.",
        )
    else:
        yield Finding("server", OK, f"It runs at {run.url} (process {run.pid}).")


def examine_port(port: int) -> Finding:
    try:
        with socket.socket() as listener:
            if os.name == "posix":
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(("127.0.0.1", port))
    except OSError as error:
        return Finding(
            "port",
            WARNING,
            f"No server runs here, and port {port} is not free: {error.strerror}.",
            "valuetracker serve --port 0",
        )
    return Finding("port", OK, f"No server runs, and port {port} is free.")


# The databases


def examine_data(target: Target) -> Iterator[Finding]:
    if target.url is None and not target.database and not target.data_dir.is_dir():
        return
    try:
        with target.open(create=bool(target.database)) as server:
            yield from examine_extensions(server, target.user or DEFAULT_USER)
            yield from examine_backups(server)
    except (Failure, StartupError, ValueTrackerError) as error:
        hint = error.advice if isinstance(error, ValueTrackerError) else error.hint
        status = WARNING if isinstance(error, DataDirectoryInUse) else WRONG
        yield Finding("databases", status, str(error), hint)
        return
    if target.url is None and target.user is None and not target.database:
        yield from examine_users(target)


def examine_users(target: Target) -> Iterator[Finding]:
    """Look at the data of the other users as well."""
    for registry in sorted((target.data_dir / ".users").glob("*/.registry.db")):
        user = registry.parent.name
        try:
            with replace(target, user=user).open() as server:
                yield from examine_extensions(server, user)
        except (Failure, StartupError, ValueTrackerError, click.UsageError) as error:
            yield Finding(f"databases of {user}", WRONG, str(error))


def examine_extensions(server: Server, user: str) -> Iterator[Finding]:
    check = "databases" if user == DEFAULT_USER else f"databases of {user}"
    found = server.get("/extensions")
    damaged = [each for each in found if each["status"] not in ("ok", "verifying")]
    for each in damaged:
        id = each["id"]
        yield Finding(
            check,
            WRONG,
            f"{id} ({each['path']}) cannot be used: {each['status']}.",
            f"valuetracker backup list, then restore {id} from the newest one that has it",
        )
    if not damaged:
        size = sum(each.get("bytes", 0) for each in found) / 1e6
        yield Finding(check, OK, f"{len(found)} extensions, {size:.1f} MB.")


def examine_backups(server: Server) -> Iterator[Finding]:
    health: dict[str, Any] = server.get("/healthz")["backup"]
    again = "valuetracker backup create"
    if health["error"]:
        yield Finding("backups", WRONG, f"The last try failed: {health['error']}", again)
    elif health["failed"]:
        message = f"The newest backup lacks {health['failed']} extensions."
        yield Finding("backups", WRONG, message, "valuetracker backup list")
    elif health["hook"]:
        message = f"The hook of the newest backup ended with {health['hook']}."
        yield Finding("backups", WRONG, message, "See --backup-hook.")
    elif health["lastAt"] is None:
        yield Finding("backups", WARNING, "There is no backup yet.", again)
    elif datetime.now(UTC) - datetime.fromisoformat(health["lastAt"]) > OLD_BACKUP:
        yield Finding("backups", WARNING, f"The newest is of {health['lastAt']}.", again)
    else:
        yield Finding("backups", OK, f"The newest is of {health['lastAt']}.")


# SillyTavern


def examine_sillytavern(path: Path | None) -> Iterator[Finding]:
    known = configuration(Settings.from_environment()).sillytaverns()
    root = path or next((each for each in known if is_sillytavern(each)), None)
    if root is None:
        return
    try:
        report, running = find_status(root.resolve(), None)
    except ValueTrackerError as error:
        yield Finding("sillytavern", WRONG, str(error), error.advice)
        return
    install = f"valuetracker sillytavern install {root} --enable-plugins"
    start = f"SillyTavern {report['sillytavern']} at {root}"
    if report["installed"] is None:
        yield Finding("sillytavern", WARNING, f"{start} has no plugin of Value Tracker.", install)
        return
    # One that does not run just now is not wrong.
    wrong = [each for each in advice(report, running) if "does not answer" not in each]
    for sentence in wrong:
        restart = "restart SillyTavern" in sentence
        yield Finding(
            "sillytavern", WRONG, sentence, "Restart SillyTavern." if restart else install
        )
    if not wrong:
        state = f"runs {report['running']}" if running["ok"] else "does not run"
        yield Finding("sillytavern", OK, f"{start} has {report['installed']}, and {state}.")
