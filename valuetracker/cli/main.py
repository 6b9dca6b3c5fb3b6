"""
The command line: the group of all commands.

A command is a function, and its docstring is its help. Each group of commands has a file.
"""

from __future__ import annotations

import click

from valuetracker import __version__
from valuetracker.cli.docs import docs
from valuetracker.cli.serve import serve
from valuetracker.cli.sillytavern import sillytavern
from valuetracker.cli.token import token


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="valuetracker")
def main() -> None:
    """Value Tracker keeps the state of SillyTavern extensions."""


for command in (serve, token, docs, sillytavern):
    main.add_command(command)
