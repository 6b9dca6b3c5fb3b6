"""
Commands that change values: setting one, restoring the past, folding the log.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from valuetracker.cli.connection import Target, connecting, part
from valuetracker.cli.output import Output, as_json, confirm, dump, note, printing, yes_option
from valuetracker.cli.reading import chat_option, holder_path

# A change on the command line is a person's change.
BY_A_PERSON = {"x-actor": "user", "content-type": "application/json"}


@click.command("set")
@click.argument("extension")
@click.argument("id")
@click.argument("key")
@click.argument("value")
@chat_option
@click.option("--text", "as_text", is_flag=True, help="VALUE is a text, not JSON.")
@connecting
@printing
def set_command(
    extension: str,
    id: str,
    key: str,
    value: str,
    is_chat: bool,
    as_text: bool,
    target: Target,
    output: Output,
) -> None:
    """
    Set a KEY of the instance or chat ID to a VALUE.

    VALUE is JSON: 5, "five", [5], {"a": 5}. With `--text` it is a text as it stands. `-` reads
    it from standard input.
    """
    if value == "-":
        value = read_input()
    content = dump(value) if as_text else check_json(value)
    # The text itself is sent, so that no number is rounded on the way.
    body = f'{{"key": {dump(key)}, "value": {content}}}'.encode()
    with target.open() as server:
        path = holder_path(id, is_chat) + "/data"
        done = server.send("POST", path, extension, content=body, headers=BY_A_PERSON)
    if output.form in ("json", "nl"):
        output.record(done)
    else:
        note(f"Set {key} of {id}.", target.silent)


def read_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise click.UsageError("Standard input must be UTF-8.") from None


def check_json(text: str) -> str:
    """Return a text that is JSON; the server checks the rest."""

    def refuse(constant: str) -> Any:
        raise ValueError(constant)

    try:
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        raise click.UsageError(
            "VALUE is not JSON. A text needs quotes, as in '\"calm\"', or `--text`."
        ) from None
    return text


@click.command()
@click.argument("extension")
@click.argument("id")
@click.argument("revision", type=click.IntRange(0))
@chat_option
@click.option("--character", "is_character", is_flag=True, help="ID is a character.")
@click.option("--key", help="Restore this key only.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and list what would change.")
@yes_option
@connecting
@printing
def restore(
    extension: str,
    id: str,
    revision: int,
    is_chat: bool,
    is_character: bool,
    key: str | None,
    dry_run: bool,
    yes: bool,
    target: Target,
    output: Output,
) -> None:
    """
    Restore the instance, chat or character ID to its state at a REVISION.

    The restore is a new revision and can itself be undone. `history` shows the revisions.
    """
    if is_character and (is_chat or key is not None):
        raise click.UsageError("`--character` takes neither `--chat` nor `--key`.")
    path = f"/characters/{part(id)}" if is_character else holder_path(id, is_chat)
    if key is not None:
        path += f"/data/{part(key)}"
    path += "/restore"
    body = {"revision": revision, "dryRun": True}
    with target.open() as server:
        planned = server.send("POST", path, extension, body=body, headers=BY_A_PERSON)
        if dry_run:
            values = as_json("before"), as_json("after")
            output.rows(planned["changes"], "instanceId", "key", *values)
            return
        confirm(f"Restore {id} to revision {revision}? {planned['changed']} values change.", yes)
        body = {"revision": revision}
        done = server.send("POST", path, extension, body=body, headers=BY_A_PERSON)
    for warning in done["warnings"]:
        note(f"warning: {warning}", target.silent)
    output.record(done)


@click.command()
@click.argument("extension")
@click.option("--keep-revisions", type=click.IntRange(0), help="Keep this many revisions.")
@click.option("--keep-days", type=click.FloatRange(0), help="Keep this many days.")
@yes_option
@connecting
@printing
def compact(
    extension: str,
    keep_revisions: int | None,
    keep_days: float | None,
    yes: bool,
    target: Target,
    output: Output,
) -> None:
    """
    Fold the old part of the log of an EXTENSION.

    Present values and checkpoints stay. The past before the cutoff cannot be read any more.
    """
    if (keep_revisions is None) == (keep_days is None):
        raise click.UsageError("Say what to keep: either `--keep-revisions` or `--keep-days`.")
    keep = {"revisions": keep_revisions} if keep_days is None else {"days": keep_days}
    with target.open() as server:
        confirm(f"Fold the history of {extension}? That cannot be undone.", yes)
        output.record(server.send("POST", "/compact", extension, body={"keep": keep}))
