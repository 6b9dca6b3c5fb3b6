"""Runs `valuetracker sillytavern …` and checks the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from tests.bridge.upstream import closed_port
from tests.support.folders import EXTENSIONS
from valuetracker.cli.main import main

PLUGIN = Path("plugins/valuetracker")
EXTENSION = EXTENSIONS / "valuetracker"


def run(command: str, *arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["sillytavern", command, *(str(each) for each in arguments)])


def succeed(command: str, *arguments: str | Path) -> str:
    result = run(command, *arguments)
    assert result.exit_code == 0, result.output
    return result.output


def fail(command: str, *arguments: str | Path) -> str:
    result = run(command, *arguments)
    assert result.exit_code == 1, result.output
    assert result.output.startswith("error: ")
    assert "Traceback" not in result.output
    return result.output


def record(sillytavern: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((sillytavern / PLUGIN / "installed.json").read_text())
    return found


def status(sillytavern: Path, *arguments: str) -> dict[str, Any]:
    url = f"http://127.0.0.1:{closed_port()}"
    found: dict[str, Any] = json.loads(
        succeed("status", sillytavern, "--json", "--url", url, *arguments)
    )
    return found
