"""
`valuetracker export` and `valuetracker import`: an extension, or a part of it, as a file.

A file ends in `.gz` if it is packed. An export appears under its name when it is whole; an import
changes all or nothing.
"""

from __future__ import annotations

import gzip
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from valuetracker import durable
from valuetracker.cli.connection import Server, Target, connecting
from valuetracker.cli.failure import Failure, Refused, Unreachable
from valuetracker.cli.output import Output, Report, confirm, note, printing, progress, yes_option

PIECE_BYTES = 256 * 1024
LAST_LINE = b'{"type":"end"'
LINES = "application/x-ndjson"


@click.command("export")
@click.argument("extension")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option("--chat", help="Only this chat, with all it needs.")
@click.option("--character", help="Only this character.")
@click.option("--instance", help="Only this instance.")
@click.option("--operations", is_flag=True, help="Also operations.")
@click.option(
    "--format",
    "form",
    type=click.Choice(("ndjson", "csv", "json")),
    default="ndjson",
    show_default=True,
    help="`ndjson` has everything and can be imported; the others have the present values.",
)
@click.option("--force", is_flag=True, help="Replace a file that exists.")
@connecting
def export_command(
    extension: str,
    file: Path,
    chat: str | None,
    character: str | None,
    instance: str | None,
    operations: bool,
    form: str,
    force: bool,
    target: Target,
) -> None:
    """
    Export an EXTENSION with its history to a FILE; `-` is standard output.

    A FILE whose name ends in `.gz` is packed.
    """
    parts = {"chatId": chat, "characterId": character, "instanceId": instance}
    if sum(each is not None for each in parts.values()) > 1:
        raise click.UsageError("Export one of `--chat`, `--character` and `--instance`.")
    if file != Path("-") and file.exists() and not force:
        raise click.UsageError(f"{file} exists: replace it with `--force`.")
    query = {**parts, "format": form, "operations": "true" if operations else None}
    unpacked = {"accept-encoding": "identity"}
    with (
        target.open() as server,
        progress("Exporting", target.silent, is_bytes=True) as report,
        server.stream("GET", "/export", extension, query=query, headers=unpacked) as answer,
    ):
        total = int(answer.headers.get("content-length", 0))
        pieces = counted(answer.iter_bytes(PIECE_BYTES), total, report)
        if file == Path("-"):
            write_pieces(sys.stdout.buffer, pieces, form)
            return
        with new_file(file) as unfinished:
            write_pieces(unfinished, pieces, form)
    note(f"Exported {extension} to {file} ({file.stat().st_size:,} bytes).", target.silent)


def counted(pieces: Iterable[bytes], total: int, report: Report) -> Iterator[bytes]:
    done = 0
    for piece in pieces:
        done += len(piece)
        report(done, total)
        yield piece


def write_pieces(file: IO[bytes], pieces: Iterable[bytes], form: str) -> None:
    """Write an export; raise if its end is missing."""
    end = b""
    for piece in pieces:
        file.write(piece)
        end = (end + piece)[-1024:]
    file.flush()
    if form == "ndjson" and not end[:-1].rpartition(b"\n")[2].startswith(LAST_LINE):
        raise Unreachable("The export has no end: the server has gone.")


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Write a file that gets its name when it is whole; packed if its name says so."""
    unfinished = path.with_name(f".new-{secrets.token_hex(8)}")
    try:
        with unfinished.open("xb") as file:
            if path.suffix == ".gz":
                # Without a name and a time, so that equal exports are equal files.
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                    yield packed  # type: ignore[misc]
            else:
                yield file
        durable.put_in_place(unfinished, path)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        unfinished.unlink(missing_ok=True)


@click.command("import")
@click.argument("extension")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@click.option(
    "--mode",
    type=click.Choice(("merge", "skip", "replace")),
    help="What becomes of what is there. `merge`: the file wins. `skip`: what is there wins. "
    "`replace`: all of it is replaced. Without it the extension must be unused.",
)
@click.option("--as", "new_id", metavar="CHAT", help="Another id for the one chat of the file.")
@click.option("--dry-run", is_flag=True, help="Change nothing, and say what would change.")
@yes_option
@connecting
@printing
def import_command(
    extension: str,
    file: Path,
    mode: str | None,
    new_id: str | None,
    dry_run: bool,
    yes: bool,
    target: Target,
    output: Output,
) -> None:
    """
    Import a FILE that `export` has made into an EXTENSION; `-` is standard input.

    An extension that is not registered is registered. An import that fails changes nothing.
    """
    query = {"mode": mode, "as": new_id, "dryRun": "true" if dry_run else None}
    with opened(file) as content, target.open(create=True) as server:
        if mode == "replace" and not dry_run:
            confirm(f"Replace everything that {extension} has?", yes)
        try:
            done = upload(server, extension, content, query, target.silent)
        except Refused as refusal:
            if refusal.code != "extension_not_registered" or dry_run:
                raise
            server.send("POST", "/register", body={"extensionId": extension})
            done = upload(server, extension, content, query, target.silent)
    for warning in done["warnings"]:
        note(f"warning: {warning}", target.silent)
    output.record(done)
    if done.get("clashes"):
        raise Failure(f"{len(done['clashes'])} ids clash.", "Import with `--mode replace`.")


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file to read; standard input is copied, because it may have to be read again."""
    if path != Path("-"):
        try:
            file = path.open("rb")
        except OSError as error:
            raise Failure(f"{path} cannot be read: {error.strerror}.") from error
        with file:
            yield file
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        yield copy


def upload(
    server: Server, extension: str, file: IO[bytes], query: dict[str, Any], silent: bool
) -> Any:
    """Send a file from its beginning."""
    file.seek(0)
    total = os.fstat(file.fileno()).st_size
    headers = {"content-type": LINES, "content-length": str(total)}
    with progress("Importing", silent, is_bytes=True) as report:
        pieces = counted(iter(lambda: file.read(PIECE_BYTES), b""), total, report)
        return server.send(
            "POST", "/import", extension, content=pieces, query=query, headers=headers
        )
