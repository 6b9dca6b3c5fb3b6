"""
The command line: the group of all commands.

A command is a function, and its docstring is its help. Each group of commands has a file, which
is imported when one of its commands is asked for: most need only a part of the program.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

from valuetracker import __version__
from valuetracker.cli.failure import Failure, fail
from valuetracker.errors import StartupError, ValueTrackerError

# The modules of the commands, in the order of the help.
COMMANDS = {
    "serve": "serve",
    "demo": "demo",
    "doctor": "doctor",
    "extensions": "reading",
    "characters": "reading",
    "instances": "reading",
    "chats": "reading",
    "get": "reading",
    "set": "writing",
    "history": "reading",
    "diff": "reading",
    "tail": "reading",
    "restore": "writing",
    "export": "transfer",
    "import": "transfer",
    "backup": "backup",
    "verify": "verify",
    "compact": "writing",
    "token": "token",
    "sillytavern": "sillytavern",
    "completion": "completion",
    "docs": "docs",
}


class Commands(click.Group):
    """A group that imports a command when it is needed, and prints its errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = import_module(f"valuetracker.cli.{COMMANDS[name]}")
        # `set` and `import` are words of Python.
        command: click.Command = getattr(module, f"{name}_command", None) or getattr(module, name)
        return command

    def main(self, *arguments: Any, **given: Any) -> Any:
        # Set by the scripts of `valuetracker completion`.
        if "_VALUETRACKER_COMPLETE" in os.environ:
            from valuetracker.cli.completion import add_shells

            add_shells()
        return super().main(*arguments, **given)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (StartupError, ValueTrackerError, Failure) as error:
            fail(error)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="valuetracker")
def main() -> None:
    """Value Tracker keeps the state of SillyTavern extensions."""
