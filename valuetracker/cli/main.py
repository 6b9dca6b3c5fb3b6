"""
The command line. A command is a function; its docstring is its help.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from valuetracker import __version__
from valuetracker.api import SECTIONS
from valuetracker.app import create_app, create_engine
from valuetracker.cli.sillytavern import sillytavern
from valuetracker.errors import StartupError, ValueTrackerError
from valuetracker.http.server import Server, listen
from valuetracker.http.tokens import TokenFile
from valuetracker.logging_setup import configure_logging
from valuetracker.reference.markdown import api_markdown
from valuetracker.settings import DEFAULT_DATA_DIR, Setting, Settings, settings_table

LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="valuetracker")
def main() -> None:
    """Value Tracker keeps the state of SillyTavern extensions."""


main.add_command(sillytavern)


def _type_of(setting: Setting) -> Any:
    if setting.name == "log_level":
        return click.Choice(LEVELS, case_sensitive=False)
    if setting.name == "port":
        return click.IntRange(0, 65535)
    if setting.kind is int:
        return click.IntRange(min=0)
    return click.Path(path_type=Path) if setting.kind is Path else setting.kind


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option, with its environment variable, for each setting."""
    for setting in reversed(settings_table()):
        if setting.secret:
            continue
        # A flag that is either there or not; its variable says 1 or 0.
        switch = {"is_flag": True} if setting.kind is bool else {"type": _type_of(setting)}
        command = click.option(
            setting.flag,
            envvar=[setting.variable, setting.also] if setting.also else setting.variable,
            **switch,
            default=setting.default,
            multiple=setting.many,
            show_default=not setting.many,
            show_envvar=True,
            help=setting.help,
        )(command)
    return command


def secret_settings() -> dict[str, Any]:
    """What is set in the environment alone, where others do not see it."""
    return {
        each.name: os.environ.get(each.variable, each.default)
        for each in settings_table()
        if each.secret
    }


@main.command()
@setting_options
def serve(**given: Any) -> None:
    """
    Run the server until it is told to stop.

    Prints one line when it is ready. SIGTERM or SIGINT: finishes what is in flight, closes
    the databases, exits with 0.
    """
    settings = Settings(**given, **secret_settings())
    configure_logging(settings.log_level)
    try:
        engine = create_engine(settings)
        # Before anything else: a second server must not get as far as the port.
        engine.lock()
        app = create_app(engine, settings)
        Server(app, settings, listen(settings.host, settings.port)).run_until_stopped()
    except StartupError as error:
        fail(error)


@main.group()
def token() -> None:
    """
    Make, list and revoke tokens.

    Once there is one, whoever uses the server needs one. A running server hears of changes
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
@click.option("--name", required=True, help="What or whom it is for.")
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

    It is sent as `Authorization: Bearer <token>`. Only its hash is kept.
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
    """List the tokens, without what they are sent as."""
    try:
        tokens = TokenFile(data_dir).load()
    except StartupError as error:
        fail(error)
    rows = [
        {
            "id": each.id,
            "name": each.name,
            "extensions": list(each.extensions),
            "readOthers": each.read_others,
            "admin": each.admin,
            "createdAt": each.created_at,
        }
        for each in tokens
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for each in tokens:
        scopes = ["admin"] * each.admin + ["read-others"] * each.read_others
        click.echo(f"{each.id}  {each.name}  {', '.join([*scopes, *each.extensions])}")


@token.command("revoke")
@data_dir_option
@click.argument("id")
def revoke_token(data_dir: Path, id: str) -> None:
    """Take a token back, by the id that `list` shows."""
    try:
        found = TokenFile(data_dir).revoke(id)
    except StartupError as error:
        fail(error)
    if not found:
        fail(StartupError(f"There is no token {id}."))


@main.command()
@click.option("--write", type=click.Path(path_type=Path), help="The file to write it to.")
def docs(write: Path | None) -> None:
    """Print API.md as the route table has it."""
    text = api_markdown(SECTIONS)
    if write is None:
        click.echo(text, nl=False)
    else:
        write.write_text(text, encoding="utf-8", newline="\n")


def fail(error: StartupError | ValueTrackerError) -> NoReturn:
    click.echo(f"error: {error}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    sys.exit(error.exit_code if isinstance(error, StartupError) else 1)
