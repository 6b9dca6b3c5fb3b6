"""
The command line. A command is a function; its docstring is its help.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from valuetracker import __version__
from valuetracker.api import SECTIONS
from valuetracker.app import create_app, create_engine
from valuetracker.errors import StartupError
from valuetracker.log import configure_logging
from valuetracker.reference import api_markdown
from valuetracker.server import Server, listen
from valuetracker.settings import Setting, Settings, settings_table

LEVELS = ("debug", "info", "warning", "error")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="valuetracker")
def main() -> None:
    """Value Tracker keeps the state of SillyTavern extensions."""


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
        command = click.option(
            setting.flag,
            envvar=setting.variable,
            type=_type_of(setting),
            default=setting.default,
            multiple=setting.many,
            show_default=not setting.many,
            show_envvar=True,
            help=setting.help,
        )(command)
    return command


@main.command()
@setting_options
def serve(**given: Any) -> None:
    """
    Run the server until it is told to stop.

    Prints one line when it is ready. SIGTERM or SIGINT: finishes what is in flight, closes
    the databases, exits with 0.
    """
    settings = Settings(**given)
    configure_logging(settings.log_level)
    try:
        engine = create_engine(settings)
        # Before anything else: a second server must not get as far as the port.
        engine.hold()
        app = create_app(engine, settings)
        Server(app, settings, listen(settings.host, settings.port)).run_until_stopped()
    except StartupError as error:
        fail(error)


@main.command()
@click.option("--write", type=click.Path(path_type=Path), help="The file to write it to.")
def docs(write: Path | None) -> None:
    """Print API.md as the route table has it."""
    text = api_markdown(SECTIONS)
    if write is None:
        click.echo(text, nl=False)
    else:
        write.write_text(text, encoding="utf-8", newline="\n")


def fail(error: StartupError) -> NoReturn:
    click.echo(f"error: {error}", err=True)
    if error.hint:
        click.echo(f"hint: {error.hint}", err=True)
    sys.exit(error.exit_code)
