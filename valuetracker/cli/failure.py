"""
How a command fails: the error and its hint on standard error, and an exit code.

0 is success, 1 something was found wrong, 2 a usage error (click's own), 3 the data is in use,
4 the API has refused, 5 the server cannot be reached. Errors and hints are those of the API.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, NoReturn

import click

from valuetracker.errors import StartupError, ValueTrackerError

FOUND_WRONG = 1
REFUSED = 4
UNREACHABLE = 5
# How many characters of an error's details are shown.
DETAILS_LENGTH = 2_000


class Failure(Exception):
    """A command cannot go on."""

    exit_code = FOUND_WRONG

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
        self.code: str | None = None
        self.details: dict[str, Any] = {}


class Unreachable(Failure):
    """The server cannot be reached, or has gone."""

    exit_code = UNREACHABLE


class Refused(Failure):
    """The API has refused a request."""

    exit_code = REFUSED

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body.get("error")), body.get("hint"))
        self.status = status
        self.code = body.get("code")
        self.details = body.get("details") or {}


def fail(error: StartupError | ValueTrackerError | Failure) -> NoReturn:
    """Print an error and its hint, and end the program."""
    hint = error.advice if isinstance(error, ValueTrackerError) else error.hint
    code = getattr(error, "code", None)
    click.echo(f"{paint('error:', 'red')} {error}" + (f" ({code})" if code else ""), err=True)
    if hint:
        click.echo(f"{paint('hint:', 'cyan')} {hint}", err=True)
    details = getattr(error, "details", None)
    if details:
        text = json.dumps(details, ensure_ascii=False)[:DETAILS_LENGTH]
        click.echo(f"details: {text}", err=True)
    sys.exit(getattr(error, "exit_code", FOUND_WRONG))


def paint(text: str, colour: str) -> str:
    """Colour a text for standard error; click removes colours where that is no terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour)
