"""
`valuetracker token …`: making, listing and revoking tokens.
"""

from __future__ import annotations

import json
from pathlib import Path

import click

from valuetracker.cli.failure import fail
from valuetracker.errors import StartupError, ValueTrackerError
from valuetracker.http.tokens import TokenFile
from valuetracker.settings import DEFAULT_DATA_DIR


@click.group()
def token() -> None:
    """
    Make, list and revoke tokens.

    As soon as one token exists, every client needs one. A running server knows of changes
    within a second.
    """


data_dir_option = click.option(
    "--data-dir",
    envvar="VALUETRACKER_DATA_DIR",
    type=click.Path(path_type=Path),
    default=DEFAULT_DATA_DIR,
    show_default=True,
    show_envvar=True,
    help="Where the databases are kept.",
)


@token.command("create")
@data_dir_option
@click.option("--name", required=True, help="The person or program it is for.")
@click.option(
    "--extension", "extensions", multiple=True, help="An extension it may read and write."
)
@click.option("--read-others", is_flag=True, help="It may read all other extensions.")
@click.option("--admin", is_flag=True, help="It may do everything, on all extensions.")
def create_token(
    data_dir: Path, name: str, extensions: tuple[str, ...], read_others: bool, admin: bool
) -> None:
    """
    Make a token and print it, once.

    Clients send it as `Authorization: Bearer <token>`. Only its hash is stored.
    """
    if not (extensions or read_others or admin):
        raise click.UsageError("Say what it is for: --extension, --read-others or --admin.")
    try:
        _, text = TokenFile(data_dir).create(name, extensions, read_others, admin)
    except (StartupError, ValueTrackerError) as error:
        fail(error)
    click.echo(text)


@token.command("list")
@data_dir_option
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def list_tokens(data_dir: Path, as_json: bool) -> None:
    """List the tokens: id, name and scopes, but not the text that clients send."""
    try:
        tokens = TokenFile(data_dir).load()
    except StartupError as error:
        fail(error)
    if as_json:
        click.echo(json.dumps([each.record() for each in tokens], indent=2))
        return
    for each in tokens:
        scopes = ["admin"] * each.admin + ["read-others"] * each.read_others
        click.echo(f"{each.id}  {each.name}  {', '.join([*scopes, *each.extensions])}")


@token.command("revoke")
@data_dir_option
@click.argument("id")
def revoke_token(data_dir: Path, id: str) -> None:
    """Revoke a token, by the id that `list` shows."""
    try:
        found = TokenFile(data_dir).revoke(id)
    except StartupError as error:
        fail(error)
    if not found:
        fail(StartupError(f"There is no token {id}."))
