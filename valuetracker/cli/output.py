"""
How a command prints: a table on a terminal, plain lines in a pipe, or JSON, lines of JSON or CSV.

Results go to standard output; notes, progress and questions to standard error. rich is imported
where something is drawn on a terminal, because that takes longer than most commands.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import click

from valuetracker.cli.failure import paint

# Characters that control a terminal; values may contain any text.
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Row = dict[str, Any]
# A field of the rows, or a name and a function that makes the cell of a row.
Column = str | tuple[str, Callable[[Row], Any]]
Report = Callable[[int, int], None]


def dump(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def printable(text: str) -> str:
    """Return a text in which control characters are written out."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def cell(value: Any) -> str:
    """Return a value as a cell of a table: text as it is, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dump(value)


def name_of(column: Column) -> str:
    return column if isinstance(column, str) else column[0]


def find(row: Row, column: Column) -> Any:
    return row.get(column) if isinstance(column, str) else column[1](row)


def as_json(name: str) -> Column:
    """Return a column of values: a text has quotes, so that it differs from a number."""
    return name, lambda row: dump(row[name]) if name in row else None


class Output:
    """Prints the result of one command, as its options say."""

    def __init__(self, form: str | None) -> None:
        self.form = form or ("table" if sys.stdout.isatty() else "plain")

    def rows(self, rows: Iterable[Row], *columns: Column) -> None:
        """Print rows with these columns; JSON has all fields."""
        if self.form == "json":
            click.echo(dump(list(rows), indent=2))
        elif self.form == "nl":
            for row in rows:
                click.echo(dump(row))
        elif self.form == "csv":
            click.echo(csv_line(map(name_of, columns)), nl=False)
            for row in rows:
                click.echo(csv_line(cell(find(row, each)) for each in columns), nl=False)
        elif self.form == "plain":
            for row in rows:
                click.echo("\t".join(printable(cell(find(row, each))) for each in columns))
        else:
            self._table(rows, columns)

    def _table(self, rows: Iterable[Row], columns: tuple[Column, ...]) -> None:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
        found = [[find(row, each) for each in columns] for row in rows]
        for index, column in enumerate(columns):
            is_number = any(type(values[index]) in (int, float) for values in found)
            table.add_column(
                name_of(column),
                justify="right" if is_number else "left",
                overflow="ellipsis",
                no_wrap=True,
                style="cyan" if index == 0 else None,
            )
        for values in found:
            table.add_row(*(Text(printable(cell(value))) for value in values))
        Console(highlight=False).print(table)

    def line(self, cells: Iterable[Any]) -> None:
        """Print one line of a table that does not end; a terminal shows it at once."""
        if self.form == "csv":
            click.echo(csv_line(map(cell, cells)), nl=False)
        elif self.form == "table":
            first, *others = (printable(cell(each)) for each in cells)
            shown = "  ".join(each for each in others if each)
            click.echo(f"{paint(first, 'cyan')}  {shown}")
        else:
            click.echo("\t".join(printable(cell(each)) for each in cells))

    def record(self, record: Row) -> None:
        """Print one record: its fields one below the other."""
        if self.form in ("json", "nl"):
            click.echo(dump(record, indent=2 if self.form == "json" else None))
        elif self.form == "csv":
            click.echo(csv_line(record), nl=False)
            click.echo(csv_line(cell(value) for value in record.values()), nl=False)
        else:
            rows = [{"field": name, "value": value} for name, value in record.items()]
            self.rows(rows, "field", "value")

    def value(self, value: Any, as_text: bool = False) -> None:
        """Print one value as JSON, or a text as it is."""
        if as_text and isinstance(value, str):
            is_safe = not sys.stdout.isatty()
            click.echo(value if is_safe else "\n".join(map(printable, value.split("\n"))))
        elif self.form == "table":
            from rich.console import Console
            from rich.json import JSON

            Console(soft_wrap=True).print(JSON(re.sub(r"[\x7f-\x9f]", "\ufffd", dump(value))))
        else:
            click.echo(dump(value))


def csv_line(cells: Iterable[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def printing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of its form, as one argument `output`."""

    @click.option("--json", "form", flag_value="json", help="Print JSON.")
    @click.option("--nl", "form", flag_value="nl", help="Print one JSON value per line.")
    @click.option("--csv", "form", flag_value="csv", help="Print CSV.")
    @wraps(function)
    def run(form: str | None, **given: Any) -> Any:
        return function(output=Output(form), **given)

    return run


def note(text: str, silent: bool) -> None:
    """Tell a person something that is no result."""
    if not silent:
        click.echo(printable(text), err=True)


def confirm(question: str, yes: bool) -> None:
    """Go on if a person agrees, or has agreed with `--yes`."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise click.UsageError(f"{question} Nobody can be asked here: confirm with `--yes`.")
    click.confirm(paint(printable(question), "yellow"), abort=True, err=True)


yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@contextmanager
def progress(label: str, silent: bool, is_bytes: bool = False) -> Iterator[Report]:
    """Draw progress on a terminal: `report(done, total)`; a total of 0 is unknown."""
    if silent or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
    )

    count = DownloadColumn() if is_bytes else MofNCompleteColumn()
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        count,
        console=Console(stderr=True),
        transient=True,
    ) as shown:
        task = shown.add_task(label, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total or None)
