"""
Facts about the machine and the programs.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
from pathlib import Path

import psutil

from bench.peers.store import Kind

ROOT = Path(__file__).resolve().parent.parent


def facts(kinds: list[Kind]) -> dict[str, str]:
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{psutil.virtual_memory().total / 1e9:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "Python": f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        "commit": _commit(),
        # Two kinds may be one program.
        "programs": "; ".join(dict.fromkeys(kind.version() for kind in kinds)),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    said = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return said.stdout.strip() or "unknown"
