"""
Files that this process has verified, and that nobody has changed since.

A sound file that was closed a short while ago need not be verified again. A damaged one is
refused at once, until it is another file.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from valuetracker.engine import Stamp
from valuetracker.errors import DatabaseDamaged

# After this time a disk may have changed what nobody wrote to.
SOUND_SECONDS = 3_600


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a file; None if it is missing, or a part of its content is in a log."""
    try:
        found = os.stat(path)
        # Who may only read leaves an empty log behind.
        with contextlib.suppress(FileNotFoundError):
            if os.stat(f"{path}-wal").st_size > 0:
                return None
    except OSError:
        return None
    text = f"{found.st_dev}-{found.st_ino}-{found.st_size}-{found.st_mtime_ns}"
    return Stamp(text, found.st_size)


@dataclass(frozen=True)
class Verdict:
    """The outcome of verifying a file, and when it was closed."""

    stamp: Stamp
    at: float
    damage: str | None


class KnownFiles:
    """The verdicts on closed files."""

    def __init__(self) -> None:
        self._verdicts: dict[Path, Verdict] = {}

    def remember(self, path: Path, damage: str | None = None) -> None:
        """Remember a file that was closed: it is sound, or damaged in this way."""
        stamp = stamp_of(path)
        if stamp is not None:
            self._verdicts[path] = Verdict(stamp, time.monotonic(), damage)

    def is_sound(self, path: Path) -> bool:
        """Return true if a file need not be verified; raise if it is known to be damaged."""
        verdict = self._verdicts.pop(path, None)
        if verdict is None or verdict.stamp != stamp_of(path):
            return False
        if verdict.damage is not None:
            self._verdicts[path] = verdict
            raise DatabaseDamaged(verdict.damage)
        return time.monotonic() - verdict.at < SOUND_SECONDS
