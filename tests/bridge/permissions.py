"""Read-only folders, also for root, for whom modes have no effect."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION_3 = 0x20080522
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with these root may ignore modes.
OVERRIDES = 1 << 1 | 1 << 2


@contextmanager
def read_only(*folders: Path) -> Iterator[None]:
    """Prevent this thread from creating or removing anything in these folders."""
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(0o555)
    try:
        with as_anybody():
            yield
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)


@contextmanager
def as_anybody() -> Iterator[None]:
    """Drop the capabilities that let root ignore modes."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(VERSION_3, 0)
    # Effective, permitted and inheritable, for the first 32 capabilities and the rest.
    before = (ctypes.c_uint32 * 6)()
    assert libc.capget(header, before) == 0
    reduced = (ctypes.c_uint32 * 6)(*before)
    reduced[0] &= ~OVERRIDES
    assert libc.capset(header, reduced) == 0
    try:
        yield
    finally:
        assert libc.capset(header, before) == 0
