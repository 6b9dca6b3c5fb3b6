"""The Value Tracker servers that a SillyTavern started."""

from __future__ import annotations

import psutil

from tests.sillytavern.host import SillyTavern


def server_pids(tavern: SillyTavern) -> list[int]:
    """Return the servers that use its data, with any parent."""
    return [
        each.pid
        for each in psutil.process_iter(["cmdline", "status"])
        if each.info["status"] != psutil.STATUS_ZOMBIE
        and "valuetracker" in (line := each.info["cmdline"] or [])
        and any(part.startswith(str(tavern.folder)) for part in line)
        and "serve" in line
    ]
