"""
`valuetracker backup …`: making, listing, verifying, restoring and deleting backups.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from dataclasses import replace
from pathlib import Path

import click

from valuetracker import durable
from valuetracker.cli.connection import Server, Target, connecting, part
from valuetracker.cli.failure import Failure
from valuetracker.cli.jobs import run_job
from valuetracker.cli.output import Output, Row, confirm, note, printing, yes_option


@click.group()
def backup() -> None:
    """
    Make, list, verify, restore and delete backups of all extensions.

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


@backup.command("restore")
@click.argument("backup_", metavar="NAME|PATH")
@click.option("--extension", help="Only this extension.")
@click.option("--force", is_flag=True, help="Replace extensions that are there.")
@yes_option
@connecting
@printing
def restore_backup(
    backup_: str,
    extension: str | None,
    force: bool,
    yes: bool,
    target: Target,
    output: Output,
) -> None:
    """
    Restore a backup, by its NAME or the PATH of its folder.

    With `--user` it restores the extensions of that user only. What is replaced is kept in the
    folder `trash` of the data directory. The server may run meanwhile.
    """
    body = {"extensionId": extension, "user": target.user, "force": force}
    with replace(target, user=None).open(create=True) as server:
        name = take_in(Path(backup_), server, target) if is_path(backup_) else backup_
        if force:
            what = f"the extension {extension}" if extension else "all extensions"
            confirm(f"Replace {what} with the state of {name}?", yes)
        given = {key: value for key, value in body.items() if value is not None}
        begun = server.send("POST", f"/backup/{part(name)}/restore", body=given)
        done = run_job(server, begun, "Restoring", target.silent)
    output.rows(done["extensions"], "id", "user", "revision", "incarnation", "replaced")


def is_path(text: str) -> bool:
    # Windows has two separators.
    return os.sep in text or (os.altsep is not None and os.altsep in text)


def take_in(path: Path, server: Server, target: Target) -> str:
    """Copy the folder of a backup to where the server has its backups; return its name."""
    if target.url is not None:
        raise click.UsageError("A PATH works with the server of this machine, without `--url`.")
    try:
        manifest = (path / "manifest.json").read_bytes()
        name = str(json.loads(manifest)["name"])
    except (OSError, ValueError, KeyError, TypeError):
        raise Failure(f"{path} is no backup: its manifest cannot be read.") from None
    settings = {each["name"]: each["value"] for each in server.get("/settings")}
    folder = Path(settings["backup_dir"] or target.data_dir / "backups")
    if not re.fullmatch(r"[0-9TZ-]+-[a-z]+", name):
        raise Failure(f"{path} is no backup: {name} is no name of one.")
    if (folder / name).exists():
        if not has_manifest(folder / name, manifest):
            raise Failure(
                f"{folder / name} is another backup of the same name. Move it away first."
            )
        return name
    unfinished = folder / f".new-{secrets.token_hex(8)}"
    try:
        durable.make_folders(folder)
        shutil.copytree(path, unfinished)
        for each in unfinished.rglob("*"):
            if each.is_file():
                durable.sync_file(each)
        durable.rename(unfinished, folder / name)
    except OSError as error:
        raise Failure(f"{path} cannot be copied to {folder}: {error}.") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return name


def has_manifest(folder: Path, manifest: bytes) -> bool:
    try:
        return (folder / "manifest.json").read_bytes() == manifest
    except OSError:
        return False


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
