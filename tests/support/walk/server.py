"""The server that answers the walk: the program itself, on a folder and a home of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.bridge.upstream import fake_sillytavern
from tests.bridge.worlds import entry, write_world
from tests.support.folders import make_sillytavern
from tests.support.walk.stand_ins import StandIns
from tests.support.walk.steps import Exchange, take_walk
from tests.support.walk.story import WALK
from valuetracker import __version__
from valuetracker.bridge.install.bundle import bundle_directory
from valuetracker.settings import PREFIX

READY = re.compile(r"Value Tracker listening on (http://\S+)\n")
PATIENCE_SECONDS = 60
REPLY = {"role": "assistant", "content": "Seraphina smiles.", "emotion": "joy"}


def take_whole_walk(folder: Path, database: str = "", http: str = "fast") -> list[Exchange]:
    """Take the walk on a new server whose files lie in `folder`."""
    with serving(folder, database, http) as (client, stand_ins):
        return take_walk(client, WALK, stand_ins)


@contextmanager
def serving(
    folder: Path, database: str = "", http: str = "fast"
) -> Iterator[tuple[httpx.Client, StandIns]]:
    """Run `valuetracker serve` beside a SillyTavern that has one lorebook, Eldoria."""
    home = folder / "home"
    sillytavern = make_sillytavern(home / "SillyTavern")
    worlds = sillytavern / "data/default-user/worlds"
    entries = {"0": entry(0, "Glade", "A quiet clearing."), "1": entry(1, "Seraphina")}
    write_world(worlds, "Eldoria", {"entries": entries})
    with fake_sillytavern(__version__) as upstream:
        upstream.says(
            f"{PREFIX}/session/sync", {"ok": True, "reply": REPLY, "variables": {"hp": 100}}
        )
        command = [
            *(sys.executable, "-m", "valuetracker", "serve", "--port", "0"),
            *("--data-dir", str(home / "db"), "--log-level", "error", "--http", http),
            *("--backup-at", "off"),
            *("--st-root", str(sillytavern), "--st-base-url", upstream.url),
            *(("--database", database) if database else ()),
        ]
        # The person who runs this may have a SillyTavern and settings in their own home.
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("VALUETRACKER_", "COMFYVN_", "SILLYTAVERN_"))
        }
        log_file = folder / "server.log"
        with log_file.open("w") as log:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**environment, "HOME": str(home)},
            )
        assert process.stdout is not None
        try:
            found = READY.fullmatch(process.stdout.readline())
            assert found, f"The server did not start: {log_file.read_text()}"
            stand_ins = StandIns(
                {
                    upstream.url: "http://127.0.0.1:8000",
                    str(home): "/home/you",
                    str(bundle_directory()): "/home/you/valuetracker/sillytavern",
                }
            )
            with httpx.Client(
                base_url=found[1] + PREFIX, timeout=PATIENCE_SECONDS, trust_env=False
            ) as client:
                yield client, stand_ins
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            process.stdout.close()
