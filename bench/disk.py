"""
Measure how fast the disk makes 4 KB durable: no durable write can be faster.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

BLOCK = b"\x5a" * 4096
# After this many blocks it begins again at the start, as SQLite's log does.
BLOCKS = 1_000


def syncs_per_second(directory: Path, seconds: float) -> float:
    """Return the writes of 4 KB per second, each followed by fdatasync."""
    path = directory / "disk-probe"
    handle = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        done = 0
        started = time.perf_counter()
        while (passed := time.perf_counter() - started) < seconds or not done:
            os.pwrite(handle, BLOCK, done % BLOCKS * len(BLOCK))
            os.fdatasync(handle)
            done += 1
        return done / passed
    finally:
        os.close(handle)
        path.unlink()
