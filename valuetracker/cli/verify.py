"""
`valuetracker verify`: compares all that an extension has with its log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from valuetracker.cli.connection import Server, Target, connecting
from valuetracker.cli.failure import Failure, Refused
from valuetracker.cli.jobs import run_job
from valuetracker.cli.output import Output, note, printing
from valuetracker.names import DEFAULT_USER

COLUMNS = ("extension", "sound", "revision", "rows", "entries", "checkpoints")


@click.command()
@click.argument("extension", required=False)
@click.option(
    "--salvage",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what is intact of EXTENSION to a FILE for `import`, and list what is lost.",
)
@connecting
@printing
def verify(extension: str | None, file: Path | None, target: Target, output: Output) -> None:
    """
    Verify an EXTENSION, or all of them, completely.

    Pages and indexes, every checksum, the log of every key against its value, and every
    checkpoint. No value is changed. The exit code is 1 if something is wrong.

    `--salvage` needs an EXTENSION, and no server may use the data meanwhile.
    """
    if file is not None:
        salvage(extension, file, target, output)
        return
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
            f"Damaged: {', '.join(damaged)}.",
            "See `valuetracker backup list` for a good copy, or save the rest with `--salvage`.",
        )


def salvage(extension: str | None, file: Path, target: Target, output: Output) -> None:
    """Write what is intact of a damaged extension to a file, and say what is lost."""
    if extension is None or target.url is not None:
        raise click.UsageError("`--salvage` needs an EXTENSION, and files of this machine.")
    if file.exists():
        raise click.UsageError(f"{file} exists.")
    own = target.start_own()
    try:
        done = own.salvage(target.user or DEFAULT_USER, extension, file.resolve())
    except OSError as error:
        raise Failure(f"{file} cannot be written: {error.strerror}.") from error
    finally:
        own.close()
    output.record({**done})
    # Its history may have gaps, so only the state can be taken over.
    note(f"Import it: valuetracker import NEW-EXTENSION {file} --mode merge", target.silent)
    if done["lost"]:
        raise Failure(f"{len(done['lost'])} parts of {extension} are lost.")


def verified(server: Server, extension: str, silent: bool) -> Any:
    """Return the report of one extension; one that cannot be opened is reported as well."""
    try:
        begun = server.send("POST", "/verify", extension)
        return run_job(server, begun, f"Verifying {extension}", silent)
    except Refused as refusal:
        if refusal.code not in ("database_damaged", "database_missing"):
            raise
        return {"extension": extension, "sound": False, "findings": [str(refusal)]}
