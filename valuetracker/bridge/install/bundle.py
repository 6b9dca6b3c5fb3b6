"""
The plugin, the extension and the client library that come with this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from valuetracker.bridge.folders import Folder
from valuetracker.errors import NotWritable

# What a developer keeps beside the sources, and no player needs.
NOT_SHIPPED = re.compile(r"(^|/)(node_modules|tests?)/|\.test\.[cm]?js$|(^|/)DESIGN\.md$")
CLIENT = "client"
# All of it is in memory at once.
LARGEST_PART = 64 * 1024 * 1024
MOST_FILES = 5_000


def bundle_directory() -> Path:
    """`sillytavern/` inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parents[2]
    installed = package / "sillytavern"
    return installed if installed.is_dir() else package.parent / "sillytavern"


def list_files(source: Path) -> Iterator[tuple[str, bytes]]:
    """Each file of a folder with its bytes, in order; hidden ones and what is in them not."""
    with Folder.enter(source) as folder:
        yield from folder.files()


def bundled_files(part: str, source: Path | None = None) -> dict[str, bytes]:
    """What is installed of a part (`plugin`, `extension`), the client library included."""
    bundle = bundle_directory()
    files: dict[str, bytes] = {}
    size = 0
    for name, content in list_files(source or bundle / part):
        size += len(content)
        if size > LARGEST_PART or len(files) >= MOST_FILES:
            raise NotWritable(f"{source or bundle / part} holds too much for an extension.")
        files[name] = content
    if (bundle / CLIENT).is_dir():
        for name, content in list_files(bundle / CLIENT):
            files.setdefault(f"{CLIENT}/{name}", content)
    return {name: content for name, content in files.items() if not NOT_SHIPPED.search(name)}
