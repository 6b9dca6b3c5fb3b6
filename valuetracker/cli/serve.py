"""
`valuetracker serve`: the server, with a flag for each setting.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from valuetracker.app import create_app
from valuetracker.cli.failure import fail
from valuetracker.errors import StartupError
from valuetracker.http.server import Server, listen
from valuetracker.logging_setup import configure_logging
from valuetracker.settings import Setting, Settings, settings_table


def type_of(setting: Setting) -> Any:
    if setting.choices:
        return click.Choice(setting.choices, case_sensitive=False)
    if setting.kind is int:
        return click.IntRange(0, setting.largest)
    return click.Path(path_type=Path) if setting.kind is Path else setting.kind


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command an option, with its environment variable, for each setting."""
    for setting in reversed(settings_table()):
        if setting.secret:
            continue
        # A switch takes no value on the command line; its variable is 1 or 0.
        kind = {"is_flag": True} if setting.kind is bool else {"type": type_of(setting)}
        command = click.option(
            setting.flag,
            envvar=[setting.variable, setting.also] if setting.also else setting.variable,
            **kind,
            default=setting.default,
            multiple=setting.many,
            show_default=not setting.many,
            show_envvar=True,
            help=setting.help,
        )(command)
    return command


def secret_settings() -> dict[str, Any]:
    """Return the settings that are read from the environment only."""
    return {each.name: each.read(os.environ) for each in settings_table() if each.secret}


@click.command()
@setting_options
def serve(**given: Any) -> None:
    """
    Run the server until it is told to stop.

    Prints one line when it is ready. SIGTERM or SIGINT: finishes the requests in progress,
    closes the databases, exits with 0.
    """
    settings = Settings(**given, **secret_settings())
    configure_logging(settings.log_level)
    try:
        app = create_app(settings)
        # Lock the data directory before the port is taken: of a second server the lock is
        # the error to report.
        app.state.engine.lock()
        Server(app, settings, listen(settings.host, settings.port)).run_until_stopped()
    except StartupError as error:
        fail(error)
