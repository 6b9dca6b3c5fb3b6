"""
`valuetracker docs`: the documentation of the API.
"""

from __future__ import annotations

from pathlib import Path

import click

from valuetracker.api import SECTIONS
from valuetracker.reference.markdown import api_markdown


@click.command()
@click.option("--write", type=click.Path(path_type=Path), help="The file to write it to.")
def docs(write: Path | None) -> None:
    """Print API.md, made from the route table."""
    text = api_markdown(SECTIONS)
    if write is None:
        click.echo(text, nl=False)
    else:
        write.write_text(text, encoding="utf-8", newline="\n")
