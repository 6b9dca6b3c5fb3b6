"""
`valuetracker backup …`: making, listing, verifying and deleting backups.
"""

from __future__ import annotations

import click

from valuetracker.cli.connection import Target, connecting, part
from valuetracker.cli.failure import Failure
from valuetracker.cli.jobs import run_job
from valuetracker.cli.output import Output, Row, confirm, note, printing, yes_option


@click.group()
def backup() -> None:
    """
    Make, list, verify and delete backups of all extensions.

    The running server makes one every night. These commands work with and without a server.
    """


def extension_names(row: Row) -> str:
    return " ".join(each["id"] for each in row["extensions"])


def failure_names(row: Row) -> str:
    return " ".join(each["id"] for each in row["failed"])


COLUMNS = (
    "name", "kind", ("extensions", extension_names), "bytes", ("failed", failure_names), "hook",
)  # fmt: skip


@backup.command("create")
@connecting
@printing
def create_backup(target: Target, output: Output) -> None:
    """
    Back up all extensions of all users, while they are in use.

    The exit code is 1 if an extension could not be backed up; the others are.
    """
    with target.open() as server:
        made = run_job(server, server.send("POST", "/backup"), "Backing up", target.silent)
    output.rows([made], *COLUMNS)
    for each in made["failed"]:
        note(f"{each['id']}: {each['error']}", target.silent)
    if made["failed"]:
        raise Failure(f"{len(made['failed'])} extensions could not be backed up.")


@backup.command("list")
@connecting
@printing
def list_backups(target: Target, output: Output) -> None:
    """List the backups, the newest first."""
    with target.open() as server:
        output.rows(server.get("/backup"), *COLUMNS)


@backup.command("verify")
@click.argument("name")
@connecting
@printing
def verify_backup(name: str, target: Target, output: Output) -> None:
    """
    Verify the backup NAME: every file, as when it is opened.

    The exit code is 1 if something is wrong.
    """
    with target.open() as server:
        begun = server.send("POST", f"/backup/{part(name)}/verify")
        found = run_job(server, begun, "Verifying", target.silent)
    output.record(found)
    if not found["sound"]:
        raise Failure(f"The backup {name} is damaged.")


@backup.command("delete")
@click.argument("name")
@yes_option
@connecting
def delete_backup(name: str, yes: bool, target: Target) -> None:
    """Delete the backup NAME."""
    with target.open() as server:
        confirm(f"Delete the backup {name}?", yes)
        server.send("DELETE", f"/backup/{part(name)}")
    note(f"Deleted {name}.", target.silent)
