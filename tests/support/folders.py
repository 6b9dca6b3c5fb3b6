"""The folders and files of a SillyTavern that an installer reads."""

from __future__ import annotations

import json
from pathlib import Path

EXTENSIONS = Path("public/scripts/extensions/third-party")
CONFIG = (
    "# How SillyTavern runs.\nlisten: false\nenableServerPlugins: false # no plugins\nport: 8000"
)


def make_sillytavern(root: Path, version: str = "1.19.0") -> Path:
    (root / EXTENSIONS).mkdir(parents=True)
    (root / "plugins").mkdir()
    (root / "server.js").write_text("// SillyTavern\n")
    (root / "package.json").write_text(json.dumps({"name": "sillytavern", "version": version}))
    (root / "plugins/package.json").write_text('{"type": "commonjs"}')
    (root / "config.yaml").write_text(CONFIG)
    return root


def tree(root: Path) -> dict[str, bytes | None]:
    """Return the content of a folder: files with their bytes, folders with None."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }
