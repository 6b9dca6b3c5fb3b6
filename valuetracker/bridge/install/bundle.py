"""
The bundle: the plugin, the extension and the client library that come with this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from valuetracker.bridge.folders import Folder
from valuetracker.errors import NotWritable

# Files that only developers need.
NOT_SHIPPED = re.compile(r"(^|/)(node_modules|tests?)/|\.test\.[cm]?js$|(^|/)DESIGN\.md$")
CLIENT = "client"
# Bounds, because all files of a part are in memory at once.
LARGEST_PART = 64 * 1024 * 1024
MOST_FILES = 5_000


def bundle_directory() -> Path:
    """Return `sillytavern/` inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "sillytavern"
    return installed if installed.is_dir() else package.parent / "sillytavern"


def list_files(source: Path) -> Iterator[tuple[str, bytes]]:
    """Yield each file of a folder with its bytes, in order, without hidden files and folders."""
    with Folder.open(source) as folder:
        yield from folder.files()


def bundled_files(part: str, source: Path | None = None) -> dict[str, bytes]:
    """Return the files to install for a part (`plugin`, `extension`) with the client library."""
    bundle = bundle_directory()
    files: dict[str, bytes] = {}
    size = 0
    for name, content in list_files(source or bundle / part):
        size += len(content)
        if size > LARGEST_PART or len(files) >= MOST_FILES:
            raise NotWritable(f"{source or bundle / part} is too large for an extension.")
        files[name] = content
    if (bundle / CLIENT).is_dir():
        for name, content in list_files(bundle / CLIENT):
            files.setdefault(f"{CLIENT}/{name}", content)
    return {name: content for name, content in files.items() if not NOT_SHIPPED.search(name)}
