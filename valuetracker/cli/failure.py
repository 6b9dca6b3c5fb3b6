"""
How a command fails: the error and its hint on standard error, and an exit code.
"""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from valuetracker.errors import StartupError, ValueTrackerError


def fail(error: StartupError | ValueTrackerError) -> NoReturn:
    """Print an error and its hint, and end the program."""
    hint = error.hint if isinstance(error, StartupError) else error.advice
    click.echo(f"error: {error}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    sys.exit(error.exit_code if isinstance(error, StartupError) else 1)
