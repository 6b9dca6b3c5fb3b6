"""
`valuetracker verify`: compares all that an extension has with its log.
"""

from __future__ import annotations

from typing import Any

import click

from valuetracker.cli.connection import Server, Target, connecting
from valuetracker.cli.failure import Failure, Refused
from valuetracker.cli.jobs import run_job
from valuetracker.cli.output import Output, note, printing

COLUMNS = ("extension", "sound", "revision", "rows", "entries", "checkpoints")


@click.command()
@click.argument("extension", required=False)
@connecting
@printing
def verify(extension: str | None, target: Target, output: Output) -> None:
    """
    Verify an EXTENSION, or all of them, completely.

    Pages and indexes, every checksum, the log of every key against its value, and every
    checkpoint. Nothing is changed. The exit code is 1 if something is wrong.
    """
    with target.open() as server:
        ids = [extension] if extension else [each["id"] for each in server.get("/extensions")]
        found = [verified(server, id, target.silent) for id in ids]
    output.rows(found, *COLUMNS)
    damaged = [each["extension"] for each in found if not each["sound"]]
    for each in found:
        for finding in each["findings"]:
            note(f"{each['extension']}: {finding}", target.silent)
    if damaged:
        raise Failure(
            f"Damaged: {', '.join(damaged)}.", "See `valuetracker backup list` for a good copy."
        )


def verified(server: Server, extension: str, silent: bool) -> Any:
    """Return the report of one extension; one that cannot be opened is reported as well."""
    try:
        begun = server.send("POST", "/verify", extension)
        return run_job(server, begun, f"Verifying {extension}", silent)
    except Refused as refusal:
        if refusal.code not in ("database_damaged", "database_missing"):
            raise
        return {"extension": extension, "sound": False, "findings": [str(refusal)]}
