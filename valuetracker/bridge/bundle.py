"""
The plugin, the extension and the client library that come with this package.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from valuetracker.bridge.folders import Folder

# What a developer keeps beside the sources, and no player needs.
NOT_SHIPPED = re.compile(r"(^|/)(node_modules|tests?)/|\.test\.[cm]?js$|(^|/)DESIGN\.md$")
CLIENT = "client"


def bundle_directory() -> Path:
    """`sillytavern/` inside the installed package, or beside it in a checkout."""
    package = Path(__file__).resolve().parent.parent
    installed = package / "sillytavern"
    return installed if installed.is_dir() else package.parent / "sillytavern"


def list_files(source: Path) -> Iterator[tuple[str, bytes]]:
    """Each file of a folder with its bytes, in order; hidden ones and what is in them not."""
    with Folder.enter(source) as folder:
        yield from folder.files()


def bundled_files(part: str, source: Path | None = None) -> dict[str, bytes]:
    """What is installed of a part (`plugin`, `extension`), the client library included."""
    bundle = bundle_directory()
    files = dict(list_files(source or bundle / part))
    if (bundle / CLIENT).is_dir():
        for name, content in list_files(bundle / CLIENT):
            files.setdefault(f"{CLIENT}/{name}", content)
    return {name: content for name, content in files.items() if not NOT_SHIPPED.search(name)}
