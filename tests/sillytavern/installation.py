"""The plugin and the extension, installed into a SillyTavern the way a player does it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def valuetracker(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program and return the result, also of a failure."""
    command = [sys.executable, "-m", "valuetracker", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def install(server: Path) -> None:
    done = valuetracker("sillytavern", "install", server)
    assert done.returncode == 0, done.stdout + done.stderr
