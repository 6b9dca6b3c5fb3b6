"""The plugin and the extension, put where a SillyTavern looks for them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import orjson

from tests.sillytavern.host import REPOSITORY

SOURCES = REPOSITORY / "sillytavern"


def install(server: Path) -> None:
    plugin = server / "plugins/valuetracker"
    extension = server / "public/scripts/extensions/third-party/valuetracker"
    for name, target in (("plugin", plugin), ("extension", extension)):
        if not (SOURCES / name).exists():
            continue
        shutil.copytree(SOURCES / name, target)
        if (SOURCES / "client").exists():
            shutil.copytree(SOURCES / "client", target / "client")
    if plugin.exists():
        record = {"python": sys.executable, "version": "0", "files": []}
        (plugin / "installed.json").write_bytes(orjson.dumps(record))
