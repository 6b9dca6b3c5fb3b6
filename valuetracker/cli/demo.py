"""
`valuetracker demo`: a story to look around in.

The story is made on a server inside the program, with a clock of its own, and taken out as an
export. That is imported where it is wanted: into a running server or into files. So its ids and
times are always the same, and two exports of it are equal to the byte.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import httpx

from valuetracker.cli.connection import Target, connecting
from valuetracker.cli.in_process import InProcess
from valuetracker.cli.output import confirm, note, yes_option
from valuetracker.cli.story import StoryClock, write_story
from valuetracker.settings import PREFIX, Settings

EXTENSION = "demo"
LINES = "application/x-ndjson"


def make_story(extension_id: str = EXTENSION) -> bytes:
    """Return the story as an export of an extension, with its operations."""
    with tempfile.TemporaryDirectory(prefix="valuetracker-demo-") as folder:
        clock = StoryClock()
        settings = Settings(data_dir=Path(folder) / "db", backup_at="off")
        with httpx.Client(
            transport=InProcess(settings, clock),
            base_url=f"http://localhost{PREFIX}",
            headers={"x-extension-id": extension_id},
            timeout=None,
        ) as client:
            client.post("/register", json={"extensionId": extension_id}).raise_for_status()
            write_story(client, clock)
            answer = client.get("/export", params={"operations": "true"})
            answer.raise_for_status()
            return answer.content


def fill(client: httpx.Client, extension_id: str = EXTENSION) -> None:
    """Put the story into an unused extension; the client's paths are relative to the prefix."""
    client.post("/register", json={"extensionId": extension_id}).raise_for_status()
    headers = {"x-extension-id": extension_id, "content-type": LINES}
    story = make_story(extension_id)
    client.post("/import", content=story, headers=headers).raise_for_status()


@click.command()
@click.argument("extension", default=EXTENSION)
@click.option("--force", is_flag=True, help="Replace everything that EXTENSION has.")
@yes_option
@connecting
def demo(extension: str, force: bool, yes: bool, target: Target) -> None:
    """
    Make the EXTENSION `demo`: a story of 500 messages to look around in.

    It has swipes, branches, checkpoints, several characters, series and operations. It is always
    the same.
    """
    with target.open(create=True) as server:
        if force:
            confirm(f"Replace everything that {extension} has?", yes)
        server.send("POST", "/register", body={"extensionId": extension})
        note("Writing the story …", target.silent)
        done = server.send(
            "POST",
            "/import",
            extension,
            content=make_story(extension),
            query={"mode": "replace" if force else None},
            headers={"content-type": LINES},
        )
    note(
        f"{extension}: {done['characters']} characters, {done['instances']} instances, "
        f"{done['chats']} chats, revision {done['revision']}.",
        target.silent,
    )
    note(f"Look around: valuetracker chats {extension}", target.silent)
